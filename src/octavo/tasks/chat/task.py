"""Chat: conversations whose answers are learned, and pairs of answers of which one is preferred."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from octavo.config import Recipe
from octavo.config.parts import register
from octavo.data import Dataset
from octavo.errors import ConfigError, InputError
from octavo.evaluation.diversity import Mean
from octavo.evaluation.result import Evaluation, Finding
from octavo.evaluation.samples import STORIES, GeneratedTexts
from octavo.generation import Engine, Prompt, TextRequest, in_order
from octavo.generation.sampling import sampling_of
from octavo.model.base import LanguageModel
from octavo.synthetic.wishes import WishesSource
from octavo.task import Command, EvaluationContext, Page, Section, Trained
from octavo.tasks.chat import answer_metrics, cost, preference_metrics, wishes
from octavo.tasks.chat.prompts import held_out, judges_only, question, wished
from octavo.tasks.chat.report import of_preferences
from octavo.tasks.chat.turns import ByTemplate
from octavo.tasks.text.task import TextTask
from octavo.tokenizers import Tokenizer
from octavo.training.device import Runtime
from octavo.util.records import json_text
from octavo.util.terminal import Console

ANSWERS = 64
"""Held-out prompts that a tuned model answers."""
HERE = Path(__file__).parent


@register("task")
class ChatTask(TextTask):
    """Answer what a user says, or prefer one of two answers."""

    kind: Literal["chat"] = "chat"  # pyrefly: ignore  # not that of texts
    says_files = False
    baseline_words: ClassVar[Mapping[str, tuple[str, str]]] = {
        "coin": ("a coin", "both answers equally good")
    }
    baseline_names: ClassVar[Mapping[str, str]] = {"coin": "a coin"}

    def dataset(self, recipe: Recipe, console: Console, tokenizer: Tokenizer | None) -> Dataset:
        if tokenizer is None:
            raise ConfigError(
                f"A model learns from {recipe.form} when it knows the language already.",
                remedy="training.start_from=RUN, or octavo tune sft RUN --text chats.jsonl",
            )
        return super().dataset(recipe, console, tokenizer)

    def encoder(self, recipe: Recipe, tokenizer: Tokenizer) -> Tokenizer:
        return ByTemplate(tokenizer)

    def options_of_files(self, recipe: Recipe) -> dict[str, Any]:
        return {"records": {"kind": recipe.form}}

    def takes_documents(self, recipe: Recipe) -> bool:
        return False

    def tunes(self, recipe: Recipe) -> bool:
        return True

    def figures(self, model: LanguageModel, context: EvaluationContext) -> tuple[Finding, ...]:
        preferences = preference_metrics.preferred(model, context)
        return () if preferences is None else (Finding("preferences", preferences),)

    def cuts_documents(self, recipe: Recipe) -> bool:
        return recipe.form != "preferences"  # of which it is said how many are left out

    def write(self, model: LanguageModel, dataset: Dataset, recipe: Recipe) -> GeneratedTexts | None:
        return None if judges_only(recipe) else answered(model, dataset, recipe)

    def judge_answers(self, written: GeneratedTexts, recipe: Recipe) -> Sequence[Finding]:
        return [Finding("wishes", wishes.kept_by(written))] if isinstance(recipe.corpus, WishesSource) else []

    def beside_start(
        self, run: Trained, evaluation: Evaluation, dataset: Dataset, runtime: Runtime, console: Console
    ) -> Evaluation:
        price = cost.cost_of_tuning(run, runtime, console)
        if run.started is not None:
            before = (
                Finding(
                    one.key, replace(one.value, before=self.kept_before(run.started, dataset, run.config))
                )
                if one.key == "wishes"
                else one
                for one in evaluation.texts
            )
            evaluation = replace(evaluation, texts=tuple(before))
        findings = (
            Finding("cost", price),
            Finding("answers", answer_metrics.beside_base(run, dataset)),
        )
        return replace(evaluation, beside_start=tuple(one for one in findings if one.value is not None))

    def kept_before(self, started: LanguageModel, dataset: Dataset, recipe: Recipe) -> Mean:
        """The share of wishes that a model kept before it was tuned."""
        return wishes.kept_by(answered(started, dataset, recipe)).kept

    def prompts(
        self, recipe: Recipe, dataset: Dataset, context: int
    ) -> tuple[Sequence[Prompt], Sequence[str]]:
        """The recipe's, as a user's words; in the place of an empty one the first held-out prompt."""
        prompts, tokenizer = () if judges_only(recipe) else recipe.sampling.prompts, dataset.tokenizer
        if not prompts:
            return (), ()
        first = held_out(dataset.validation, tokenizer, 1, context=context)
        questions = [question(prompt, tokenizer) if prompt or not first else first[0] for prompt in prompts]
        return [one.prompt for one in questions], [one.shown(tokenizer) for one in questions]

    def answer_sentences(self, evaluation: Mapping[str, Any]) -> list[str]:
        return [
            *([wishes.sentence(evaluation["wishes"])] if "wishes" in evaluation else []),
            *preference_metrics.sentences(evaluation),
            *answer_metrics.sentences(evaluation),
            *([cost.sentence(evaluation["cost"])] if "cost" in evaluation else []),
        ]

    def sections(self, page: Page, *, wide: float, narrow: float) -> list[Section]:
        return [
            Section(HERE / "preferences.html", of_preferences(page, wide, narrow)),
            *super().sections(page, wide=wide, narrow=narrow),
            Section(HERE / "answers.html", {"answers": page.evaluation.get("answers")}, "below text"),
        ]

    def passes(self, train: Mapping[str, int], recipe: Recipe, seen: int) -> float:
        if recipe.form == "preferences":
            return seen / train["documents"]
        return super().passes(train, recipe, seen)

    def commands(
        self, folder: Path, recipe: Recipe, evaluation: Mapping[str, Any]
    ) -> tuple[Command, Command]:
        use, judge = super().commands(folder, recipe, evaluation)
        if judges_only(recipe):
            reward = "{kind: model, run: " + json_text(str(folder)) + "}"
            use = Command("Let another run learn from it", ("tune", "rl", "RUN", "--reward", reward))
        return use, judge

    def refuse_to_write(self, run: Trained) -> None:
        if judges_only(run.config):
            raise InputError(
                f"{run.path} is a learned reward: it judges texts, and writes none.",
                remedy="octavo tune rl RUN --reward '{kind: model, run: …}' lets another run learn from it",
            )


def answered(model: LanguageModel, dataset: Dataset, recipe: Recipe) -> GeneratedTexts:
    """What a tuned model answers to held-out prompts; the answers that the data has are its control."""
    sampling = sampling_of(recipe.sampling)
    prompts = held_out(dataset.validation, dataset.tokenizer, ANSWERS, context=model.context)
    if isinstance(recipe.corpus, WishesSource):
        prompts = wished(dataset.tokenizer, STORIES, seed=recipe.seed)
    requests = [TextRequest(prompt.prompt, recipe.seed + number) for number, prompt in enumerate(prompts)]
    tokens = min(recipe.sampling.tokens, model.context)
    written = Engine(model, dataset.tokenizer).write_each(requests, tokens=tokens, sampling=sampling)
    samples = in_order(sample for sample, _ in written)
    answers, questions = [prompt.answer for prompt in prompts], [prompt.text for prompt in prompts]
    return GeneratedTexts(samples, sampling, tokens, answers, questions)
