"""octavo study: from a file to results, stopped and gone on with; what is refused, and how."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from e2e.asking import refused
from e2e.forked import Octavo, Result
from octavo.studies.results import RESULTS, collect

STUDY = """\
baseline: recipe.yaml
seeds: 2
noise: 0
budget: {steps: 20}
changes:
  - name: no residual
    hypothesis: It learns more slowly.
    set: {model.residual: false}
  - name: far too fast
    hypothesis: It diverges.
    expect: fails
    set: {training.optimizer: {kind: sgd, learning_rate: 1.0e+30}}
"""


@pytest.fixture(scope="module")
def studying(octavo: Octavo) -> Octavo:
    (octavo.folder / "study.yaml").write_text(STUDY)
    return octavo


def run(octavo: Octavo, out: Path | str, *more: str, study: str = "study.yaml") -> Result:
    return octavo("study", "run", study, "--text", "text.txt", "--out", out, *more)


@pytest.fixture(scope="module")
def whole(studying: Octavo) -> Path:
    """A study that was never stopped; read it, don't write."""
    out = studying.folder / "whole"
    done = run(studying, out)
    assert done.code == 0, done.err
    assert "6/6" in done.err and "failed: Step" in done.err
    assert done.out.splitlines()[-1].startswith("report: ")
    return out


def test_the_rows_of_a_study(whole: Path) -> None:
    rows = json.loads((whole / RESULTS).read_text())["runs"]
    assert [(row["change"], row["status"]) for row in rows] == [
        *[("baseline", "done")] * 2, *[("no residual", "done")] * 2, *[("far too fast", "failed")] * 2,
    ]  # fmt: skip
    assert rows[0]["metric"] == rows[0]["bits_per_byte"] > 0
    assert "diverged" in rows[4]["reason"]
    assert (whole / "report" / "index.html").is_file() and (whole / "report" / "report.md").is_file()


def test_too_little_learned_is_the_first_that_is_said(studying: Octavo, whole: Path) -> None:
    """Twenty steps are above counting trigrams, so nothing is a test of a claim."""
    told = studying("study", "report", whole)
    assert told.out.startswith("Nothing has been learned yet: not a test of the claim.")
    found = json.loads(studying("study", "report", whole, "--json").out)
    assert next(iter(found)) == "nothing_learned" and found["nothing_learned"] is not None
    assert [verdict["held"] for verdict in found["verdicts"]] == [None, None]
    assert "counting 3-grams" in (whole / "report" / "report.md").read_text()


@pytest.mark.slow
def test_a_shipped_study_can_be_printed_and_run(studying: Octavo) -> None:
    printed = studying("study", "list", "heads-cpu")
    assert printed.code == 0
    (studying.folder / "mine.yaml").write_text(printed.out)
    planned = run(
        studying, "mine", "--dry-run", "--json", "seeds=2", "set.sampling.prompt=a", study="mine.yaml"
    )
    assert planned.code == 0 and json.loads(planned.out)["runs"] > 8, planned.err
    refused(studying("study", "list", "heds-cpu"), "octavo study list")


def test_what_is_done_is_not_done_again(studying: Octavo, whole: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in whole.glob("runs/*/*/outcome.json")}
    again = run(studying, whole)
    assert again.code == 0 and "runs to do" not in again.err
    left = studying("study", "run", whole / "study.yaml", "--out", whole)  # refused, were its runs other ones
    assert left.code == 0 and "runs to do" not in left.err
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.slow
def test_a_study_repeats_from_what_it_left(studying: Octavo, whole: Path) -> None:
    out = studying.folder / "repeated"
    done = studying("study", "run", whole / "study.yaml", "--out", out, "--jobs", "1")
    assert done.code == 0, done.err
    first, second = (json.loads((folder / RESULTS).read_text())["runs"] for folder in (whole, out))
    assert first == second


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_study_that_is_stopped_goes_on(studying: Octavo, whole: Path, number: int) -> None:
    out = studying.folder / f"stopped-{number}"
    alone = ("--jobs", "1")
    command = studying.start("study", "run", "study.yaml", "--text", "text.txt", "--out", out, *alone)
    end = time.monotonic() + 100
    while not list(out.glob("runs/baseline/seed-*/metrics.jsonl")):
        assert time.monotonic() < end
        time.sleep(0.01)
    os.kill(command.pid, number)
    stopped = command.wait()
    if number == signal.SIGTERM:
        refused_or_done = stopped.code == 130 and "the same command continues" in stopped.err
        assert refused_or_done, stopped
    done = run(studying, out, *alone)
    assert done.code == 0, done.err
    assert (out / RESULTS).read_bytes() == (whole / RESULTS).read_bytes()


