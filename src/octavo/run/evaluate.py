"""The evaluation of a run: a model's metrics on a text, next to what simpler means reach on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from octavo.config import Recipe
from octavo.data import Dataset, Split
from octavo.errors import CorpusError, InputError, TokenizerError
from octavo.evaluation.by_position import Places
from octavo.evaluation.result import Baseline, Evaluation, Figures, Metrics
from octavo.evaluation.score import Score, score
from octavo.model.base import LanguageModel
from octavo.run.data import Paths, build_dataset, evaluated_on, in_memory, rows_at_once
from octavo.run.finetune import comparing
from octavo.run.folder import RunFolder, next_step
from octavo.task import EvaluationContext, Trained, task_of
from octavo.tokenizers import Tokenizer
from octavo.training.device import Runtime, set_threads
from octavo.training.objective import Objective
from octavo.util.records import plain
from octavo.util.terminal import Console

if TYPE_CHECKING:
    from octavo.evaluation.reading_on import Heard
    from octavo.evaluation.samples import GeneratedTexts
    from octavo.evaluation.units import UnitScores


def heard_of(model: LanguageModel, split: Split) -> Heard | None:
    """Make what gathers the network's predictions in a split for a context mixer; None for a model without one."""
    from octavo.evaluation.reading_on import Heard

    return Heard.of(model, split.tokens)


def evaluate_split(
    model: LanguageModel,
    split: Split,
    recipe: Recipe,
    tokenizer: Tokenizer,
    runtime: Runtime,
    places: Places | None = None,
    *,
    objective: Objective | None = None,
    heard: Heard | None = None,
) -> Metrics:
    """Score a model on a split (or on the part of it that the recipe states), together with the runtime's world.

    `objective`: the recipe's, where it was told already what to compare with; `heard` gathers what a context mixer
    hears. Raises InputError where the recipe's compares with what its run started from.
    """
    limit, rows = recipe.evaluation.tokens, rows_at_once(recipe, tokenizer, runtime.device)
    batches = evaluated_on(split, recipe, tokenizer, rows=rows, limit=limit)
    world, objective = runtime.world, objective or comparing(recipe, None, runtime.device)
    own = score(
        model,
        map(world.shard, batches),
        objective=objective,
        autocast=runtime.autocast,
        places=places,
        listener=heard,
    )
    if heard is not None and recipe.batches.running:
        with runtime.autocast():
            heard.listen_again(model)
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


def unit_losses(
    model: LanguageModel, split: Split, recipe: Recipe, tokenizer: Tokenizer, runtime: Runtime
) -> UnitScores:
    """The same, document by document, or where there is one alone, in parts of it."""
    from octavo.evaluation.units import unit_scores

    rows = rows_at_once(recipe, tokenizer, runtime.device)
    return unit_scores(
        model.to(runtime.device),
        split,
        tokenizer,
        evaluated_on(split, recipe, tokenizer, rows=rows),
        objective=recipe.objective.build(),
        autocast=runtime.autocast,
    )


class Evaluable(Trained, Protocol):
    """What an evaluation needs of a run. `octavo.run.run.Run` is one, and calls this file."""

    folder: RunFolder | None

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
    console = console or Console(quiet=True)
    recipe = whole_split(run.config)
    task = task_of(recipe)
    if documents is not None and not task.takes_documents(recipe):
        raise InputError(
            "documents= is for runs that learned from texts, and this one did not.", remedy="text=PATH"
        )
    text, _ = in_memory(text, documents)
    runtime = on_cpu(recipe)
    if text is None:
        dataset = build_dataset(recipe, console, run.tokenizer)
        refuse_other_text(run, dataset)
        evaluation, _ = evaluate_own(run, dataset, runtime, console)
        return with_next_step(evaluation, run)
    split = task.new_split(recipe, run.tokenizer, text, console)
    train = learned_from(run, recipe, console, needed=task.needs_training)
    context = EvaluationContext(
        recipe,
        run.tokenizer,
        split,
        train,
        runtime,
        console,
        started=run.started,
        heard=heard_of(run.model, split),
    )
    evaluation = with_start(judge(run.model, context, step=run.step), context)
    tokens = len(train.tokens) if train else 0
    evaluation = diagnosed(evaluation, context, train_tokens=tokens, steps=last_step(run), elsewhere=True)
    return with_next_step(evaluation, run)


def on_cpu(recipe: Recipe) -> Runtime:
    """Where a run is judged that is not training: in the arithmetic that all machines have."""
    return Runtime(torch.device("cpu"), "float32", set_threads(recipe.training.threads))


def learned_from(run: Evaluable, recipe: Recipe, console: Console, *, needed: bool) -> Split | None:
    """What a run learned from; None where that is gone or another one now, which is said, unless it is `needed`."""
    if needed:
        return build_dataset(recipe, console, run.tokenizer).train
    try:
        own = build_dataset(recipe, console, run.tokenizer)
        refuse_other_text(run, own)
        return own.train
    except (CorpusError, TokenizerError):
        console.say("the training text has changed or is gone: baselines that learn from it are left out")
        return None


