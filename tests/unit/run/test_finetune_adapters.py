"""Runs with adapters: what is kept, what goes on to the bit, and what is open in their settings."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

import octavo
from octavo.errors import ConfigError
from octavo.run.run import Run
from octavo.run.settings import resolve
from octavo.training.checkpoint import read_tensors
from unit.run.test_finetune import NEW, QUIET, RECIPE, losses, tuned, weights

MODEL = RECIPE["model"] | {"positions": "learned", "tied": True, "dropout": 0.2}
LORA = ("training.adapters.rank=2", "tokenizer.special=[<|user|>]")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two texts of the same characters, and a run to start from."""
    folder = tmp_path_factory.mktemp("adapters")
    (folder / "text.txt").write_text("a fox and a dog. " * 60)
    (folder / "other.txt").write_text("dog god fad. " * 60)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OCTAVO_CACHE", str(folder / "cache"))
        octavo.train(RECIPE | {"model": MODEL}, folder / "text.txt", folder / "base", console=QUIET)
    return folder


@pytest.fixture(autouse=True)
def cache(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(place / "cache"))


def test_adapters_go_on_to_the_bit_and_a_checkpoint_holds_their_sum(place: Path, tmp_path: Path) -> None:
    base = tmp_path / "base"
    shutil.copytree(place / "base", base, symlinks=True)
    whole = tuned(place, tmp_path / "whole", *LORA, base=base)
    tuned(place, tmp_path / "parts", *LORA, "training.steps=3", base=base)
    shutil.rmtree(base)
    octavo.train(out=tmp_path / "parts", resume=True, overrides=["training.steps=6"], console=QUIET)
    assert losses(tmp_path / "parts") == losses(tmp_path / "whole")
    for name in ("model", "state"):
        one, two = (read_tensors(tmp_path / run / f"last/{name}.safetensors") for run in ("parts", "whole"))
        assert one.keys() == two.keys() and all(torch.equal(one[key], two[key]) for key in one)
    state = read_tensors(tmp_path / "whole" / "last" / "state.safetensors")
    start = read_tensors(tmp_path / "whole" / "start.safetensors")
    last = weights(tmp_path / "whole" / "last")
    a, b = (state[f"trained.blocks.0.attention.qkv.lora_{part}"] for part in "ab")
    name = "blocks.0.attention.qkv.weight"
    torch.testing.assert_close(last[name], start[name] + 8 * b @ a)
    assert last.keys() == start.keys() and (last[name] - start[name]).abs().max() > 1e-4
    rows = last["embedding.weight"] - start["embedding.weight"]
    assert not rows[:-1].any() and rows[-1].any()
    assert torch.equal(last["blocks.0.attention_norm.weight"], start["blocks.0.attention_norm.weight"])
    assert losses(tmp_path / "whole")[0] == (
        0,
        Run.open(tmp_path / "whole").evaluate()["baselines"]["start"]["loss"],
    )
    assert isinstance(whole.generate("a fox", tokens=5), str)
    with pytest.raises(ConfigError, match="other settings"):
        octavo.train(
            out=tmp_path / "parts",
            resume=True,
            overrides=["training.steps=7", "training.adapters.rank=4"],
            console=QUIET,
        )


def test_with_adapters_nothing_is_dropped_unless_that_is_asked_for(place: Path) -> None:
    start = {"training.start_from": str(place / "base")}
    assert resolve(NEW, place / "other.txt", start).model.dropout.attention == 0.2
    start["training.adapters"] = "lora"
    assert resolve(NEW, place / "other.txt", start).model.dropout.attention == 0
    assert resolve(NEW, place / "other.txt", start | {"model.dropout": 0.1}).model.dropout.attention == 0.1
