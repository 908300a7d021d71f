"""A study's page begins with its question; the answer comes next, and every statistic is explained once."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from octavo.config import check, recipe_tree
from octavo.studies.ladder import load_ladder
from octavo.studies.measures import WORDS, measure
from octavo.studies.report import write_study_report
from octavo.studies.resolve import load_study
from octavo.studies.spec import Study, read_study_file, study_names
from octavo.studies.verdict import analyse_study, answer, question, terms
from unit.studies.synthetic import Truth, make

TRUTHS = {
    "no norm": Truth(shift=12),
    "pairs": Truth(shift=-30),
    "wide": Truth(shift=-60),
    "one head": Truth(),
    "no residual": Truth(flat=True),
}


def test_the_description_is_the_question_or_one_is_made(tmp_path: Path) -> None:
    study = make(tmp_path / "s", TRUTHS).study
    asked = replace(study, description="Report E: what is layer norm worth?  Small form.")
    assert question(asked) == ("Report E: what is layer norm worth?", "Small form.")
    assert question(replace(study, name="Is it true?")) == ("Is it true?", study.description)
    assert question(study)[0] == (
        "A made-up study: which of 5 changes are better or worse than the baseline?"
    )
    single = replace(study, changes=study.changes[:1])
    assert question(single)[0] == "A made-up study: is “no norm” better or worse than the baseline?"


def test_the_answer_is_one_sentence_of_all_verdicts(tmp_path: Path) -> None:
    results = make(tmp_path / "s", TRUTHS)
    said = answer(results, analyse_study(results))
    assert re.fullmatch(
        r"“wide” is better by 0\.\d+ and “pairs” by 0\.\d+ bits per byte; “no residual” is worse by 2\.\d+ and "
        r"“no norm” by 0\.\d+ bits per byte; "
        r"“one head” makes no difference that this study could see; “no residual” learned nothing\.",
        said,
    ), said


def test_the_answer_does_not_say_more_than_the_runs(tmp_path: Path) -> None:
    results = make(tmp_path / "s", {"a": Truth(shift=-30), "b": Truth(), "c": Truth()})
    nothing = replace(results, runs=())
    assert answer(nothing, analyse_study(nothing)) == "There is not enough to say yet."
    assert terms(analyse_study(nothing)) == []
    part = replace(results, runs=tuple(run for run in results.runs if run.change != "b"))
    said = answer(part, analyse_study(part))
    assert said.startswith("So far, “a” is better by 0.") and "of “b” there is not enough to say yet." in said
    indifferent = replace(results, study=replace(results.study, smallest_interesting=1.0))
    assert answer(indifferent, analyse_study(indifferent)) == (
        "“a”, “b” and “c” make no difference that matters."
    )


def test_an_answer_on_many_changes_stays_short(tmp_path: Path) -> None:
    truths = {f"n{number}": Truth(shift=-20 - 3 * number) for number in range(9)}
    results = make(tmp_path / "s", truths)
    said = answer(results, analyse_study(results))
    assert said.startswith("“n8” is better by") and said.endswith("; 3 more are better.")
    assert len(said) < 200


def test_question_first_answer_next_and_each_statistic_explained_before_it_is_tabled(tmp_path: Path) -> None:
    results = make(tmp_path / "s", TRUTHS)
    analysis = analyse_study(results)
    page = write_study_report(results.folder).read_text("utf-8")
    body = page[page.index("<body") :]
    said = answer(results, analysis)
    assert re.search(r"<h1>([^<]+)</h1>\s*<p[^>]*>([^<]+)</p>", body).groups() == (  # type: ignore[union-attr]
        question(results.study)[0],
        said,
    )
    words = [
        "bits per byte",
        "noise between seeds",
        "difference",
        "seed by seed",
        "95 % interval",
        "p",
        "correction",
        "could see",
    ]
    assert re.findall(r"<dt>([^<]+)</dt><dd>", body[: body.index('class="numbers"')]) == words
    told = (results.folder / "report" / "report.md").read_text("utf-8").split("\n\n")
    assert told[:2] == [f"# {question(results.study)[0]}", f"**{said}**"]


@pytest.mark.parametrize("metric", sorted([*WORDS, "val_loss"]))
def test_every_metric_is_explained(metric: str) -> None:
    assert measure(metric).meaning.endswith("is better") and measure(metric).unit


def test_one_comparison_is_not_corrected(tmp_path: Path) -> None:
    one = dict(terms(analyse_study(make(tmp_path / "one", {"a": Truth()}))))
    two = dict(terms(analyse_study(make(tmp_path / "two", {"a": Truth(), "b": Truth()}))))
    assert one["correction"].startswith("none") and two["correction"].startswith("2 changes")


def read(name: str, text: Path) -> Study:
    if name.endswith("-ladder"):
        return load_ladder(name, text).study
    recipe = check(recipe_tree(str(read_study_file(name)[0].baseline)))
    return load_study(name, text if recipe.lacks_text else None)


@pytest.mark.parametrize("name", study_names())
def test_every_shipped_study_asks_its_own_question(name: str) -> None:
    study = read(name, Path("play.txt"))
    asked, rest = question(study)
    assert asked.endswith("?") and study.description.startswith(asked)
    assert rest in ("", "Small form for a laptop.")
