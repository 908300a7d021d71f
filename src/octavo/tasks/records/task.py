"""Records: sequences of symbols that are each a whole, such as images pixel by pixel, or tunes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from octavo.config import Recipe
from octavo.config.parts import PartConfig, register
from octavo.data import Dataset
from octavo.evaluation.result import Figures, Finding, Standing
from octavo.model.base import LanguageModel
from octavo.task import EvaluationContext
from octavo.tasks.records.metrics import per_record, record_baselines
from octavo.tasks.records.pixels import PixelsConfig, Raster
from octavo.tasks.records.report import pictures
from octavo.tasks.records.stored import RecordsEvaluation
from octavo.tasks.text.task import TextTask


@register("task")
class RecordsTask(TextTask):
    """Predict the next symbol of records."""

    kind: Literal["records"] = "records"  # pyrefly: ignore  # not that of texts
    stored = RecordsEvaluation
    baseline_words: ClassVar[Mapping[str, tuple[str, str]]] = {
        "factorised": ("each place on its own", "how often each symbol stands there, Laplace smoothed"),
        "gzip_symbols": ("gzip −9 of symbols", "the validation records, a symbol a byte"),
        "png": ("PNG", "each record a file of its own, by the filter that makes it smallest"),
    }
    baseline_names: ClassVar[Mapping[str, str]] = {
        "gzip_symbols": "gzip of the symbols as bytes",
        "png": "PNG files",
    }

    def evaluate(self, model: LanguageModel, context: EvaluationContext, figures: Figures) -> Standing:
        standing, recipe, dataset = super().evaluate(model, context, figures), context.recipe, context.dataset
        if dataset is None or not each_alone(recipe) or not recipe.objective.unit.text:
            return standing
        sides, size = (dataset.train, dataset.validation), dataset.tokenizer.vocab_size
        own = record_baselines(*sides, vocab_size=size, raster=raster_of(recipe.corpus))
        records = Finding("records", per_record(dataset.validation, figures.metrics.loss))
        before = [one for one in standing.parts if one.key == "counted"]
        after = [one for one in standing.parts if one.key != "counted"]
        return replace(standing, baselines={**standing.baselines, **own}, parts=(*before, records, *after))

    def amount(self, model: LanguageModel, dataset: Dataset, recipe: Recipe) -> tuple[int, int]:
        tokens, count = super().amount(model, dataset, recipe)
        return (model.context if isinstance(recipe.corpus, PixelsConfig) else tokens), count

    def loss_sentences(self, evaluation: Mapping[str, Any]) -> Sequence[str]:
        if not (records := evaluation.get("records")):
            return ()
        return (
            f"That is {records['nats']:.2f} nats per record of {records['symbols']:,.0f} symbols, "
            f"{records['bits_per_symbol']:.4f} bits per symbol.",
        )

    def headlines(self, evaluation: Mapping[str, Any], found: list[Any], headline: Any) -> list[Any]:
        records = evaluation.get("records") or {}
        own = [
            headline(
                "nats per record",
                records.get("nats"),
                "{:,.2f}",
                f"of {records.get('symbols') or 0:,.0f} symbols and an end",
            ),
            headline(
                "bits per symbol",
                records.get("bits_per_symbol"),
                "{:.4f}",
                "the end's added; of pixels: bits per dimension",
            ),
        ]
        at = sum(one.label in ("validation loss", "perplexity") for one in found)
        return [*found[:at], *filter(None, own), *found[at:]]

    def pictures(self, folder: Path, recipe: Recipe) -> list[str]:
        return pictures(folder, raster_of(recipe.corpus))

    def idle_options(self, recipe: Recipe) -> list[str]:
        sentences, corpus = [], recipe.corpus
        threshold = type(corpus).model_fields.get("threshold")
        if threshold and corpus.levels > 2 and corpus.threshold != threshold.default:
            sentences.append(
                f"corpus.threshold has no effect: there are {corpus.levels} levels of equal width"
            )
        if getattr(corpus, "order", "raster") == "raster":
            return sentences
        if (kind := recipe.model.positions.kind).startswith("grid"):
            sentences.append(
                f"model.positions={kind} counts rows and columns in the raster's order, and "
                f"corpus.order={corpus.order} has another: positions=learned or rotary fit it"
            )
        return sentences

    def offers(self, recipe: Recipe, judge: str) -> frozenset[str]:
        return super().offers(recipe, judge) | ({"nats_per_record"} if each_alone(recipe) else set())

    def study_figures(
        self, evaluation: Mapping[str, Any], recipe: Recipe, *, nats: float | None, documents: int
    ) -> dict[str, float | None]:
        study = super().study_figures(evaluation, recipe, nats=nats, documents=documents)
        return study | {
            "nats_per_record": nats / documents if nats is not None and each_alone(recipe) else None
        }


def each_alone(recipe: Recipe) -> bool:
    """Whether each record is a row of its own."""
    return bool(getattr(recipe.batches, "alone", False))


def raster_of(corpus: PartConfig) -> Raster | None:
    """How records are images; None where they are none."""
    return corpus.raster() if isinstance(corpus, PixelsConfig) else None
