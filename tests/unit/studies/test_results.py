"""What a study leaves behind: rows, the same in every repetition, and a file that repeats it."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from octavo.errors import ConfigError, InputError
from octavo.studies.interim_looks import looks_at
from octavo.studies.results import RESULTS, StudyResults, collect, study_of, tokens_at, write_results
from octavo.studies.run import run_study
from octavo.util.terminal import Console
from unit.studies.conftest import study_tree

Whole = tuple[StudyResults, str]


def test_the_rows(whole: Whole) -> None:
    results, said = whole
    assert [(run.slug, run.seed, run.status) for run in results.runs] == [
        ("baseline", 5, "done"), ("baseline", 6, "done"), ("baseline", 7, "done"),
        ("two-layers", 5, "done"), ("two-layers", 6, "done"), ("hot", 5, "failed"), ("hot", 6, "failed"),
    ]  # fmt: skip
    for run in results.runs[:5]:
        assert run.metric == run.bits_per_byte and run.val_loss and run.initial_loss and run.sample
        assert run.val_loss == pytest.approx(sum(run.nats) / sum(run.tokens_scored))
        assert len(run.nats) == len(run.bytes) == len(run.tokens_scored) > 1
        assert run.curve.steps[-1] == run.step == 20 and run.curve.tokens[-1] == run.tokens == 20 * 64
        assert run.train_curve[0][0] == 1 and run.seconds
    assert len({run.val_loss for run in results.runs[:5]}) == 5
    assert results.runs[5].reason and "diverged" in results.runs[5].reason
    assert results.of("two layers") == results.of("two-layers") == list(results.runs[3:5])
    assert "7/7" in said and "failed: Step" in said


def test_results_hold_no_timings(whole: Whole) -> None:
    results, _ = whole
    content = (results.folder / RESULTS).read_bytes()
    slower = [dataclasses.replace(run, seconds=999.0) for run in results.runs]
    write_results(dataclasses.replace(results, runs=tuple(slower)))
    assert (results.folder / RESULTS).read_bytes() == content
    assert json.loads((results.folder / "timings.json").read_text())[0]["seconds"] == 999.0
    assert str(results.folder).encode() not in content


def test_a_study_is_read_from_its_folder_alone(whole: Whole, tmp_path: Path) -> None:
    results, _ = whole
    shutil.copytree(results.folder, tmp_path / "copy", symlinks=True)
    again = collect(tmp_path / "copy")
    assert again.runs == results.runs and again.study == results.study


def test_changes_and_seeds_may_be_added(whole: Whole, text: Path, tmp_path: Path) -> None:
    results, _ = whole
    shutil.copytree(results.folder, tmp_path / "copy", symlinks=True)
    assert looks_at(tmp_path / "copy") == (2,)
    more = run_study(
        study_tree(seeds=3, noise=0), text, tmp_path / "copy", jobs=1, console=Console(quiet=True)
    )
    assert [(run.slug, run.seed) for run in more.runs] == [
        (slug, seed) for slug in ("baseline", "two-layers") for seed in (5, 6, 7)
    ]
    assert more.runs[:2] == results.runs[:2]
    assert looks_at(tmp_path / "copy") == (2, 3)


def test_runs_of_another_study_are_not_mixed_in(whole: Whole, text: Path) -> None:
    results, _ = whole
    with pytest.raises(ConfigError, match="holds runs of another study") as refusal:
        run_study(study_tree(set={"training.batch": 5}), text, results.folder, console=Console(quiet=True))
    assert "training.batch=4 (now 5)" in str(refusal.value)


def test_another_text_is_noticed(whole: Whole, text: Path, tmp_path: Path) -> None:
    results, _ = whole
    shutil.copytree(results.folder, tmp_path / "copy", symlinks=True)
    mine = text.read_bytes()
    try:
        text.write_bytes(mine + b"the old cat.\n")
        with pytest.raises(ConfigError, match="its text has changed"):
            run_study(study_tree(), text, tmp_path / "copy", console=Console(quiet=True))
    finally:
        text.write_bytes(mine)


def test_no_study(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        study_of(tmp_path / "none")
    (tmp_path / "study.yaml").write_text("baseline: x\n")  # somebody's file, not a study that was run
    with pytest.raises(InputError, match="is not a study folder"):
        collect(tmp_path)
    with pytest.raises(InputError, match="not empty, and not a study"):
        run_study(study_tree(), tmp_path, tmp_path, console=Console(quiet=True))


def test_tokens_between_rows() -> None:
    rows = [{"step": 10, "tokens": 100}, {"step": 20, "tokens": 300}]
    assert tokens_at([5, 10, 15, 20], rows) == (50, 100, 200, 300)
    assert tokens_at([5], []) == (0,)
