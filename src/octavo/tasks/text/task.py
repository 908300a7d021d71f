"""Text, which most tasks are made of: what a model writes, and how it stands beside counting and packing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from octavo.config import Recipe
from octavo.config.parts import register
from octavo.corpus.sources import FilesSource
from octavo.data import Dataset, Split, prepare_text
from octavo.errors import CheckpointError, StorageError
from octavo.evaluation import attribution
from octavo.evaluation.attribution import Attribution, credit, heard, judged_twice
from octavo.evaluation.baselines import baselines
from octavo.evaluation.reading_on import said as said_of_reading
from octavo.evaluation.result import Baseline, Baselines, Figures, Finding, Standing
from octavo.evaluation.samples import STORIES, GeneratedTexts, amount, text_metrics, write
from octavo.evaluation.sentences import against_source
from octavo.evaluation.stored import Baselines as StoredBaselines
from octavo.generation import Engine, Prompt, Sampling, TextRequest, in_order
from octavo.generation.sampling import sampling_of
from octavo.model.base import LanguageModel
from octavo.ngram.mixing import compiled
from octavo.run.data import absolute, cleaned, evaluated_on, rows_at_once, text_dataset
from octavo.task import Command, EvaluationContext, Page, Paths, Section, Task, own_baselines
from octavo.tasks.text.stored import TextEvaluation
from octavo.tokenizers import Tokenizer
from octavo.util.files import replace_text
from octavo.util.processes import Meanwhile
from octavo.util.records import json_text, read_record
from octavo.util.terminal import Console


@register("task")
class TextTask(Task):
    """Predict the next token of texts."""

    kind: Literal["text"] = "text"
    stored = TextEvaluation
    says_files: ClassVar[bool] = True
    """Whether it is said what each of several files holds."""

    def dataset(self, recipe: Recipe, console: Console, tokenizer: Tokenizer | None) -> Dataset:
        return text_dataset(
            recipe,
            console,
            tokenizer,
            lambda tokenizer: self.encoder(recipe, tokenizer),
            by_file=self.says_files,
        )

    def new_split(self, recipe: Recipe, tokenizer: Tokenizer, text: Paths, console: Console) -> Split:
        files = FilesSource(paths=tuple(absolute(text)), **self.options_of_files(recipe))
        source = cleaned(files.build(report=console.say), recipe, console.say_once)
        return prepare_text(source, self.encoder(recipe, tokenizer), report=console.say)

    def options_of_files(self, recipe: Recipe) -> dict[str, Any]:
        """Options of other files that are read as those of the recipe's corpus."""
        return {}

    def takes_documents(self, recipe: Recipe) -> bool:
        return "sources" not in recipe.corpus.splits

    def count_ahead(self, dataset: Dataset, recipe: Recipe) -> None:
        count_ahead(dataset, recipe)

    def cached_baselines(self, dataset: Dataset, recipe: Recipe, console: Console) -> Baselines:
        return cached_baselines(dataset, recipe, console)

    def find_baselines(self, dataset: Dataset, recipe: Recipe, console: Console) -> None:
        if recipe.objective.unit.text:
            with console.working("counting", None):
                cached_baselines(dataset, recipe, console)

    def evaluate(self, model: LanguageModel, context: EvaluationContext, figures: Figures) -> Standing:
        recipe, dataset = context.recipe, context.dataset
        learned_on = while_reading(context)
        if dataset is None:
            sides, beside = (context.train, context.split), {}
            if not context.alone:
                beside = baselines_beside(*sides, context.tokenizer, recipe, context.console)
                beside = with_mixing(beside, learned_on)
            return Standing(beside, () if learned_on is None else (learned_on,))
        beside = with_mixing(cached_baselines(dataset, recipe, context.console), learned_on)
        counted, floor = who_predicts(model, context, dataset), self.floor(dataset, recipe)
        findings = [] if counted is None else [Finding("counted", counted)]
        if learned_on is not None:
            findings.append(learned_on)
        if floor is not None:
            findings += [Finding("source_entropy", floor.entropy), Finding("source_loss", floor.loss)]
        return Standing(beside, tuple(findings))

    def floor(self, dataset: Dataset, recipe: Recipe) -> Floor | None:
        """The least loss on the validation split, where the source that wrote it knows its probability."""
        if recipe.cleaning or not recipe.objective.unit.text:  # cleaned, it is another text
            return None
        split = dataset.validation
        known = recipe.corpus.least_loss(split.text_path, len(split.tokens))
        return None if known is None else Floor(*known)

    def write(self, model: LanguageModel, dataset: Dataset, recipe: Recipe) -> GeneratedTexts | None:
        tokens, count = self.amount(model, dataset, recipe)
        return write(model, dataset, recipe, tokens=tokens, count=count)

    def amount(self, model: LanguageModel, dataset: Dataset, recipe: Recipe) -> tuple[int, int]:
        """Tokens of a sample, and how many there are: more where they can be checked one by one."""
        if checks_texts(recipe):
            return model.context, STORIES
        return amount(model, recipe, vocab_size=dataset.tokenizer.vocab_size)

    def judge_texts(
        self, model: LanguageModel, written: GeneratedTexts | None, dataset: Dataset, recipe: Recipe
    ) -> tuple[Finding, ...]:
        if written is None:
            return ()
        findings = text_metrics(written, dataset)
        if (check := recipe.corpus.checker()) is not None:
            findings.append(Finding("stories", story_metrics(written, check)))
        findings += self.judge_answers(written, recipe)
        if recipe.validator.kind != "none":
            from octavo.tasks.records.validity import validity

            if (checked := validity(written, dataset, recipe)) is not None:
                findings.append(Finding("validity", checked))
        return tuple(findings)

    def judge_answers(self, written: GeneratedTexts, recipe: Recipe) -> Sequence[Finding]:
        """What there is to say of texts that answer what was asked."""
        return ()

    def prompts(
        self, recipe: Recipe, dataset: Dataset, context: int
    ) -> tuple[Sequence[Prompt], Sequence[str]]:
        return recipe.sampling.prompts, recipe.sampling.prompts

    def samples(self, model: LanguageModel, dataset: Dataset, recipe: Recipe) -> list[str]:
        settings = recipe.sampling
        # Of seeds of their own, for the same draws would make the samples nearly the same.
        openings, shown = self.prompts(recipe, dataset, model.context)
        requests = [TextRequest(prompt, recipe.seed + number) for number, prompt in enumerate(openings)]
        engine, sampling = Engine(model, dataset.tokenizer), sampling_of(settings)
        written = engine.write_each(requests, tokens=settings.tokens, sampling=sampling) if requests else ()
        samples = in_order(sample for sample, _ in written)
        return [shown[number] + sample.text for number, sample in enumerate(samples)]

    def remarks(self, evaluation: Mapping[str, Any]) -> list[str]:
        remarks = [attribution.sentence(evaluation["counted"])] if "counted" in evaluation else []
        return remarks + ([said_of_reading(evaluation["reading_on"])] if "reading_on" in evaluation else [])

    def sentences(self, evaluation: Mapping[str, Any], recipe: Recipe) -> list[str]:
        sentences = super().sentences(evaluation, recipe)
        if "counted" in evaluation:
            sentences.append(attribution.sentence(evaluation["counted"]))
        if "reading_on" in evaluation:
            sentences.append(said_of_reading(evaluation["reading_on"]))
        sentences += self.loss_sentences(evaluation)
        if "source_entropy" in evaluation:
            sentences.append(against_source(evaluation, recipe.objective.unit))
        if "stories" in evaluation:
            sentences.append(stories_sentence(evaluation["stories"]))
        sentences += self.answer_sentences(evaluation)
        if "validity" in evaluation:
            from octavo.tasks.records.validity import validity_sentence

            sentences.append(validity_sentence(evaluation["validity"]))
        return sentences

    def loss_sentences(self, evaluation: Mapping[str, Any]) -> Sequence[str]:
        """The loss in other units."""
        return ()

    def answer_sentences(self, evaluation: Mapping[str, Any]) -> Sequence[str]:
        """What the figures say of answers."""
        return ()

    def sections(self, page: Page, *, wide: float, narrow: float) -> list[Section]:
        validity = page.evaluation.get("validity")
        if not validity:
            return []
        from octavo.tasks.records import report

        template = Path(report.__file__).with_name("validity.html")
        values = {"valid": report.valid(validity), "first_wrong": validity["generated"].get("typical")}
        return [Section(template, values, "above text")]

    def commands(
        self, folder: Path, recipe: Recipe, evaluation: Mapping[str, Any]
    ) -> tuple[Command, Command]:
        _, judge = super().commands(folder, recipe, evaluation)
        prompt = recipe.sampling.prompts[0]
        prompted = ("--prompt", prompt) if prompt else ()
        return Command("Let it write", ("generate", folder, *prompted, "--tokens", "200")), judge

    def study_figures(
        self, evaluation: Mapping[str, Any], recipe: Recipe, *, nats: float | None, documents: int
    ) -> dict[str, float | None]:
        one = evaluation.get("stories") or (evaluation.get("validity") or {}).get("generated")
        if not one:
            return {}
        right, of = ("passed", "written") if "passed" in one else ("valid", "records")
        return {"valid": one[right] / one[of]}

    def offers(self, recipe: Recipe, judge: str) -> frozenset[str]:
        return frozenset({"valid"} if judge == "best" and checks_texts(recipe) else ())


