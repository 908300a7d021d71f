"""The evaluation of a run: a model's metrics on a text, next to what simpler means reach on it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from octavo.config import Recipe
from octavo.corpus.pixels import PixelsConfig
from octavo.corpus.sources import FilesSource
from octavo.data import Dataset, Split, prepare_text
from octavo.errors import CheckpointError, CorpusError, InputError, StorageError, TokenizerError
from octavo.evaluation.attribution import credit
from octavo.evaluation.baselines import baselines
from octavo.evaluation.by_position import Places
from octavo.evaluation.diagnostics import Facts, diagnose
from octavo.evaluation.score import Score, score
from octavo.evaluation.stored import Baselines
from octavo.model.base import LanguageModel
from octavo.model.gpt import GPT
from octavo.run.data import (
    Paths,
    absolute,
    build_dataset,
    cleaned,
    encoder_of,
    evaluated_on,
    in_memory,
    rows_at_once,
    stream_of,
)
from octavo.run.finetune import with_reference
from octavo.run.folder import RunFolder
from octavo.run.progress import next_step
from octavo.run.samples import GeneratedTexts, ended, text_metrics, write
from octavo.synthetic.ball import BouncingBallSource
from octavo.synthetic.source import StorytellerSource
from octavo.synthetic.storyteller import Storyteller, entropy_rate
from octavo.tasks.chat.preference_metrics import preferred
from octavo.tasks.forecast.evaluate import forecast_facts, new_split
from octavo.tasks.records.metrics import per_record, record_baselines
from octavo.tasks.records.validity import validity
from octavo.tasks.translation.evaluate import source_floor, translations
from octavo.tasks.translation.translator import Skipped, skipped_facts
from octavo.tokenizers import Tokenizer
from octavo.tokenizers.columns import Columns
from octavo.training.device import Runtime, set_threads
from octavo.training.objective import Unit
from octavo.util.console import Console
from octavo.util.files import replace_text
from octavo.util.records import json_text, read_record
from octavo.util.threads import Meanwhile

# What simple means make of a split, to stand next to a model: counted when it is asked for, or ahead of that.

_ahead: dict[tuple[str, ...], Meanwhile[dict[str, Any]]] = {}
"""Baselines that another thread counts until they are asked for, by the split and what they learn from."""
_took: dict[tuple[str, ...], float] = {}
"""Seconds of a processor that it took to count them in this process."""
ALONE = 0.75
"""Of such seconds beside other threads, what it takes without them."""


def count_ahead(dataset: Dataset, recipe: Recipe) -> None:
    """Let another thread count the baselines of a dataset's validation split, if they are not kept next to it, while
    there is work for one core only. Who asks for them next takes them."""
    if _kept(dataset).is_file() or not recipe.objective.build().unit.text:
        return
    train, split, tokenizer, quiet = dataset.train, dataset.validation, dataset.tokenizer, Console(quiet=True)
    key = _key(train, split, tokenizer)
    if key not in _ahead:
        _ahead[key] = Meanwhile(lambda: _counted(train, split, tokenizer, quiet))


def cached_baselines(dataset: Dataset, recipe: Recipe, console: Console) -> dict[str, Any]:
    """The baselines of a dataset; those of a loss in nats of text are computed once and kept next to it."""
    path, sides = _kept(dataset), (dataset.train, dataset.validation)
    if not recipe.objective.build().unit.text:
        return baselines_beside(*sides, dataset.tokenizer, recipe, console)
    try:
        return read_record(path, Baselines)
    except CheckpointError:
        found = baselines_beside(*sides, dataset.tokenizer, recipe, console)
    with suppress(StorageError):  # a cache is not worth failing for
        replace_text(path, json_text(found))
    return found


def seconds_counted(dataset: Dataset) -> float:
    """What counting the baselines of a dataset's validation split takes, by what it took another thread; 0 where this
    process found them."""
    return ALONE * _took.get(_key(dataset.train, dataset.validation, dataset.tokenizer), 0.0)


def baselines_beside(
    train: Split | None, split: Split, tokenizer: Tokenizer, recipe: Recipe, console: Console
) -> dict[str, Any]:
    """Baselines for one split, as plain data; without a training split only those that need none. Where the loss is
    not one of text they are the objective's own.
    """
    objective = recipe.objective.build()
    if not objective.unit.text:
        own = objective.baselines(
            None if train is None else train.tokens, split.tokens, vocab_size=tokenizer.vocab_size
        )
        return {name: {"loss": loss, "bits_per_byte": None} for name, loss in own.items()}
    ahead = None if train is None else _ahead.pop(_key(train, split, tokenizer), None)
    found = _counted(train or split, split, tokenizer, console) if ahead is None else ahead.result()
    untaught = ("uniform", "gzip", "xz")
    return {name: one for name, one in found.items() if train is not None or name in untaught}


def _counted(train: Split, split: Split, tokenizer: Tokenizer, console: Console) -> dict[str, Any]:
    began = time.thread_time()
    found = baselines(
        train.tokens,
        split.tokens,
        vocab_size=tokenizer.vocab_size,
        validation_bytes=split.bytes,
        train_text=train.text_path,
        validation_text=split.text_path,
        report=console.say,
    )
    _took[_key(train, split, tokenizer)] = time.thread_time() - began
    return {name: one.as_dict() for name, one in found.items()}


def _kept(dataset: Dataset) -> Path:
    return dataset.folder / "baselines.json"


def _key(train: Split, split: Split, tokenizer: Tokenizer) -> tuple[str, ...]:
    return str(train.text_path), str(split.text_path), tokenizer.fingerprint()


# A model's metrics on a split, as every part of a run states them.


@dataclass(frozen=True)
class Metrics:
    """Mean loss, what follows from it if it is one of text, and the objective's other metrics."""

    loss: float
    perplexity: float | None
    bits_per_byte: float | None
    others: Mapping[str, float]
    tokens: int
    unit: Unit

    def as_dict(self) -> dict[str, Any]:
        """For metrics.jsonl: what there is, and the unit unless it is that of text."""
        text = {"perplexity": self.perplexity, "bits_per_byte": self.bits_per_byte}
        if self.bits_per_byte is None:
            text = {"unit": str(self.unit)}
        return {"loss": self.loss, **text, **self.others, "tokens": self.tokens}

    def __str__(self) -> str:
        if self.bits_per_byte is None:
            return f"{self.loss:.4f} {self.unit}"
        return f"{self.loss:.4f}  {self.bits_per_byte:.3f} bits/byte"


