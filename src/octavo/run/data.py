"""From a recipe to its dataset and batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from octavo.config import PartConfig, PartOf, Recipe, apply_overrides
from octavo.corpus import Report, Source
from octavo.corpus.documents import NAMED, is_hub_name
from octavo.corpus.files import kept_texts
from octavo.corpus.languages import CountedByFile, FileCounts
from octavo.data import Dataset, Split, prepare
from octavo.data.batch import Batch
from octavo.data.batches import (
    Alone,
    Batches,
    HeldOutWindows,
    Stream,
    part,
    with_earlier,
    with_held_out,
)
from octavo.data.packing import TooLongError, TooShortError
from octavo.data.prepare import Heard
from octavo.errors import InputError, TokenizerError
from octavo.task import task_of
from octavo.tokenizers import Tokenizer, TokenizerConfig, UnknownTextError, build_tokenizer
from octavo.util.files import from_home
from octavo.util.terminal import Console

if TYPE_CHECKING:
    import torch

Paths = str | Path | Iterable[str | Path]
MOST_LOGITS = 1 << 24
"""Numbers of a CPU's logits at once, in an evaluation. Memory for more comes page by page, which took three quarters
of a short evaluation of 64 rows over 6,699 tokens; with fewer, threads wait more often on a busy machine."""

_elsewhere: ContextVar[Mapping[str, str] | None] = ContextVar("elsewhere", default=None)


@contextmanager
def text_elsewhere(places: Mapping[str, str]) -> Iterator[None]:
    """Within the context, texts are read from copies: each path that a recipe names, from the place given for it."""
    token = _elsewhere.set(places)
    try:
        yield
    finally:
        _elsewhere.reset(token)


def found_corpus(recipe: Recipe) -> PartConfig:
    """The recipe's corpus, where its files are read."""
    places, corpus = _elsewhere.get(), recipe.corpus
    if not places or not hasattr(corpus, "paths"):
        return corpus
    return corpus.model_copy(update={"paths": tuple(places.get(path, path) for path in corpus.paths)})


def absolute(text: Paths) -> list[str]:
    """Absolute paths, which mean the same from any folder; `-` and the names of texts (corpus:NAME, hf:NAME) stay."""
    listed = [text] if isinstance(text, str | Path) else list(text)
    return [
        str(path)
        if str(path) == "-" or str(path).startswith(NAMED) or is_hub_name(str(path))
        else str(from_home(path).absolute())
        for path in listed
    ]


def in_memory(
    text: Paths | None, documents: str | Iterable[str] | None, ids: Any = None
) -> tuple[Paths | None, list[str]]:
    """Where a text is that may be in memory, as `octavo.train` takes it, and the settings that go with it: ids are
    symbols, and each row of them is a document.

    Raises InputError where more than one is given, or what is no text or ids.
    """
    if sum(each is not None for each in (text, documents, ids)) > 1:
        raise InputError("text=, documents= and ids= are three ways to give a text: give one of them.")
    if ids is not None:
        some = hasattr(ids, "__len__") and len(ids) > 0
        rows = [ids_of(row) for row in (ids if np.ndim(ids[0]) else [ids])] if some else []
        if not rows or not all(row.ndim == 1 and len(row) for row in rows):
            raise InputError("ids= takes ids (N,), or rows of them, each with one id at least.")
        size = 1 + max(int(row.max()) for row in rows)
        lines = [" ".join(map(str, row.tolist())) for row in rows]
        return kept_texts(lines), ["tokenizer.kind=symbols", f"tokenizer.size={size}"]
    if documents is None:
        return text, []
    return kept_texts(documents), ["corpus.documents=whole"] if isinstance(documents, str) else []


def ids_of(ids: Any) -> np.ndarray:
    """Ids in a list, an array or a tensor, int64. Raises InputError for what is no whole number from 0 on."""
    array = np.asarray(ids.detach().cpu() if hasattr(ids, "detach") else ids)
    if array.size and (array.dtype.kind not in "iu" or array.min() < 0):
        raise InputError(f"Ids are whole numbers from 0 on, not {array.dtype} from {array.min()} on.")
    return array.astype(np.int64)


