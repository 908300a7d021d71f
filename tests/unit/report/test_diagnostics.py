"""The page's diagnostics, its memorization meter and its table of variety; several prompts of one step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from octavo.report import ReportData, write_report
from octavo.report.sections import copied, evidence, longest, variety

HOSTILE = "<script>alert(1)</script>"
DIAGNOSTIC = {
    "kind": "over-fit",
    "sentence": f"Over-fit from step 10 {HOSTILE}.",
    "evidence": {"best_step": 1000, "rise": 0.123456, "curve": "validation", "noise": None},
    "severity": "bad",
    "remedy": "dropout",
    "settings": ["model.dropout=0.2", "training.patience=3"],
}
REPEATS = {**DIAGNOSTIC, "kind": "repetition", "sentence": "It repeats itself.", "settings": []}


def side(share: float, run: dict[str, Any] | None) -> dict[str, Any]:
    return {"characters": 900, "shares": {"10": share, "50": share / 2}, "longest": run}


def figures(mean: float | None) -> dict[str, Any]:
    own = {name: {"mean": mean, "error": None} for name in ("repeated", "alike", "thread")}
    return {"texts": 16, "units": 800, "distinct": {"1": 0.5, "2": 0.9}, **own}


EVALUATION = {
    "verdict": ["Validation loss 2.0.", DIAGNOSTIC["sentence"], "It repeats itself."],
    "diagnostics": [DIAGNOSTIC, REPEATS],
    "next": {
        "remedy": "dropout",
        "resume": False,
        "command": "octavo train runs/a/config.yaml --out runs/a-2 model.dropout=0.2",
    },
    "memorization": {
        "searched": 0.25,
        "difference_error": 0.01,
        "generated": side(0.8, {"length": 412, "text": f"First {HOSTILE}", "byte": 7, "line": 3}),
        "held_out": side(0.3, None),
    },
    "diversity": {"unit": "word", "generated": figures(0.31), "held_out": figures(None)},
}


def page(tmp_path: Path, evaluation: dict[str, Any]) -> str:
    folder = tmp_path / "run"
    (folder / "samples").mkdir(parents=True)
    (folder / "config.yaml").write_text("sampling: {prompt: [ROMEO, JULIET]}\n", "utf-8")
    (folder / "evaluation.json").write_text(json.dumps(evaluation), "utf-8")
    (folder / "samples" / "step-000010.txt").write_text("ROMEO one", "utf-8")
    (folder / "samples" / "step-000010-2.txt").write_text("JULIET two", "utf-8")
    (folder / "samples" / "step-000005.txt").write_text("ROMEO old", "utf-8")
    (folder / "samples" / "judged.jsonl").write_text("{}\n", "utf-8")
    return write_report(folder, ReportData.from_run(folder)).read_text("utf-8")


def test_diagnostics_stand_once_with_evidence_and_settings(tmp_path: Path) -> None:
    text = page(tmp_path, EVALUATION)
    assert HOSTILE not in text
    assert text.count("Over-fit from step 10 &lt;script&gt;") == 1
    assert text.count("It repeats itself.") == 1
    assert "this starts a new run:" in text
    assert "<pre>octavo train runs/a/config.yaml --out runs/a-2 model.dropout=0.2</pre>" in text
    assert text.index("Over-fit from") < text.index("<summary>evidence</summary>") < text.index("It repeats")
    assert 'class="diagnostic bad"' in text
    assert ("best step", "1,000") in evidence(DIAGNOSTIC) and ("rise", "0.1235") in evidence(DIAGNOSTIC)
    assert [name for name, _ in evidence(DIAGNOSTIC)] == ["best step", "rise", "curve"]


def test_the_meter_shows_both_sides_and_the_longest_run(tmp_path: Path) -> None:
    text = page(tmp_path, EVALUATION)
    assert [tuple(row) for row in copied(EVALUATION)] == [(10, 0.8, 0.3), (50, 0.4, 0.15)]
    assert [words for words, _ in longest(EVALUATION)] == ["in what the model wrote"]
    assert "412 characters, line 3" in text
    assert "25% of the training text" in text


def test_variety_marks_what_stands_out(tmp_path: Path) -> None:
    rows = {row.name: row for row in variety(EVALUATION)}
    assert rows["repeated 4-grams"].stands_out and not rows["thread"].stands_out
    assert (rows["repeated 4-grams"].generated, rows["repeated 4-grams"].held_out) == ("31.0%", "–")
    assert rows["distinct-2"].generated == "90.0%"
    assert "16 samples of 800 words" in page(tmp_path, EVALUATION)


def test_prompts_of_one_step_stand_together_newest_first(tmp_path: Path) -> None:
    text = page(tmp_path, {})
    places = [text.index(words) for words in ("<b>ROMEO</b> one", "<b>JULIET</b> two", "<b>ROMEO</b> old")]
    assert places == sorted(places)
    assert text.count("<summary>step 10</summary>") == 1


def test_a_run_without_these_figures_has_no_such_sections(tmp_path: Path) -> None:
    text = page(tmp_path, {"val_loss": 2.0, "verdict": ["Validation loss 2.0."]})
    for title in ("What the figures say", "Does it recite?", "Does it repeat itself?"):
        assert title not in text
