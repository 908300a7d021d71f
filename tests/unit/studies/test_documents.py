"""What the choice of documents does to a difference, without what is chance between runs."""

from __future__ import annotations

import numpy as np
import pytest

from octavo.studies.statistics import of_documents


def drawn(seed: int, spread: float) -> np.ndarray:
    found = np.random.default_rng(seed).standard_normal(500)
    return spread * (found - found.mean()) / found.std()


def runs(shared: np.ndarray, own: np.ndarray, count: int) -> np.ndarray:
    """So many, two of which differ from what all share, in opposite ways."""
    found = np.repeat(shared[:, None], count, axis=1)
    if count > 1:
        found[:, 0] += own
        found[:, 1] -= own
    return found


@pytest.mark.parametrize(("count", "chance"), [(1, 0.0), (2, 2 / 2), (3, 2 / (2 * 3)), (5, 2 / (4 * 5))])
def test_what_is_chance_between_runs_is_taken_out(count: int, chance: float) -> None:
    """Of n runs the mean varies by Σ (variance around the mean) / (n − 1) / n by chance."""
    own, variance = drawn(2, 0.6), 0.6**2
    shared = drawn(1, 1.0)
    found = of_documents(runs(shared, own, count))
    assert found.var() == pytest.approx(1.0 - chance * variance)
    assert np.corrcoef(found, shared)[0, 1] == pytest.approx(1.0), "the same choices, drawn together"


def test_a_baseline_brings_its_own_chance() -> None:
    change, base = runs(drawn(1, 1.0), drawn(2, 0.6), 2), runs(drawn(3, 0.5), drawn(4, 0.4), 3)
    apart = (change.mean(axis=1) - base.mean(axis=1)).var()
    assert of_documents(change, base).var() == pytest.approx(apart - 0.6**2 - 0.4**2 / 3)
    # One run has no sisters: it varies as those of the baseline do.
    alone = (change[:, 0] - base.mean(axis=1)).var()
    assert of_documents(change[:, :1], base).var() == pytest.approx(alone - 0.4**2 - 0.4**2 / 3)


def test_what_is_chance_alone_leaves_nothing() -> None:
    assert of_documents(runs(drawn(1, 0.3), drawn(2, 0.6), 2)).var() == 0