def evaluate_split(
    model: LanguageModel,
    split: Split,
    recipe: Recipe,
    tokenizer: Tokenizer,
    runtime: Runtime,
    places: Places | None = None,
    *,
    reference: LanguageModel | None = None,
) -> Metrics:
    """Score a model on a split (or on the part of it that the recipe states), together with the runtime's world.

    `reference`: what its run started from. Raises InputError where the objective compares with that and it is missing.
    """
    limit, rows = recipe.evaluation.tokens, rows_at_once(recipe, tokenizer, runtime.device)
    batches = evaluated_on(split, recipe, tokenizer, rows=rows, limit=limit)
    world, objective = runtime.world, with_reference(recipe.objective.build(), reference, runtime.device)
    own = score(
        model, map(world.shard, batches), objective=objective, autocast=runtime.autocast, places=places
    )
    total, weight, tokens, *sums = world.all_reduce(own.total, own.weight, own.tokens, *own.sums.values())
    totals = dict(zip(own.sums, sums, strict=True))
    result = Score(total, weight, int(tokens), totals, objective.unit)
    # A part is taken to have its share of the split's bytes.
    whole = limit is None or limit >= len(split.tokens)
    scored_bytes = split.bytes if whole else split.bytes * result.tokens / len(split.tokens)
    return Metrics(
        loss=result.loss,
        perplexity=result.perplexity,
        bits_per_byte=result.bits_per_byte(scored_bytes),
        others=result.metrics,
        tokens=result.tokens,
        unit=result.unit,
    )


COUNTED = 50_000
"""Tokens of the validation split that are asked who predicted them."""


class Evaluable(Protocol):
    """What an evaluation needs of a run. `octavo.run.run.Run` is one, and calls this file."""

    config: Recipe
    folder: RunFolder | None

    @property
    def model(self) -> LanguageModel: ...
    @property
    def tokenizer(self) -> Tokenizer: ...
    @property
    def started(self) -> LanguageModel | None: ...
    @property
    def step(self) -> int: ...
    @property
    def metrics(self) -> list[dict[str, Any]]: ...