@dataclass(frozen=True)
class Floor:
    """What no model can beat, in the loss' unit: the source's own entropy, and its loss on these documents, which may
    be a little harder or easier than others."""

    entropy: float
    loss: float


def checks_texts(recipe: Recipe) -> bool:
    """Whether what a model of the recipe writes is checked one by one."""
    return recipe.corpus.checker() is not None or recipe.validator.kind != "none"


def while_reading(context: EvaluationContext) -> Finding | None:
    """What a model reaches whose counts go on learning in the split; None where they cannot."""
    if context.heard is None or not context.recipe.objective.unit.text:
        return None
    reached = context.heard.read(context.earlier)
    return None if reached is None else Finding("reading_on", reached.as_dict(context.split.bytes))


def with_mixing(beside: Baselines, learned_on: Finding | None) -> Baselines:
    """The baselines with the model's own context mixer, which reads on by itself, if it has one."""
    if learned_on is None:
        return beside
    return {**beside, "mixing": Baseline(None, learned_on.value["alone_bits_per_byte"])}


def who_predicts(model: LanguageModel, context: EvaluationContext, dataset: Dataset) -> Attribution | None:
    """Counting or learning, on a part of the validation split; None where nothing is counted."""
    split, recipe = dataset.validation, context.recipe
    if not recipe.model.before or not recipe.objective.unit.text:
        return None
    if context.heard is not None:
        sides = heard(context.heard, judged_twice(split))
    else:
        rows = rows_at_once(recipe, dataset.tokenizer, next(model.parameters()).device)
        batches = evaluated_on(split, recipe, dataset.tokenizer, rows=rows, limit=judged_twice(split))
        sides = credit(model, batches, recipe.objective.build())
    return None if sides is None else sides.attribution(dataset.tokenizer)


