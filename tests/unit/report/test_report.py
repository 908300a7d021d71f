"""The page of a run: it says what the run folder says, stands alone, and is the same each time."""

from __future__ import annotations

import json
import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from octavo.config import check, load_recipe
from octavo.errors import RunFolderError
from octavo.report import ReportData, write_report
from octavo.report.data import next_commands
from octavo.report.plots import smoothed, spread
from octavo.report.test_looks import chosen_and_tested

HOSTILE = "ROMEO: <script>alert('no')</script> & <img src=x onerror=y>"


def run_folder(
    folder: Path,
    *,
    rows: list[dict[str, Any]],
    evaluation: dict[str, Any] | None = None,
    sample: str | None = None,
) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(
        'description: "a <b>bold</b> recipe"\nsampling: {prompt: "ROMEO:"}\n'
        "corpus: {kind: files, paths: [/texts/a-novel.txt, '-']}\n",
        "utf-8",
    )
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    splits = {
        "train": {"tokens": 800, "characters": 4000, "documents": 1},
        "validation": {"tokens": 100, "characters": 500, "documents": 1},
    }
    manifest = {"octavo": "0.1.0", "seed": 1, "data": {"splits": splits}}
    (folder / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    if evaluation is not None:
        (folder / "evaluation.json").write_text(json.dumps(evaluation), "utf-8")
    if sample is not None:
        (folder / "samples").mkdir()
        (folder / "samples" / "step-000020.txt").write_text(sample, "utf-8")
    return folder


def train_row(step: int) -> dict[str, Any]:
    return {
        "event": "train",
        "step": step,
        "loss": 4.0 - 0.1 * step,
        "learning_rate": 1e-3,
        "gradient_norm": 1.0,
        "tokens": 100 * step,
        "tokens_per_second": 1000.0,
        "seconds": float(step),
    }


TRAINED = [train_row(step) for step in range(1, 21)]
JUDGED = [
    {
        "event": "validation",
        "step": step,
        "loss": loss,
        "bits_per_byte": loss * 1.4427,
        "perplexity": 3.0,
        "best": True,
    }
    for step, loss in ((10, 3.2), (20, 2.3456))
]
EVALUATION = {
    "val_loss": 2.3456,
    "perplexity": 10.44,
    "bits_per_byte": 3.384,
    "accuracy": 0.321,
    "tokens": 1000,
    "bytes": 1000,
    "parameters": 804096,
    "step": 20,
    "source_entropy": 1.2345,
    "baselines": {
        "unigram": {"loss": 3.3, "bits_per_byte": 4.7},
        "ngram": {"loss": 1.5, "bits_per_byte": 2.1, "order": 6},
        "gzip": {"loss": None, "bits_per_byte": 3.2},
    },
    "verdict": ["It learns."],
}


def page_of(folder: Path) -> str:
    return write_report(folder, ReportData.from_run(folder)).read_text("utf-8")


def test_a_taught_run_says_what_its_training_loss_is(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", rows=TRAINED)
    assert "teachers" not in page_of(folder)
    taught = {"octavo": "0.1.0", "teachers": [{"checkpoint": "runs/one/step-9", "sha256": "1f"}]}
    (folder / "manifest.json").write_text(json.dumps(taught), "utf-8")
    page = page_of(folder)
    assert "learning from its teachers too" in page
    assert "teachers.1.checkpoint" in page and "runs/one/step-9" in page


def test_page_says_what_the_folder_says(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "bard", rows=TRAINED + JUDGED, evaluation=EVALUATION, sample=HOSTILE)
    page = page_of(folder)
    for said in (
        "bard",
        "2.3456",
        "804,096",
        "32.1%",
        "3.384",
        "6-gram",
        "source entropy",
        "It learns.",
        "step 20",
    ):
        assert said in page, said
    assert (folder / "report" / "loss.svg").read_text("utf-8").startswith("<?xml")


def test_the_users_text_stands_on_top_and_what_the_model_writes_comes_second(tmp_path: Path) -> None:
    """A novel was headed "on TinyShakespeare characters", for so the recipe described itself."""
    folder = run_folder(tmp_path / "bard", rows=TRAINED + JUDGED, evaluation=EVALUATION, sample="text")
    page = page_of(folder)
    about = "Trained on a-novel.txt, standard input: 4,000 characters (800 tokens) to learn from"
    assert about in page and "; 2.5 passes over it." in page
    places = [
        page.index(words) for words in (about, "It learns.", "What it writes", "How it learned", "bold")
    ]
    assert places == sorted(places)


def test_text_of_others_is_escaped(tmp_path: Path) -> None:
    page = page_of(run_folder(tmp_path / "x", rows=TRAINED, evaluation=EVALUATION, sample=HOSTILE))
    assert "<script" not in page
    assert "<img" not in page
    assert "<b>bold" not in page
    assert "&lt;script&gt;" in page


def test_page_stands_alone(tmp_path: Path) -> None:
    page = page_of(run_folder(tmp_path / "x", rows=TRAINED + JUDGED, evaluation=EVALUATION, sample="text"))
    addresses = set(re.findall(r"https?://[^\s\"'<>)]+", page))
    assert {address for address in addresses if "w3.org" not in address} == set()
    assert not re.search(r"<link|@import|url\((?!#)", page)


def test_same_folder_same_bytes(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "x", rows=TRAINED + JUDGED, evaluation=EVALUATION, sample="text")
    first, plot = page_of(folder), (folder / "report" / "loss.svg").read_bytes()
    assert page_of(folder) == first
    assert (folder / "report" / "loss.svg").read_bytes() == plot


@pytest.mark.parametrize(
    "rows",
    [[], TRAINED[:1], TRAINED, JUDGED[:1], [*TRAINED, {"event": "train", "step": 21, "loss": float("nan")}]],
    ids=["nothing", "one row", "training only", "one evaluation", "not a number"],
)
def test_unfinished_runs_have_a_page(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    page = page_of(run_folder(tmp_path / "x", rows=rows))
    assert "<h1>x</h1>" in page
    assert "nan" not in re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL).lower().split()


def test_a_step_done_again_counts_once(tmp_path: Path) -> None:
    rows = [train_row(1), {**train_row(2), "loss": 9.0}, {**train_row(2), "loss": 1.0}]
    data = ReportData.from_run(run_folder(tmp_path / "x", rows=rows))
    assert [row["loss"] for row in data.rows("train")] == [3.9, 1.0]


def test_a_folder_that_is_no_run_is_said(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="not a run folder"):
        ReportData.from_run(tmp_path)


def test_labels_do_not_overlap() -> None:
    placed = sorted(spread([0.5, 0.5, 0.51, 0.9], 0.1))
    assert all(above - below >= 0.1 - 1e-9 for below, above in pairwise(placed))


def test_smoothing_keeps_level_and_length() -> None:
    import numpy as np

    level = np.full(50, 2.5)
    assert np.allclose(smoothed(level), 2.5)
    noisy = 2.5 + np.where(np.arange(200) % 2, 1.0, -1.0)
    assert len(smoothed(noisy)) == 200
    assert smoothed(noisy).std() < noisy.std() / 2


@pytest.mark.parametrize("start", [None, "/runs/base"])
def test_a_missing_test_split_is_named_where_one_is_to_be_expected(start: str | None) -> None:
    """A tuned run is judged beside what it started from."""
    tree = load_recipe("quick").model_dump(mode="json")
    tree["training"]["start_from"], tree["test"] = start, 0.0
    manifest = {"data": {"splits": {"validation": {"tokens": 1}}}}
    said = chosen_and_tested(Path("run"), check(tree), manifest, {})
    assert said.startswith("The validation split is what was chosen on, this checkpoint too.")
    assert ("There is no test split" in said) == (start is None)


@pytest.mark.parametrize("looked_at", [1000, 400])
def test_a_curve_of_a_part_of_the_split_says_so(tmp_path: Path, looked_at: int) -> None:
    """The dashed lines of the simple predictors are of the whole split."""
    rows = [*TRAINED, *({**row, "tokens": looked_at} for row in JUDGED)]
    run = run_folder(tmp_path / "run", rows=rows, evaluation=EVALUATION)
    page = " ".join(write_report(run, ReportData.from_run(run)).read_text("utf-8").split())
    assert ("The validation curve is of 400 of its 1,000 tokens" in page) == (looked_at == 400)
    assert ("predictors on the whole validation text" in page) == (looked_at == 400)


def test_commands_of_the_page_are_in_the_runs_own_words() -> None:
    folder = Path("my runs/one")

    def use(recipe: str, evaluation: dict[str, Any], *overrides: str) -> list[str]:
        return shlex.split(
            next_commands(folder, load_recipe(recipe, overrides), evaluation, tested=True)[0][1]
        )

    assert use("quick", {}) == ["octavo", "generate", str(folder), "--tokens", "200"]
    prompted = ["octavo", "generate", str(folder), "--prompt", "O it's", "--tokens", "200"]
    assert use("quick", {}, "sampling.prompt=O it's") == prompted
    evaluation = {"translations": {"examples": [{"source": "i ed pull apple."}]}}
    assert use("translate-demo", evaluation)[-2:] == ["--prompt", "i ed pull apple."]
    reward = {
        "corpus": {"kind": "files", "records": "preferences"},
        "batches": "preferences",
        "objective": "bradley-terry",
    }
    words = next_commands(folder, check(reward | {"split": "prompts"}), {}, tested=True)[0][1]
    assert shlex.split(words)[-1] == '{kind: model, run: "my runs/one"}'


def forecast_of(scale: float, main: int | None) -> dict[str, Any]:
    """What an evaluation says of forecasts of two channels, one of them in tiny units."""

    def row(horizon: int, score: float) -> dict[str, Any]:
        return {
            "horizon": horizon,
            "nll": -20.5,
            "scaled_crps": score,
            "crps_by_channel": [81.7 * score, scale * score],
            "scaled_energy": score,
            "mase": score,
            "coverage": {"50": 0.5, "80": 0.8, "95": 0.95},
            "pit": [0.1] * 10,
        }

    numbers = [[1.0, scale], [2.0, scale]]
    return {
        "channels": ["Fz", "angle"],
        "rate": 300.0,
        "horizons": [1, 60],
        "main_horizon": main,
        "origins": 4,
        "paths": 10,
        "predictors": {
            "this model": [row(1, 0.5), row(60, 1.25)],
            "NLinear": [row(1, 0.75), row(60, 1.0)],
        },
        "example": {
            "history": numbers,
            "truth": numbers,
            "paths": [numbers],
            "quantiles": dict.fromkeys(("2.5", "10", "25", "50", "75", "90", "97.5"), numbers),
        },
    }


def forecast_page(folder: Path, *, main: int | None = 60, scale: float = 1.5e-6) -> str:
    made = run_folder(folder, rows=[])
    (made / "config.yaml").write_text(
        "corpus: {kind: series, paths: [/recordings]}\nbatches: series\nobjective: forecast\n"
        "model: {input: linear, output: gaussian}\n",
        "utf-8",
    )
    splits = {"train": {"tokens": 805, "characters": 1600, "documents": 5}}
    (made / "manifest.json").write_text(json.dumps({"octavo": "0.1.0", "data": {"splits": splits}}), "utf-8")
    forecast = {key: value for key, value in forecast_of(scale, main).items() if value is not None}
    (made / "evaluation.json").write_text(json.dumps({"val_loss": -20.0, "forecast": forecast}), "utf-8")
    return page_of(made)


def test_every_plot_of_two_widths_is_seen_once(tmp_path: Path) -> None:
    """Fans and PITs stood there twice: only the names of other plots were hidden."""
    page = forecast_page(tmp_path / "run")
    classes = re.findall(r'<svg class="([^"]+)"', page)
    widths = {name.rpartition("-")[0]: set() for name in classes}
    for name in classes:
        widths[name.rpartition("-")[0]].add(name.rpartition("-")[2])
    assert {"fan", "pit"} <= widths.keys() and all(both == {"wide", "narrow"} for both in widths.values())
    style = page.partition("</style>")[0]
    usual, small = style.partition("@media (max-width: 40rem)")[::2]
    assert 'svg[class$="-narrow"] { display: none !important; }' in usual
    assert 'svg[class$="-wide"] { display: none !important; }' in small
    assert 'svg[class$="-narrow"] { display: block !important; }' in small


def test_a_page_of_forecasts_begins_with_the_horizon_that_counts(tmp_path: Path) -> None:
    page = forecast_page(tmp_path / "far")
    assert "<h3>60 steps ahead (200 ms), the horizon that counts</h3>" in page
    assert page.index("60 steps ahead (200 ms), the horizon") < page.index("<h3>1 step ahead (3.33 ms)</h3>")
    assert ">1.25<" in page.partition("What it forecasts")[0] and "usual steps, 60 steps ahead" in page
    near = forecast_page(tmp_path / "near", main=1)
    assert near.index("<h3>1 step ahead (3.33 ms), the horizon that counts</h3>") < near.index("<h3>60 steps")
    assert "<h3>60 steps ahead (200 ms), the horizon" in forecast_page(tmp_path / "unnamed", main=None)


def test_each_channel_has_its_own_unit_and_small_ones_are_no_zeros(tmp_path: Path) -> None:
    page = forecast_page(tmp_path / "run")
    cells = re.findall(r'<td class="number">([^<]+)</td>', page)
    assert {"102.1", "1.875e-06", "81.70", "1.500e-06"} <= set(cells) and "0.000" not in cells
    assert "CRPS of Fz" in page and "CRPS of angle" in page


def test_numbers_are_rows_and_series_not_characters_and_documents(tmp_path: Path) -> None:
    page = forecast_page(tmp_path / "run")
    lead = page.partition('class="lead">')[2].partition("</p>")[0]
    assert lead == "Trained on recordings: 800 rows (5 series) to learn from."
    assert "validation text" not in page
