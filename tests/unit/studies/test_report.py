"""A study's report: says what the folder says, stands alone, is the same each time."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from octavo.errors import InputError
from octavo.studies.measures import measure
from octavo.studies.plots import curve_plot, forest_plot
from octavo.studies.report import write_study_report
from octavo.studies.results import StudyResults, by_improvement
from octavo.studies.table import improvement_table, markdown, summary, variant_rows
from octavo.studies.verdict import analyse_study
from octavo.training.objective import TEXT
from octavo.util.terminal import in_markdown
from unit.studies.synthetic import Truth, make

TRUTHS = {
    "no norm": Truth(shift=12),
    "one head | of four": Truth(cost=0.9),
    "no residual": Truth(flat=True),
    "fast": Truth(failed=dict.fromkeys((1337, 1338, 1339), "The loss was <nan> at step 120.")),
    "pairs": Truth(shift=-30, bytes_per_token=2.0),
}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> StudyResults:
    expect = {"no norm": "worse", "no residual": "fails", "one head | of four": "better"}
    results = make(tmp_path_factory.mktemp("study") / "parts", TRUTHS, expect=expect)
    write_study_report(results.folder)
    return results


@pytest.fixture(scope="module")
def page(study: StudyResults) -> str:
    return (study.folder / "report" / "index.html").read_text("utf-8")


@pytest.fixture(scope="module")
def told(study: StudyResults) -> str:
    return (study.folder / "report" / "report.md").read_text("utf-8")


def test_the_page_stands_alone(page: str) -> None:
    assert "<script" not in page and "http-equiv" not in page
    loaded = re.findall(r"""(?:src|href)\s*=\s*["'](?!#)[^"']*|url\((?!#)[^)]*\)|@import""", page)
    assert not loaded
    assert page.count("prefers-color-scheme: dark") >= 2
    assert len(re.findall(r'id="([^"]+)"', page)) == len(set(re.findall(r'id="([^"]+)"', page)))


def test_the_page_escapes_what_people_and_models_wrote(page: str) -> None:
    assert "&lt;script&gt;alert" in page and "&lt;b&gt;layer norm&lt;/b&gt;" in page
    assert "<b>layer norm</b>" not in page and "The loss was &lt;nan&gt;" in page


def test_page_and_markdown_say_every_verdict(study: StudyResults, page: str, told: str) -> None:
    from markupsafe import escape

    for verdict in analyse_study(study).verdicts:
        assert in_markdown(verdict.sentence) in told  # where <nan> would be a tag
        assert str(escape(verdict.statement[1:])) in page
    for words in ("did not hold", "failed to train", "not confirmed", "What the report says"):
        assert words in page or words == "did not hold"
    assert "2 of 3 hypotheses held." in page and "2 of 3 hypotheses held." in told


def test_no_colour_of_a_plot_is_fixed_in_the_page(page: str) -> None:
    body = page[page.index("<body") :]
    assert not re.findall(r"(?:fill|stroke): #(?!fff)[0-9a-f]{6}", body)
    used = set(re.findall(r"var\(--([\w-]+)\)", page))
    assert used <= set(re.findall(r"--([\w-]+):", page))


def test_markdown_refers_to_plots_that_are_there(study: StudyResults, told: str) -> None:
    named = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", told)
    assert {
        "verdicts.svg",
        "curves.svg",
        "difference.svg",
        "improvement.svg",
        "cost-seconds.svg",
        "cost-flops.svg",
    } == set(named)
    assert all((study.folder / "report" / name).read_text("utf-8").startswith("<?xml") for name in named)


def test_tables_have_one_width_in_a_terminal(told: str) -> None:
    tables = re.findall(r"(?:^\|.*\n)+", told, re.MULTILINE)
    assert len(tables) >= 5
    for table in tables:
        assert len({len(line) for line in table.splitlines()}) == 1
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


def test_a_sample_cannot_end_its_code_block(told: str) -> None:
    fences = re.findall(r"^(`{3,})text$", told, re.MULTILINE)
    assert fences and all(len(fence) == 5 for fence in fences)  # the samples hold four


def test_everything_to_repeat_it(study: StudyResults, page: str, told: str) -> None:
    for shown in (page, told):
        assert f"octavo study run {study.folder / 'study.yaml'} --out AGAIN" in shown
        assert "training.batch=13" in shown and "octavo" in shown and "seed-1337" in shown
        assert "noise:" in shown  # study.yaml itself


def test_failed_runs_are_listed_with_reasons(page: str) -> None:
    section = page[page.index("Runs that failed") : page.index("How they learned")]
    assert section.count("<tr>") == 3  # what learned nothing has a figure, and is compared
    assert "not 1 % below counting how often each token occurs (4.700)" in page


def test_relative_improvement_and_why_it_may_disagree(study: StudyResults, told: str) -> None:
    rows = variant_rows(study, analyse_study(study))
    row = next(row for row in rows if row.name == "pairs")
    runs = study.of("pairs")
    expected = sum(1 - (run.val_loss or 0) / (run.initial_loss or 1) for run in runs) / len(runs)
    assert row.improvement == pytest.approx(expected)
    by_it = analyse_study(by_improvement(study))
    cells = improvement_table(rows, by_it, TEXT)[rows.index(row) + 1]
    assert f"{expected:.1%}" in cells
    verdict = next(one for one in by_it.verdicts if one.change == "pairs")
    assert cells[4].startswith(verdict.verdict) and "points" in cells[4]
    assert verdict.interval is not None and verdict.interval[0] < verdict.interval[1]
    assert "the tokenizers here differ, so compare bits per byte" in told


def test_same_tokenizers_are_said_to_agree(tmp_path: Path) -> None:
    results = make(tmp_path / "s", {"a": Truth()})
    write_study_report(results.folder)
    assert "cut the text alike" in (results.folder / "report" / "report.md").read_text("utf-8")


def test_the_same_folder_gives_the_same_bytes(study: StudyResults) -> None:
    def contents() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (study.folder / "report").iterdir()}

    before = contents()
    write_study_report(study.folder)
    assert contents() == before


