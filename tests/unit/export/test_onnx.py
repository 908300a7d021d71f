"""The graph gives the model's logits, whatever the batch, the length and the pieces that a cache gets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.export.onnx_graph import CACHED, DATA, UNCACHED, sayable, write_onnx
from octavo.export.weights import weights_of
from octavo.model.gpt import GPT
from unit.export.shapes import OPTIONS, T, V, model_of

pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module", params=OPTIONS)
def sessions(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[GPT, Any, Any]:
    model, config = model_of(request.param)
    folder = tmp_path_factory.mktemp("onnx")
    write_onnx(weights_of(model, config).to(torch.float64), folder)
    return model, runtime.InferenceSession(folder / UNCACHED), runtime.InferenceSession(folder / CACHED)


def nothing_read(session: Any, batch: int) -> dict[str, np.ndarray]:
    """The inputs of a cache that holds nothing."""
    found: dict[str, np.ndarray] = {}
    for each in session.get_inputs():
        if each.name == "past_ids":
            found[each.name] = np.zeros((batch, 0), np.int64)
        elif each.name != "input_ids":
            found[each.name] = np.zeros((batch, each.shape[1], 0, each.shape[3]), np.float32)
    return found


def in_pieces(session: Any, tokens: np.ndarray, cuts: list[int]) -> Iterator[np.ndarray]:
    """Logits piece by piece, each after what the cache holds."""
    past, names = nothing_read(session, len(tokens)), [each.name for each in session.get_outputs()]
    for piece in np.split(tokens, sorted({cut for cut in cuts if 0 < cut < tokens.shape[1]}), axis=1):
        given_back = dict(zip(names, session.run(None, {"input_ids": piece, **past}), strict=True))
        yield given_back["logits"]
        past = {name: given_back[name.replace("past", "present").replace("_key_values", "")] for name in past}


def test_it_is_the_model_and_with_a_cache_it_is_the_same(sessions: tuple[GPT, Any, Any]) -> None:
    model, whole, cached = sessions

    @settings(max_examples=25, deadline=None)
    @given(
        batch=st.integers(1, 4),
        length=st.integers(1, T),
        cuts=st.lists(st.integers(1, T), max_size=T),
        seed=st.integers(0, 99),
    )
    def check(batch: int, length: int, cuts: list[int], seed: int) -> None:
        tokens = torch.randint(V, (batch, length), generator=torch.Generator().manual_seed(seed))
        expected = model(tokens).detach().numpy()
        found = whole.run(None, {"input_ids": tokens.numpy()})[0]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
        pieces = np.concatenate(list(in_pieces(cached, tokens.numpy(), cuts)), axis=1)
        np.testing.assert_allclose(pieces, expected, rtol=0, atol=1e-5)

    check()


def test_sizes_that_are_free_have_names(sessions: tuple[GPT, Any, Any]) -> None:
    _, whole, cached = sessions
    assert [each.shape for each in whole.get_inputs()] == [["batch", "length"]]
    shapes = {each.name: each.shape for each in cached.get_inputs()}
    assert shapes["past_key_values.0.key"][0::2] == ["batch", "past"]
    assert cached.get_outputs()[0].shape == ["batch", "length", V]


@pytest.mark.parametrize(
    ("dtype", "size", "near"), [("float16", 2, 2e-2), ("bfloat16", 2, 0.2), ("float32", 4, 1e-5)]
)
def test_numbers_in_the_file_may_be_short(tmp_path: Path, dtype: str, size: int, near: float) -> None:
    model, config = model_of("llama")
    write_onnx(weights_of(model, config), tmp_path, dtype=getattr(torch, dtype))
    tokens = torch.arange(T)[None]
    found = runtime.InferenceSession(tmp_path / UNCACHED).run(None, {"input_ids": tokens.numpy()})[0]
    difference = np.abs(found - model(tokens).detach().numpy()).max()
    assert difference <= near and (size == 4 or difference > 1e-5)
    numbers = sum(tensor.numel() for tensor in weights_of(model, config).tensors.values())
    assert size * numbers <= (tmp_path / DATA).stat().st_size < size * numbers + 4096 * 40 + size * T * 10


def test_fixed_waves_become_a_table() -> None:
    model, config = model_of("B")
    found = sayable(weights_of(model, config))
    assert found.shape.positions == "table" and found.tensors["positions.weight"].shape == (T, 24)
