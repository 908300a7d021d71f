"""Brought, exported and brought again: the same weights to the bit, the same ids."""

from __future__ import annotations

import filecmp
from pathlib import Path

import pytest
import torch

from octavo.export.imported import import_model
from octavo.export.targets import targets
from octavo.export.targets.base import Parcel
from octavo.export.weights import weights_of
from octavo.run.run import Run
from unit.export import folders


@pytest.mark.parametrize("to", ["hf", "torch"])
@pytest.mark.parametrize("kind", folders.MODELS)
def test_the_full_circle_changes_nothing(kind: str, to: str, tmp_path: Path) -> None:
    folder = folders.saved(kind, tmp_path / "model")
    import_model(folder, tmp_path / "first")
    first = Run.open(tmp_path / "first")
    parcel = Parcel(
        weights_of(first.model, first.config.model).to(torch.float64), first.tokenizer, "float32", "x"
    )
    target = targets()[to]
    target.refuse(parcel.weights.shape, parcel.tokenizer, "float32")
    (tmp_path / "out").mkdir()
    target.write(parcel, tmp_path / "out")
    import_model(tmp_path / "out", tmp_path / "second")
    second = Run.open(tmp_path / "second")
    own, back = dict(first.model.named_parameters()), dict(second.model.named_parameters())
    assert own.keys() == back.keys() and second.config.model == first.config.model
    assert all(torch.equal(own[name], back[name]) for name in own)
    assert second.tokenizer.encode(folders.TEXT).tolist() == first.tokenizer.encode(folders.TEXT).tolist()
    assert (second.tokenizer.start, second.tokenizer.end) == (first.tokenizer.start, first.tokenizer.end)
    if to == "hf":
        ids = folders.tokens()
        expected = folders.opened(folder)(ids).logits
        torch.testing.assert_close(folders.opened(tmp_path / "out")(ids).logits, expected, rtol=0, atol=1e-5)
    assert filecmp.cmp(
        *(
            tmp_path / run / "checkpoints" / "step-000000" / "model.safetensors"
            for run in ("first", "second")
        ),
        shallow=False,
    )
