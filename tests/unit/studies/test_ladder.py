"""Ladders: from a file to rungs, the rates that are chosen, and what made-up rungs say together."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from octavo.config import check, flatten
from octavo.errors import ConfigError, InputError
from octavo.evaluation.compare_tokens import parts
from octavo.evaluation.score import TokenLosses
from octavo.studies import ladder as ladders
from octavo.studies import ladder_verdict
from octavo.studies.chance import DRAWS
from octavo.studies.ladder import LADDER, SWEEP_SEED, ladder_of, ladder_text, load_ladder, rates_of
from octavo.studies.ladder_report import as_data, rung_table, section, write_ladder_report
from octavo.studies.ladder_verdict import LadderAnalysis, Step, analyse_ladder, slopes
from octavo.studies.resolve import load_study, variant_recipe
from octavo.studies.results import StudyResults
from octavo.studies.spec import study_names
from octavo.studies.statistics import Arm
from octavo.util.records import plain
from unit.studies.synthetic import Truth, make

pytestmark = pytest.mark.usefixtures("plain_reports")

SIZES = {"small": (200_000, {"model.width": 64}), "large": (3_200_000, {"model.width": 256})}
STEPS = (300, 1200)


def tree(**keys: Any) -> dict[str, Any]:
    sizes = {name: settings for name, (_, settings) in SIZES.items()}
    changes = [
        {
            "name": "change",
            "hypothesis": "It is worse.",
            "expect": "worse",
            "set": {"training.batch": 13},
        }
    ]
    ladder = {"sizes": sizes, "steps": list(STEPS), "rates": [0.5, 1, 2]}
    fixed = {"name": "made up", "description": "Is it worse?", "text": ["play.txt"], "seeds": 3}
    return {**fixed, "baseline": "shakespeare-char-cpu", "changes": changes, "ladder": ladder, **keys}


def climbed(folder: Path, shifts: Mapping[tuple[str, int], Truth]) -> LadderAnalysis:
    """A ladder whose rungs are drawn from what is known; those that are not named have not begun."""
    folder.mkdir(parents=True)
    ladder = load_ladder(tree())
    (folder / LADDER).write_text(ladder_text(ladder), "utf-8")
    for number, rung in enumerate(ladder.rungs):
        truth = shifts.get((rung.size, rung.steps))
        if truth is not None:
            size = SIZES[rung.size][0]
            truths = {
                "change": dataclasses.replace(truth, parameters=size),
                "baseline": Truth(parameters=size),
            }
            make(folder / "rungs" / rung.slug, truths, seed=number)
    return analyse_ladder(folder)


def shifted(small: float, large: float) -> dict[tuple[str, int], Truth]:
    return {
        (size, steps): Truth(shift) for size, shift in (("small", small), ("large", large)) for steps in STEPS
    }


def test_a_difference_that_fades_with_the_size(tmp_path: Path) -> None:
    found = climbed(tmp_path / "l", shifted(16, 0))
    (verdict,) = found.verdicts
    parameters, steps = verdict.slopes
    assert (parameters.axis, parameters.trend, steps.axis) == ("parameters", "shrinks", "steps")
    assert parameters.interval[1] < 0 and parameters.ends[0] > 0.05 > parameters.ends[1]
    assert verdict.sentence.startswith("worse by 0.0")
    assert "at small (1,200 steps), no difference seen at large" in verdict.sentence
    assert "over the parameters the difference shrinks, by 0.0" in verdict.sentence
    page = section(tmp_path / "l")
    assert page.startswith("## made up\n") and f"- **change:** {verdict.sentence}." in page
    assert page.count("| large |") == page.count("| small |") == len(STEPS) and page.count("*Of code `") == 1


@pytest.mark.slow
def test_a_difference_that_stays_has_no_trend(tmp_path: Path) -> None:
    (verdict,) = climbed(tmp_path / "l", shifted(8, 8)).verdicts
    assert [slope.trend for slope in verdict.slopes] == ["no trend seen", "no trend seen"]
    assert all(slope.interval[0] < 0 < slope.interval[1] for slope in verdict.slopes)
    assert not verdict.flips and verdict.sentence.count("no trend is seen") == 2


def test_a_difference_that_flips(tmp_path: Path) -> None:
    (verdict,) = climbed(tmp_path / "l", shifted(-9, 9)).verdicts
    assert verdict.flips
    assert verdict.sentence.startswith(
        "flips: better at small after 300 steps, small after 1,200 steps, worse at"
    )


def test_rungs_that_failed_or_have_not_begun_are_left_out(tmp_path: Path) -> None:
    truths = shifted(8, 8)
    truths["small", 300] = Truth(failed=dict.fromkeys((1337, 1338, 1339), "The loss was nan."))
    del truths["large", 1200]
    found = climbed(tmp_path / "l", truths)
    (verdict,) = found.verdicts
    assert verdict.slopes == ()  # of the two that are left, size and length change together
    assert "not begun" in found.notes[0]
    assert [row[4].split(":")[-1] for row in rung_table(found)[1:]][::3] == ["failed to train", "–"]


def test_a_rung_that_stands_in_the_middle_says_so(tmp_path: Path) -> None:
    climbed(tmp_path / "l", shifted(16, 0))
    last = next((tmp_path / "l" / "rungs" / "large-1200-steps" / "runs" / "change").rglob("outcome.json"))
    last.unlink()
    assert "still to come at large after 1,200 steps" in " ".join(analyse_ladder(tmp_path / "l").notes)


def test_where_the_change_is_worse_stands_on_the_page(tmp_path: Path) -> None:
    """On the large rungs counting alone knows half of the tokens, and the change is worse on the others."""
    climbed(tmp_path / "l", shifted(16, 0))
    ngram = np.linspace(0, 3, 1000)
    nats = [TokenLosses(np.where(ngram > 1.5, level, 1.0), np.arange(1000) % 32 + 1) for level in (1.0, 1.25)]
    where = parts([[nats[0]], [nats[1]]], ngram, ["half" if value > 1.5 else "known" for value in ngram], 5)
    for steps in STEPS:
        rung = tmp_path / "l" / "rungs" / f"large-{steps}-steps"
        kept = {"of": {}, "changes": {"change": {"where": plain(where)}}}
        (rung / "where.json").write_text(json.dumps(kept), "utf-8")
    small = tmp_path / "l" / "rungs" / "small-300-steps" / "where.json"
    small.write_text(
        json.dumps({"of": {}, "changes": {"change": {"why": "It has <b>no weights</b>."}}}), "utf-8"
    )
    page, found = write_ladder_report(tmp_path / "l")
    text, report = (path.read_text("utf-8") for path in (page, page.parent / "report.md"))
    assert (page.parent / "where.svg").is_file() and "counting 5-grams predicts a token" in text
    assert "It has &lt;b&gt;no weights" in text and "+0.250 ± 0.000" in text and "half" in text
    assert "![Difference from the baseline by how well" in report
    assert report.count("| large |   300 |") + report.count("| large | 1,200 |") >= 4
    brief = section(tmp_path / "l").partition("by how well counting")[2]
    assert brief.count("| change | large |") == 1 and "+0.250" in brief
    assert as_data(found)["rungs"][-1]["where"]["found"]["change"]["order"] == 5


def test_a_page_with_nothing_to_draw(tmp_path: Path) -> None:
    """One seed has no interval, and a ladder that has not begun has no difference at all."""
    climbed(tmp_path / "l", {})
    page, _ = write_ladder_report(tmp_path / "l")
    assert "<svg" not in page.read_text("utf-8") and not list(page.parent.glob("*.svg"))
    assert "![" not in (page.parent / "report.md").read_text("utf-8")


@pytest.mark.parametrize(("rates", "noted"), [([1, 2], False), ([0.5, 1, 2], True)])
def test_of_two_rates_the_best_is_at_an_end_whatever_it_is(
    tmp_path: Path, rates: list[float], noted: bool
) -> None:
    ladder = load_ladder(tree(ladder={**tree()["ladder"], "rates": rates}))
    (tmp_path / LADDER).write_text(ladder_text(ladder), "utf-8")
    rung = ladder.rungs[0]
    make(tmp_path / "rungs" / rung.slug, {"change": Truth()})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            type(ladder), "best", lambda self, sweep: {"baseline": max(rates), "change": max(rates)}
        )
        make(tmp_path / "sweeps" / rung.slug, {"change": Truth()})
        found = analyse_ladder(tmp_path)
    assert bool(found.rungs[0].at_edge) is noted and found.rungs[0].rates["change"] == max(rates)
    assert ("lowest or the highest that was tried" in " ".join(found.notes)) is noted


@pytest.mark.slow
def test_the_page_its_markdown_and_the_data(tmp_path: Path) -> None:
    climbed(tmp_path / "l", shifted(16, 0))
    page, found = write_ladder_report(tmp_path / "l")
    text = page.read_text("utf-8")
    assert "<svg" in text and found.verdicts[0].sentence.split(";")[0] in text
    assert 'href="../rungs/small-300-steps/report/index.html"' in text
    assert (tmp_path / "l" / "rungs" / "small-300-steps" / "report" / "index.html").is_file()
    assert "| small |" in (page.parent / "report.md").read_text("utf-8")
    data = json.loads(json.dumps(as_data(found)))
    assert data["rungs"][0]["parameters"] == 200_000
    assert data["verdicts"][0]["slopes"][0]["trend"] == "shrinks"


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [1.0, 5.0])
def test_trends_of_nothing_are_seen_seldom(ratio: float) -> None:
    """Two slopes, three seeds, noise that differs from rung to rung."""
    random, alarms, count = np.random.default_rng(3), 0, 600
    for _ in range(count):
        steps = []
        for place, (parameters, length) in enumerate((p, s) for p in (2e5, 3e6) for s in (300, 600, 1200)):
            noise = ratio if place % 3 == 0 else 1.0
            arms = [Arm(noise * random.standard_normal(3)) for _ in range(2)]
            steps.append(Step(parameters, length, *arms))
        alarms += any(slope.trend != "no trend seen" for slope in slopes(steps, 2))
    assert 0.005 < alarms / count <= 0.06


@pytest.mark.parametrize(
    ("early", "verdict", "counts"),
    [(None, "worse", True), ("Nothing yet.", "worse", False), (None, "unreliable", False)],
)
def test_a_trend_rests_on_rungs_that_have_learned_and_lost_no_more_than_the_baseline(
    monkeypatch: pytest.MonkeyPatch, early: str | None, verdict: str, counts: bool
) -> None:
    one = SimpleNamespace(verdict=verdict, difference=0.1)
    made: Any = SimpleNamespace(
        of=lambda name: one,
        analysis=SimpleNamespace(nothing_learned=early),
        parameters=1e5,
        rung=SimpleNamespace(steps=300),
    )
    runs = {"baseline": [1, 2, 3], "change": [4, 5]}
    monkeypatch.setattr(ladder_verdict, "sorted_out", lambda results: (runs, {}))
    monkeypatch.setattr(ladder_verdict, "arm", lambda results, runs, *, steady: Arm(np.array(runs, float)))
    change, results = load_ladder(tree()).study.changes[0], cast(Any, object())
    assert len(ladder_verdict._steps(change, [made], [results])) == counts


def rung(parameters: float, steps: int, base: np.ndarray, change: np.ndarray) -> Step:
    return Step(parameters, steps, Arm(base), Arm(change))


QUIET = np.array([-1e-3, 0.0, 1e-3])


@pytest.mark.parametrize(
    ("small", "large", "trend"),
    [
        (0.1, 0.4, "grows"),
        (0.4, 0.1, "shrinks"),
        (-0.1, -0.4, "grows"),
        (-0.4, -0.1, "shrinks"),
        (0.2, 0.2, "no trend seen"),
    ],
)
def test_a_trend_is_of_the_size_of_a_difference_whatever_its_sign(
    small: float, large: float, trend: str
) -> None:
    """Sixteen times the parameters are four doublings; the level of both arms and their unit tell nothing."""
    (slope,) = slopes([rung(1e5, 100, QUIET, small + QUIET), rung(16e5, 100, QUIET, large + QUIET)], 1)
    assert (slope.axis, slope.trend) == ("parameters", trend)
    assert slope.slope == pytest.approx((large - small) / 4)
    assert slope.ends == pytest.approx((small, large))
    far = 5 + 3 * QUIET
    (other,) = slopes([rung(1e5, 9, far, far + 3 * small), rung(16e5, 9, far, far + 3 * large)], 1)
    assert other.trend == trend and other.slope == pytest.approx(3 * slope.slope)
    assert np.ptp(other.interval) == pytest.approx(3 * np.ptp(slope.interval))


def test_a_trend_over_one_axis_is_told_at_the_mean_of_the_other() -> None:
    """A difference of 0.1 for each doubling of the parameters, less 0.05 for each of the steps."""
    sizes, lengths = (1.0, 2.0, 4.0), (100, 400)  # logarithms 0, 1, 2; and two doublings
    steps = [
        rung(p, s, QUIET, QUIET + 0.1 * np.log2(p) - 0.05 * np.log2(s / 100))
        for p, s in product(sizes, lengths)
    ]
    by_size, by_length = slopes(steps, 2)
    assert (by_size.slope, by_length.slope) == pytest.approx((0.1, -0.05))
    assert by_size.ends == pytest.approx((-0.05, 0.15)) and by_length.ends == pytest.approx((0.1, 0.0))


def test_what_other_documents_do_to_every_rung_alike_is_no_trend() -> None:
    """The same documents are on all of them; what they do to one rung alone is."""
    random = np.random.default_rng(0)
    effect, level = random.normal(0, 0.1, (DRAWS, 1)), np.zeros((DRAWS, 3))

    def width(small: float, large: float) -> float:
        steps = [
            Step(p, 100, Arm(QUIET, True, level), Arm(QUIET + 0.3, True, level + sign * effect))
            for p, sign in ((1e5, small), (2e5, large))
        ]
        (slope,) = slopes(steps, 1)
        return slope.interval[1] - slope.interval[0]

    assert width(1, 1) == pytest.approx(width(0, 0), rel=0.01)
    assert width(0, 1) > 10 * width(1, 1) and width(-1, 1) == pytest.approx(2 * width(0, 1), rel=0.01)


@pytest.mark.parametrize("alone", [False, True])
def test_the_intervals_of_all_slopes_hold_together(alone: bool) -> None:
    """19 times of 20, around true slopes; and where one arm of three runs makes all of the noise."""
    random, held, count = np.random.default_rng(8), 0, 1500
    places = [(p, s) for p in (1e5, 16e5) for s in (100, 200, 400)][:: 3 if alone else 1]
    true = {"parameters": 0.3, "steps": -0.2}
    for _ in range(count):
        steps = []
        for place, (parameters, length) in enumerate(places):
            noise = random.standard_normal((2, 3)) * (1e-3 if alone and place else 1.0)
            noise[0] *= 1e-3 if alone else 1.0
            level = true["parameters"] * np.log2(parameters) + true["steps"] * np.log2(length)
            steps.append(rung(parameters, length, noise[0], level + noise[1]))
        found = slopes(steps, 1 if alone else 2)
        assert len(found) == (1 if alone else 2)
        held += all(one.interval[0] <= true[one.axis] <= one.interval[1] for one in found)
    assert 0.938 <= held / count <= (0.962 if alone else 0.98)


def test_the_rungs_of_a_file(tmp_path: Path) -> None:
    ladder = load_ladder(tree())
    assert [rung.slug for rung in ladder.rungs] == [
        "small-300-steps", "small-1200-steps", "large-300-steps", "large-1200-steps",
    ]  # fmt: skip
    study = ladder.chosen(ladder.rungs[2], {"baseline": 2.0, "change": 0.5})
    flat = [flatten(variant_recipe(study, variant)) for variant in study.variants]
    assert [one["training.optimizer.learning_rate"] for one in flat] == [2e-3, 5e-4]
    assert {one["model.width"] for one in flat} == {256} and study.budget == {"steps": 300}
    sweep = ladder.sweep(ladder.rungs[0])
    assert sweep.seeds == (SWEEP_SEED,) and len(sweep.variants) == 6 and not sweep.noise_seeds
    rates = [
        flatten(variant_recipe(sweep, one))["training.optimizer.learning_rate"] for one in sweep.variants
    ]
    assert rates == [5e-4, 1e-3, 2e-3] * 2
    (tmp_path / LADDER).write_text(ladder_text(ladder), "utf-8")
    again = ladder_of(tmp_path)
    assert (again.rungs, again.rates) == (ladder.rungs, ladder.rates)
    assert again.at(again.rungs[0]).recipe == ladder.at(ladder.rungs[0]).recipe


def test_the_best_rate_of_each(tmp_path: Path) -> None:
    ladder = load_ladder(tree())
    names = [variant.name for variant in ladder.sweep(ladder.rungs[0]).variants]
    values = dict(zip(names, [2.0, 1.0, 3.0, None, float("nan"), 2.5], strict=True))
    blank = make(tmp_path / "s", {"x": Truth()})
    runs = tuple(
        dataclasses.replace(
            blank.runs[0], change=name, slug=name.replace(", rate × ", "-rate-"), metric=value
        )
        for name, value in values.items()
    )
    sweep = StudyResults(tmp_path, blank.study, runs)
    assert ladder.best(sweep) == {"baseline": 1.0, "change": 2.0}
    failed = tuple(dataclasses.replace(run, metric=None) for run in runs)
    assert ladder.best(StudyResults(tmp_path, blank.study, failed)) == {"baseline": 0.5, "change": 0.5}
    of_shares = load_ladder(tree(metric="accuracy"))
    assert of_shares.best(sweep) == {"baseline": 2.0, "change": 2.0}, "more is better, and no number is worst"


def test_rates_change_all_learning_rates_and_nothing_else() -> None:
    study = load_ladder(tree(baseline="pidgin-demo")).study
    (baseline, _), flat = study.variants, flatten(variant_recipe(study, study.variants[0]))
    found = rates_of(study, baseline, 2.0)
    optimizer = "training.optimizer."
    rates = ("gate_rate", "learning_rate", "rest.learning_rate", "table_rate")
    assert sorted(found) == [f"{optimizer}{rate}" for rate in rates], "of every group of parameters"
    assert flat[f"{optimizer}momentum"], "there is more to it"
    assert found == {key: pytest.approx(2 * flat[key]) for key in found}


def test_the_price_of_a_ladder_is_that_of_its_rungs_and_of_what_is_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten hours of a run; of each rung six runs are kept, and six try the rates, two side by side."""
    variants = [SimpleNamespace(seconds=36_000.0, parameters=9)] * 2
    price = SimpleNamespace(variants=variants, runs=6, hours=30.0, disk_bytes=60, side_by_side=2)
    monkeypatch.setattr(ladders, "price_resolved", lambda *_, **__: price)
    found = ladders.price_ladder(tree())
    assert [row.runs for row in found.rungs] == [12] * 4 and found.runs == 48
    assert found.hours == pytest.approx(4 * 60.0) and found.disk_bytes == 4 * 120


