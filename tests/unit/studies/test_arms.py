"""Which runs count, and that a text drawn again is measured in the metric's own unit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from octavo.studies.arms import arm, failure, learned_nothing, text_key, too_many
from octavo.studies.spec import BASELINE
from octavo.studies.verdict import analyse_study
from unit.studies.synthetic import Truth, make


@pytest.mark.parametrize("metric", ["bits_per_byte", "val_loss", "perplexity"])
def test_texts_drawn_again_scatter_about_the_metric(tmp_path: Path, metric: str) -> None:
    """In the study's unit, each run about its own value: in another one the interval is too wide or too narrow."""
    results = make(tmp_path / "study", {"change": Truth(shift=30)}, metric=metric)
    for name in (BASELINE, "change"):
        found = arm(results, results.of(name), steady=True)
        assert found.resampled is not None
        assert found.values.tolist() == [getattr(run, metric) for run in results.of(name)]
        assert found.resampled.mean(axis=0) == pytest.approx(found.values, rel=0.01)


@pytest.mark.parametrize("metric", ["nats_per_record", "improvement"])
def test_what_follows_from_the_loss_scatters_about_its_own_value_too(tmp_path: Path, metric: str) -> None:
    """A record of nine tokens or of five; a share of a loss before the first step that differs from run to run."""
    results = make(tmp_path / "study", {"change": Truth(shift=30)}, metric="val_loss")
    runs = []
    for number, run in enumerate(results.runs):
        assert run.val_loss and run.initial_loss
        initial = run.initial_loss * (1 + 0.1 * number)
        value = run.val_loss * (9 if number % 2 else 5) if metric == "nats_per_record" else None
        value = 1 - run.val_loss / initial if value is None else value
        runs.append(replace(run, metric=value, initial_loss=initial))
    judged = replace(results, study=replace(results.study, metric=metric), runs=tuple(runs))
    for name in (BASELINE, "change"):
        found = arm(judged, judged.of(name), steady=True)
        assert found.resampled is not None and np.ptp(found.values) > 0.01
        assert found.resampled.mean(axis=0) == pytest.approx(found.values, rel=0.01)


@pytest.mark.parametrize(("share", "learned"), [(1.0, False), (0.995, False), (0.98, True), (1.02, False)])
def test_a_run_that_is_hardly_better_than_untrained_has_not_learned(
    tmp_path: Path, share: float, learned: bool
) -> None:
    results = make(tmp_path / "study", {"change": Truth()})
    run = replace(results.runs[0], initial_loss=3.0, val_loss=3.0 * share)
    assert failure(results, run) is None and (learned_nothing(results, run) is None) is learned


@pytest.mark.parametrize("metric", ["accuracy", "valid", "crps", "scaled_crps"])
def test_shares_have_no_parts(tmp_path: Path, metric: str) -> None:
    results = make(tmp_path / "study", {"change": Truth()}, metric="accuracy")
    judged = replace(results, study=replace(results.study, metric=metric))
    assert arm(judged, judged.of("change"), steady=False).resampled is None


def test_runs_that_read_the_same_text_see_the_same_draws(tmp_path: Path) -> None:
    results = make(tmp_path / "study", {"change": Truth()})
    one, other = (arm(results, results.of(name), steady=True).resampled for name in (BASELINE, "change"))
    assert one is not None and other is not None
    assert np.corrcoef(one[:, 0], other[:, 0])[0, 1] > 0.9


def test_another_part_of_the_same_text_is_another_text(tmp_path: Path) -> None:
    results = make(tmp_path / "s", {"one": Truth(), "two": Truth()})
    for run in results.runs:
        held_out = {"sha256": "other" if run.slug == "two" else "same"}
        manifest = {"data": {"text": "all", "files": {"validation.txt": held_out}}}
        (tmp_path / "s" / run.folder / "manifest.json").write_text(json.dumps(manifest))
    base, one, two = (text_key(results, results.of(name)[0]) for name in ("baseline", "one", "two"))
    assert base == one != two
    (note,) = [note for note in analyse_study(results).notes if "another text" in note]
    assert note.startswith("two:")


@pytest.mark.parametrize(
    ("failed", "runs", "wrong"), [(0, 0, False), (0, 3, False), (1, 2, False), (2, 4, False), (2, 3, True)]
)
def test_too_many_are_more_than_half(tmp_path: Path, failed: int, runs: int, wrong: bool) -> None:
    some = make(tmp_path / "study", {"change": Truth()}).runs
    assert too_many(some[:failed], some[:runs]) is wrong


def test_a_run_without_forecasts_is_not_said_to_have_no_finite_loss(tmp_path: Path) -> None:
    results = make(tmp_path / "study", {"change": Truth()})
    run = replace(results.runs[0], metric=None)
    judged = replace(results, study=replace(results.study, metric="crps"))
    assert "too short for the furthest horizon" in str(failure(judged, run))
    assert "not a finite number" in str(failure(judged, replace(run, metric=float("nan"))))


def test_what_is_hardly_below_counting_has_learned_nothing_and_the_share_is_said(tmp_path: Path) -> None:
    results = make(tmp_path / "study", {"change": Truth(flat=True)})
    (run, *_), unigram = results.of("change"), 4.7
    near = replace(run, metric=0.995 * unigram, bits_per_byte=0.995 * unigram)
    below = replace(run, metric=0.985 * unigram, bits_per_byte=0.985 * unigram)
    assert failure(results, near) is None and learned_nothing(results, below) is None
    said = learned_nothing(results, near)
    assert said == (
        "it ended at 4.676 bits per byte, not 1 % below counting how often each token occurs (4.700)"
    )
    untrained = replace(below, val_loss=0.995 * 6, initial_loss=6.0)
    assert learned_nothing(results, untrained) == (
        "it ended at 5.970 nats per token, not 1 % below the untrained model (6.000)"
    )