# What simple means make of a text, to stand beside a model: counted when they are asked for, or ahead of that.

_ahead: dict[tuple[str, ...], Meanwhile[Baselines]] = {}
"""Baselines that another thread counts until they are asked for, by the split and what they learn from."""


def count_ahead(dataset: Dataset, recipe: Recipe) -> None:
    """Let another thread count the baselines of a dataset's validation split, if they are not kept next to it, while
    there is work for one core only. Who asks for them next takes them."""
    if _kept(dataset).is_file() or not recipe.objective.unit.text:
        return
    train, split, tokenizer, quiet = dataset.train, dataset.validation, dataset.tokenizer, Console(quiet=True)
    key = _key(train, split, tokenizer, recipe)
    if key not in _ahead:
        _ahead[key] = Meanwhile(lambda: _counted(train, split, tokenizer, recipe, quiet))


def cached_baselines(dataset: Dataset, recipe: Recipe, console: Console) -> Baselines:
    """The baselines of a dataset; those of a loss in nats of text are computed once and kept next to it. Beside a model
    that has a context mixer of its own none is counted: it is that baseline where it reads on by itself."""
    path, sides = _kept(dataset), (dataset.train, dataset.validation)
    if not recipe.objective.unit.text:
        return baselines_beside(*sides, dataset.tokenizer, recipe, console)
    with suppress(CheckpointError):
        kept = {name: Baseline.of(one) for name, one in read_record(path, StoredBaselines).items()}
        if recipe.model.reads_on or "mixing" in kept or compiled() is None:
            return kept
    counted = baselines_beside(*sides, dataset.tokenizer, recipe, console)
    with suppress(StorageError):  # a cache is not worth failing for
        replace_text(path, json_text({name: one.as_dict() for name, one in counted.items()}))
    return counted


