"""Forecasts of a run whose model predicts rows of numbers: judged on held-out series, and made for new ones.

W places that paths begin at, M paths of each, C channels, D columns (channels, then covariates).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from octavo.config import Recipe, check
from octavo.config.parts import command
from octavo.data import Dataset, Split
from octavo.errors import CorpusError, InputError
from octavo.evaluation.result import Baseline, Finding, Standing
from octavo.model.base import LanguageModel
from octavo.model.gpt import GPT
from octavo.run.data import Paths, absolute, found_corpus
from octavo.tasks.forecast.baselines import Baselines, filled
from octavo.tasks.forecast.columns import Columns
from octavo.tasks.forecast.dataset import prepare_new, series_in
from octavo.tasks.forecast.objective import head_of
from octavo.tasks.forecast.paths import sample_paths
from octavo.tasks.forecast.scores import Scores, mean_density, quantiles, scores
from octavo.tasks.forecast.source import SeriesSource
from octavo.tasks.forecast.stored import OWN
from octavo.tokenizers import Tokenizer
from octavo.util.seeds import derived
from octavo.util.terminal import Console

MOST_STREAMS = 2000
"""Paths that are drawn at once: more would take more memory, and no less time."""

QUANTILES = (2.5, 10, 25, 50, 75, 90, 97.5)
"""In per cent: the fans of 50, 80 and 95 %, and the median."""

SHOWN = 150
"""Rows of history that the page's example shows."""


def channels_of(split: Split, columns: Columns) -> list[np.ndarray]:
    """The channels (N, C) of each series of a split."""
    count = len(columns.channels)
    return [np.asarray(split.tokens[begin:end, :count]) for begin, end in series_in(split)]


def standing_of(
    model: GPT, train_split: Split, split: Split, recipe: Recipe, columns: Columns, console: Console
) -> Standing:
    """The baselines of a forecaster, its scores several steps ahead beside theirs, an example, and, where the world is
    known, the loss that nobody can go below."""
    objective = recipe.objective
    train, held_out = channels_of(train_split, columns), channels_of(split, columns)
    console.say("fitting simple predictors to the training split, to compare with")
    simple = Baselines(train, context=recipe.model.context, horizons=objective.horizons)
    losses: dict[str, Baseline] = {}
    if objective.score == "likelihood":
        losses = {
            name: Baseline(loss) for name, loss in simple.losses(held_out).items() if math.isfinite(loss)
        }
    places = origins(split, objective.horizons, objective.origins)
    why_not = unseen(split, places, objective.horizons, columns)
    if why_not is None:
        parts = [Finding("forecast", judged(model, simple, split, places, recipe, columns, console))]
    else:
        parts = [Finding("why_no_forecast", why_not)]
        console.say(why_not)
    source = found_corpus(recipe).build(report=lambda sentence: None)
    entropy = floor_of(source, held_out) if objective.score == "likelihood" else None
    if entropy is not None:
        parts.append(Finding("source_entropy", entropy))
    return Standing(losses, tuple(parts))


def floor_of(source: SeriesSource, series: Sequence[np.ndarray]) -> float | None:
    """−ln of the true density of each row but the first of each series, a step's mean; None if nobody knows it."""
    found = [source.log_density(rows) for rows in series]
    known = [densities[1:] for densities in found if densities is not None]
    return -float(np.concatenate(known).mean()) if known else None


