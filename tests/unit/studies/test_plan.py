"""Planning: budgets become steps, every run's recipe is fixed, the price is counted."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from octavo.config import check
from octavo.errors import ConfigError
from octavo.studies import plan as module
from octavo.studies.plan import Facts, jobs_of, plan_study, price, side_by_side
from octavo.studies.resolve import load_study
from octavo.studies.results import study_tree as study_tree_of
from octavo.studies.spec import Study
from octavo.util.terminal import Console
from unit.studies.conftest import RECIPE, change, study_tree


def planned(text: Path, **changed: Any) -> tuple[Study, dict[str, Facts]]:
    return plan_study(load_study(study_tree(**changed), text), Console(quiet=True))


@pytest.mark.parametrize(
    ("budget", "steps"),
    [
        (None, 30),  # the recipe's own
        ({"steps": 17}, 17),
        ({"tokens": 6400}, 100),  # 4 sequences of 16 tokens a step
        ({"tokens": 1}, 1),
    ],
)
def test_budgets_in_steps(text: Path, budget: dict[str, int] | None, steps: int) -> None:
    study, _ = planned(text, budget=budget)
    assert study.steps == {"baseline": steps, "two-layers": steps}


def test_equal_compute(text: Path) -> None:
    changes = [change("deep", model__layers=2), change("small batch", training__batch=2)]
    study, facts = planned(text, budget={"compute": "baseline"}, changes=changes)
    assert study.steps["baseline"] == 30 and study.steps["small-batch"] == 60
    spent = {slug: study.steps[slug] * fact.step_tokens * fact.token_flops for slug, fact in facts.items()}
    one_step = facts["deep"].step_tokens * facts["deep"].token_flops
    assert abs(spent["deep"] - spent["baseline"]) <= one_step / 2
    own = [{**each, "budget": {"compute": "baseline"}} for each in changes]
    shorter, _ = planned(text, budget={"steps": 20}, changes=own)
    assert shorter.steps["baseline"] == 20 and shorter.steps["small-batch"] == 40, (
        "as the baseline takes here"
    )
    flops = 3 * spent["baseline"]
    assert planned(text, budget={"compute": flops})[0].steps["baseline"] == 90


def test_compute_is_of_all_positions_also_where_few_of_them_are_learned(text: Path) -> None:
    study, facts = planned(text, budget={"steps": 40})
    made = dataclasses.replace(facts["two-layers"], step_tokens=4, step_positions=64, token_flops=100)
    two = {"baseline": dataclasses.replace(made, step_tokens=64), "two-layers": made}
    by = dataclasses.replace(study, budget={"compute": 64 * 100 * 30})
    for variant in study.variants:
        assert module._steps(by, variant, two, None, Console(quiet=True)) == 30


def test_only_changes_have_a_rival_and_it_is_the_baseline_of_their_seed(text: Path, tmp_path: Path) -> None:
    """A baseline that waited for itself would never begin."""
    study, _ = planned(text, budget={"steps": 400}, stop_hopeless={"after": 0.5, "worse_by": 0.2})
    jobs = jobs_of(study, tmp_path)
    assert [job.rival for job in jobs if job.slug == "baseline"] == [None] * 3
    folders = {job.seed: job.folder for job in jobs if job.slug == "baseline"}
    assert [job.rival for job in jobs if job.slug != "baseline"] == [folders[5], folders[6]]


def test_as_many_bytes_of_text_as_the_baseline(text: Path) -> None:
    """A token of the change is longer, so it takes fewer of them; a change may have a budget of its own."""
    pairs = {"name": "pairs", "hypothesis": "It differs.", "set": {"tokenizer": {"kind": "bpe", "size": 300}}}
    twice = [pairs, {**pairs, "name": "as many bytes", "budget": {"bytes": "baseline"}}]
    study, facts = planned(text, budget={"steps": 200}, changes=twice)
    assert study.steps["baseline"] == study.steps["pairs"] == 200
    assert facts["pairs"].token_bytes > 1.5 > 1 == facts["baseline"].token_bytes
    seen = {slug: study.steps[slug] * fact.step_tokens * fact.token_bytes for slug, fact in facts.items()}
    one_step = facts["pairs"].step_tokens * facts["pairs"].token_bytes
    assert abs(seen["as-many-bytes"] - seen["baseline"]) <= one_step / 2 < seen["pairs"] - seen["baseline"]
    again = load_study(study_tree_of(study), text)
    assert [one.budget for one in again.changes] == [{}, {"bytes": "baseline"}]


def test_seconds_are_measured_once(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "timed", lambda *a, **o: SimpleNamespace(step_seconds=0.01))
    study, _ = planned(text, budget={"seconds": 2})
    assert study.steps == {"baseline": 200, "two-layers": 200}
    monkeypatch.setattr(module, "timed", lambda *a, **o: SimpleNamespace(step_seconds=0.5))
    loaded = load_study(study_tree(budget={"seconds": 2}), text)
    assert plan_study(loaded, Console(quiet=True), known=study)[0].steps == study.steps
    other = load_study(study_tree(budget={"seconds": 4}), text)
    assert plan_study(other, Console(quiet=True), known=study)[0].steps["baseline"] == 8


def test_a_change_of_its_own_length_keeps_it(text: Path) -> None:
    study, _ = planned(text, changes=[change("long", training__steps=55)])
    assert study.steps == {"baseline": 20, "long": 55}


def test_all_runs_have_the_same_conditions(text: Path, tmp_path: Path) -> None:
    study, _ = planned(text, budget={"steps": 400})
    jobs = jobs_of(study, tmp_path)
    recipes = [check(job.recipe) for job in jobs]
    assert {(one.training.device, one.training.precision, one.training.threads) for one in recipes} == {
        ("cpu", "float32", 1)
    }
    assert {(one.training.keep, one.training.checkpoint_every) for one in recipes} == {(1, 100)}
    assert {(one.evaluation.every, one.logging.every) for one in recipes} == {(20, 4)}
    assert len({one.evaluation.tokens for one in recipes}) == 1
    assert [(job.slug, job.seed, check(job.recipe).seed) for job in jobs] == [
        ("baseline", 5, 5), ("baseline", 6, 6), ("two-layers", 5, 5), ("two-layers", 6, 6), ("baseline", 7, 7),
    ]  # fmt: skip


def test_what_the_study_sets_stays(text: Path, tmp_path: Path) -> None:
    given = {"evaluation.every": 7, "training": {**RECIPE["training"], "checkpoint_every": 9, "threads": 2}}
    study, _ = planned(text, set=given)
    recipe = check(jobs_of(study, tmp_path)[0].recipe)
    assert (recipe.evaluation.every, recipe.training.checkpoint_every, recipe.training.threads) == (7, 9, 2)


def test_everything_that_is_wrong_with_texts_is_said_at_once(text: Path) -> None:
    changes = [change("long", model__context=100_000), change("lost", model__layers=2)]
    changes[1]["text"] = ["no-such-file.txt"]
    with pytest.raises(ConfigError, match="3 problems") as refusal:
        planned(text, set={"sampling.prompt": "Ω"}, changes=changes)
    for words in ("the baseline: The tokenizer's vocabulary lacks", "long: The text has", "no-such-file.txt"):
        assert words in str(refusal.value)


def test_how_many_run_side_by_side(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, facts = planned(text)
    monkeypatch.setattr(module, "available_memory", lambda: 100 << 30)
    assert side_by_side(facts, None, 8) == (8, 1)
    assert side_by_side(facts, 3, 8) == (3, 1)
    monkeypatch.setattr(module, "available_memory", lambda: 1200 << 20)
    assert side_by_side(facts, None, 8) == (2, 1)
    monkeypatch.setattr(module, "available_memory", lambda: 1)
    assert side_by_side(facts, None, 8) == (1, 1)
    _, facts = planned(text, set={"training.threads": 4})
    monkeypatch.setattr(module, "available_memory", lambda: None)
    assert side_by_side(facts, None, 8) == (2, 4)


def test_the_price(text: Path) -> None:
    diverging = change("hot", training__optimizer={"kind": "sgd", "learning_rate": 1e30})
    study, facts = planned(text, changes=[diverging])  # one that diverges can be priced
    found = price(study, facts, 2, Console(quiet=True))
    base, hot = found.variants
    assert found.runs == 5 and (base.runs, hot.runs) == (3, 2)
    assert found.hours == pytest.approx((3 * base.seconds + 2 * hot.seconds) / 2 / 3600)
    assert base.tokens == 20 * 64 and base.flops == base.tokens * facts["baseline"].token_flops
    assert found.disk_bytes == 3 * base.disk_bytes + 2 * hot.disk_bytes
