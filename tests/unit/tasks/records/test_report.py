"""What a report shows of records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from octavo.report import ReportData, write_report


def page_of(folder: Path, **evaluation: Any) -> str:
    (folder / "config.yaml").write_text("description: x\n", "utf-8")
    (folder / "evaluation.json").write_text(json.dumps(evaluation), "utf-8")
    return write_report(folder, ReportData.from_run(folder)).read_text("utf-8")


def checked(valid: int, **others: Any) -> dict[str, Any]:
    return {"records": 40, "valid": valid, "interval": [valid / 50, 0.9], **others}


def test_the_page_says_how_many_records_are_valid_above_what_was_copied(tmp_path: Path) -> None:
    shares = {"shares": {"50": 0.5}, "longest": None}
    page = page_of(
        tmp_path,
        validity={
            "generated": checked(10, typical={"symbol": 7, "why": "<nothing> follows"}),
            "control": checked(5, order=3),
            "held_out": checked(40),
        },
        memorization={"generated": shares, "held_out": shares},
    )
    assert "first wrong at symbol 7, because &lt;nothing&gt; follows" in page
    rows = page[page.index("Is it valid?") : page.index("Does it recite?")]
    assert rows.index("this model") < rows.index("3-grams") < rows.index("held-out records")
    for shown in ("10 of 40", "25.0%", "20.0% to 90.0%", "12.5%", "100.0%"):
        assert shown in rows


def test_without_a_validator_nothing_is_said_of_it(tmp_path: Path) -> None:
    assert "Is it valid?" not in page_of(tmp_path)
