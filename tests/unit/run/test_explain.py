"""A report that holds its model, the weights kept on the way, and a page of any run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import octavo.explain
from octavo.cli import main
from octavo.config import Recipe
from octavo.errors import InputError
from octavo.report import ReportData, write_report
from octavo.report.page import explainer_in
from octavo.run.explain import explainer_of
from octavo.run.prompts import refresh_report
from octavo.run.run import Run
from octavo.run.train import train
from octavo.util.terminal import Console
from unit.run.small import RECIPE

SETTINGS = ("report.explainer=true", "training.keep_for_story=3")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("explained")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OCTAVO_CACHE", str(folder / "cache"))
        (folder / "text.txt").write_text("a fox and a dog. " * 60)
        yield train(RECIPE, folder / "text.txt", folder / "run", overrides=SETTINGS, quiet=True)


def verb(words: list[str]) -> int:
    with pytest.raises(SystemExit) as ended:
        main(words)
    return int(ended.value.code or 0)


def facts_in(page: Path) -> dict[str, Any]:
    (content,) = re.findall(
        r'id="octavo-explain-facts">(.*?)</script>', page.read_text(encoding="utf-8"), re.S
    )
    return json.loads(content)


def test_the_report_holds_the_model(run: Run) -> None:
    assert run.report is not None
    facts = facts_in(run.report)
    assert facts["parameters"] == run.parameters and facts["step"] == run.step
    assert facts["measured"]["rows"] >= 6
    assert [one["step"] for one in facts["story"]] == [1, 2, 6]
    assert facts["story"][0]["loss"] > facts["story"][-1]["loss"]
    page = run.report.read_text(encoding="utf-8")
    assert page.index("Content-Security-Policy") < page.index("<style>")


def test_a_report_that_is_written_again_keeps_it(run: Run) -> None:
    assert run.report is not None
    before = explainer_in(run.report)
    assert before is not None and "script-src 'sha256-" in before.policy
    refresh_report(run)
    assert explainer_in(run.report) == before


def test_a_report_without_one_has_no_script(run: Run, tmp_path: Path) -> None:
    page = write_report(tmp_path, ReportData.from_run(run.path))
    assert explainer_in(page) is None
    assert "<script" not in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("wanted", "largest", "there"), [("auto", 10**6, True), ("auto", 100, False), (False, 10**6, False)]
)
def test_reports_of_small_models_hold_them(
    run: Run, monkeypatch: pytest.MonkeyPatch, wanted: Any, largest: int, there: bool
) -> None:
    monkeypatch.setattr(octavo.explain, "LARGEST_IN_REPORT", largest)
    monkeypatch.setattr("octavo.run.explain.LEAST", 0)
    again = Run.open(run.path)
    again.config = Recipe.model_validate(
        {**again.config.model_dump(mode="json"), "report": {"explainer": wanted}}
    )
    dataset = run.dataset
    assert dataset is not None
    assert (explainer_of(again, dataset, Console(quiet=True)) is not None) is there


def test_the_verb_writes_a_page(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "folder" / "page.html"
    assert verb(["explain", str(run.path), "--out", str(out), "--weights", "int8"]) == 0
    told = capsys.readouterr().out
    assert f"page: {out}" in told and "int8 weights change the loss by" in told
    assert facts_in(out)["weights"] == "int8"
    assert verb(["explain", str(run.path), "--out", str(out)]) == 2
    assert "--force" in capsys.readouterr().err
    text = tmp_path / "other.txt"
    text.write_text("a dog and a fox. " * 30)
    assert verb(["explain", str(run.path), "--out", str(out), "--force", "--text", str(text)]) == 0
    assert facts_in(out)["text"].startswith("a dog")


def test_a_damaged_chapter_is_left_out_and_named(run: Run) -> None:
    from octavo.run.explain import explain_run

    chapter = run.path / "story" / "step-000001.safetensors"
    whole = chapter.read_bytes()
    chapter.write_bytes(whole[:50])
    try:
        found = explain_run(run, Console(quiet=True), effort=0)
        assert 1 not in [one["step"] for one in found.facts["story"]] and found.facts["story"]
        assert [chapter.name in sentence for sentence in found.unread] == [True]
        assert "damaged" in found.sentences()[-1]
    finally:
        chapter.write_bytes(whole)


def test_counts_that_a_page_cannot_compute_are_named() -> None:
    from octavo.ngram.mixing_counts import MixingCounts
    from octavo.run.explain import refuse_counts

    counts = MixingCounts.__new__(MixingCounts)
    with pytest.raises(InputError, match="counts=mixing"):
        refuse_counts(cast(Run, SimpleNamespace(model=SimpleNamespace(counts=counts))))
