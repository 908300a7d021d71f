"""What a training will cost, before it starts: counted from the config, and one real step timed on this machine."""

from __future__ import annotations

import dataclasses
import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from octavo.config import Recipe
from octavo.errors import InputError
from octavo.evaluation.sizing import TOO_MANY_PARAMETERS_PER_TOKEN
from octavo.model import accounting
from octavo.model.build import build_model
from octavo.runs.console import Console
from octavo.runs.data import Paths, build_batches, build_dataset, total_steps
from octavo.runs.machines import find_machine
from octavo.runs.prediction import predictions
from octavo.runs.run import Run
from octavo.runs.teachers import teachers_of, to_ask
from octavo.runs.train import resolve
from octavo.training.fitting import WHOLE, Fit, open_ways, rehearsed
from octavo.training.loop import Batch, training_steps
from octavo.training.recompute import recompute_blocks
from octavo.training.rehearsal import CPU
from octavo.training.runtime import Runtime, choose_device, choose_precision, keep_memory, set_threads

MANY_PASSES = 5
LONG_STEP = 5e11  # floating-point operations; half a minute on a slow core


def plan(
    recipe: str | Path | Mapping[str, Any],
    text: Paths | None = None,
    *,
    overrides: Iterable[str] | Mapping[str, Any] = (),
    vocab_size: int | None = None,
    on: Iterable[str] = (),
    price: float | None = None,
    console: Console | None = None,
) -> dict[str, Any]:
    """The plan of a training as plain data. Without a text, the vocabulary is `vocab_size` or the recipe's own.

    With the names of machines (`on`), their `predictions` stand in the place of a step timed here; `price` is that of
    an hour of one device. Raises InputError where the vocabulary or a machine is not known.
    """
    console = console or Console(quiet=True)
    machines = [find_machine(name) for name in on]
    resolved = resolve(recipe, text, overrides, needs_text=False)
    has_text = resolved.corpus.kind != "files" or bool(resolved.corpus.paths)
    tokens, steps = None, resolved.training.steps or 1000
    if has_text:
        dataset = build_dataset(resolved, console)
        tokens, vocab_size = len(dataset.train.tokens), dataset.tokenizer.vocab_size
        steps = total_steps(resolved, build_batches(resolved, dataset, console))
    vocab_size = vocab_size or resolved.expected_vocabulary or getattr(resolved.tokenizer, "size", None)
    if vocab_size is None:
        raise InputError(
            "How large the vocabulary is, only a text can tell.",
            remedy="add --text PATH, or --vocabulary NUMBER",
        )
    seen = steps * step_tokens(resolved)
    of_text = seen * resolved.training.text_rows / resolved.training.batch
    teachers = known_teachers(resolved, vocab_size)
    facts: dict[str, Any] = {
        "steps": steps,
        "tokens_seen": seen,
        "training_tokens": tokens,
        "passes": None if tokens is None else of_text / tokens,
    }
    if machines:
        facts |= counted(resolved, vocab_size=vocab_size)
        models = [run.config.model for run in teachers]
        found = predictions(
            resolved, machines, vocab_size=vocab_size, steps=steps, price=price, teachers=models
        )
        return {**facts, "predictions": found, "warnings": warnings(facts)}
    notes: list[str] = []
    facts |= timed(resolved, vocab_size=vocab_size, console=console, note=notes.append, teachers=teachers)
    way = Fit(facts["micro_batch"], facts["recompute"])
    device = torch.device(facts["device"])
    facts |= counted(resolved, way, vocab_size=vocab_size, precision=facts["precision"], device=device)
    facts |= {
        "training_seconds": steps * facts["step_seconds"],
        "training_time": duration(steps * facts["step_seconds"]),
    }
    return {**facts, "warnings": [*notes, *warnings(facts)]}


def known_teachers(recipe: Recipe, vocab_size: int) -> list[Run]:
    """The runs that teach. Raises InputError where they know other tokens, or see less."""
    runs = teachers_of(recipe)
    for run in runs:
        if run.tokenizer.vocab_size != vocab_size:
            raise InputError(
                f"{run.checkpoint.folder} knows {run.tokenizer.vocab_size:,} tokens; the vocabulary has {vocab_size:,}."
            )
    return runs