def evaluate_own(
    run: Evaluable, dataset: Dataset, runtime: Runtime, console: Console
) -> tuple[Evaluation, GeneratedTexts | None]:
    """The whole evaluation on a run's own validation split, and what its model wrote for it, if it writes texts."""
    recipe, model = whole_split(run.config), run.model
    task = task_of(recipe)
    context = EvaluationContext(
        recipe,
        run.tokenizer,
        dataset.validation,
        dataset.train,
        runtime,
        console,
        dataset=dataset,
        started=run.started,
        heard=heard_of(model, dataset.validation),
    )
    evaluation = with_start(judge(model, context, step=run.step), context)
    written = task.write(model, dataset, recipe)
    if written is not None and evaluation.figures.ends:
        from octavo.evaluation.samples import with_samples

        ends = with_samples(evaluation.figures.ends, written, dataset)
        evaluation = replace(evaluation, figures=replace(evaluation.figures, ends=ends))
    evaluation = replace(evaluation, texts=task.judge_texts(model, written, dataset, recipe))
    tokens = len(dataset.train.tokens)
    return diagnosed(
        evaluation, context, train_tokens=tokens, steps=last_step(run), rows=run.metrics
    ), written


def judge(model: LanguageModel, context: EvaluationContext, *, step: int) -> Evaluation:
    """A model's figures on a split, and what stands beside them."""
    figures = figures_of(model, context, step=step)
    return Evaluation(figures, task_of(context.recipe).evaluate(model, context, figures))


def with_start(evaluation: Evaluation, context: EvaluationContext) -> Evaluation:
    """The evaluation with one baseline more, `start`: the model as it was before its first step."""
    if (model := context.started) is None:
        return evaluation
    start = evaluate_split(
        model.to(context.runtime.device),
        context.split,
        context.recipe,
        context.tokenizer,
        context.runtime,
        objective=comparing(context.recipe, model, context.runtime.device),
    )
    baseline = Baseline(start.loss, start.bits_per_byte, others=start.others)
    baselines = {**evaluation.standing.baselines, "start": baseline}
    return replace(evaluation, standing=replace(evaluation.standing, baselines=baselines))


def diagnosed(
    evaluation: Evaluation,
    context: EvaluationContext,
    *,
    train_tokens: int,
    steps: int,
    rows: Sequence[Mapping[str, Any]] = (),
    elsewhere: bool = False,
) -> Evaluation:
    """The evaluation with its diagnostics. `rows`: of metrics.jsonl; `steps`: of the run; `elsewhere`: it is of another
    text than the run's."""
    from octavo.evaluation.diagnostics import Facts, diagnose

    stated = evaluation.as_dict()
    facts = Facts(
        context.recipe,
        steps,
        context.tokenizer.vocab_size,
        train_tokens,
        rows=rows,
        evaluation=stated,
        elsewhere=elsewhere,
        rivals=task_of(context.recipe).rivals(stated),
    )
    return replace(evaluation, diagnostics=tuple(diagnose(facts)))


def with_next_step(evaluation: Evaluation, run: Evaluable) -> dict[str, Any]:
    """The evaluation as plain data, with the command that its verdict asks for; a checkpoint alone has none."""
    stated = evaluation.as_dict()
    step = next_step(run.folder, run.config, stated["diagnostics"]) if run.folder else None
    return {**stated, "next": plain(step)}


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
    text = dataset.manifest["text"]
    if (
        dataset.tokenizer.fingerprint() != run.tokenizer.fingerprint()
        or manifest.get("data", {}).get("text", text) != text
    ):
        raise CorpusError(
            "The run's text has changed since training, so what was held out is another part now.",
            remedy="bring the old text back, or name a text that the run has not seen: --text PATH",
        )


def figures_of(model: LanguageModel, context: EvaluationContext, *, step: int) -> Figures:
    """The model's own figures on a split. Raises InputError for a split without two tokens."""
    split, recipe, tokenizer = context.split, context.recipe, context.tokenizer
    if len(split.tokens) < 2:
        raise InputError(f"The text has {len(split.tokens)} tokens; an evaluation needs at least 2.")
    ends = split.documents > 1 and not context.alone  # which takes as long as all else
    places = Places(context=recipe.model.context, end=tokenizer.end if ends else None)
    metrics = evaluate_split(
        model,
        split,
        recipe,
        tokenizer,
        context.runtime,
        places,
        objective=comparing(recipe, context.started, context.runtime.device),
        heard=context.heard,
    )
    lengths = np.diff(np.append(split.starts.astype(np.int64), len(split.tokens)))
    task = task_of(recipe)
    cut = float((lengths > recipe.model.context).mean()) if task.cuts_documents(recipe) else 0.0
    return Figures(
        metrics=metrics,
        own=task.figures(model, context),
        bytes=split.bytes,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        step=step,
        skipped=task.left_out(split, recipe, tokenizer),
        positions=places.positions(),
        ends=places.document_ends(),
        documents_cut=cut,
    )


def last_step(run: Evaluable) -> int:
    """The step at which a run's training ended, as far as its folder tells."""
    return max((row["step"] for row in run.metrics), default=run.step)