def test_an_unfinished_study_has_a_report(tmp_path: Path) -> None:
    results = make(tmp_path / "s", {"a": Truth(), "b": Truth()})
    for path in results.folder.glob("runs/*/*/outcome.json"):
        if "seed-1337" not in str(path) or "/b/" in str(path):
            path.unlink()
    page = write_study_report(results.folder).read_text("utf-8")
    assert "not judged" in page and "still to come" in page
    for path in results.folder.glob("runs/*/*/outcome.json"):
        path.unlink()
    assert "still to come" in write_study_report(results.folder).read_text("utf-8")


def test_a_folder_that_is_no_study(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a study folder"):
        write_study_report(tmp_path)


def test_many_changes_far_apart_can_be_drawn(tmp_path: Path) -> None:
    truths = {
        f"change number {number} with quite a long name": Truth(shift=2.5**number) for number in range(12)
    }
    results = make(tmp_path / "s", truths, noise=3)
    analysis = analyse_study(results)
    rows = variant_rows(results, analysis)
    for width in (7.6, 4.6):
        assert forest_plot(rows, analysis, width=width).count("<svg") == 1
        assert curve_plot(rows, measure("bits_per_byte"), width=width).count("<svg") == 1


def test_summary_has_a_section_for_each_study(study: StudyResults, tmp_path: Path) -> None:
    other = make(tmp_path / "other", {"a": Truth(shift=9)}, expect={"a": "worse"}, name="another study")
    found = summary([study.folder, other.folder])
    assert re.findall("^## (.*)$", found, re.MULTILINE) == ["a made-up study", "another study"]
    first, second = found.split("## another study")
    assert "**What the report says:**" in first and "“one head | of four” (not confirmed)" in first
    assert "**What differs from what was expected:** nothing." in second


def test_markdown_escapes_what_would_end_a_cell() -> None:
    assert markdown([["a", "b"], ["x|y", "1\n2"]]) == "| a    |   b |\n| ---- | --: |\n| x\\|y | 1 2 |"


def test_a_loss_that_is_no_number_is_not_drawn(study: StudyResults) -> None:
    runs = (replace(study.runs[0], metric=math.inf), *study.runs[1:])
    results = replace(study, runs=runs)
    analysis = analyse_study(results)
    assert "<svg" in forest_plot(variant_rows(results, analysis), analysis)


def test_no_column_leaves_its_card(page: str) -> None:
    """The last one stood beside it on a page of 1,200 pixels."""
    assert ".stack td.number, .stack th.number, .stack .badge { white-space: normal; }" in page


MEASURE = """<script>addEventListener("load", () => {
  let over = 0;
  document.querySelectorAll("section").forEach(card => card.querySelectorAll("td, th").forEach(cell => {
    over += cell.getBoundingClientRect().right > card.getBoundingClientRect().right + 0.5;
  }));
  document.title = "over " + over;
});</script></body>"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no chromium")
@pytest.mark.parametrize("width", [1200, 900, 850, 600])
def test_a_browser_keeps_every_column_in_its_card(page: str, tmp_path: Path, width: int) -> None:
    free = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    (tmp_path / "page.html").write_text(free.replace("</body>", MEASURE), "utf-8")
    how = ["--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},2000", "--dump-dom"]
    command = ["chromium", *how, f"--user-data-dir={tmp_path / 'own'}", (tmp_path / "page.html").as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert "<title>over 0</title>" in shown
