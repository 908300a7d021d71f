"""ONNX and the torch-only folder, opened by what they are for, say what the run says, whatever its switches."""

from __future__ import annotations

from pathlib import Path

import pytest

from octavo.errors import InputError, OctavoError
from octavo.export.prove import measure, measured
from octavo.export.targets import targets
from unit.export.made import parcel_of, proven

pytest.importorskip("onnxruntime")

RECIPES = {
    "shakespeare-char-modern": ("model.layers=2",),
    "quick": ("model.layers=2", "model.width=32"),  # n-grams
    # Drawn so narrow: in float32 its own logits, of some hundreds, are off by more than the bound.
    "tensors-only": ("model.initialization.std=0.1",),
    "pidgin-demo": ("tokenizer.unknown=token", "model.layers=2"),
    "pdf-folder": ("model.layers=2", "model.width=64"),
}


@pytest.mark.parametrize("target", ["onnx", "torch"])
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name in ("quick", "pidgin-demo", "pdf-folder")))
        for name in RECIPES
    ],
)
def test_what_nobody_else_can_say_is_proven_too(tmp_path: Path, target: str, name: str) -> None:
    parcel, kept = parcel_of(name, *RECIPES[name])
    said = targets()[target].model(parcel.weights.shape)
    assert said.status == "exact" and bool(said.steps) == (parcel.weights.shape.positions == "sinusoidal")
    seen = proven(target, parcel, kept, tmp_path / "out")
    assert seen.positions >= 1024 and seen.strings.other_ids == 0


@pytest.mark.slow
@pytest.mark.parametrize("target", ["onnx", "torch"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_in_short_numbers(tmp_path: Path, target: str, dtype: str) -> None:
    parcel, kept = parcel_of("shakespeare-char-modern", "model.layers=2", dtype=dtype)
    seen = proven(target, parcel, kept, tmp_path / "out")
    assert seen.largest_logit_difference > 1e-5


def test_code_that_was_changed_is_not_run(tmp_path: Path) -> None:
    parcel, kept = parcel_of("tensors-only", *RECIPES["tensors-only"])
    proven("torch", parcel, kept, tmp_path / "out")
    for name in ("model.py", "generate.py"):
        file = tmp_path / "out" / name
        honest = file.read_text()
        file.write_text(honest + f"\nopen({str(tmp_path / 'ran')!r}, 'w')\n")
        with pytest.raises(InputError, match="is not run"):
            measure("torch", tmp_path / "out")
        assert not (tmp_path / "ran").exists()
        file.write_text(honest)


def test_a_damaged_graph_is_said(tmp_path: Path) -> None:
    """By the process that opens it to the one that asked."""
    parcel, kept = parcel_of("tensors-only", *RECIPES["tensors-only"])
    proven("onnx", parcel, kept, tmp_path / "out")
    file = tmp_path / "out" / "model.onnx_data"
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(OctavoError, match="cannot be opened"):
        measured("onnx", tmp_path / "out")
