"""The difference on its way: against the same figures by hand, and each trend."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from octavo.studies.measures import measure
from octavo.studies.over_training import OverTraining, over_training
from octavo.studies.results import EvaluationCurve, RunResult
from octavo.studies.statistics import Arm, compare

STEPS = (0, 100, 200, 300, 400)
FALL = np.array([8.0, 4.0, 3.0, 2.6, 2.4])
HARDER = 1.5
"""Bits per byte by which the whole validation split is harder than the part that is evaluated on the way."""


def runs(name: str, shape: np.ndarray, count: int, noise: float, seed: int) -> list[RunResult]:
    random = np.random.default_rng(seed)
    found = []
    for number in range(count):
        bits = tuple((FALL + shape + noise * random.standard_normal()).tolist())
        curve = EvaluationCurve(STEPS, STEPS, tuple(0.5 * one for one in bits), bits)
        whole = {"bits_per_byte": bits[-1] + HARDER, "val_loss": 0.5 * (bits[-1] + HARDER)}
        found.append(RunResult(name, name, number, "done", metric=bits[-1], curve=curve, step=400, **whole))
    return found


def judged(
    *shapes: np.ndarray, metric: str = "bits_per_byte", judge: str = "last", steps: tuple[int, ...] = (400,)
) -> list[OverTraining | None]:
    baseline = runs("baseline", np.zeros(5), 7, 0.004, 1)
    changes = [runs(f"c{at}", shape, 5, 0.004, at + 2) for at, shape in enumerate(shapes)]
    arms = [Arm(np.array([run.metric for run in one], float)) for one in (baseline, *changes)]
    baseline = [dataclasses.replace(run, step=steps[at % len(steps)]) for at, run in enumerate(baseline)]
    contrasts = compare(arms[0], arms[1:])[1]
    return over_training(baseline, changes, contrasts, shown=measure(metric), judge=judge)


@pytest.mark.parametrize(
    ("shape", "trend"),
    [
        ([0, 0.02, 0.04, 0.07, 0.1], "grows"),
        ([0, -0.1, -0.08, -0.06, -0.04], "shrinks"),
        ([0, -0.1, -0.05, 0.02, 0.06], "flips"),
        ([0, 0.05, 0.05, 0.05, 0.05], "no trend seen"),
    ],
)
def test_each_trend_is_told(shape: list[float], trend: str) -> None:
    (found,) = judged(np.array(shape))
    assert found is not None and found.trend == trend
    assert found.steps == STEPS[1:] and found.sentence.startswith(
        "judged at step 400, where the baseline has 3.9"  # on the whole split, as the table has it
    )
    assert found.difference == pytest.approx(shape[1:], abs=0.02)
    assert all(
        low < one < high for low, one, high in zip(found.low, found.difference, found.high, strict=True)
    )


def test_the_last_band_is_the_verdicts_interval() -> None:
    baseline = runs("baseline", np.zeros(5), 7, 0.01, 1)
    changes = [runs("c", np.full(5, 0.1), 5, 0.02, 2), runs("d", np.zeros(5), 5, 0.01, 3)]
    arms = [Arm(np.array([run.metric for run in one], float)) for one in (baseline, *changes)]
    contrasts = compare(arms[0], arms[1:])[1]
    for found, contrast in zip(
        over_training(baseline, changes, contrasts, shown=measure("bits_per_byte")), contrasts, strict=True
    ):
        assert found is not None
        last = found.difference[-1], found.low[-1], found.high[-1]
        assert last == pytest.approx((contrast.difference, contrast.low, contrast.high))


def test_where_the_best_weights_are_judged_their_steps_are_named() -> None:
    """The curve's end is not what the verdict is about."""
    (found,) = judged(np.full(5, 0.1), judge="best", steps=(100, 200))
    assert found is not None and found.sentence.startswith(
        "judged at each run's best step (100 to 400), where the baseline has 3.9"
    )
    (found,) = judged(np.full(5, 0.1), judge="best", steps=(400,))
    assert found is not None and "best step (400), where the baseline has 3.9" in found.sentence


def test_a_longer_baseline_is_judged_at_its_own_end() -> None:
    (found,) = judged(np.full(5, 0.1), steps=(800,))
    assert found is not None and found.sentence.startswith(
        "judged at step 400, and the baseline at step 800, where it has 3.9"
    )


def test_losses_where_the_study_is_in_nats_and_none_without_two_evaluations() -> None:
    (bits,), (nats,) = judged(np.full(5, 0.1)), judged(np.full(5, 0.1), metric="val_loss")
    assert bits is not None and nats is not None
    assert nats.difference == pytest.approx([0.5 * one for one in bits.difference])
    baseline = runs("baseline", np.zeros(5), 5, 0.01, 1)
    short = [dataclasses.replace(run, curve=EvaluationCurve()) for run in runs("c", np.zeros(5), 5, 0.01, 2)]
    arms = [Arm(np.array([run.metric for run in one], float)) for one in (baseline, short)]
    assert over_training(
        baseline, [short], compare(arms[0], arms[1:])[1], shown=measure("bits_per_byte")
    ) == [None]
