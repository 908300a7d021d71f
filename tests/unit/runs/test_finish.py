"""How a run ends: with a verdict that has evidence and remedies, also where it broke off."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import octavo
from octavo.errors import DivergedError
from octavo.evaluation.finding import remedy_lines

RECIPE: dict[str, Any] = {
    "model": {"layers": 1, "width": 16, "heads": 2, "context": 16},
    "training": {"batch": 4, "steps": 40, "checkpoint_every": 20, "precision": "float32", "threads": 1},
    "evaluation": {"every": 4},
    "logging": {"every": 2},
    "sampling": {"tokens": 10},
}


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "text.txt"
    path.write_text("".join(f"a fox and {number} dogs. " for number in range(400)))
    return path


def test_a_run_ends_in_a_verdict_with_evidence(text: Path, tmp_path: Path) -> None:
    run = octavo.train(RECIPE, text=text, out=tmp_path / "run")
    stored = json.loads((tmp_path / "run" / "evaluation.json").read_text("utf-8"))
    assert {"memorization", "diversity", "positions", "ends", "findings"} <= set(stored)
    kinds = {finding["kind"] for finding in stored["findings"]}
    assert {"learning", "baselines", "memorization"} <= kinds
    assert stored["verdict"][0].startswith("Validation loss")
    assert run.report is not None
    page = run.report.read_text("utf-8")
    log = (tmp_path / "run" / "log.txt").read_text("utf-8")
    for finding in stored["findings"]:
        assert finding["evidence"]
        assert finding["sentence"] in stored["verdict"]
        assert finding["sentence"] in log
        assert page.count(finding["sentence"].replace("'", "&#39;")) == 1
    assert "→ train longer" in page and "training.steps=80" in page
    again = run.evaluate()
    assert {key: again[key] for key in again} == {key: stored[key] for key in again}
    kept = (tmp_path / "run" / "samples" / "judged.jsonl").read_text("utf-8").splitlines()
    assert len(kept) == 16


def test_a_run_that_diverged_leaves_a_report_with_the_remedy(text: Path, tmp_path: Path) -> None:
    wild = {"training.optimizer.learning_rate": 1e39, "training.checkpoint_every": 1}
    with pytest.raises(DivergedError):
        octavo.train(RECIPE, text=text, out=tmp_path / "run", overrides=wild)
    stored = json.loads((tmp_path / "run" / "evaluation.json").read_text("utf-8"))
    finding = stored["findings"][0]
    assert finding["kind"] == "diverged" and finding["sentence"] in stored["verdict"]
    assert finding["settings"] == ["training.optimizer.learning_rate=3.33e+38"]
    page = (tmp_path / "run" / "report" / "index.html").read_text("utf-8")
    assert "Diverged." in page and "learning_rate=3.33e+38" in page


def test_of_findings_that_ask_for_the_same_the_first_says_it() -> None:
    def finding(name: str, remedy: str, *settings: str) -> dict[str, Any]:
        return {"sentence": name, "remedy": remedy, "settings": list(settings)}

    found = [
        finding("a", "x", "k=1"),
        finding("b", "y", "k=1"),
        finding("c", "z"),
        finding("d", "w"),
        finding("e", ""),
    ]
    assert remedy_lines(found) == {"a": "  → x: k=1", "c": "  → z", "d": "  → w"}