def counted(
    recipe: Recipe,
    way: Fit = WHOLE,
    *,
    vocab_size: int,
    precision: str = "float32",
    device: torch.device = CPU,
) -> dict[str, Any]:
    """What follows from the config alone, for steps that are computed in a `way`."""
    model, training = recipe.model, recipe.training
    step = rehearsed(model, training, way, vocab_size=vocab_size, precision=precision, device=device)
    memory = step.memory
    count = accounting.parameters(model, vocab_size=vocab_size)
    return {
        "vocabulary": vocab_size,
        "parameters": count,
        "parameters_without_head": accounting.parameters(model, vocab_size=vocab_size, head=False),
        "memory": {**dataclasses.asdict(memory), "total": memory.total},
        "cache_bytes": accounting.cache_bytes(model),
        "checkpoint_bytes": memory.weights + memory.optimizer,
        "training_flops_per_token": accounting.training_flops(model, vocab_size=vocab_size),
    }


def step_tokens(recipe: Recipe) -> int:
    """Tokens that an optimizer step learns to predict, in batches that are full."""
    training = recipe.training
    return training.accumulation * training.batch * recipe.batches.predictions(recipe.model.context)


def timed(
    recipe: Recipe,
    *,
    vocab_size: int,
    console: Console,
    note: Callable[[str], None] = lambda sentence: None,
    teachers: Sequence[Run] = (),
    repeats: int = 3,
) -> dict[str, Any]:
    """Median time of real optimizer steps, on made-up tokens, after one to warm up.

    Where a processor would take long for one, fewer sequences are timed, and the time is scaled up to a whole step.
    """
    training, context = recipe.training, recipe.model.context
    whole = training.accumulation * training.batch
    threads = set_threads(training.threads)
    keep_memory()
    model = build_model(recipe.model, vocab_size=vocab_size, seed=recipe.seed)
    inputs, targets = made_up(recipe, vocab_size)
    probe = torch.from_numpy(inputs[:2, :64]), torch.from_numpy(targets[:2, :64])
    device = choose_device(training.device, model, probe, console.say)
    way = open_ways(model, recipe.model, training, decided={}, device=device, report=note)[0]
    if way.recompute:
        recompute_blocks(model)
    rows = min(way.micro_batch or training.batch, training.batch)
    parts, inputs, targets = math.ceil(whole / rows), inputs[:rows], targets[:rows]
    operations = whole * context * accounting.training_flops(recipe.model, vocab_size=vocab_size)
    if device.type == "cpu" and operations > LONG_STEP:
        rows, parts, repeats = min(rows, max(1, int(whole * LONG_STEP / operations))), 1, 1
        inputs, targets = inputs[:rows], targets[:rows]
    probe = torch.from_numpy(inputs), torch.from_numpy(targets)
    precision = choose_precision(training.precision, model, probe, device, console.say)
    model.to(device)
    steps = training_steps(
        model,
        training.optimizer.build(model),
        lambda step, micro: (inputs, targets),
        schedule=lambda step: 0.0,  # weights stay, so that a recipe that would diverge can be timed too
        seed=recipe.seed,
        start=0,
        steps=repeats + 1,
        accumulation=parts,
        clip=training.clip,
        autocast=Runtime(device, precision, threads).autocast,
        teachers=to_ask(teachers, recipe, device),
    )
    marks = [time.perf_counter()]
    for _ in steps:
        marks.append(time.perf_counter())
    took = statistics.median(after - before for before, after in pairwise(marks[1:]))
    seconds = took * whole / (rows * parts)
    return {
        "step_seconds": seconds,
        "tokens_per_second": step_tokens(recipe) / seconds,
        "device": str(device),
        "precision": precision,
        "threads": threads,
        "micro_batch": way.micro_batch,
        "recompute": way.recompute,
    }


def made_up(recipe: Recipe, vocab_size: int) -> Batch:
    """A batch of random tokens."""
    random = np.random.Generator(np.random.Philox(key=[recipe.seed, 0]))
    window = random.integers(0, vocab_size, (recipe.training.batch, recipe.model.context + 1))
    return np.ascontiguousarray(window[:, :-1]), np.ascontiguousarray(window[:, 1:])


def warnings(facts: Mapping[str, Any]) -> list[str]:
    """What the figures give reason to say."""
    said = []
    tokens, passes, count = facts["training_tokens"], facts["passes"], facts["parameters"]
    if tokens is not None and count > TOO_MANY_PARAMETERS_PER_TOKEN * tokens and passes > MANY_PASSES:
        said.append(
            f"{count:,} parameters for {tokens:,} tokens of text, seen {passes:.0f} times: the model will most likely "
            f"learn the text by heart (over-fit). Take at most {TOO_MANY_PARAMETERS_PER_TOKEN * tokens:,} parameters, "
            "more text, dropout, or training.patience=3 to stop in time."
        )
    return said


def duration(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} days"
