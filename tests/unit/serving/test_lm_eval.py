"""Evaluators count from log-probabilities of the prompt; see benchmarks/serve_lm_eval.py."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import httpx2
import pytest

from guards.common import ROOT
from octavo.run.run import Run
from unit.serving.conftest import TEXT, asked, running

Opened = Callable[[str], Run]
WORDS = " ".join(random.Random(1).choices(TEXT.split(), k=80))


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import serve_lm_eval

    monkeypatch.setattr(serve_lm_eval, "PASSAGE", 15)
    monkeypatch.setattr(serve_lm_eval, "REST", 12)
    return serve_lm_eval


@pytest.mark.parametrize("name", ["bytes", "counts"])
def test_scores_are_those_of_the_model(
    client: httpx2.Client, opened: Opened, script: ModuleType, name: str
) -> None:
    """Asked and cut as lm-evaluation-harness does it."""
    run, questions = opened(name), script.questions(WORDS, 3)
    for question, own in zip(questions, script.own_scores(run, questions), strict=True):
        passage = asked(client, "/tokenize", model=name, prompt=question.passage, add_special_tokens=False)
        ids = [
            asked(client, "/tokenize", model=name, prompt=question.passage + choice)["tokens"]
            for choice in question.choices
        ]
        how = {"model": name, "temperature": 0, "max_tokens": 1, "logprobs": 1, "seed": 1234, "echo": True}
        for choice, expected in zip(asked(client, prompt=ids, **how)["choices"], own, strict=True):
            scored = choice["logprobs"]["token_logprobs"][passage["count"] : -1]
            assert sum(scored) == pytest.approx(expected, rel=1e-6)


@pytest.mark.slow
def test_lm_evaluation_harness_agrees(runs: Path, opened: Opened, script: ModuleType, tmp_path: Path) -> None:
    pytest.importorskip("lm_eval", reason="lm-evaluation-harness is not installed here")
    questions = script.questions(WORDS, 6)
    with running(runs / "bytes") as (address, _):
        metrics, theirs = script.their_scores(
            address, runs / "bytes", questions, tmp_path, Path(sys.executable)
        )
    ours = script.own_scores(opened("bytes"), questions)
    for own, their in zip(ours, theirs, strict=True):
        assert own == pytest.approx(their, rel=1e-6)
    right = [
        max(range(4), key=row.__getitem__) == one.answer for row, one in zip(ours, questions, strict=True)
    ]
    assert metrics["acc"] == pytest.approx(sum(right) / len(right), abs=1e-6)
