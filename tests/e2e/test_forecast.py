"""Numbers from files to forecasts, through the command line: train, stop and resume, replay, evaluate, forecast."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from e2e.asking import refused
from e2e.forked import Octavo
from octavo.errors import InputError
from octavo.run.run import Run

SMALL = [
    "training.steps=12",
    "training.checkpoint_every=4",
    "training.batch=4",
    "model.width=16",
    "model.layers=1",
    "model.context=16",
    "objective.origins=4",
    "objective.paths=10",
    "objective.horizons=[1,3]",
    "training.threads=1",
    "training.precision=float32",
    "training.schedule=constant",
]


def tables(folder: Path) -> Path:
    """Three persons, two speeds; a foot in the air for a third of the time."""
    folder.mkdir()
    random = np.random.default_rng(0)
    for person, speed in [(1, 25), (1, 35), (2, 25), (2, 35), (3, 25)]:
        phase = np.arange(200) * (1 + speed / 100) / 6 + person
        force = np.maximum(0, np.sin(phase)) * (80 + random.normal(size=200))
        lines = [f"{row}\t{force[row]:.2f}\t{np.cos(phase[row]):.3f}" for row in range(200)]
        path = folder / f"P{person}run{speed}.txt"
        path.write_text("t\tforce\tangle\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def trained(octavo: Octavo, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    place = tmp_path_factory.mktemp("forecast")
    data = tables(place / "data")
    recipe = place / "small.yaml"
    recipe.write_text(
        "corpus: {kind: series, channels: [force, angle], covariates: [speed], time: t, rate: 100, "
        "held_out: [P3], pattern: '(?P<person>P\\d)run(?P<speed>\\d+)'}\nbatches: series\nobjective: forecast\n"
        "model: {input: {kind: linear, lags: 2}, output: {kind: student-t, zero: true, channels: chained}, heads: 2}\n",
        encoding="utf-8",
    )
    done = octavo("train", recipe, "--text", data, "--out", place / "run", *SMALL)
    assert done.code == 0, done.err
    return place / "run", data


def test_its_evaluation_and_its_page(trained: tuple[Path, Path]) -> None:
    run, _ = trained
    found = json.loads((run / "evaluation.json").read_text(encoding="utf-8"))
    assert (
        found["unit"] == "nats per step" and {"last value", "NLinear", "drift"} <= found["baselines"].keys()
    )
    own = found["forecast"]["predictors"]["this model"]
    assert [each["horizon"] for each in own] == [1, 3] and all(np.isfinite(each["nll"]) for each in own)
    first, second, loss = found["verdict"][:3]
    assert first.startswith("3 steps ahead (30 ms), the horizon that counts: CRPS ") and "in" in first
    assert second.startswith("1 step ahead (10 ms): CRPS ") and ", one step ahead: " in loss
    page = (run / "report" / "index.html").read_text(encoding="utf-8")
    assert first.split(":")[0] in page and "5 series" not in page and " rows (4 series) to learn from" in page
    assert "3 steps ahead (30 ms)" in page and "octavo forecast" in page and "What it writes" not in page
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["data"]["persons"] == {"train": ["P1", "P2"], "validation": ["P3"]}


def test_stopped_and_resumed_or_repeated_it_is_the_same(octavo: Octavo, trained: tuple[Path, Path]) -> None:
    run, _ = trained
    cut, again = run.with_name("cut"), run.with_name("again")
    octavo("train", run / "config.yaml", "--out", cut, "training.steps=4")
    octavo("train", "--resume", "--out", cut, "training.steps=12")
    octavo("train", "--replay", run, "--out", again)
    weights = [(one / "last" / "model.safetensors").read_bytes() for one in (run, cut, again)]
    assert weights[0] == weights[1] == weights[2]


def test_forecasts_as_files(octavo: Octavo, trained: tuple[Path, Path], tmp_path: Path) -> None:
    run, data = trained
    text = data / "P3run25.txt"
    lines = text.read_text(encoding="utf-8").splitlines()
    to_come = [*lines[:60], *(f"{row}\t\t" for row in range(59, 64))]
    future = tmp_path / "P9run30.txt"
    future.write_text("\n".join(to_come) + "\n", encoding="utf-8")
    out, plot = tmp_path / "paths.csv", tmp_path / "fan.png"
    octavo("forecast", run, "--text", future, "--samples", "20", "--out", out, "--plot", plot)
    again = octavo("forecast", run, "--text", future, "--samples", "20", "--out", out)
    refused(again, "paths.csv exists.")
    refused(octavo("forecast", run, "--text", out, "--steps", "2", "--out", out, "--force"), "is read")
    rows = [line.split(",") for line in out.read_text(encoding="utf-8").splitlines()]
    assert rows[0] == ["series", "step", "channel", "what", "value"]
    assert len(rows) == 1 + 5 * 2 * (20 + 7) and plot.read_bytes()[:4] == b"\x89PNG"
    answer = octavo("forecast", run, "--text", future, "--samples", "20", "--json").out
    (found,) = json.loads(answer)
    paths = [float(row[4]) for row in rows[1:] if row[2] == "force" and row[3] == "path 1"]
    assert found["channels"]["force"]["paths"][0] == paths
    pq = pytest.importorskip("pyarrow.parquet")
    octavo("forecast", run, "--text", future, "--samples", "20", "--out", tmp_path / "p.parquet")
    assert pq.read_table(tmp_path / "p.parquet").num_rows == len(rows) - 1


def test_series_side_by_side_have_chance_of_their_own(trained: tuple[Path, Path], tmp_path: Path) -> None:
    """Else what is reckoned of two of them, such as their sum, would be far too wide or too narrow."""
    run, data = trained
    for name in ("P3run25.txt", "P4run25.txt"):
        (tmp_path / name).write_bytes((data / "P3run25.txt").read_bytes())
    opened = Run.open(run)
    one, other = opened.forecast(
        [tmp_path / "P3run25.txt", tmp_path / "P4run25.txt"], steps=2, samples=100, seed=3
    )
    assert abs(np.corrcoef(one["paths"][:, 0, 1], other["paths"][:, 0, 1])[0, 1]) < 0.4
    again = opened.forecast([tmp_path / "P3run25.txt"], steps=2, samples=100, seed=3)
    assert np.array_equal(again[0]["paths"], one["paths"]), "whatever stands beside it"


@pytest.mark.parametrize(
    "wrong",
    [
        {"samples": 0},
        {"samples": -3},
        {"samples": 2_000_000_000},
        {"steps": -1},
        {"seed": -1},
        {"seed": 2**64},
    ],
)
def test_numbers_that_no_forecast_has(trained: tuple[Path, Path], wrong: dict[str, int]) -> None:
    run, data = trained
    with pytest.raises(InputError, match=r"must be at (least|most)|no seed"):
        Run.open(run).forecast(data / "P3run25.txt", **{"steps": 2, **wrong})  # pyrefly: ignore


def test_a_run_that_starts_from_another_keeps_its_scales(
    octavo: Octavo, trained: tuple[Path, Path], tmp_path: Path
) -> None:
    """Its weights were learned with them, whatever the numbers of the new series are."""
    from safetensors.numpy import load_file

    run, data = trained
    louder = tmp_path / "louder"
    louder.mkdir()
    for path in sorted(data.glob("*.txt")):
        head, *lines = path.read_text(encoding="utf-8").splitlines()
        cells = [line.split("\t") for line in lines]
        rows = [f"{t}\t{9 * float(force):.2f}\t{angle}" for t, force, angle in cells]
        (louder / path.name).write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    start = f"training.start_from={run}"
    octavo(
        "train", run / "config.yaml", "--text", louder, "--out", tmp_path / "on", start, "training.steps=2"
    )
    before, after = (load_file(one / "last" / "model.safetensors") for one in (run, tmp_path / "on"))
    scales = [name for name in before if name.endswith(("center", "scale")) and before[name].shape == (3,)]
    assert len(scales) == 5
    assert all(np.array_equal(before[name], after[name]) for name in scales)
    assert any(not np.array_equal(before[name], after[name]) for name in before)


def test_other_files_are_evaluated_too(octavo: Octavo, trained: tuple[Path, Path]) -> None:
    run, data = trained
    found = json.loads(octavo("eval", run, "--text", data / "P1run25.txt", "--json").out)
    assert np.isfinite(found["val_loss"]) and "forecast" in found


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["forecast"], "Forecast what?"),
        (["forecast", "--text", "DATA"], "How many steps of P1run25.txt?"),
        (["forecast", "--text", "DATA", "--steps", "2", "--out", "x.doc"], "--out x.doc: of what kind?"),
        (["generate", "--prompt", "a"], "predicts numbers (force, angle), not text"),
        (["chat"], "predicts numbers (force, angle), not text"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    octavo: Octavo, trained: tuple[Path, Path], words: list[str], said: str
) -> None:
    run, data = trained
    verb, *rest = [str(data) if word == "DATA" else word for word in words]
    refused(octavo(verb, run, *rest), said)


def test_a_language_model_forecasts_nothing(
    octavo: Octavo, finished: Path, trained: tuple[Path, Path]
) -> None:
    refused(octavo("forecast", finished, "--text", trained[1], "--steps", "2"), "predicts text, not numbers")


def test_plan_counts_before_anything_is_computed(octavo: Octavo, trained: tuple[Path, Path]) -> None:
    run, _ = trained
    found = json.loads(octavo("plan", run / "config.yaml", "--json").out)
    evaluation = json.loads((run / "evaluation.json").read_text(encoding="utf-8"))
    assert found["parameters"] == evaluation["parameters"]


def test_info_says_what_it_reads(octavo: Octavo, trained: tuple[Path, Path]) -> None:
    said = octavo("info", trained[0]).out
    assert "force, angle" in said and "training rows          800" in said and "nats per step" in said
    assert "vocabulary" not in said and "tokenizer" not in said


def test_what_cannot_be_forecast_is_said(octavo: Octavo, trained: tuple[Path, Path]) -> None:
    run, data = trained
    longer = ("objective.horizons=[1,300]", *[word for word in SMALL if "horizons" not in word])
    done = octavo("train", run.parent / "small.yaml", "--text", data, "--out", run.parent / "far", *longer)
    assert done.code == 0
    why = "othing is forecast: the longest held-out series has 200 rows, and a horizon of 300"
    assert f"n{why}" in done.err
    assert f"N{why}" in (run.parent / "far" / "report" / "index.html").read_text(encoding="utf-8")


def test_a_forecaster_is_told_of_in_rows(octavo: Octavo, trained: tuple[Path, Path]) -> None:
    run, data = trained
    planned = octavo("plan", run.parent / "small.yaml", "--text", data, *SMALL).out
    assert "columns " in planned and "rows seen" in planned and "rows to learn from" in planned
    judged = octavo("eval", run).out
    assert " rows; " in judged
    for said in (planned, judged):
        assert "token" not in said and "vocabulary" not in said and "bytes" not in said


@pytest.mark.parametrize(
    ("columns", "held_out", "said"),
    [
        ("force", "c", "Channel 'force' is 5 in all 80 rows of what is learned from (a.csv, b.csv)"),
        ("t", "b", "Channel 't' changes by 1 from each row to the next"),
    ],
)
def test_what_a_rule_foretells_is_refused(
    octavo: Octavo, trained: tuple[Path, Path], columns: str, held_out: str, said: str, tmp_path: Path
) -> None:
    for person in "abc":
        rows = (f"{row},{row * row % 7 if person == 'c' else 5}" for row in range(40))
        (tmp_path / f"{person}.csv").write_text("t,force\n" + "\n".join(rows) + "\n", encoding="utf-8")
    recipe = tmp_path / "own.yaml"
    recipe.write_text(
        f"corpus: {{kind: series, channels: [{columns}], held_out: [{held_out}]}}\nbatches: series\n"
        "objective: forecast\nmodel: {input: linear, output: gaussian}\n",
        encoding="utf-8",
    )
    refused(octavo("train", recipe, "--text", tmp_path, "--out", tmp_path / "run", *SMALL), said)


def test_a_server_forecasts_as_the_command_does(
    octavo: Octavo, trained: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("uvicorn")
    import httpx2

    from octavo.serving.schemas import ForecastAnswer
    from unit.serving.conftest import fuzzer, running

    run, data = trained
    table = data / "P1run25.txt"
    done = octavo(
        "forecast", run, "--text", table, "--steps", "4", "--samples", "20", "--seed", "3", "--json"
    )
    (expected,) = json.loads(done.out)
    asked = {
        "name": table.name,
        "table": table.read_text(encoding="utf-8"),
        "steps": 4,
        "samples": 20,
        "seed": 3,
    }
    with running(run) as (address, _), httpx2.Client(base_url=address, trust_env=False, timeout=60) as client:
        answer = client.post("/v1/forecast", json={**asked, "paths": True})
        ForecastAnswer.model_validate_json(answer.content)
        (series,) = answer.json()["series"]
        assert series["channels"] == expected["channels"]
        shorter = client.post("/v1/forecast", json=asked).json()["series"][0]["channels"]
        assert {name: one["quantiles"] for name, one in shorter.items()} == {
            name: one["quantiles"] for name, one in expected["channels"].items()
        }
        _, faults = fuzzer(monkeypatch).fuzz(address, {"/v1/forecast": [asked]}, 60, seed=1)
        assert not faults, faults[:3]
        wrong = [
            {"table": "x"},
            {"name": "../P1run25.txt"},
            {"name": "table.csv"},
            {"steps": 0},
            {"samples": 10**6},
        ]
        for fields in (*wrong, {"table": asked["table"].replace("force", "push")}):
            refusal = client.post("/v1/forecast", json={**asked, **fields})
            assert refusal.status_code == 400, fields
            assert "/tmp" not in refusal.text and "octavo-" not in refusal.text
        for path, fields in (("/tokenize", {"content": "a"}), ("/v1/completions", {"prompt": "a"})):
            assert client.post(path, json=fields).status_code == 400