def test_a_change_of_text_or_length_keeps_it_where_rates_are_tried() -> None:
    other = {"name": "other text", "hypothesis": "It differs.", "text": ["other.txt"], "budget": {"steps": 7}}
    ladder = load_ladder(tree(changes=[other]))
    rated = ladder.sweep(ladder.rungs[0]).changes[-3:]
    assert [one.name for one in rated] == [f"other text, rate × {rate:g}" for rate in (0.5, 1, 2)]
    (changed,) = ladder.study.changes
    assert changed.text and all((one.text, one.budget) == (changed.text, changed.budget) for one in rated)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"budget": {"steps": 5}}, "a ladder has its lengths"),
        ({"ladder": {"sizes": {"a": {}}, "steps": [5]}}, "are a study"),
        ({"ladder": {"sizes": {"a": {}, "A": {}}, "steps": [5]}}, "share a folder"),
        ({"ladder": {"sizes": {"a": {}}, "steps": [5, 5]}}, "twice"),
        ({"ladder": {"sizes": {"a": {}}, "steps": [5, 6], "rates": [0]}}, "greater than 0"),
        ({"ladder": {"sizes": {"a": {}}, "steps": [5, 6], "rate": [1]}}, "did you mean rates?"),
        ({"ladder": {"sizes": {"a": {"model.width": -1}}, "steps": [5, 6]}}, "ladder.sizes.a"),
        ({"ladder": {"sizes": {"a": {"training.batch": 13}}, "steps": [5, 6]}}, "alters nothing"),
        ({"seeds": [1, SWEEP_SEED]}, "rates are chosen on"),
    ],
)
def test_what_is_no_ladder(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_ladder(tree(**keys))
    assert said in " ".join([error.value.what, *error.value.problems])


def test_a_ladder_is_not_run_as_a_study_and_a_study_is_no_ladder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a ladder"):
        load_study(tree())
    with pytest.raises(ConfigError, match="is no ladder"):
        load_ladder("heads-cpu", "play.txt")
    with pytest.raises(InputError, match="is not a ladder's folder"):
        ladder_of(tmp_path)


@pytest.mark.parametrize("name", [name for name in study_names() if name.endswith("-ladder")])
def test_every_shipped_ladder_holds_together(name: str) -> None:
    ladder = load_ladder(name, "play.txt")
    assert len(ladder.rungs) == 9 and len(ladder.rates) == 3 and len(ladder.study.seeds) == 3
    assert check(dict(ladder.at(ladder.rungs[0]).recipe))
