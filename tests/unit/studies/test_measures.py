"""Studies of objectives that are about no text: their own loss is compared, in its unit, against its own controls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from octavo.errors import ConfigError
from octavo.studies.measures import Scale, measure, on_the_way, unfit, usual
from octavo.studies.plan import plan_study
from octavo.studies.report import write_study_report
from octavo.studies.resolve import load_study
from octavo.studies.run import run_study
from octavo.training.objective import TEXT, Unit
from octavo.util.terminal import Console

STEPS, TARGETS = Unit("nats", "step", text=False, density=True), Unit("nats", "target token", text=False)
SERIES = {
    "baseline": "forecast-demo",
    "set": {"corpus.series": 4, "corpus.rows": 200, "model.width": 16, "objective.origins": 3},
    "seeds": 2,
    "noise": 1,
    "budget": {"steps": 6},
    "changes": [{"name": "value", "hypothesis": "It is worse.", "expect": "worse"}],
}
VALUE = {"model.output": {"kind": "gaussian", "predict": "value"}}


def test_shares_are_written_in_points_and_all_else_as_it_is() -> None:
    assert Scale(measure("accuracy"), 1).text(0.1234) == "12.3"
    assert Scale(measure("accuracy"), 2).text(-0.01234, signed=True) == "−1.23"
    assert Scale(measure("bits_per_byte"), 3).text(0.1234, signed=True) == "+0.123"


def series(**changed: Any) -> dict[str, Any]:
    entry = {**SERIES["changes"][0], "set": changed.pop("change", VALUE)}
    return {**SERIES, "changes": [entry], **changed}


def tables(folder: Path) -> Path:
    """Two persons, one speed, as forces-cpu reads them."""
    folder.mkdir()
    for person in (1, 2):
        phase = np.arange(400) / 9 + person
        force = np.maximum(0, np.sin(phase))
        lines = [f"{row}\t{force[row]:.3f}\t{phase[row] % 1:.3f}\t{force[row] / 2:.3f}" for row in range(400)]
        path = folder / f"RBDS00{person}runT25forces.txt"
        path.write_text("Time\tFx\tFy\tFz\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("name", "overrides", "metric", "unit"),
    [
        ("forecast-heads-cpu", ["set.corpus.series=4", "set.corpus.rows=200"], "val_loss", "nats per step"),
        (
            "forecast-difference-cpu",
            ["set.corpus.series=4", "set.corpus.rows=200"],
            "val_loss",
            "nats per step",
        ),
        ("forecast-zero-cpu", [], "crps", "CRPS"),
        ("forces-heads-cpu", [], "crps", "CRPS"),
        ("translate-models-cpu", ["set.corpus.pairs=200"], "val_loss", "nats per target token"),
        ("pixel-order-cpu", [], "nats_per_record", "nats per record"),
    ],
)
def test_shipped_studies_can_be_planned(
    name: str, overrides: list[str], metric: str, unit: str, tmp_path: Path
) -> None:
    if name == "pixel-order-cpu":
        pytest.importorskip("sklearn")
    text = tables(tmp_path / "tables") if name in ("forecast-zero-cpu", "forces-heads-cpu") else None
    study, facts = plan_study(load_study(name, text, overrides), Console(quiet=True))
    assert (study.metric, measure(study.metric, study.unit).unit) == (metric, unit)
    assert len(facts) == len(study.changes) + 1 and set(study.steps.values()) == {study.budget["steps"]}


def test_what_runs_are_compared_by() -> None:
    assert usual(TEXT).unit == "bits per byte" and usual(STEPS).unit == "nats per step"
    assert on_the_way("val_loss", TEXT).unit == "nats per token" and on_the_way("accuracy", TEXT) == usual(
        TEXT
    )
    assert "density" in usual(STEPS).meaning and "surprise at each target token" in usual(TARGETS).meaning
    assert usual(STEPS).baseline({"loss": 2.0, "bits_per_byte": None}) == 2.0
    assert unfit("val_loss", STEPS, ()) is None and unfit("accuracy", TARGETS, ["accuracy"]) is None
    for metric, unit in (("bits_per_byte", STEPS), ("perplexity", TARGETS), ("accuracy", STEPS)):
        assert "take val_loss" in (unfit(metric, unit, ()) or "")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"metric": "bits_per_byte"},
            "metric=bits_per_byte does not exist for an objective measured in nats per step",
        ),
        ({"metric": "accuracy"}, "metric=accuracy does not exist"),
        ({"stop_hopeless": {}}, "stop_hopeless: no share of the log of a density means anything"),
        (
            {"change": {"objective.score": "pinball", "model.output": "quantiles"}},
            "value: is measured in pinball per step, and the baseline in nats per step",
        ),
    ],
)
def test_what_does_not_go_together_is_said_before_a_run(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_study(series(**changed))
    assert said in " ".join(error.value.problems)


def test_records_are_needed_for_their_metric() -> None:
    change = {"name": "a", "hypothesis": "It is better.", "set": {"model.layers": 3}}
    with pytest.raises(ConfigError) as error:
        load_study({"baseline": "minute", "metric": "nats_per_record", "changes": [change]})
    assert "needs batches of records" in " ".join(error.value.problems)


@pytest.mark.slow
def test_a_study_of_forecasts_is_judged_in_nats_per_step(tmp_path: Path) -> None:
    """Also where the loss is negative, so that no share of it can be what decides whether something was learned."""
    results = run_study(series(), out=tmp_path / "study", jobs=1, quiet=True)
    assert all(run.status == "done" and run.metric == run.val_loss for run in results.runs)
    assert all(run.bits_per_byte is None and run.perplexity is None for run in results.runs)
    page = write_study_report(results.folder).read_text("utf-8")
    told = (results.folder / "report" / "report.md").read_text("utf-8")
    assert "−ln of the density of what came, for each step" in page and "bits per byte" not in told
    assert "Nothing has been learned yet" in told and "on the same data" in told
    assert "the source itself: no model can beat it" in told and "Relative improvement" not in told
    assert "worse by" in told and "failed to train" not in told


@pytest.mark.parametrize("wrong", [{"judge": "last"}, {"baseline": {"corpus": {"kind": "bilingual"}}}])
def test_good_texts_need_rules_and_the_weights_that_wrote_them(wrong: dict[str, Any]) -> None:
    tree = {
        "baseline": {"corpus": {"kind": "storyteller"}, "training": {"steps": 5}},
        "metric": "valid",
        "judge": "best",
        "changes": [{"name": "a", "hypothesis": "It is better.", "set": {"model.layers": 3}}],
    }
    assert load_study(tree).metric == "valid"
    with pytest.raises(ConfigError) as error:
        load_study({**tree, **wrong})
    assert "metric=valid needs judge=best" in " ".join(error.value.problems)


@pytest.mark.parametrize("metric", ["crps", "scaled_crps"])
def test_paths_need_a_forecast_of_the_best_weights(metric: str) -> None:
    for wrong in (
        {"judge": "last"},
        {"baseline": "minute", "set": {}, "judge": "best", "change": {"seed": 3}},
    ):
        with pytest.raises(ConfigError) as error:
            load_study(series(**{"metric": metric, **wrong}))
        assert f"metric={metric} needs judge=best" in " ".join(error.value.problems)


@pytest.mark.slow
def test_a_study_can_be_judged_by_paths(tmp_path: Path) -> None:
    results = run_study(series(metric="crps", judge="best"), out=tmp_path / "study", jobs=1, quiet=True)
    for run in results.runs:
        page = json.loads((results.folder / run.folder / "evaluation.json").read_text("utf-8"))
        own = page["forecast"]["predictors"]["this model"]
        assert len(own) > 1 and run.metric == run.crps
        assert run.crps == pytest.approx(np.mean([each["crps_by_channel"] for each in own]))
        assert run.scaled_crps == pytest.approx(np.mean([each["scaled_crps"] for each in own]))
    write_study_report(results.folder)
    told = (results.folder / "report" / "report.md").read_text("utf-8")
    assert "Relative improvement" not in told
    (head,) = [line for line in told.splitlines() if line.startswith("| on the same data")]
    assert [cell.strip() for cell in head.split("|")[2:4]] == ["nats per step", "CRPS"]
    assert "| AR(" in told.partition(head)[2]