def evaluate_run(
    run: Evaluable,
    text: Paths | None = None,
    console: Console | None = None,
    *,
    documents: str | Iterable[str] | None = None,
) -> dict[str, Any]:
    """Evaluate a run's model on its own validation split, on the files of `text`, or on `documents`, texts in memory,
    next to the baselines. On its own split the text that it writes (memorization, diversity) and how it learned count
    too; `diagnostics` say what it all means.

    Raises CorpusError or TokenizerError if the text cannot be read or holds what the vocabulary lacks.
    """
    import torch

    console = console or Console(quiet=True)
    recipe = whole_split(run.config)
    if documents is not None and (
        recipe.form != "text" or recipe.corpus.gives_pairs or recipe.corpus.numbers
    ):
        raise InputError(
            "documents= is for runs that learned from texts, and this one did not.", remedy="text=PATH"
        )
    text, _ = in_memory(text, documents)
    runtime = Runtime(torch.device("cpu"), "float32", set_threads(recipe.training.threads))
    if text is None:
        dataset = build_dataset(recipe, console, run.tokenizer)
        refuse_other_text(run, dataset)
        found = evaluation(
            run.model, dataset, recipe, runtime, step=run.step, console=console, reference=run.started
        )
        found["baselines"] |= as_it_started(run.started, dataset.validation, recipe, run.tokenizer, runtime)
        found, _ = with_texts(found, run.model, dataset, recipe, rows=run.metrics, steps=last_step(run))
        return with_next_step(found, run)
    if isinstance(run.tokenizer, Columns):
        return evaluate_series(run, run.tokenizer, text, recipe, runtime, console)
    named = FilesSource(paths=tuple(absolute(text)), **as_the_corpus(recipe))
    source = cleaned(named.build(report=console.say), recipe, console.say_once)
    split = prepare_text(source, encoder_of(recipe, run.tokenizer), report=console.say)
    try:
        own = build_dataset(recipe, console, run.tokenizer)
        refuse_other_text(run, own)
        learned_on = own.train
    except (CorpusError, TokenizerError):
        console.say("the training text has changed or is gone: baselines that learn from it are left out")
        learned_on = None
    facts = figures(run.model, split, recipe, run.tokenizer, runtime, step=run.step, reference=run.started)
    facts["baselines"] = baselines_beside(learned_on, split, run.tokenizer, recipe, console)
    facts["baselines"] |= as_it_started(run.started, split, recipe, run.tokenizer, runtime)
    tokens = len(learned_on.tokens) if learned_on else 0
    found = with_diagnostics(
        facts, recipe, run.tokenizer.vocab_size, train_tokens=tokens, steps=last_step(run), elsewhere=True
    )
    return with_next_step(found, run)


def as_the_corpus(recipe: Recipe) -> dict[str, Any]:
    """Options of other files that are read as those of a recipe's corpus: what their records are."""
    return {} if recipe.form == "text" else {"records": {"kind": recipe.form}}


def evaluate_series(
    run: Evaluable,
    columns: Columns,
    text: Paths,
    recipe: Recipe,
    runtime: Runtime,
    console: Console,
) -> dict[str, Any]:
    """The same of a forecaster, on other series; its baselines learn from the training split, which must be there."""
    split = new_split(recipe, columns, text, console).splits["text"]
    learned_on = build_dataset(recipe, console, columns)
    facts = figures(run.model, split, recipe, columns, runtime, step=run.step)
    assert isinstance(run.model, GPT), "no other model predicts rows of numbers"
    facts |= forecast_facts(run.model, learned_on, split, recipe, columns, console)
    tokens = len(learned_on.train.tokens)
    found = with_diagnostics(
        facts, recipe, columns.vocab_size, train_tokens=tokens, steps=last_step(run), elsewhere=True
    )
    return with_next_step(found, run)


def with_next_step(found: dict[str, Any], run: Evaluable) -> dict[str, Any]:
    """The evaluation with the command that its verdict asks for; a checkpoint alone has none."""
    step = next_step(run.folder, run.config, found["diagnostics"]) if run.folder else None
    return {**found, "next": step}


def whole_split(recipe: Recipe) -> Recipe:
    """The recipe with evaluation on everything: what is reported at the end is never a part."""
    return evaluated_by(recipe, None)


def evaluated_by(recipe: Recipe, tokens: int | None) -> Recipe:
    """The recipe with evaluation on so many tokens, or on all."""
    return recipe.model_copy(update={"evaluation": recipe.evaluation.model_copy(update={"tokens": tokens})})