def fill(tree: dict[str, Any], text: Paths | None, overrides: Iterable[str] | Mapping[str, Any]) -> None:
    """Put files and overrides into a recipe's tree. An override may take another kind of corpus, which reads the same
    files."""
    if text is not None:
        tree["corpus"] = corpus_of(tree.get("corpus"), absolute(text))
    apply_overrides(tree, overrides)
    if text is not None and lacks_paths(tree["corpus"]):
        tree["corpus"] = corpus_of(tree["corpus"], absolute(text))


def lacks_paths(given: Any) -> bool:
    """Whether a tree's corpus reads files, and names none."""
    given = {"kind": given} if isinstance(given, str) else given
    return isinstance(given, dict) and _in_files(given) == given.get("kind", "files") and "paths" not in given


def corpus_of(given: Any, paths: list[str]) -> dict[str, Any]:
    """A corpus of these files, read as what the one that a tree has gives: text, pairs, numbers or images. With its
    options, if it reads files too."""
    given = {"kind": given} if isinstance(given, str) else given
    given = given if isinstance(given, dict) else {}
    kind = _in_files(given)
    own = given if given.get("kind", "files") == kind else {}
    return {**own, "kind": kind, "paths": paths}


def _in_files(given: dict[str, Any]) -> str:
    """The kind of source that reads the like of a corpus from files."""
    found = PartOf("source", "files").named(given)
    return "files" if found is None else found.in_files


def build_source(recipe: Recipe, console: Console) -> Source:
    """The recipe's documents, cleaned as it says."""
    return cleaned(found_corpus(recipe).build(report=console.say_once), recipe, console.say_once)


def cleaned(source: Source, recipe: Recipe, report: Report) -> Source:
    """A source's documents, cleaned as the recipe says."""
    if not recipe.cleaning:
        return source
    from octavo.corpus.cleaning import Cleaned, StepConfig

    return Cleaned(source, cast(tuple[StepConfig, ...], recipe.cleaning), report=report)


def build_dataset(recipe: Recipe, console: Console, tokenizer: Tokenizer | None = None) -> Dataset:
    """The recipe's text as token shards, from the cache where nothing changed.

    `tokenizer` is that of the run, if there is one already. It is needed where the recipe starts from another run,
    whose tokenizer it has; else it is made from the text, as it was the first time.
    """
    return task_of(recipe).dataset(recipe, console, tokenizer)


def text_dataset(
    recipe: Recipe,
    console: Console,
    tokenizer: Tokenizer | None,
    encoder: Callable[[Tokenizer], Tokenizer] = lambda tokenizer: tokenizer,
    *,
    by_file: bool = True,
) -> Dataset:
    """Prepare a dataset of documents that are text; see `build_dataset`.

    Args:
        encoder: makes of a tokenizer what encodes the documents.
        by_file: whether to say what each of several files holds.
    """
    begun = recipe.training.start_from
    assert begun is None or tokenizer is not None, "the tokenizer is that of the run it starts from"
    counts = FileCounts(several=by_file)
    heard = Heard(console.say_once)
    source = CountedByFile(cleaned(found_corpus(recipe).build(report=heard), recipe, heard), counts)
    with console.working("reading the text", None):
        try:
            dataset = prepare(
                source,
                cast("TokenizerConfig", recipe.tokenizer)
                if begun is None or tokenizer is None
                else encoder(tokenizer),
                split=recipe.split,
                validation=recipe.validation,
                test=recipe.test,
                report=console.say_once,
                progress=console.read,
                heard=heard,
            )
        except UnknownTextError as error:
            error = named(error, source, recipe, tokenizer, encoder)
            remedy = f"take them out of the text, or start from a run that has them; this tokenizer is that of {begun}"
            raise (error if begun is None else TokenizerError(error.what, remedy=remedy)) from error
    if heard.remark:
        console.say_once(heard.remark)
        if recipe.split == "contiguous":
            console.say_once(
                "  → split=files evaluates the model on a part of every file, not on the last ones only"
            )
    return dataset


