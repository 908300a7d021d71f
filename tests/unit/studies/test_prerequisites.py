"""Runs that a study makes first: what follows before they are there, which run starts from which, a resume."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from octavo.config import stored_recipe
from octavo.errors import ConfigError, InputError
from octavo.studies.prerequisites import first_jobs, placed, standing
from octavo.studies.resolve import load_study, variant_recipe
from octavo.studies.results import study_of, study_tree
from octavo.studies.run import price_study, run_study
from octavo.studies.spec import Study
from octavo.util.terminal import Console
from unit.studies.conftest import RECIPE, change
from unit.studies.conftest import study_tree as small

START = {"training.start_from": "before/base"}
TUNED: dict[str, Any] = {"training": {"batch": 4, "steps": 2, "device": "cpu"}}


def tree(**changed: Any) -> dict[str, Any]:
    first = [
        {"name": "base", "recipe": RECIPE, "set": {"training.steps": 3, "model.width": 8}},
        {"name": "Second one", "recipe": TUNED, "set": START},
    ]
    others = {"before": first, "baseline": TUNED, "set": {"training.start_from": "before/Second one"}}
    changes = [change("from the first", training__start_from="before/base")]
    return small(**{"budget": None, "noise": 0, "changes": changes, **others, **changed})


def test_what_starts_from_a_run_has_its_model_before_it_is_there(text: Path, tmp_path: Path) -> None:
    study = load_study(tree(), text)
    assert [variant_recipe(study, one).model.width for one in study.variants] == [8, 8]
    again = load_study(study_tree(study), text)
    assert study_tree(again) == study_tree(study) and again.before == study.before
    here = standing(study, tmp_path)
    starts = [job.recipe["training"]["start_from"] for job in first_jobs(here, here.before[0])]
    assert starts == [None, None]
    assert placed(["before/base", {"a": "before/Second one"}, "before"], here, 6) == [
        str(tmp_path / "before" / "base" / "seed-6"),
        {"a": str(tmp_path / "before" / "second-one" / "seed-6")},
        "before",
    ]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"set": {"training.start_from": "before/bas"}}, "before/bas names no run that is made first"),
        ({"before": [{"name": "base", "recipe": "nothing"}], "set": START}, "before base: "),
        ({"before": [{"name": "base", "recipe": RECIPE}] * 2, "set": START}, "two runs are called base"),
        (
            {"before": [{"name": "base", "recipe": RECIPE, "steps": 1}], "set": START},
            "before.1.steps is not an option",
        ),
        (
            {"set": {**START, "model.width": 99}, "changes": [change("fast", training__batch=5)]},
            "model.width: 99 in the recipe, 8",
        ),
    ],
)
def test_wrong_names_and_recipes_are_said(text: Path, changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load_study(tree(**changed), text)


def test_the_command_line_reaches_it(text: Path) -> None:
    study = load_study(tree(), text, ["before.base.set.model.width=12", "before.2.set.training.steps=7"])
    assert [one.recipe.training.steps for one in study.before] == [3, 7]
    assert {variant_recipe(study, one).model.width for one in study.variants} == {12}
    with pytest.raises(ConfigError, match=r"before\.bass\.set names no entry of the study's before"):
        load_study(tree(), text, ["before.bass.set=1"])


def test_its_price_is_not_known_before_they_are_there(text: Path) -> None:
    with pytest.raises(InputError, match=r"starts? from others that it makes first \(base, Second one\)"):
        price_study(tree(), text)


def starts(study: Study, out: Path) -> dict[str, str]:
    """Which run each run of a study starts from, relative to its folder."""
    found = {}
    for config in sorted(out.glob("*/*/seed-*/config.yaml")):
        start = stored_recipe(config).training.start_from
        name = config.parent.relative_to(out).as_posix()
        found[name] = "" if start is None else start.relative_to(out.absolute()).as_posix()
    return found


@pytest.mark.slow
def test_each_seed_has_its_own_and_they_are_made_once(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "study"
    wanted = tree(
        seeds=[5, 6], set={"training.start_from": "before/base"}, changes=[change("two", training__batch=2)]
    )
    del wanted["before"][1]
    results = run_study(wanted, text, out, jobs=1, quiet=True)
    assert [run.status for run in results.runs] == ["done"] * 4
    assert starts(results.study, out) == {
        **{f"before/base/seed-{n}": "" for n in (5, 6)},
        **{f"runs/{name}/seed-{n}": f"before/base/seed-{n}" for n in (5, 6) for name in ("baseline", "two")},
    }
    assert study_of(out).before == results.study.before
    figures = (out / "results.json").read_bytes()
    made = {path: path.stat().st_mtime_ns for path in out.glob("before/*/*/outcome.json")}
    assert len(made) == 2
    run_study(wanted, text, out, jobs=1, quiet=True)
    assert (
        made == {path: path.stat().st_mtime_ns for path in made}
        and figures == (out / "results.json").read_bytes()
    )
    kept = text.read_text()
    text.write_text(kept + "one more line\n")
    with pytest.raises(ConfigError, match="base: its text has changed"):
        run_study(wanted, text, out, jobs=1, quiet=True)
    text.write_text(kept)
    wanted["before"][0]["set"]["training.steps"] = 4
    with pytest.raises(ConfigError, match=r"base, seed 5 was run with training\.steps=3 \(now 4\)"):
        run_study(wanted, text, out, jobs=1, quiet=True)


@pytest.mark.slow
def test_one_that_fails_ends_the_study_with_its_reason(text: Path, tmp_path: Path) -> None:
    wrong = tree()
    wrong["before"][0]["set"] = {"training.optimizer": {"kind": "sgd", "learning_rate": 1e30}}
    with pytest.raises(InputError, match="base/seed-5, which others start from, failed"):
        run_study({**wrong, "seeds": [5]}, text, tmp_path / "study", jobs=1, console=Console(quiet=True))
    assert json.loads((tmp_path / "study/before/base/seed-5/outcome.json").read_text())["status"] == "failed"