def refuse_other_text(run: Evaluable, dataset: Dataset) -> None:
    """Raise CorpusError if the corpus no longer gives the text that the model was trained on: what is held out now may
    have been learned from. Of a checkpoint alone only the tokenizer tells."""
    manifest = (run.folder.made_by() if run.folder else None) or {}
    found = dataset.manifest["text"]
    if (
        dataset.tokenizer.fingerprint() != run.tokenizer.fingerprint()
        or manifest.get("data", {}).get("text", found) != found
    ):
        raise CorpusError(
            "The run's text has changed since training, so what was held out is another part now.",
            remedy="bring the old text back, or name a text that the run has not seen: --text PATH",
        )


def evaluation(
    model: LanguageModel,
    dataset: Dataset,
    recipe: Recipe,
    runtime: Runtime,
    *,
    step: int,
    console: Console,
    reference: LanguageModel | None = None,
) -> dict[str, Any]:
    """The whole evaluation on a dataset's validation split; `reference`: what the run started from."""
    facts = figures(
        model, dataset.validation, recipe, dataset.tokenizer, runtime, step=step, reference=reference
    )
    if isinstance(dataset.tokenizer, Columns) and isinstance(model, GPT):
        own = forecast_facts(model, dataset, dataset.validation, recipe, dataset.tokenizer, console)
        return {**facts, **own}
    facts["baselines"] = cached_baselines(dataset, recipe, console)
    if (counted := who_predicts(model, dataset, recipe)) is not None:
        facts["counted"] = counted
    if getattr(recipe.batches, "alone", False) and recipe.objective.build().unit.text:
        sides, size = (dataset.train, dataset.validation), dataset.tokenizer.vocab_size
        facts["records"] = per_record(dataset.validation, facts["val_loss"])
        raster = recipe.corpus.raster() if isinstance(recipe.corpus, PixelsConfig) else None
        own = record_baselines(*sides, vocab_size=size, raster=raster)
        facts["baselines"] = {**facts["baselines"], **own}
    loss = source_floor(recipe, dataset) if recipe.batches.pairs else source_loss(recipe, dataset)
    if loss is None:
        return facts
    exact = isinstance(recipe.corpus, StorytellerSource)
    return {**facts, "source_entropy": entropy_rate() if exact else loss, "source_loss": loss}


def who_predicts(model: LanguageModel, dataset: Dataset, recipe: Recipe) -> dict[str, Any] | None:
    """Counting or learning, on a part of the validation split; None where nothing is counted."""
    split, objective = dataset.validation, recipe.objective.build()
    if not recipe.model.before or not objective.unit.text:
        return None
    rows = rows_at_once(recipe, dataset.tokenizer, next(model.parameters()).device)
    batches = evaluated_on(split, recipe, dataset.tokenizer, rows=rows, limit=judged_twice(split))
    found = credit(model, batches, objective)
    return None if found is None else found.as_dict(dataset.tokenizer)


def judged_twice(split: Split) -> int:
    """Tokens of a split by which counting and learning are told apart."""
    return min(COUNTED, len(split.tokens))


def as_it_started(
    model: LanguageModel | None, split: Split, recipe: Recipe, tokenizer: Tokenizer, runtime: Runtime
) -> dict[str, Any]:
    """The baseline `start`: a model that began with another run's weights, before its first step."""
    if model is None:
        return {}
    found = evaluate_split(model.to(runtime.device), split, recipe, tokenizer, runtime, reference=model)
    return {"start": {"loss": found.loss, "bits_per_byte": found.bits_per_byte, **found.others}}


def figures(
    model: LanguageModel,
    split: Split,
    recipe: Recipe,
    tokenizer: Tokenizer,
    runtime: Runtime,
    *,
    step: int,
    reference: LanguageModel | None = None,
) -> dict[str, Any]:
    """The model's own figures on a split; `reference`: what its run started from."""
    if len(split.tokens) < 2:
        raise InputError(f"The text has {len(split.tokens)} tokens; an evaluation needs at least 2.")
    places = Places(context=recipe.model.context, end=tokenizer.end if split.documents > 1 else None)
    found = evaluate_split(model, split, recipe, tokenizer, runtime, places, reference=reference).as_dict()
    starts = np.append(split.starts.astype(np.int64), len(split.tokens))
    return {
        "val_loss": found.pop("loss"),
        **found,
        **preferred(model, split, recipe, tokenizer, runtime, reference),
        "bytes": split.bytes,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "step": step,
        **left_out(split, recipe, tokenizer),
        "positions": places.positions(),
        "ends": places.document_ends(),
        "documents_cut": 0.0
        if recipe.batches.pairs or recipe.form == "preferences"  # which are left out, and that is said
        else float((np.diff(starts) > recipe.model.context).mean()),
    }


