"""What is known of a text before the training."""

from __future__ import annotations

from pathlib import Path

import pytest

from octavo.auto.facts import survey
from octavo.auto.family import SIZES, recipe_of
from octavo.errors import CorpusError
from octavo.evaluation.baselines import HIGHEST
from octavo.ground.console import Console
from octavo.model.kneser_ney import KneserNey
from octavo.runs.data import build_dataset
from octavo.runs.settings import resolve

QUIET = Console(quiet=True)


def written(folder: Path, text: str) -> Path:
    path = folder / "text.txt"
    path.write_text(text)
    return path


def test_the_figures_are_those_of_the_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    words = ("the cat", "a dog", "no fox", "one bird")
    path = written(tmp_path, "".join(f"{words[n * n % 7 % 4]} saw {words[n % 4]}.\n" for n in range(800)))
    facts = survey(path, (), QUIET)
    dataset = build_dataset(resolve(recipe_of(SIZES[0], steps=1), path), QUIET)
    model = KneserNey(dataset.train.tokens, vocab_size=dataset.tokenizer.vocab_size, highest=HIGHEST)
    tokens = dataset.validation.tokens
    bits = (
        model.losses(tokens)[facts.order - 1]
        / 0.6931471805599453
        * (len(tokens) - 1)
        / dataset.validation.bytes
    )
    assert facts.ngram == pytest.approx(bits)
    assert facts.train_tokens == len(dataset.train.tokens) and facts.documents == 3
    assert facts.spread > 0


def test_one_repeated_line_is_a_text_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    facts = survey(written(tmp_path, "the same line\n" * 500), (), QUIET)
    assert 0 < facts.ngram < 0.2


def test_a_text_too_short_to_hold_anything_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    with pytest.raises(CorpusError):
        survey(written(tmp_path, "abc"), (), QUIET)
