"""From a planted text to what a run remembers of it, and its page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import octavo
from octavo.cli.eval import show_memory
from octavo.errors import CorpusError, InputError, StorageError
from octavo.evaluation.canaries import Planting
from octavo.run.canaries import plant, remembered
from octavo.run.run import Run
from octavo.util.output import Output
from octavo.util.terminal import Console
from unit.evaluation.test_canaries import a_text

QUIET = Console(quiet=True)
HOW = Planting(counts=(1, 30), each=4, controls=12, beginning=12, rest=10)
RECIPE = {
    "model": {
        "layers": 1,
        "width": 16,
        "heads": 2,
        "context": 16,
        "counts": {"kind": "kneser-ney", "orders": 8, "hidden": 4, "share": 0.05},
    },
    "training": {"batch": 2, "steps": 2, "precision": "float32"},
    "sampling": {"tokens": 10},
}
"""Its network learns nothing, and its counts know the text."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("planted")
    (folder / "text.txt").write_text(a_text(1200))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OCTAVO_CACHE", str(folder / "cache"))
        plant(folder / "text.txt", folder / "planted.txt", HOW, QUIET)
        return octavo.train(RECIPE, folder / "planted.txt", folder / "run", quiet=True)


@pytest.fixture(autouse=True)
def cache(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(run.path.parent / "cache"))


def test_counts_recite_what_was_planted_and_the_page_says_so(run: Run) -> None:
    found = remembered(run, run.path.parent / "planted.json", QUIET)
    rows = {row.times: row for row in found.rows}
    assert list(rows) == [0, 1, 30]
    assert rows[30].recited == 4 and rows[0].recited == 0
    assert rows[30].nats < rows[0].nats
    assert found.recited_from is not None and found.known_from is not None
    kept = json.loads((run.path / "memory.json").read_text())
    assert kept["verdict"] == found.sentences()
    assert found.sentences()[0] in (run.path / "report" / "index.html").read_text()


def test_the_command_prints_a_row_for_each_count_and_the_verdict(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert show_memory(run, run.path.parent / "planted.json", json=False) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^30 times +4 of 4 ", shown, re.MULTILINE)
    assert "once" in shown and "never" in shown
    assert "It recites" in shown


def test_a_plan_of_another_text_is_refused(run: Run, tmp_path: Path) -> None:
    plan = json.loads((run.path.parent / "planted.json").read_text())
    plan["passages"][0]["times"] += 1
    (tmp_path / "other.json").write_text(json.dumps(plan))
    with pytest.raises(CorpusError, match=r"times, and the plan says"):
        remembered(run, tmp_path / "other.json", QUIET)


@pytest.mark.parametrize("plan", ["", "[]", '{"passages": []}', '{"passages": [{"beginning": "a"}]}'])
def test_what_is_no_plan_is_refused(run: Run, tmp_path: Path, plan: str) -> None:
    (tmp_path / "plan.json").write_text(plan)
    with pytest.raises(InputError, match=r"plan\.json"):
        remembered(run, tmp_path / "plan.json", QUIET)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (Planting(counts=()), "once at least"),
        (Planting(counts=(0, 1)), "once at least"),
        (Planting(counts=(2, 2)), "named once"),
        (Planting(each=0), "at least 1 passage"),
        (Planting(), "at most a tenth"),
        (Planting(counts=(1,), each=2, controls=300, beginning=9, rest=9), "too few lines"),
    ],
)
def test_planting_that_cannot_be_is_refused_and_writes_nothing(
    tmp_path: Path, how: Planting, said: str
) -> None:
    (tmp_path / "text.txt").write_text(a_text(200))
    with pytest.raises(InputError, match=said):
        plant(tmp_path / "text.txt", tmp_path / "out.txt", how, QUIET)
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


def test_the_text_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(a_text(1200))
    with pytest.raises(InputError, match="is read"):
        plant(tmp_path / "text.txt", tmp_path / "text.txt", HOW, QUIET, force=True)
    with pytest.raises(InputError, match="plan is the"):
        plant(tmp_path / "text.txt", tmp_path / "out.json", HOW, QUIET)


def test_a_text_without_its_plan_is_not_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text.txt").write_text(a_text(1200))

    named = Output.writing

    def writing(output: Output) -> Any:
        if output.path.suffix == ".json":
            raise StorageError("The disk is full.")
        return named(output)

    with monkeypatch.context() as patch:
        patch.setattr(Output, "writing", writing)
        with pytest.raises(StorageError):
            plant(tmp_path / "text.txt", tmp_path / "planted.txt", HOW, QUIET)
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]
    plant(tmp_path / "text.txt", tmp_path / "planted.txt", HOW, QUIET)
