"""Weights as they travel: what they lose, and where they stand."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from octavo.explain.page_weights import listed, pack, unpacked

RANDOM = np.random.default_rng(0).normal(size=(40, 16)).astype(np.float32)


def test_float16_keeps_three_digits() -> None:
    packed = pack(RANDOM, "float16")
    assert packed.type == "float16"
    np.testing.assert_allclose(packed.unpacked, RANDOM, rtol=2**-11, atol=2**-25)
    assert not np.array_equal(packed.unpacked, RANDOM)


def test_int8_is_off_by_half_a_step_of_its_row() -> None:
    rows = RANDOM * np.arange(40, dtype=np.float32)[:, None]  # the first row is zeros
    packed = pack(rows, "int8")
    step = np.abs(rows).max(axis=1, keepdims=True) / 127
    assert packed.type == "int8"
    assert (np.abs(packed.unpacked - rows) <= step * 0.5001).all()
    assert not packed.unpacked[0].any()


@pytest.mark.parametrize(
    ("tensor", "kind"),
    [
        (np.ones(400, np.float32), "float16"),  # a vector
        (np.ones((4, 4), np.float32), "int8"),  # a small one
        (RANDOM * 1e6, "float16"),  # beyond what 16 bits hold
        (RANDOM, "float32"),
    ],
)
def test_some_stay_as_they_are(tensor: np.ndarray, kind: str) -> None:
    packed = pack(tensor, kind)  # type: ignore[arg-type]
    assert packed.type == "float32"
    np.testing.assert_array_equal(packed.unpacked, tensor)


@pytest.mark.parametrize("kind", ["float32", "float16", "int8"])
def test_a_page_finds_each_tensor_where_the_list_says(kind: str) -> None:
    tensors = {"a": RANDOM, "b": np.arange(3, dtype=np.float32), "c": RANDOM[:17, :15].copy()}
    entries, deflated = listed((name, pack(tensor, kind)) for name, tensor in tensors.items())  # type: ignore[arg-type]
    raw = zlib.decompress(deflated)
    for entry, wanted in zip(entries, unpacked(tensors, kind).values(), strict=True):  # type: ignore[arg-type]
        assert entry["offset"] % 4 == 0  # or a typed array cannot begin there
        size = int(np.prod(entry["shape"]))
        found = np.frombuffer(raw, entry["type"], size, entry["offset"]).astype(np.float32)
        found = found.reshape(entry["shape"])
        if "scales" in entry:
            found = found * np.frombuffer(raw, np.float32, entry["shape"][0], entry["scales"])[:, None]
        np.testing.assert_array_equal(found, wanted)