def named(
    error: UnknownTextError,
    source: Source,
    recipe: Recipe,
    tokenizer: Tokenizer | None,
    encoder: Callable[[Tokenizer], Tokenizer],
) -> TokenizerError:
    """The same error for the first document that it is true of, by that one's name: its file, and line if it is one."""
    config = cast("TokenizerConfig", recipe.tokenizer)
    if tokenizer is None and config.trains_on is not None:
        return error  # a vocabulary that is learned from a text comes from all of it
    built = tokenizer or build_tokenizer(config, lambda: iter(()), documents=True)
    encodes = encoder(built)
    for document in source.documents():
        try:
            encodes.encode("".join(document.pieces))
        except UnknownTextError as first:
            return TokenizerError(f"{document.name}: {first.what}", remedy=error.remedy)
    return error


def build_batches(
    recipe: Recipe, dataset: Dataset, console: Console, held_out: np.ndarray | None = None
) -> Batches:
    """The recipe's batches over the training split, or what of it is not `held_out`; CorpusError where the text is too
    short for the context, or where a record, which is named, is too long for it.
    """
    tokens, starts = dataset.train.tokens, dataset.train.starts
    if held_out is not None:
        tokens, starts = part(tokens, starts, ~held_out)
    rows = recipe.training.text_rows - held_out_rows(recipe, held_out)
    try:
        batches = batches_over(tokens, starts, recipe, dataset.tokenizer, rows=rows)
        next(
            evaluated_on(dataset.validation, recipe, dataset.tokenizer, rows=1)
        )  # may raise: now, not at a step
    except TooShortError as error:
        raise error.called(dataset) from error
    except TooLongError as error:
        tokenizer, context = dataset.tokenizer, recipe.model.context
        for document in build_source(recipe, Console(quiet=True)).documents():
            length = len(tokenizer.encode("".join(document.pieces))) + (tokenizer.end is not None)
            if length > context:
                raise TooLongError(length, context, document.name) from error
        raise
    for note in batches.notes:
        console.say(note)
    known = recipe.batches.known(
        *(stream_of(split, recipe, dataset.tokenizer) for split in (dataset.train, dataset.validation))
    )
    if known is not None and known.sources:
        console.say(f"{known}; split=sources keeps them apart")
    return batches


def stream_of(split: Split, recipe: Recipe, tokenizer: Tokenizer, *, rows: int = 1) -> Stream:
    """A split's tokens in the shape that batches of so many rows have."""
    return Stream(split.tokens, split.starts, recipe.model.context, rows, **tokenizer.marks)


def held_out_of(recipe: Recipe, dataset: Dataset) -> np.ndarray | None:
    """Which tokens of the training split the network does not learn from (`ModelConfig.held_out`), if any."""
    return recipe.model.held_out_of(dataset.train.starts, len(dataset.train.tokens))


def held_out_rows(recipe: Recipe, held_out: np.ndarray | None) -> int:
    """Sequences of a batch that come from what is held out."""
    share = recipe.model.gate_share
    return max(1, round(share * recipe.training.text_rows)) if share and held_out is not None else 0


def with_rows_held_out(
    batches: Batches, held_out: np.ndarray | None, recipe: Recipe, dataset: Dataset
) -> Batches:
    """The batches, and with them rows of what is held out, if the model has a use for that."""
    if not recipe.model.gate_share:
        return batches
    if held_out is None:
        return Alone(batches, alone=True)
    train, rows = dataset.train, held_out_rows(recipe, held_out)
    if recipe.batches.running:
        context, before = recipe.model.context, recipe.model.before
        others = HeldOutWindows(
            train.tokens, held_out, context=context, batch=rows, seed=recipe.seed, before=before
        )
        return with_held_out(batches, others)
    tokens, starts = part(train.tokens, train.starts, held_out)
    return with_held_out(batches, batches_over(tokens, starts, recipe, dataset.tokenizer, rows=rows))


