"""The worlds whose density is known, beside the same by other means."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from octavo.tasks.forecast.dynamics import DynamicsConfig, Linear, Switching, normal_log_density


def test_kalmans_densities_multiply_to_the_joint_normal() -> None:
    world, count = Linear(), 5
    rows = world.draw(count, np.random.default_rng(0))
    rest = world.rest()
    assert np.allclose(rest, world.turn @ rest @ world.turn.T + world.drive, atol=1e-9)
    joint = np.zeros((2 * count, 2 * count))
    for later in range(count):
        for earlier in range(later + 1):
            block = np.linalg.matrix_power(world.turn, later - earlier) @ rest
            joint[2 * later : 2 * later + 2, 2 * earlier : 2 * earlier + 2] = block
            joint[2 * earlier : 2 * earlier + 2, 2 * later : 2 * later + 2] = block.T
    joint += np.kron(np.eye(count), world.noise)
    expected = normal_log_density(rows.ravel(), np.zeros(2 * count), joint)
    assert world.log_density(rows).sum() == pytest.approx(expected, abs=1e-9)


def test_the_filter_over_rules_is_the_sum_over_all_their_sequences() -> None:
    world, count = Switching(), 6
    rows = world.draw(count, np.random.default_rng(1))
    total = 0.0
    for rules in product(range(2), repeat=count):
        chance, before, log_density = 0.5, np.zeros(2), 0.0
        for place, rule in enumerate(rules):
            if place:
                chance *= 1 - world.change if rule == rules[place - 1] else world.change
            log_density += normal_log_density(rows[place], world.turns[rule] @ before, world.drives[rule])
            before = rows[place]
        total += chance * np.exp(log_density)
    assert world.log_density(rows).sum() == pytest.approx(np.log(total), abs=1e-9)


@pytest.mark.parametrize("world", ["linear", "switching"])
def test_a_world_is_drawn_from_its_own_density(world: str) -> None:
    """A seed gives the same series again; no simple change of the numbers is more probable."""
    source = DynamicsConfig(world=world, series=3, rows=400, seed=2).build()
    first, again = ([series.rows for series in source.series()] for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0], first[1])
    best = np.mean([source.log_density(rows).mean() for rows in first])
    for change in (0.8, 1.25, -1.0):
        changed = np.mean([source.log_density(rows * [1, change]).mean() for rows in first])
        assert changed + (np.log(abs(change)) if change > 0 else 0.0) < best