def origins(split: Split, horizons: Sequence[int], count: int) -> list[tuple[int, int]]:
    """Evenly spread places in a split: (begin of the series, first row to be forecast). Some history stands before
    each, and all horizons after it."""
    furthest = max(horizons)
    spans = [(begin, begin + max(1, (end - begin) // 4), end - furthest) for begin, end in series_in(split)]
    choices = [(begin, first, last) for begin, first, last in spans if last >= first]
    total = sum(last - first + 1 for _, first, last in choices)
    wanted = (np.arange(min(count, total)) + 0.5) * total / max(1, min(count, total))
    edges = np.cumsum([0, *(last - first + 1 for _, first, last in choices)])
    places = []
    for at in wanted.astype(np.int64):
        number = int(np.searchsorted(edges, at, side="right")) - 1
        begin, first, _ = choices[number]
        places.append((begin, int(first + at - edges[number])))
    return places


def unseen(
    split: Split, places: Sequence[tuple[int, int]], horizons: Sequence[int], columns: Columns
) -> str | None:
    """Why forecasts of a split cannot be judged, in a sentence; None if they can."""
    if not places:
        longest = max((end - begin for begin, end in series_in(split)), default=0)
        return (
            f"nothing is forecast: the longest held-out series has {longest:,} rows, and a horizon of "
            f"{max(horizons):,} needs as many after a beginning; shorter objective.horizons, or a longer series"
        )
    rows, channels = np.asarray(split.tokens), len(columns.channels)
    for horizon in horizons:
        if np.isnan(rows[[at + horizon - 1 for _, at in places], :channels]).all():
            return (
                f"nothing is forecast: no number of a channel is known {horizon:,} rows after any of the "
                f"{len(places):,} places; other objective.horizons, or more objective.origins"
            )
    return None


@dataclass(frozen=True)
class Example:
    """One forecast for the page, rows of channels: quantiles by per cent, and some paths."""

    history: list[Any]
    truth: list[Any]
    quantiles: dict[str, list[Any]]
    paths: list[Any]


@dataclass(frozen=True)
class Judged:
    """Forecasts of held-out series, judged.

    Attributes:
        rate: rows a second.
        main_horizon: the one that counts.
        origins, paths: places that paths begin at, and paths of each.
        predictors: scores of the model and of the simple predictors, by horizon.
    """

    channels: list[str]
    rate: float | None
    horizons: list[int]
    main_horizon: int
    origins: int
    paths: int
    predictors: dict[str, list[Scores]]
    example: Example


def judged(
    model: GPT,
    simple: Baselines,
    split: Split,
    places: Sequence[tuple[int, int]],
    recipe: Recipe,
    columns: Columns,
    console: Console,
) -> Judged:
    """Draw and judge the model's paths and those of simple predictors."""
    objective, count = recipe.objective, len(columns.channels)
    horizons = sorted(set(objective.horizons))
    rows, furthest = np.asarray(split.tokens), horizons[-1]
    truth = np.stack([rows[at : at + furthest, :count] for _, at in places]).astype(np.float64)
    ahead = np.stack([rows[at : at + furthest, count:] for _, at in places])
    reach = recipe.model.context
    known = np.stack([_before(rows, begin, at, reach) for begin, at in places])
    console.say(f"drawing {objective.paths} paths of {furthest} steps from each of {len(places)} places")
    drawn, densities = model_paths(
        model,
        known[:, -history_of(reach, furthest) :],
        ahead,
        truth,
        horizons,
        paths=objective.paths,
        seed=recipe.seed,
    )
    drawn_by = {OWN: {h: (drawn[:, :, h - 1].swapaxes(0, 1), densities[h]) for h in horizons}}
    before = [rows[max(begin, at - reach) : at, :count] for begin, at in places]
    drawn_by |= simple.forecast(before, truth, horizons, paths=objective.paths, seed=recipe.seed)
    table = {
        name: [
            scores(h, *each[h][:1], truth[:, h - 1], each[h][1], simple.step, np.random.default_rng([7, h]))
            for h in horizons
        ]
        for name, each in drawn_by.items()
    }
    middle = len(places) // 2
    return Judged(
        channels=list(columns.channels),
        rate=columns.rate,
        horizons=horizons,
        main_horizon=objective.main_horizon or horizons[-1],
        origins=len(places),
        paths=objective.paths,
        predictors=table,
        example=example(filled(before[middle], np.nan), truth[middle], drawn[middle]),
    )


def _before(rows: np.ndarray, begin: int, at: int, reach: int) -> np.ndarray:
    """The `reach` rows before a place, NaN where the series has not begun."""
    held = rows[max(begin, at - reach) : at]
    return np.concatenate([np.full((reach - len(held), rows.shape[1]), np.nan, np.float32), held])


def history_of(context: int, steps: int) -> int:
    """Rows of history to read, so that what is drawn fits into the context with them where that leaves half of it."""
    return max(context - steps + 1, context // 2, 1)


def example(history: np.ndarray, truth: np.ndarray, drawn: np.ndarray) -> Example:
    """Numbers to seven digits, which are plenty for a plot."""

    def rounded(values: np.ndarray) -> list[Any]:
        plain = np.array([None if np.isnan(v) else float(f"{v:.7g}") for v in values.flat], object)
        return plain.reshape(values.shape).tolist()

    return Example(
        history=rounded(history[-SHOWN:]),
        truth=rounded(truth),
        quantiles={str(q): rounded(quantiles(drawn, q)) for q in QUANTILES},
        paths=rounded(drawn[:5]),
    )


def model_paths(
    model: GPT,
    history: np.ndarray,
    ahead: np.ndarray,
    truth: np.ndarray,
    horizons: Sequence[int],
    *,
    paths: int,
    seed: int,
) -> tuple[np.ndarray, dict[int, np.ndarray]]:
    """Paths (W, M, steps, C), and of each horizon the log density (W,) of what came: of each channel the mean
    over the paths of what each says of it, and the sum of the logs."""
    head, count, columns = head_of(model), truth.shape[-1], history.shape[-1]
    drawn: list[np.ndarray] = []
    densities: dict[int, list[np.ndarray]] = {h: [] for h in horizons}
    together = max(1, MOST_STREAMS // paths)
    for first in range(0, len(history), together):
        part = slice(first, first + together)
        came = truth[part]

        def told(step: int, pieces: Tensor, before: Tensor, row: Tensor, came: np.ndarray = came) -> None:
            if step not in densities:
                return
            values = np.full((len(came), columns), np.nan, np.float32)
            values[:, :count] = came[:, step - 1]
            repeated = torch.from_numpy(values.repeat(paths, axis=0)).to(pieces.device)
            density = head.log_density(pieces, before, repeated, row)[:, :count].double().cpu().numpy()
            each = mean_density(density.reshape(len(came), paths, count).swapaxes(0, 1))
            densities[step].append(each.sum(axis=-1))

        drawn.append(
            sample_paths(model, history[part], ahead[part], paths=paths, seed=seed + first, told=told)
        )
    whole = np.concatenate(drawn).astype(np.float64)
    return whole, {h: np.concatenate(density) for h, density in densities.items()}


def new_split(recipe: Recipe, columns: Columns, text: Paths, console: Console) -> Dataset:
    """Series in other files, read as the recipe reads its own."""
    own = recipe.corpus.model_dump(mode="json") if recipe.corpus.kind == "series" else {"kind": "series"}
    named = {"channels": columns.channels, "covariates": columns.covariates, "without": ()}
    tree = own | {"paths": absolute(text)} | named
    asked = {
        "corpus": tree,
        "batches": "series",
        "objective": "forecast",
        "model": {"input": "linear", "output": "gaussian"},
    }
    return prepare_new(check(asked).corpus.build(report=console.say), columns, report=console.say)


class Forecaster(Protocol):
    """What a forecast needs of a run. `octavo.run.run.Run` is one."""

    config: Recipe

    @property
    def path(self) -> Path: ...
    @property
    def model(self) -> LanguageModel: ...
    @property
    def tokenizer(self) -> Tokenizer: ...


MOST_SAMPLES = 1_000_000
"""Paths of a forecast: quantiles of so many are exact to three digits."""


def refuse_numbers(steps: int | None, samples: int, seed: int) -> None:
    """Raise InputError for what a forecast cannot be drawn with."""
    if samples < 1:
        raise InputError("--samples must be at least 1.", remedy="--samples 200")
    if samples > MOST_SAMPLES:
        raise InputError(f"--samples must be at most {MOST_SAMPLES:,}.", remedy="--samples 200")
    if steps is not None and steps < 1:
        raise InputError("--steps must be at least 1.", remedy="--steps 10")
    if not 0 <= seed < 2**64:
        raise InputError(f"{seed} is no seed.", remedy="a whole number from 0 to 2**64 - 1")


def forecast_of(
    run: Forecaster,
    text: str | Path | Sequence[str | Path],
    *,
    steps: int | None,
    samples: int,
    seed: int,
    console: Console | None = None,
) -> list[dict[str, Any]]:
    """See `forecast`. Raises InputError for a run whose model predicts tokens, and for fewer than one path or step."""
    console = console or Console(quiet=True)
    refuse_numbers(steps, samples, seed)
    model, columns = run.model, run.tokenizer
    if not isinstance(columns, Columns) or not isinstance(model, GPT):
        raise InputError(
            f"The model of {run.path} predicts text, not numbers.",
            remedy=command("octavo", "generate", run.path),
        )
    dataset = new_split(run.config, columns, text, console)
    return forecast(model, dataset, columns, steps=steps, samples=samples, seed=seed, console=console)


def forecast(
    model: GPT,
    dataset: Dataset,
    columns: Columns,
    *,
    steps: int | None,
    samples: int,
    seed: int,
    console: Console,
) -> list[dict[str, Any]]:
    """Paths after each series of a dataset that was made by `new_split`: its `name`, `channels`, `history` (N, C) and
    `paths` (M, steps, C).

    Rows at the end of a series without a channel are those to come: they say the covariates, and how many steps.
    Raises CorpusError where neither they nor `steps` say how many.
    """
    split, count, forecasts = dataset.splits["text"], len(columns.channels), []
    parts = zip(dataset.manifest["series"]["text"], series_in(split), strict=True)
    for series, (name, (begin, end)) in enumerate(parts):
        rows = np.asarray(split.tokens[begin:end])
        there = np.flatnonzero(~np.isnan(rows[:, :count]).all(axis=1))
        if not len(there):
            raise CorpusError(f"{name} has no row with a number to go on from.")
        stop = int(there[-1]) + 1
        wanted = steps or len(rows) - stop
        if not wanted:
            raise CorpusError(
                f"How many steps of {name}?", remedy="--steps N, or rows without channels at its end"
            )
        ahead = rows[stop : stop + wanted, count:]
        if columns.covariates and len(ahead) < wanted:
            console.say(f"{name}: covariates stay what they were in its last row")
        last = ahead[-1:] if len(ahead) else rows[stop - 1 : stop, count:]
        ahead = np.concatenate([ahead, np.repeat(last, wanted - len(ahead), axis=0)])
        history = rows[:stop][-history_of(model.context, wanted) :]
        drawn = [
            sample_paths(
                model,
                history[None],
                ahead[None],
                paths=min(MOST_STREAMS, samples - first),
                seed=derived(seed, series, first),
            )
            for first in range(0, samples, MOST_STREAMS)
        ]
        whole = np.concatenate(drawn, axis=1)[0]
        known = {"name": name, "channels": list(columns.channels), "history": rows[:stop, :count]}
        forecasts.append({**known, "paths": whole})
    return forecasts


def summary(forecast: Mapping[str, Any]) -> dict[str, Any]:
    """A forecast as plain data: by channel its quantiles at each step, and its paths."""
    paths: np.ndarray = forecast["paths"]
    return {
        "name": forecast["name"],
        "channels": {
            name: {
                "quantiles": {str(q): quantiles(paths[:, :, place], q).tolist() for q in QUANTILES},
                "paths": paths[:, :, place].tolist(),
            }
            for place, name in enumerate(forecast["channels"])
        },
    }