@pytest.mark.slow
def test_a_ladder_is_run_stopped_and_gone_on_with(studying: Octavo) -> None:
    """Two sizes, one length, two rates: the sweep and the study of each, and the page."""
    folder, out = studying.folder, studying.folder / "ladder"
    sizes = "ladder: {sizes: {one: {}, two: {model.layers: 2}}, steps: [20], rates: [0.5, 2]}"
    changes = STUDY.partition("changes:")[2].partition("  - name: far")[0]
    (folder / "ladder.yaml").write_text(
        f"baseline: recipe.yaml\nseeds: 1\nnoise: 0\n{sizes}\nchanges:{changes}"
    )
    asked = studying(
        "study", "ladder", "ladder.yaml", "--text", "text.txt", "--out", out, "--dry-run", "--json"
    )
    assert json.loads(asked.out)["runs"] == 12 and not out.exists()
    ladder = ("study", "ladder", "ladder.yaml", "--text", "text.txt", "--out", out, "--jobs", "1")
    command = studying.start(*ladder)
    end = time.monotonic() + 100
    while not list(out.glob("rungs/one-20-steps/runs/baseline/seed-*/outcome.json")):
        assert time.monotonic() < end
        time.sleep(0.01)
    os.kill(command.pid, signal.SIGKILL)
    command.wait()
    before = {path: path.stat().st_mtime_ns for path in out.glob("**/outcome.json")}
    done = studying(*ladder, "--json")
    assert done.code == 0, done.err
    assert {path: path.stat().st_mtime_ns for path in before} == before
    found = json.loads(done.out)
    assert [rung["rung"]["size"] for rung in found["rungs"]] == ["one", "two"]
    assert all(set(rung["rates"]) == {"baseline", "no residual"} for rung in found["rungs"])
    written = (out / "ladder.yaml").read_bytes()
    for other in (sizes.replace("[0.5, 2]", "[0.5, 3]"), sizes.replace("[20]", "[30]")):
        (folder / "other.yaml").write_text(
            f"baseline: recipe.yaml\nseeds: 1\nnoise: 0\n{other}\nchanges:{changes}"
        )
        refused(studying("study", "ladder", "other.yaml", *ladder[3:]), "choose another --out")
        assert (out / "ladder.yaml").read_bytes() == written
    assert Path(found["report"]).is_file() and len(list(out.glob("**/outcome.json"))) == 12
    assert all(rung["where"]["found"]["no residual"]["whole"]["tokens"] for rung in found["rungs"])
    assert "Where, token by token" in Path(found["report"]).read_text("utf-8")
    again = studying("study", "report", out)
    assert again.code == 0 and again.out.startswith("no residual: nothing has been learned yet")
    refused(studying("study", "run", "ladder.yaml", "--text", "text.txt"), "octavo study ladder")


def test_the_price_comes_before_anything_runs(studying: Octavo) -> None:
    out = studying.folder / "priced"
    asked = run(studying, out, "--dry-run", "--json", "seeds=3", "budget.steps=50")
    assert asked.code == 0, asked.err
    facts = json.loads(asked.out)
    assert facts["runs"] == 9 and facts["hours"] > 0 and facts["disk_bytes"] > 0
    assert [row["steps"] for row in facts["variants"]] == [50, 50, 50]
    assert not out.exists()


def test_bad_studies_are_refused_before_the_first_run(studying: Octavo, whole: Path) -> None:
    (studying.folder / "bad.yaml").write_text(
        "baseline: recipe.yaml\nchanges:\n"
        "  - {name: a, hypothesis: x, set: {model.residul: false}}\n"
        "  - {name: b, hypothesis: x, set: {model.residual: true}}\n"
        "  - {name: b, hypothesis: x, set: {model.layers: 2}}\n"
    )
    out = studying.folder / "never"
    refused(
        run(studying, out, study="bad.yaml"), "3 problems", "model.residual?", "alters nothing", "same name"
    )
    refused(run(studying, out, "seds=3"), "did you mean seeds?")
    refused(run(studying, out, "set.model.context=100000"), "the baseline:", "context of 100,000")
    refused(run(studying, out, "--jobs", "0"), "at least one")
    refused(studying("study", "run", "no-such-study"), "octavo study list")
    refused(studying("study", "run", "study.yaml", "--out", out), "a text is needed")
    assert not out.exists()
    refused(run(studying, whole, "set.training.batch=5"), "holds runs of another study", "training.batch=4")
    refused(run(studying, studying.folder), "not empty, and not a study")
    refused(studying("study", "report", "no-such-folder"), "does not exist")


def test_the_shipped_studies_are_listed(studying: Octavo) -> None:
    listed = studying("study", "list", "--json")
    assert {"heads-cpu", "residual-connections-cpu"} <= {each["name"] for each in json.loads(listed.out)}


def test_a_report_of_a_study_that_has_only_begun(studying: Octavo, whole: Path, tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_bytes((whole / "study.yaml").read_bytes())
    assert collect(tmp_path).runs == ()
