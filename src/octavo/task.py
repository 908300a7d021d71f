"""What a model learns and how it is judged: all that the core leaves to a task.

The core has no branches by kind of task: it asks `task_of(recipe)`. A part of the recipe names the task
(`PartConfig.task`: its batches or its corpus, as a rule); where none does, it is text. The tasks are in `octavo.tasks`,
a folder each. A new one is a config class with `@register("task")`, and a part whose `task` is its kind.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from octavo.config import PartConfig, Recipe
from octavo.config.parts import command, part
from octavo.data import Dataset, Split
from octavo.errors import InputError
from octavo.evaluation.result import Baseline, Baselines, Evaluation, Figures, Finding, LeftOut, Standing
from octavo.evaluation.stored import Evaluation as StoredEvaluation
from octavo.generation import Prompt
from octavo.model.base import LanguageModel
from octavo.tokenizers import Tokenizer
from octavo.training.device import Runtime
from octavo.util.records import read_record
from octavo.util.terminal import Console

if TYPE_CHECKING:
    from octavo.evaluation.diagnostics import Rivals
    from octavo.evaluation.reading_on import Heard
    from octavo.evaluation.samples import GeneratedTexts

USUAL = "text"
"""The task of a recipe whose parts name none."""
Paths = Any
"""One path or several, as `octavo.train` takes them."""


class Trained(Protocol):
    """What a task may ask of a run. `octavo.run.run.Run` is one."""

    config: Recipe

    @property
    def path(self) -> Path: ...
    @property
    def model(self) -> LanguageModel: ...
    @property
    def tokenizer(self) -> Tokenizer: ...
    @property
    def started(self) -> LanguageModel | None: ...


@dataclass(frozen=True)
class EvaluationContext:
    """What a model is judged with.

    Attributes:
        split: what it is judged on.
        train: what it learned from; None where that is gone, or another one now.
        dataset: the dataset whose validation split `split` is; None where it is another split or text.
        started: the model as it was before its first step, where it began with a run's weights.
        heard: gathers the network's predictions for a context mixer while the split is scored; None without a mixer.
        earlier: the same for the split before this one, which the mixer may read first.
        alone: whether nothing simpler is to stand beside the model.
    """

    recipe: Recipe
    tokenizer: Tokenizer
    split: Split
    train: Split | None
    runtime: Runtime
    console: Console
    dataset: Dataset | None = None
    started: LanguageModel | None = None
    heard: Heard | None = None
    earlier: Heard | None = None
    alone: bool = False


@dataclass(frozen=True)
class Command:
    """Something that one can do with a run: what it does, and the words after `octavo`."""

    what: str
    words: tuple[str | Path, ...]


class Headline(Protocol):
    """A large number of a report (`octavo.report.data.Headline`)."""

    @property
    def label(self) -> str: ...


class Page(Protocol):
    """What a task's section of a report is made from. `octavo.report.ReportData` is one."""

    @property
    def evaluation(self) -> Mapping[str, Any]: ...
    def rows(self, event: str) -> list[dict[str, Any]]:
        """Rows of an event in metrics.jsonl, by step."""
        ...


Place = Literal["above verdict", "below verdict", "above text", "below text"]
"""Where a section stands on a page: beside the diagnostics, or beside what is said of the text that a model writes."""


@dataclass(frozen=True)
class Section:
    """A template of a task's folder and its values."""

    template: Path
    values: Mapping[str, Any]
    place: Place = "below verdict"


