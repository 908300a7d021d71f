"""Several runs judged together: the interval over seeds and prompts, and which runs belong together."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from octavo.tuning.compare_runs import beneath_one_ceiling, crossed, over_seeds, seeds_said
from octavo.tuning.plots import Reached, frontier_plot
from unit.tuning.test_judge import judged_ceiling


def run_of(seed: int, start: str | None, kind: str = "policy-gradient") -> Any:
    config = SimpleNamespace(seed=seed, objective=SimpleNamespace(kind=kind))
    told = {"start_from": {"sha256": start}} if start else {}
    return SimpleNamespace(config=config, folder=SimpleNamespace(made_by=lambda: told), path=Path(f"r{seed}"))


def verdict_of(wins: float) -> Any:
    table = np.full((4, 2), wins) + np.array([[0.0], [0.1], [-0.1], [0.0]])
    tables = {"wins": table, "gained": table, "kl": table}
    return SimpleNamespace(tables=tables, figures={"prompts": 4})


@pytest.mark.parametrize(("seeds", "prompts"), [(0.5, 0.02), (0.02, 1.0), (0.3, 0.6)])
def test_the_interval_holds_for_other_seeds_and_other_prompts(seeds: float, prompts: float) -> None:
    random, held = np.random.default_rng(0), 0
    for _ in range(200):
        table = random.normal(0, seeds, (3, 1)) + random.normal(0, prompts, (1, 16))
        found = crossed(table + random.normal(0, 0.3, (3, 16)))
        held += found.low <= 0 <= found.high
    assert held >= 184  # 95 % of 200, less two and a half deviations


def test_prompts_that_a_run_knows_nothing_of_are_left_out() -> None:
    table = np.array([[0.5, np.nan, 1.0], [0.5, 0.9, 0.5]])
    found = crossed(table)
    assert found.mean == 0.625 and found.each == [0.75, 0.5]
    alike = crossed(np.full((3, 5), 0.5))
    assert (alike.low, alike.high) == (0.5, 0.5)


def test_only_seeds_of_one_tuning_have_a_mean() -> None:
    verdicts = [verdict_of(0.6), verdict_of(0.8), verdict_of(0.7)]
    found = over_seeds([run_of(0, "a"), run_of(1, "a"), run_of(1, "b")], verdicts)
    assert found is not None and found.wins.each == pytest.approx([0.6, 0.8, 0.7])
    assert found.wins.mean == pytest.approx(0.7) and found.wins.high <= 1
    assert "wins 70.0%" in seeds_said(found)[0] and "60.0%, 80.0%, 70.0%" in seeds_said(found)[0]
    assert over_seeds([run_of(0, "a")], verdicts[:1]) is None
    assert over_seeds([run_of(0, "a"), run_of(0, "a")], verdicts[:2]) is None
    assert over_seeds([run_of(0, "a"), run_of(1, "a", "dpo")], verdicts[:2]) is None


def test_one_ceiling_is_for_runs_from_one_start() -> None:
    runs = [run_of(0, "a"), run_of(1, "b"), run_of(2, "a"), run_of(3, None), run_of(4, None)]
    assert beneath_one_ceiling(runs, 0) == [2] and not beneath_one_ceiling(runs, 3)


def test_each_run_has_a_sign_of_its_own_and_a_name_that_is_no_formula() -> None:
    ceiling = judged_ceiling()
    reached = [
        Reached(name, 0.1, 0.6, 0.5, 0.7) for name in ("rl", "dpo", "$x^2$", "a-very-long-name-of-a-run")
    ]
    plot = frontier_plot(ceiling.curve, ceiling.best_of_n, name="pidgin", reached=reached).svg()
    for words in ("● rl 0.6", "■ dpo 0.6", "▲ $x^2$ 0.6", "◆ a-very-long-nam… 0.6"):
        assert words in plot
