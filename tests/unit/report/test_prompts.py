"""Tables of prompts and counts of names in a report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from octavo.report import ReportData, write_report
from octavo.report.sections import name_answers, prompt_tables

TABLE = {
    "name": "mine",
    "step": 1500,
    "prompts": [
        {
            "prompt": "<ROMEO>:",
            "samples": [
                {
                    "text": "\nAThe <b>",
                    "correction": {"corrected": "\nThe <b>", "words": 2, "words_changed": 1},
                },
                {"text": " plain"},
            ],
        },
        {"prompt": "", "samples": [{"text": "x"}]},
    ],
}


def share(prompt: str, value: float | None, p: float | None) -> dict[str, Any]:
    return {"prompt": prompt, "share": value, "interval": value and [value / 2, value], "p": p}


def answer(value: float | None, *ps: float | None) -> dict[str, Any]:
    controls = [share(f"N{at}" if at else "", 0.1, p) for at, p in enumerate(ps)]
    return {"name": "ROMEO", "in_text": 0.125, "asked": share("ROMEO", value, None), "controls": controls}


def keep(folder: Path, name: str, document: Any) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(document if isinstance(document, str) else json.dumps(document))


def test_the_page_shows_them_escaped(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("description: x\n")
    keep(tmp_path, "prompts/mine.json", TABLE)
    keep(tmp_path, "speakers/romeo.json", answer(0.4, 0.001, 0.02))
    page = write_report(tmp_path, ReportData.from_run(tmp_path)).read_text()
    assert "Prompts: mine" in page and "at step 1,500" in page
    assert "<b>&lt;ROMEO&gt;:</b>\nAThe &lt;b&gt;</pre>" in page
    assert "corrected, 1 of 2 words changed" in page and "<summary>no prompt</summary>" in page
    assert "40% of the speakers who answer ROMEO are of its own play: more than after other prompts" in page
    assert "20.0% to 40.0%" in page and "12.5%" in page


def test_sentences_follow_the_worst_control(tmp_path: Path) -> None:
    for value, ps, said in (
        (0.4, (0.001, 0.3), "not clearly more than after every other prompt (p up to 0.3)"),
        (0.4, (None,), "nothing to compare it with"),
        (None, (None,), "nobody speaks"),
    ):
        keep(tmp_path, "speakers/romeo.json", answer(value, *ps))
        (found,) = name_answers(tmp_path)
        assert said in found.sentence
    assert [row[0] for row in found.rows] == ["after ROMEO", "after no prompt", "in the text itself"]


def test_what_is_damaged_is_passed_over(tmp_path: Path) -> None:
    for number, document in enumerate(["{", "[]", "{}", '{"name": 1, "prompts": [{"prompt": "a"}]}', "7"]):
        keep(tmp_path, f"prompts/{number}.json", document)
        keep(tmp_path, f"speakers/{number}.json", document)
    keep(tmp_path, "prompts/z.json", TABLE)
    assert [table.name for table in prompt_tables(tmp_path)] == ["mine"]
    assert name_answers(tmp_path) == []
