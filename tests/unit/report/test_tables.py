"""Tables of every page on a telephone: no number is cut or has to be scrolled to."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from octavo.corpus.inspection import inspect
from octavo.report import ReportData, write_report
from octavo.run.compare import compare, render
from octavo.run.corpus import write_page
from octavo.studies.report import write_study_report
from octavo.util.output import Output
from unit.corpus.cleaning.common import Texts
from unit.report.test_report import EVALUATION, JUDGED, TRAINED, run_folder
from unit.run.test_list import make_run
from unit.studies.synthetic import Truth, make

FITTING = 4
"""Columns that fit 400 px beside each other."""


class Tables(HTMLParser):
    """Each table's classes, and its rows as lists of the cells' attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[list[str], list[list[dict[str, str | None]]]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.found.append(((dict(attrs).get("class") or "").split(), []))
        elif tag == "tr":
            self.found[-1][1].append([])
        elif tag == "td":
            self.found[-1][1][-1].append(dict(attrs))


def study_page(folder: Path) -> str:
    return write_study_report(make(folder / "s", {"a": Truth(shift=9), "b": Truth()}).folder).read_text(
        "utf-8"
    )


def comparison_page(folder: Path) -> str:
    runs = [make_run(folder / f"run-{number}") for number in range(5)]
    config = (runs[1] / "config.yaml").read_text("utf-8")
    (runs[1] / "config.yaml").write_text(config.replace("width: 16", "width: 32"), "utf-8")
    return render(compare(runs))


def run_page(folder: Path) -> str:
    run = run_folder(folder / "run", rows=TRAINED + JUDGED, evaluation=EVALUATION, sample="text")
    return write_report(run, ReportData.from_run(run)).read_text("utf-8")


def corpus_page(folder: Path) -> str:
    found = inspect(Texts("the cat sat", "on the mat"))
    steps = {"spaces": {"in": 2, "changed": 1, "dropped": 0, "examples": ["the  cat"]}}
    write_page(Output(folder / "corpus.html"), found, "cats", steps)
    return (folder / "corpus.html").read_text("utf-8")


@pytest.mark.parametrize("make_page", [study_page, comparison_page, run_page, corpus_page])
def test_tables_of_many_columns_are_stacked_and_none_is_scrolled(
    make_page: Callable[[Path], str], tmp_path: Path
) -> None:
    page = make_page(tmp_path)
    tables = Tables(page).found
    assert tables
    for classes, rows in tables:
        if max(map(len, rows)) > FITTING:
            assert "stack" in classes
        if "stack" in classes:
            labels = [
                cell.get("data-label") for row in rows for cell in row[1:] if cell.get("class") != "bar"
            ]
            assert labels and all(labels)
    style = page[page.index("<style>") : page.index("</style>")]
    scrolled = re.findall(r"([^{}]+)\{[^{}]*overflow-x: *(?:auto|scroll)", style)
    assert [selector.strip() for selector in scrolled] == ["pre"]
    assert all(float(rem) < 10 for rem in re.findall(r"[{;] *min-width: *([\d.]+)rem", style))
    narrow = style[style.index("@media (max-width: 40rem)") :]
    assert re.search(r"\.stack td::before \{ content: attr\(data-label\)", narrow)
    assert re.search(r"td:first-child \{[^}]*overflow-wrap: anywhere", style)