class Task(PartConfig):
    """Base of all tasks. The data and the split of other files have to be said; all else has a default."""

    in_bytes: ClassVar[bool] = True
    """Whether the size of a split in bytes says anything."""
    judged_on: ClassVar[tuple[str, str]] = ("text", "text for all")
    """What a split is called on a page, and above the table of predictors."""
    learned_from: ClassVar[str] = "texts"
    """What its documents are, for messages."""
    needs_training: ClassVar[bool] = False
    """Whether nothing is judged, on other data either, without what the run learned from."""
    tokenizer: ClassVar[type[Tokenizer] | None] = None
    """What encodes its data, where that is none of those that a recipe names."""
    stored: ClassVar[type[StoredEvaluation]] = StoredEvaluation
    """The shape of its evaluation.json."""
    baseline_words: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """Baselines of its own, by key: name and explanation for a page."""
    baseline_names: ClassVar[Mapping[str, str]] = {}
    """The same in a sentence, where that is another name."""
    other_tokens: ClassVar[str] = ""
    """What is said of runs whose tokenizers differ, where bits per byte do not compare them."""
    kept_of_test: ClassVar[tuple[str, ...]] = ()
    """Keys of a look at the test split that the manifest keeps beside the usual ones."""

    @staticmethod
    def usual() -> Task:
        """That of a recipe which names none: text."""
        return named_task(USUAL)

    # The data.

    @abstractmethod
    def dataset(self, recipe: Recipe, console: Console, tokenizer: Tokenizer | None) -> Dataset:
        """The recipe's data on disk, from the cache where nothing changed; see `octavo.run.data.build_dataset`."""

    @abstractmethod
    def new_split(self, recipe: Recipe, tokenizer: Tokenizer, text: Paths, console: Console) -> Split:
        """Other files, read as the recipe's own are."""

    def encoder(self, recipe: Recipe, tokenizer: Tokenizer) -> Tokenizer:
        """What makes ids of the recipe's documents."""
        return tokenizer

    def takes_documents(self, recipe: Recipe) -> bool:
        """Whether a model of the recipe can be judged on texts in memory."""
        return False

    def tunes(self, recipe: Recipe) -> bool:
        """Whether the recipe goes on with the model of another run, and leaves the model to it."""
        return recipe.objective.tunes

    def vocabulary_words(self, size: int, own: str) -> str:
        """What one of the tokens of a training is, in words."""
        return f"tokens, vocabulary {size:,}{own}"

    def idle_options(self, recipe: Recipe) -> list[str]:
        """A sentence for each of its options that has no effect."""
        return []

    # Simple predictors.

    def count_ahead(self, dataset: Dataset, recipe: Recipe) -> None:
        """Let another thread find the baselines of the validation split, if that takes long."""

    def cached_baselines(self, dataset: Dataset, recipe: Recipe, console: Console) -> Baselines:
        """The baselines of the validation split that can be found without a model."""
        return own_baselines(recipe, dataset.train, dataset.validation, dataset.tokenizer)

    def find_baselines(self, dataset: Dataset, recipe: Recipe, console: Console) -> None:
        """Find the baselines of the validation split now, before a run by the clock begins to train."""

    # How good a model is.

    def figures(self, model: LanguageModel, context: EvaluationContext) -> tuple[Finding, ...]:
        """What is measured with the loss."""
        return ()

    def left_out(self, split: Split, recipe: Recipe, tokenizer: Tokenizer) -> LeftOut | None:
        """Documents that were left out of the figures; None if all count."""
        return None

    def cuts_documents(self, recipe: Recipe) -> bool:
        """Whether documents that are longer than the context are cut, and not left out."""
        return True

    def evaluate(self, model: LanguageModel, context: EvaluationContext, figures: Figures) -> Standing:
        """Simple predictors, and what is measured further."""
        return Standing(own_baselines(context.recipe, context.train, context.split, context.tokenizer))

    def write(self, model: LanguageModel, dataset: Dataset, recipe: Recipe) -> GeneratedTexts | None:
        """What the model writes to be judged by; None where it writes no text."""
        return None

    def judge_texts(
        self, model: LanguageModel, written: GeneratedTexts | None, dataset: Dataset, recipe: Recipe
    ) -> tuple[Finding, ...]:
        """What there is to say of it."""
        return ()

    def beside_start(
        self, run: Trained, evaluation: Evaluation, dataset: Dataset, runtime: Runtime, console: Console
    ) -> Evaluation:
        """The evaluation of a finished run with what it says of the model as it started."""
        return evaluation

    def on_test(
        self, run: Trained, split: Split, dataset: Dataset, recipe: Recipe, stored: Mapping[str, Any]
    ) -> tuple[Finding, ...]:
        """What a look at the test split says beside figures and baselines; `stored`: the run's evaluation."""
        return ()

    def rivals(self, evaluation: Mapping[str, Any]) -> Rivals | None:
        """What decides among the simple predictors, where that is not the loss."""
        return None

    # What a model writes on its way.

    def prompts(
        self, recipe: Recipe, dataset: Dataset, context: int
    ) -> tuple[Sequence[Prompt], Sequence[str]]:
        """The recipe's prompts as a model of so many positions reads them, and as people do."""
        return (), ()

    def samples(self, model: LanguageModel, dataset: Dataset, recipe: Recipe) -> list[str]:
        """A text for each prompt of the recipe."""
        return []

    # What is said of it.

    def sentences(self, evaluation: Mapping[str, Any], recipe: Recipe) -> list[str]:
        """What the figures say: the verdict, before its diagnostics."""
        from octavo.evaluation.sentences import standing

        return [standing(evaluation, self.baseline_names)]

    def remarks(self, evaluation: Mapping[str, Any]) -> list[str]:
        """What `octavo eval` says beside the loss; `evaluation`: of any split."""
        return []

    def headlines(self, evaluation: Mapping[str, Any], found: list[Any], headline: Any) -> list[Any]:
        """The numbers that one looks for first, in an evaluation or a look at the test split: those that were `found`,
        and its own, each made by `headline` from a label, a value, its form and an explanation."""
        return found

    def sections(self, page: Page, *, wide: float, narrow: float) -> list[Section]:
        """Its sections of a report; widths of plots in inches."""
        return []

    def pictures(self, folder: Path, recipe: Recipe) -> list[str]:
        """What the model of a run drew, as data: addresses."""
        return []

    def passes(self, train: Mapping[str, int], recipe: Recipe, seen: int) -> float:
        """How often a training split, by its numbers, was seen."""
        return seen / train["tokens"]

    def commands(
        self, folder: Path, recipe: Recipe, evaluation: Mapping[str, Any]
    ) -> tuple[Command, Command]:
        """How the model of a run is used, and judged on something else."""
        return (
            Command("Let it write", ("generate", folder)),
            Command("Judge it on another text", ("eval", folder, "--text", "PATH")),
        )

    # What a study compares.

    def study_figures(
        self, evaluation: Mapping[str, Any], recipe: Recipe, *, nats: float | None, documents: int
    ) -> dict[str, float | None]:
        """Figures of a study's run: from its evaluation, and from the sum of its loss, None of another loss than that
        of a text, on so many documents."""
        return {}

    def offers(self, recipe: Recipe, judge: str) -> frozenset[str]:
        """Metrics, beside the usual ones, that a study of the recipe can compare, which judges `best` or `last`
        weights."""
        return frozenset()

    def by_predictor(self, evaluation: Mapping[str, Any], metric: str) -> dict[str, float]:
        """What each predictor of an evaluation reached by a metric of its own."""
        return {}

    # What only some can do.

    def refuse_to_write(self, run: Trained) -> None:
        """Raise InputError for a run whose model goes on from no text."""

    def translator(self, run: Trained, *, cached: bool = True) -> Any:
        """What translates with a run's model. Raises InputError where it did not learn from pairs."""
        raise InputError(
            f"{run.path} is no translator: it learned from {self.learned_from} (batches={run.config.batches.kind}), "
            "not from pairs.",
            remedy="octavo generate lets it write",
        )

    def forecast(self, run: Trained, text: Paths, **options: Any) -> list[dict[str, Any]]:
        """What follows each series of a table. Raises InputError where the model predicts no numbers."""
        raise InputError(
            f"The model of {run.path} predicts text, not numbers.",
            remedy=command("octavo", "generate", run.path),
        )


def own_baselines(recipe: Recipe, train: Split | None, split: Split, tokenizer: Tokenizer) -> Baselines:
    """The baselines that a recipe's objective has itself."""
    tokens = None if train is None else train.tokens
    losses = recipe.objective.build().baselines(tokens, split.tokens, vocab_size=tokenizer.vocab_size)
    return {name: Baseline(loss) for name, loss in losses.items()}


def task_of(recipe: Recipe) -> Task:
    """The task of a recipe: what its first part names that names one, else text."""
    named = (
        part.task for part in (recipe.batches, recipe.corpus, recipe.objective, recipe.model) if part.task
    )
    return named_task(next(named, USUAL))


def named_task(name: str) -> Task:
    """The task of this name."""
    found = part("task", name).model_validate({})
    assert isinstance(found, Task)
    return found


def read_evaluation(path: Path, recipe: Recipe, **options: Any) -> dict[str, Any]:
    """A run's evaluation.json. Raises as `read_record` does, where it is not of the shape that its task has."""
    return read_record(path, task_of(recipe).stored, **options)


__all__ = [
    "Command",
    "Evaluation",
    "EvaluationContext",
    "Finding",
    "Page",
    "Section",
    "Standing",
    "Task",
    "read_evaluation",
    "task_of",
]
