"""Recipes of every kind, a few steps on a GPU and to the end: checked against the processor, judged, shown."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import octavo

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU that CUDA runs on"),
]
SHORT = ("training.steps=6", "training.device=cuda", "evaluation.every=3")
NO_TEXT = ("pidgin-demo", "translate-demo", "forecast-demo", "bouncing-ball", "arithmetic")
TEXT = (
    "shakespeare-char-quick",  # sparse gradients
    "shakespeare-char-cpu",
    "minute",
    "minute model.counts=kneser-ney",  # a part that counts on the processor
)


@pytest.mark.parametrize("recipe", NO_TEXT)
def test_a_recipe_that_needs_no_text(recipe: str, tmp_path: Path) -> None:
    run = octavo.train(recipe, out=tmp_path / "run", overrides=SHORT, quiet=True)
    assert run.step == 6
    assert (tmp_path / "run" / "report" / "index.html").is_file()


@pytest.mark.parametrize("words", TEXT)
def test_a_recipe_with_a_text(words: str, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("".join(f"{n} times {n} is {n * n}, and so on.\n" for n in range(2000)), encoding="utf-8")
    recipe, *settings = words.split()
    run = octavo.train(recipe, text, tmp_path / "run", overrides=(*SHORT, *settings), quiet=True)
    assert run.step == 6
    assert (tmp_path / "run" / "report" / "index.html").is_file()