def batches_over(
    tokens: np.ndarray, starts: np.ndarray, recipe: Recipe, tokenizer: Tokenizer, *, rows: int
) -> Batches:
    """The recipe's batches over a text: its ids, and where documents begin in them."""
    return recipe.batches.build(
        tokens,
        starts,
        context=recipe.model.context,
        batch=rows,
        seed=recipe.seed,
        **tokenizer.marks,
        accumulation=recipe.training.accumulation,
    )


def rows_at_once(recipe: Recipe, tokenizer: Tokenizer, device: torch.device) -> int:
    """Of a batch that a model on a device is evaluated on."""
    rows = recipe.evaluation.batch
    if device.type == "cpu":
        rows = min(rows, max(1, MOST_LOGITS // (recipe.model.context * tokenizer.vocab_size)))
    return rows


def evaluated_on(
    split: Split, recipe: Recipe, tokenizer: Tokenizer, *, rows: int, limit: int | None = None
) -> Iterator[Batch[np.ndarray]]:
    """The batches of so many rows that a model is evaluated on; on the first `limit` tokens, if that is given."""
    batches = recipe.batches.evaluation(
        split.tokens,
        split.starts,
        context=recipe.model.context,
        batch=rows,
        **tokenizer.marks,
        limit=limit,
    )
    if recipe.model.before and recipe.batches.running:
        return with_earlier(batches, split.tokens, recipe.model.before)
    return batches


def period(every: int | float | str, steps: int, epoch: int | None) -> int:
    """`every`, in steps: a number of them, a share of all, or an epoch of so many."""
    if isinstance(every, float):
        return max(1, round(every * steps))
    steps_apart = epoch if isinstance(every, str) else every
    assert steps_apart is not None, "the recipe's check lets no epoch through where batches have none"
    return steps_apart


def in_steps(recipe: Recipe, batches: Batches, steps: int) -> Recipe:
    """The recipe with each `every` as a number of steps, in a run of so many."""
    changed: dict[str, Any] = {}
    for name, key in (("evaluation", "every"), ("sampling", "every"), ("training", "checkpoint_every")):
        settings = getattr(recipe, name)
        every = period(getattr(settings, key), steps, batches.steps_per_epoch)
        changed[name] = settings.model_copy(update={key: every})
    return recipe.model_copy(update=changed)


def total_steps(recipe: Recipe, batches: Batches) -> int:
    """Steps of the whole run."""
    steps, most = wanted_steps(recipe, batches), most_steps(recipe, batches)
    return steps if most is None else min(steps, most)


def most_steps(recipe: Recipe, batches: Batches) -> int | None:
    """Steps in which the text is seen as often as the recipe allows at most."""
    training = recipe.training
    if training.passes is None:
        return None
    of_text = training.accumulation * training.text_rows * recipe.batches.predictions(recipe.model.context)
    return max(1, math.ceil(training.passes * batches.size / of_text))


def wanted_steps(recipe: Recipe, batches: Batches) -> int:
    """Steps that the recipe asks for, however often they see the text."""
    training = recipe.training
    if training.epochs is None:
        return training.steps or 1000
    return recipe.batches.steps_of(training.epochs, batches.steps_per_epoch)


def steps_said(recipe: Recipe, batches: Batches) -> str:
    """How many steps the run has, in words, and why it has fewer than the recipe asks for."""
    steps, wanted = total_steps(recipe, batches), wanted_steps(recipe, batches)
    if recipe.training.minutes is not None:
        return f"about {steps:,} steps"
    if steps == wanted:
        return f"{steps:,} steps"
    return f"{steps:,} of {wanted:,} steps (a text so short is seen {recipe.training.passes:g} times)"
