"""One level for every interval: what is stated holds what it is of in 95 of 100 repetitions."""

from __future__ import annotations

import re

import numpy as np
import pytest

from guards.common import PACKAGE, ROOT, name_of
from octavo.evaluation.speakers import _interval as of_shares
from octavo.studies.chance import student
from octavo.tasks.chat.answer_metrics import _interval as of_answers
from octavo.tuning.compare_runs import crossed
from octavo.tuning.judge import _mean
from octavo.util.stats import LEVEL, SAID, Z, ends_of, wilson

REPEATS = 200
"""Of so many repetitions of a true 95 %, 0.91 to 0.985 hold it, but for one of 100 times."""


def held(intervals: list[tuple[float, float]], truth: float) -> float:
    return float(np.mean([low <= truth <= high for low, high in intervals]))


def test_the_level_is_said_as_it_is() -> None:
    assert SAID == "95 %" and LEVEL == 0.95 and pytest.approx(1.959964, abs=1e-6) == Z
    low, high = ends_of(np.arange(1001.0))
    assert (low, high) == pytest.approx((25.0, 975.0))
    assert student(10_000, 1 - LEVEL) == pytest.approx(Z, rel=0.02)


def test_the_means_of_a_tuning_hold_what_they_are_of() -> None:
    """Rewards of a tuning had 90 % beside 95 % everywhere else."""
    found = []
    for seed in range(REPEATS):
        values = np.random.default_rng(1000 + seed).normal(0.3, 1.0, (1, 60))
        one = _mean(values, seed)
        found.append((one["low"], one["high"]))
    assert 0.91 <= held(found, 0.3) <= 0.985


def test_means_over_prompts_hold_what_they_are_of() -> None:
    answers, seeds = [], []
    for seed in range(REPEATS):
        random = np.random.default_rng(seed)
        one = of_answers(random.normal(0.5, 0.2, 80))
        answers.append((one["low"], one["high"]))
        both = crossed(random.normal(0, 1, (4, 1)) + random.normal(0, 1, (1, 6)) + np.full((4, 6), 0.5))
        seeds.append((both["low"], both["high"]))
    assert 0.91 <= held(answers, 0.5) <= 0.985
    assert held(seeds, 0.5) >= 0.93  # rather too wide, as it says


def test_shares_hold_what_they_are_of() -> None:
    binomial, speeches = [], []
    for seed in range(REPEATS):
        random = np.random.default_rng(seed)
        binomial.append(wilson(int(random.binomial(120, 0.3)), 120))
        own = random.binomial(4, 0.3, 100)
        interval = of_shares(np.stack([own, 4 - own], axis=1), random)
        assert interval is not None
        speeches.append(interval)
    assert 0.91 <= held(binomial, 0.3) <= 0.985
    assert 0.91 <= held(speeches, 0.3) <= 0.985


def test_no_other_level_is_stated_anywhere() -> None:
    stated = re.compile(
        r"\b(\d\d(?:\.\d)?)\s*%\s+(?:bootstrap )?intervals?\b|\bintervals?\W+\(?(\d\d(?:\.\d)?)\s*%"
    )
    files = [
        *PACKAGE.rglob("*.py"),
        *PACKAGE.rglob("*.html"),
        *(ROOT / "docs").glob("*.md"),
        ROOT / "README.md",
    ]
    other = [
        f"{name_of(path)}: {found[0]}"
        for path in files
        for found in stated.finditer(path.read_text("utf-8"))
        if (found[1] or found[2]) != "95"
    ]
    assert not other
