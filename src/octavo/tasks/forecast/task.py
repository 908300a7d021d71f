"""Forecasts: the next row of a table of numbers is learned as a distribution."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from octavo.config import Recipe
from octavo.config.parts import PartConfig, register
from octavo.data import Dataset, Split
from octavo.errors import InputError
from octavo.evaluation.diagnostics import Rivals
from octavo.evaluation.result import Figures, Standing
from octavo.evaluation.sentences import against_source, standing
from octavo.model.base import LanguageModel
from octavo.model.gpt import GPT
from octavo.run.data import found_corpus
from octavo.task import Command, EvaluationContext, Page, Paths, Section, Task, Trained
from octavo.tasks.forecast.columns import Columns
from octavo.tasks.forecast.dataset import prepare_series
from octavo.tasks.forecast.evaluate import forecast_of, new_split, standing_of
from octavo.tasks.forecast.objective import ForecastConfig
from octavo.tasks.forecast.report import of_forecast
from octavo.tasks.forecast.stored import (
    OWN,
    ForecastEvaluation,
    ahead,
    crps_by_predictor,
    forecast_sentences,
    main_horizon,
    scores_at,
)
from octavo.tokenizers import Tokenizer
from octavo.util.terminal import Console, significant


@register("task")
class ForecastTask(Task):
    """Predict the distribution of the next row of series of numbers."""

    kind: Literal["forecast"] = "forecast"
    judged_on = ("rows", "rows for all, one step ahead")
    in_bytes = False
    learned_from = "numbers"
    needs_training = True
    tokenizer = Columns
    stored = ForecastEvaluation

    def dataset(self, recipe: Recipe, console: Console, tokenizer: Tokenizer | None) -> Dataset:
        with console.working("reading the numbers", None):
            return prepare_series(
                found_corpus(recipe).build(report=console.say_once),
                validation=recipe.validation,
                held_out=recipe.corpus.held_out,
                differences=recipe.model.output.predict == "difference",
                report=console.say_once,
            )

    def new_split(self, recipe: Recipe, tokenizer: Tokenizer, text: Paths, console: Console) -> Split:
        assert isinstance(tokenizer, Columns), "no other model predicts rows of numbers"
        return new_split(recipe, tokenizer, text, console).splits["text"]

    def vocabulary_words(self, size: int, own: str) -> str:
        return f"rows of {size:,} columns"

    def idle_options(self, recipe: Recipe) -> list[str]:
        sentences, head = [], recipe.model.output
        if recipe.sampling.every:
            sentences.append("sampling has no effect: the model predicts numbers, and writes no text")
        if head.channels == "independent" and _changed(head, "hidden"):
            sentences.append(f"model.output.hidden={head.hidden} has no effect: channels are independent")
        if head.kind == "bins" and _changed(head, "floor"):
            sentences.append(f"model.output.floor={head.floor:g} has no effect: bins have their widths")
        if recipe.tokenizer.kind != Recipe().tokenizer.kind:
            sentences.append("tokenizer has no effect: numbers are not cut into tokens")
        return sentences

    def evaluate(self, model: LanguageModel, context: EvaluationContext, figures: Figures) -> Standing:
        columns, train = context.tokenizer, context.train
        assert isinstance(columns, Columns) and isinstance(model, GPT), "no other model predicts rows"
        assert train is not None, "simple predictors learn from it"
        return standing_of(model, train, context.split, context.recipe, columns, context.console)

    def rivals(self, evaluation: Mapping[str, Any]) -> Rivals | None:
        if (forecast := evaluation.get("forecast")) is None:
            return None
        horizon = main_horizon(forecast)
        scores = scores_at(forecast, horizon)
        return Rivals(scores.pop(OWN), scores, f"By CRPS, {ahead(horizon, forecast.get('rate'))}, it")

    def remarks(self, evaluation: Mapping[str, Any]) -> list[str]:
        return forecast_sentences(evaluation)

    def sentences(self, evaluation: Mapping[str, Any], recipe: Recipe) -> list[str]:
        ahead = ", one step ahead" if "forecast" in evaluation else ""
        found = [*forecast_sentences(evaluation), standing(evaluation, self.baseline_names, ahead)]
        if "source_entropy" in evaluation:
            found.append(against_source(evaluation, recipe.objective.unit))
        return found

    def headlines(self, evaluation: Mapping[str, Any], found: list[Any], headline: Any) -> list[Any]:
        if not (forecast := evaluation.get("forecast")):
            return found
        horizon = main_horizon(forecast)
        if not math.isfinite(score := scores_at(forecast, horizon)[OWN]):
            return found
        where = ahead(horizon, forecast.get("rate"))
        return [headline("CRPS", significant(score, 3), "{}", f"usual steps, {where}"), *found]

    def sections(self, page: Page, *, wide: float, narrow: float) -> list[Section]:
        template = Path(__file__).with_name("forecasts.html")
        return [Section(template, of_forecast(page.evaluation, wide, narrow), "above verdict")]

    def commands(
        self, folder: Path, recipe: Recipe, evaluation: Mapping[str, Any]
    ) -> tuple[Command, Command]:
        forecast = ("forecast", folder, "--text", "FILE", "--steps", "50", "--plot", "fan.svg")
        return (
            Command("Let it forecast", forecast),
            Command("Judge it on other series", ("eval", folder, "--text", "PATH")),
        )

    def offers(self, recipe: Recipe, judge: str) -> frozenset[str]:
        draws = judge == "best" and isinstance(recipe.objective, ForecastConfig)
        return frozenset({"crps", "scaled_crps"} if draws else ())

    def study_figures(
        self, evaluation: Mapping[str, Any], recipe: Recipe, *, nats: float | None, documents: int
    ) -> dict[str, float | None]:
        return {name: self.by_predictor(evaluation, name).get(OWN) for name in ("crps", "scaled_crps")}

    def by_predictor(self, evaluation: Mapping[str, Any], metric: str) -> dict[str, float]:
        return crps_by_predictor(evaluation, scaled=metric == "scaled_crps")

    def refuse_to_write(self, run: Trained) -> None:
        run.tokenizer.encode("")  # columns say that there is no text

    def translator(self, run: Trained, *, cached: bool = True) -> Any:
        try:
            return super().translator(run, cached=cached)
        except InputError as error:
            raise InputError(error.what, remedy="octavo forecast RUN --text FILE") from None

    def forecast(self, run: Trained, text: Paths, **options: Any) -> list[dict[str, Any]]:
        return forecast_of(run, text, **options)


def _changed(part: PartConfig, name: str) -> bool:
    """Whether an option has another value than where none is given."""
    return getattr(part, name) != type(part).model_fields[name].default