def left_out(split: Split, recipe: Recipe, tokenizer: Tokenizer) -> dict[str, Any]:
    """`skipped`: the pairs that the figures are not of, because they are too long; empty where there are none."""
    tokens, edges = split.tokens, np.append(split.starts.astype(np.int64), len(split.tokens))
    why = f"longer than the context of {recipe.model.context:,} tokens"
    skipped = []
    for number in recipe.batches.left_out(stream_of(split, recipe, tokenizer)).tolist():
        begun = tokenizer.decode(np.asarray(tokens[edges[number] : edges[number + 1]][:40])).strip()
        skipped.append(Skipped(f"pair {number + 1:,} of the split, '{begun.splitlines()[0][:40]}'", why))
    return skipped_facts(skipped, split.documents)


def with_texts(
    found: dict[str, Any],
    model: LanguageModel,
    dataset: Dataset,
    recipe: Recipe,
    *,
    rows: Sequence[Mapping[str, Any]],
    steps: int,
) -> tuple[dict[str, Any], GeneratedTexts | None]:
    """The evaluation with what the model writes, and the texts, if it writes texts: of pairs it writes translations."""
    if not recipe.batches.pairs:
        written = write(model, dataset, recipe)
        return examined(found, written, dataset, recipe, rows=rows, steps=steps), written
    found = {**found, "translations": translations(model, dataset, recipe)}
    vocab_size, tokens = dataset.tokenizer.vocab_size, len(dataset.train.tokens)
    return with_diagnostics(found, recipe, vocab_size, train_tokens=tokens, steps=steps, rows=rows), None


def examined(
    found: dict[str, Any],
    written: GeneratedTexts | None,
    dataset: Dataset,
    recipe: Recipe,
    *,
    rows: Sequence[Mapping[str, Any]],
    steps: int,
) -> dict[str, Any]:
    """The evaluation with the model's text, if it writes any, and the diagnostics. `rows`: of metrics.jsonl; `steps`:
    of the run."""
    if written is not None:
        found = {**found, **text_metrics(written, dataset, recipe)}
        if (checked := validity(written, dataset, recipe)) is not None:
            found["validity"] = checked
        if found["ends"]:
            found["ends"] = {**found["ends"], **ended(written, dataset)}
    vocab_size, tokens = dataset.tokenizer.vocab_size, len(dataset.train.tokens)
    return with_diagnostics(found, recipe, vocab_size, train_tokens=tokens, steps=steps, rows=rows)


def with_diagnostics(
    found: dict[str, Any],
    recipe: Recipe,
    vocab_size: int,
    *,
    train_tokens: int,
    steps: int,
    rows: Sequence[Mapping[str, Any]] = (),
    elsewhere: bool = False,
) -> dict[str, Any]:
    """The evaluation with its diagnostics, as plain data; `elsewhere`: on another text than the run's."""
    facts = Facts(recipe, steps, vocab_size, train_tokens, rows=rows, evaluation=found, elsewhere=elsewhere)
    return {**found, "diagnostics": [diagnostic.as_dict() for diagnostic in diagnose(facts)]}


def last_step(run: Evaluable) -> int:
    """The step at which a run's training ended, as far as its folder tells."""
    return max((row["step"] for row in run.metrics), default=run.step)


def source_loss(recipe: Recipe, dataset: Dataset) -> float | None:
    """Nats per token of these held-out documents by the source that wrote them and knows their probability; else None.
    The entropy is its mean over all documents there could be.
    """
    known = recipe.corpus.kind in ("storyteller", "bouncing-ball")
    if not known or recipe.cleaning or not recipe.objective.build().unit.text:  # cleaned, it is another text
        return None
    texts = dataset.validation.text_path.read_text(encoding="utf-8").splitlines()
    if isinstance(recipe.corpus, BouncingBallSource):
        return recipe.corpus.nats(texts) / len(dataset.validation.tokens)
    teller, held_out = Storyteller(recipe.corpus.seed), set(texts)
    numbers = range(recipe.corpus.first, recipe.corpus.first + recipe.corpus.stories)
    stories = [story for story in map(teller.story, reversed(numbers)) if story.text in held_out]
    return -sum(story.log_probability for story in stories) / sum(story.tokens for story in stories)