def baselines_beside(
    train: Split | None, split: Split, tokenizer: Tokenizer, recipe: Recipe, console: Console
) -> Baselines:
    """Baselines for one split; without a training split only those that need none. Where the loss is not one of text
    they are the objective's own.
    """
    if not recipe.objective.unit.text:
        return own_baselines(recipe, train, split, tokenizer)
    ahead = None if train is None else _ahead.pop(_key(train, split, tokenizer, recipe), None)
    counted = _counted(train or split, split, tokenizer, recipe, console) if ahead is None else ahead.result()
    untaught = ("uniform", "gzip", "xz")
    return {name: one for name, one in counted.items() if train is not None or name in untaught}


def _counted(train: Split, split: Split, tokenizer: Tokenizer, recipe: Recipe, console: Console) -> Baselines:
    return baselines(
        train.tokens,
        split.tokens,
        vocab_size=tokenizer.vocab_size,
        validation_bytes=split.bytes,
        train_text=train.text_path,
        validation_text=split.text_path,
        report=console.say,
        mixes=not recipe.model.reads_on,
    )


def _kept(dataset: Dataset) -> Path:
    return dataset.folder / "baselines.json"


def _key(train: Split, split: Split, tokenizer: Tokenizer, recipe: Recipe) -> tuple[str, ...]:
    places = str(train.text_path), str(split.text_path)
    return *places, tokenizer.fingerprint(), str(recipe.model.reads_on)


@dataclass(frozen=True)
class Stories:
    """How many of the texts that were written a checker passes, and what is wrong with the first others."""

    written: int
    passed: int
    sampling: Sampling
    problems: list[str]


def story_metrics(written: GeneratedTexts, check: Callable[[str], Any]) -> Stories:
    """Let a checker read each text."""
    verdicts = [check(text) for text in written.texts]
    problems = [verdict.problems[0] for verdict in verdicts if not verdict.ok]
    passed = sum(verdict.ok for verdict in verdicts)
    return Stories(len(verdicts), passed, written.sampling, problems[:20])


def stories_sentence(stories: Mapping[str, Any]) -> str:
    """How many stories are good pidgin."""
    how = ", ".join(
        f"{name}={value}" for name, value in stories["sampling"].items() if value != getattr(Sampling(), name)
    )
    drawn = f" (drawn with {how})" if how else ""
    return f"{stories['passed']} of {stories['written']} stories that it wrote{drawn} are good pidgin."
