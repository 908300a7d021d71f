"""Translation: a target is learned that follows from a source, such as a sentence in another language."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from octavo.config import Recipe
from octavo.config.parts import register
from octavo.data import Dataset, Split
from octavo.data.batches import Known
from octavo.errors import InputError, MissingExtra
from octavo.evaluation.result import Finding, LeftOut
from octavo.evaluation.samples import GeneratedTexts
from octavo.model.base import LanguageModel
from octavo.task import Command, Page, Section, Trained
from octavo.tasks.text.task import Floor, TextTask
from octavo.tasks.translation.evaluate import (
    chosen_search,
    known_there,
    left_out,
    samples_of,
    scored,
    sides,
    source_floor,
    translations,
)
from octavo.tasks.translation.report import of_evaluation, search_in_words
from octavo.tasks.translation.stored import TranslationEvaluation
from octavo.tasks.translation.translator import Translator
from octavo.tokenizers import Tokenizer

HERE = Path(__file__).parent


@register("task")
class TranslationTask(TextTask):
    """Predict a target, given its source."""

    kind: Literal["translation"] = "translation"  # pyrefly: ignore  # not that of texts
    stored = TranslationEvaluation
    other_tokens = (
        "Their tokenizers differ, so their losses do not compare; octavo translate RUN --judge does."
    )
    kept_of_test = ("scores", "known")

    def takes_documents(self, recipe: Recipe) -> bool:
        return False

    def left_out(self, split: Split, recipe: Recipe, tokenizer: Tokenizer) -> LeftOut | None:
        return left_out(split, recipe, tokenizer)

    def cuts_documents(self, recipe: Recipe) -> bool:
        return False

    def floor(self, dataset: Dataset, recipe: Recipe) -> Floor | None:
        loss = source_floor(recipe, dataset)
        return None if loss is None else Floor(loss, loss)

    def write(self, model: LanguageModel, dataset: Dataset, recipe: Recipe) -> GeneratedTexts | None:
        return None

    def judge_texts(
        self, model: LanguageModel, written: GeneratedTexts | None, dataset: Dataset, recipe: Recipe
    ) -> tuple[Finding, ...]:
        return (Finding("translations", translations(model, dataset, recipe)),)

    def on_test(
        self, run: Trained, split: Split, dataset: Dataset, recipe: Recipe, stored: Mapping[str, Any]
    ) -> tuple[Finding, ...]:
        """BLEU and chrF with the search that was chosen on the validation split."""
        known = known_there(split, dataset, recipe)
        findings = [] if known is None else [Finding("known", known)]
        with suppress(MissingExtra):
            translator = Translator(run.model, run.tokenizer, recipe.batches)
            search = chosen_search(stored.get("translations") or {})
            findings.append(
                Finding("scores", scored(translator, sides(split, recipe, run.tokenizer), [search]))
            )
        return tuple(findings)

    def samples(self, model: LanguageModel, dataset: Dataset, recipe: Recipe) -> list[str]:
        return samples_of(model, dataset, recipe)

    def headlines(self, evaluation: Mapping[str, Any], found: list[Any], headline: Any) -> list[Any]:
        ways = (evaluation.get("scores") or {}).get("ways", ())  # of a look at the test split
        how = (f"{search_in_words(way)}, chrF {way['chrf']['score']:.1f}" for way in ways)
        own = [
            headline("test BLEU", way["bleu"]["score"], "{:.1f}", words)
            for way, words in zip(ways, how, strict=True)
        ]
        return [*found, *filter(None, own)]

    def remarks(self, evaluation: Mapping[str, Any]) -> list[str]:
        sentences = super().remarks(evaluation)
        for way in (evaluation.get("scores") or {}).get("ways", ()):
            scores = (f"{name} {way[key]['score']:.2f}" for name, key in (("BLEU", "bleu"), ("chrF", "chrf")))
            sentences.append(f"{', '.join(scores)} with {search_in_words(way)}, {way['bleu']['signature']}")
        known = evaluation.get("known") or (evaluation.get("translations") or {}).get("known")
        return [*sentences, str(Known(**known))] if known else sentences

    def sections(self, page: Page, *, wide: float, narrow: float) -> list[Section]:
        own = Section(HERE / "translations.html", of_evaluation(page))
        return [own, *super().sections(page, wide=wide, narrow=narrow)]

    def commands(
        self, folder: Path, recipe: Recipe, evaluation: Mapping[str, Any]
    ) -> tuple[Command, Command]:
        """With a prompt of the recipe's own, or a held-out source."""
        examples = (evaluation.get("translations") or {}).get("examples") or [{"source": "a sentence"}]
        prompt = recipe.sampling.prompts[0] or examples[0]["source"]
        return (
            Command("Let it translate", ("translate", folder, "--prompt", prompt)),
            Command("Judge it on other pairs", ("translate", folder, "--judge", "SOURCES", "TARGETS")),
        )

    def refuse_to_write(self, run: Trained) -> None:
        raise InputError(
            f"{run.path} is a translator: it learned from pairs, and continues no text.",
            remedy="octavo translate gives it sources",
        )

    def translator(self, run: Trained, *, cached: bool = True) -> Translator:
        return Translator(run.model, run.tokenizer, run.config.batches, cached=cached)
