"""What a training will cost, before it starts: counted from the config, and one step, timed or predicted."""

from __future__ import annotations

import dataclasses
import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from octavo.config import Recipe
from octavo.config.parts import LARGEST, MOST
from octavo.data.batch import Batch
from octavo.errors import InputError
from octavo.evaluation.sizing import TOO_MANY_PARAMETERS_PER_TOKEN
from octavo.model.base import LanguageModel, ModelConfig, build_model
from octavo.planning.machines import Machine, find_machine, here
from octavo.planning.predict import Prediction, predictions
from octavo.run.data import Paths, build_batches, build_dataset, held_out_rows, total_steps
from octavo.run.finetune import ready_tokenizer
from octavo.run.run import Run
from octavo.run.runtime import precision_here
from octavo.run.settings import default_recipe, resolve
from octavo.run.teachers import objective_of, teachers_of
from octavo.tokenizers.base import Vocabulary, of_sides
from octavo.training.cuda_graph import UNTIL_REPLAYED
from octavo.training.device import (
    Runtime,
    Watch,
    accelerator,
    choose_device,
    choose_threads,
    keep_memory,
    set_threads,
)
from octavo.training.estimate import CPU, Memory
from octavo.training.loop import training_steps
from octavo.training.memory import WHOLE, Fit, estimated, learned_numbers, open_ways, refuse_beyond_memory_of
from octavo.training.recompute import recompute_blocks
from octavo.training.step import StepOptions
from octavo.util.records import plain
from octavo.util.terminal import Console, duration

MANY_PASSES = 5
REPEATS = 3  # steps that are timed, after one to warm up
SHORT_TIMING = 1.0  # seconds that timing may take without being asked for
MADE_UP, PIECES, PIECE = 50_000, 2_000, 6  # tokens of a made-up text, its words, and tokens of each
LONG_STEP = 5e11  # floating-point operations; half a minute on a slow core


def plan(
    recipe: str | Path | Mapping[str, Any] | None = None,
    text: Paths | None = None,
    *,
    overrides: Iterable[str] | Mapping[str, Any] = (),
    vocab_size: int | None = None,
    on: Iterable[str] = (),
    price: float | None = None,
    time_step: bool | None = None,
    quiet: bool = True,
    console: Console | None = None,
) -> dict[str, Any]:
    """The plan of a training as plain data. Without a text, the vocabulary is `vocab_size` or the recipe's own, and
    what only a text can tell (steps of a recipe that counts epochs, and what follows from them) is None.

    With the names of machines (`on`), their `predictions` stand in the place of a step timed here; `price` is that of
    an hour of one device. `time_step`: time a real step here; if None, with a text, or where that is predicted to be
    short; else its time is predicted. With `quiet=False` it says what it does. Raises InputError if the vocabulary or a
    machine is not known.
    """
    console = console or Console.in_python(quiet=quiet)
    refuse_wrong_numbers(vocab_size, price)
    machines = [find_machine(name) for name in on]
    recipe = default_recipe(overrides)[0] if recipe is None else recipe
    resolved = resolve(recipe, text, overrides, needs_text=False)
    refuse_without_base(resolved)
    has_text = not resolved.lacks_text
    facts, size = told_by_text(resolved, console) if has_text else without_text(resolved, vocab_size)
    notes: list[str] = []
    if facts["steps"] is None:
        passes = f"{resolved.training.epochs:g} passes"
        notes.append(
            f"how many steps {passes} are, and how long they take, only a text can tell: add --text PATH"
        )
    if wrong := resolved.model.miscounted(vocab_size=size):
        notes.append(wrong)
    teachers = known_teachers(resolved, size)

    def predicted_on(machines: Sequence[Machine]) -> list[Prediction]:
        models = models_of(resolved, teachers)
        steps = facts["steps"]
        return predictions(resolved, machines, vocab_size=size, steps=steps, price=price, teachers=models)

    if machines:
        facts |= counted(resolved, vocab_size=size).as_dict()
        return {
            **facts,
            "predictions": [one.as_dict() for one in predicted_on(machines)],
            "warnings": [*map(console.words, notes), *warnings(facts)],
        }
    refuse_beyond_memory_of(resolved, vocab_size=size)
    step, predicted = None, False
    if time_step is False or (time_step is None and not has_text and not on_accelerator(resolved)):
        set_threads(resolved.training.threads)
        step, predicted = as_here(predicted_on([here()])[0]), True
    if step is None or (time_step is None and step.step_seconds * (REPEATS + 1) <= SHORT_TIMING):
        step = timed(resolved, vocab_size=size, console=console, note=notes.append, teachers=teachers)
        predicted = False
    facts |= {"predicted": predicted, **plain(step)}
    way = Fit(step.micro_batch, step.recompute)
    device = torch.device(step.device)
    facts |= counted(resolved, way, vocab_size=size, precision=step.precision, device=device).as_dict()
    steps = facts["steps"]
    seconds = None if steps is None else resolved.training.teachers.whole(steps) * step.step_seconds
    facts |= {
        "training_seconds": seconds,
        "training_time": None if seconds is None else duration(seconds),
    }
    return {**facts, "warnings": [*map(console.words, notes), *warnings(facts)]}


def told_by_text(recipe: Recipe, console: Console) -> tuple[dict[str, Any], int]:
    """What the recipe's text tells, and the vocabulary."""
    dataset = build_dataset(recipe, console, ready_tokenizer(recipe))
    tokens = len(dataset.train.tokens)
    steps = total_steps(recipe, build_batches(recipe, dataset, console))
    seen = steps * step_tokens(recipe)
    passes = seen * recipe.training.text_rows / recipe.training.batch / tokens
    size = dataset.tokenizer.vocab_size
    tables = recipe.model.table_bytes(dataset.train.tokens, vocab_size=size)
    facts = {"steps": steps, "tokens_seen": seen, "training_tokens": tokens, "passes": passes}
    return {**facts, "table_bytes": tables}, size


def without_text(recipe: Recipe, vocab_size: int | None) -> tuple[dict[str, Any], int]:
    """The same from the recipe alone. Raises InputError if the vocabulary is not known."""
    epochs = recipe.training.epochs
    ready = ready_tokenizer(recipe)
    known = ready.vocab_size if ready else vocab_size
    stated = getattr(recipe.tokenizer, "size", None)
    expected = None if isinstance(stated, Vocabulary) else recipe.expected_vocabulary
    size = known or expected or stated
    if size is None:
        raise InputError(
            "How large the vocabulary is, only a text can tell.",
            remedy="add --text PATH, or --vocabulary NUMBER",
        )
    steps = None if epochs is not None else recipe.training.steps or 1000
    seen = None if steps is None else steps * step_tokens(recipe)
    facts = {"steps": steps, "tokens_seen": seen, "training_tokens": None, "passes": epochs}
    return {**facts, "table_bytes": None}, size


def on_accelerator(recipe: Recipe) -> bool:
    """Whether the run would compute elsewhere than on the processor; there a step is timed at once."""
    device = recipe.training.device
    return (accelerator() or "cpu") != "cpu" if device == "auto" else device != "cpu"


@dataclass(frozen=True)
class Step:
    """How long an optimizer step takes here, and how it is computed.

    Attributes:
        threads_share: of their time, what the threads had; less than 1 where others compute; None off a processor.
        micro_batch, recompute: sequences at once (None: all), and whether activations are computed again.
    """

    step_seconds: float
    tokens_per_second: float
    device: str
    precision: str
    threads: int
    threads_share: float | None
    micro_batch: int | None
    recompute: bool


def as_here(prediction: Prediction) -> Step:
    """A prediction for this machine, in place of a timed step."""
    return Step(
        step_seconds=prediction.seconds.step,
        tokens_per_second=prediction.tokens_per_second,
        device="cpu",
        precision=prediction.precision,
        threads=torch.get_num_threads(),
        threads_share=None,
        micro_batch=prediction.micro_batch,
        recompute=prediction.recompute,
    )


def refuse_without_base(recipe: Recipe) -> None:
    """Raise InputError for a recipe whose model is that of a run which it does not name."""
    if recipe.lacks_start:
        raise InputError(
            "This recipe tunes a model that was trained, and names none.",
            remedy="octavo plan RECIPE --base RUN, or training.start_from=RUN",
        )


def refuse_wrong_numbers(vocab_size: int | None, price: float | None) -> None:
    """Raise InputError for an impossible vocabulary or price."""
    if vocab_size is not None and not 1 <= vocab_size <= MOST:
        raise InputError(f"--vocabulary must be between 1 and {MOST:,}, not {vocab_size:,}.")
    if price is not None and not 0 <= price <= LARGEST:
        raise InputError(f"--price must be between 0 and {LARGEST:g} an hour, not {price:g}.")


def known_teachers(recipe: Recipe, vocab_size: int) -> list[Run]:
    """The teachers. Raises InputError if one has another tokenizer or a shorter context."""
    runs = teachers_of(recipe)
    for run in runs:
        if run.tokenizer.vocab_size != vocab_size:
            raise InputError(
                f"{run.checkpoint.folder} knows {run.tokenizer.vocab_size:,} tokens; the vocabulary has {vocab_size:,}."
            )
    return runs


def models_of(recipe: Recipe, teachers: Sequence[Run]) -> list[ModelConfig]:
    """What teaches, by its config; a run's own teachers are like itself."""
    return [recipe.model] if recipe.training.teachers.trained else [run.config.model for run in teachers]


def teaching_models(recipe: Recipe, teachers: Sequence[Run], vocab_size: int) -> list[LanguageModel]:
    """The networks that a step asks; of a run's own teachers, which are not there yet, one with its first weights."""
    if recipe.training.teachers.trained:
        return [build_model(recipe.model, vocab_size=vocab_size, seed=recipe.seed)]
    return [run.network().model for run in teachers]


@dataclass(frozen=True)
class Counted:
    """What follows from a config alone.

    Attributes:
        vocabulary: tokens, or columns.
        counted: what its tokens are called.
    """

    vocabulary: int
    counted: str
    parameters: int
    trained_parameters: int
    parameters_without_head: int
    memory: Memory
    cache_bytes: int
    checkpoint_bytes: int
    training_flops_per_token: float

    def as_dict(self) -> dict[str, Any]:
        """For --json, with the sum of the memory."""
        facts = dataclasses.asdict(self)
        facts["memory"] |= {"total": self.memory.total}
        return facts


def counted(
    recipe: Recipe,
    way: Fit = WHOLE,
    *,
    vocab_size: int,
    precision: str = "float32",
    device: torch.device = CPU,
) -> Counted:
    """What follows from the config, for steps that are computed in a `way`."""
    model, training = recipe.model, recipe.training
    step = estimated(recipe, training, way, vocab_size=vocab_size, precision=precision, device=device)
    memory = step.memory
    learned = learned_numbers(recipe, vocab_size=vocab_size)[0]
    flops = model.training_flops(vocab_size=vocab_size)
    if training.adapters.kind != "none":  # no products for the gradients of what stays
        flops = 2 * model.forward_flops(vocab_size=vocab_size) + 6 * learned
    return Counted(
        vocabulary=vocab_size,
        counted=recipe.objective.unit.counted,
        parameters=model.parameters(vocab_size=vocab_size),
        trained_parameters=learned,
        parameters_without_head=model.parameters(vocab_size=vocab_size, head=False),
        memory=memory,
        cache_bytes=model.cache_bytes(),
        checkpoint_bytes=memory.weights + memory.optimizer,
        training_flops_per_token=flops,
    )


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
    repeats: int = REPEATS,
) -> Step:
    """Median time of real optimizer steps, on made-up tokens, after one to warm up, on a GPU some, until they replay;
    on a processor also the share of their time that its threads had, which is less than 1 where others compute.

    Where a processor would take long for one, fewer sequences are timed, and the time is scaled up to a whole step.
    """
    training, context = recipe.training, recipe.model.context
    whole = training.accumulation * training.batch
    keep_memory()
    model, batch = subject(recipe, vocab_size)
    probe = batch.to("cpu")
    objective = recipe.objective.build()
    device = choose_device(training.device, model, probe.corner(2, 64), console.say, objective=objective)
    threads = choose_threads(training.threads, model, probe, device, note, objective=objective)
    way, *_ = open_ways(model, recipe, training, decided={}, device=device, report=note)
    if way.recompute:
        recompute_blocks(model)
    rows = min(way.micro_batch or training.batch, training.batch)
    parts = math.ceil(whole / rows)
    operations = whole * context * recipe.model.training_flops(vocab_size=vocab_size)
    if device.type == "cpu" and operations > LONG_STEP:
        rows, parts, repeats = min(rows, max(1, int(whole * LONG_STEP / operations))), 1, 1
    batch = batch.rows_at(slice(rows))
    probe = batch.to("cpu")
    precision = precision_here(training.precision, recipe, model, probe, device, console, objective=objective)
    model.to(device)
    warm = UNTIL_REPLAYED if device.type == "cuda" else 1
    asked = teaching_models(recipe, teachers, vocab_size)
    steps = training_steps(
        model,
        training.optimizer.build(model),
        lambda step, micro: batch,
        steps=range(repeats + warm),
        seed=recipe.seed,
        schedule=lambda step: 0.0,  # weights stay, so that a recipe that would diverge can be timed too
        objective=objective_of(recipe, asked, device) if asked else recipe.objective.build(),
        options=StepOptions(
            accumulation=parts, clip=training.clip, autocast=Runtime(device, precision, threads).autocast
        ),
    )
    watch = Watch()
    seconds = median_step(steps, warm) * whole / (rows * parts)
    share = watch.share(threads) if device.type == "cpu" else None
    return Step(
        step_seconds=seconds,
        tokens_per_second=step_tokens(recipe) / seconds,
        device=str(device),
        precision=precision,
        threads=threads,
        threads_share=share,
        micro_batch=way.micro_batch,
        recompute=way.recompute,
    )


def median_step(steps: Iterable[Any], warm: int) -> float:
    """Seconds of a step, after so many to warm up."""
    marks = [time.perf_counter(), *(time.perf_counter() for _ in steps)]
    return statistics.median(after - before for before, after in pairwise(marks[warm:]))


def subject(recipe: Recipe, vocab_size: int) -> tuple[LanguageModel, Batch[np.ndarray]]:
    """The model that is timed, and what it learns from."""
    model = build_model(recipe.model, vocab_size=vocab_size, seed=recipe.seed)
    batch = made_up(recipe, vocab_size)
    if recipe.model.gate_share:
        text, held_out = made_up_text(recipe, vocab_size)
        model.take_text(text, held_out)
        batch = with_counts(batch, text, held_out_rows(recipe, held_out), before=recipe.model.before)
    recipe.training.adapters.attach(model, added=len(recipe.tokenizer.special), seed=recipe.seed)
    return model, batch


def made_up(recipe: Recipe, vocab_size: int) -> Batch[np.ndarray]:
    """A batch of random tokens."""
    random = np.random.Generator(np.random.Philox(key=[recipe.seed, 0]))
    targets_of = of_sides(vocab_size)[1]
    window = random.integers(0, targets_of, (recipe.training.batch, recipe.model.context + 1))
    inputs, targets = np.ascontiguousarray(window[:, :-1]), np.ascontiguousarray(window[:, 1:])
    like = recipe.batches.example(*inputs.shape).widened(vocab_size)
    if like.values is not None:
        rows = random.standard_normal((*window.shape, vocab_size)).astype(np.float32)
        return dataclasses.replace(like, inputs=rows[:, :-1], values=rows[:, 1:])
    return dataclasses.replace(like, inputs=inputs, targets=targets)


def made_up_text(recipe: Recipe, vocab_size: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Tokens of a text in which pieces come again, as words do, some more often than others; and which of them the
    network does not learn from."""
    random = np.random.Generator(np.random.Philox(key=[recipe.seed, 1]))
    context = recipe.model.context
    often = 1 / np.arange(1, PIECES + 1)
    pieces = random.integers(0, vocab_size, (PIECES, PIECE), np.int32)
    size = max(MADE_UP, 4 * (context + 1))
    text = pieces[random.choice(PIECES, size // PIECE, p=often / often.sum())].reshape(-1)
    return text, recipe.model.held_out_of(np.zeros(1, np.int64), len(text))


def with_counts(batch: Batch[np.ndarray], text: np.ndarray, rows: int, *, before: int) -> Batch[np.ndarray]:
    """A made-up batch whose last `rows` are pieces of a text that counts are mixed in with, as a gate learns from."""
    inputs, targets = batch.inputs.copy(), batch.targets.copy()
    width = inputs.shape[1]
    earlier = np.full((len(inputs), before), -1, np.int64)
    alone = np.ones(inputs.shape, np.int64)
    alone[len(alone) - rows :] = 0
    begins = np.linspace(before, len(text) - width - 1, rows).astype(np.int64)
    for row, begin in zip(range(-rows, 0), begins, strict=True):
        earlier[row] = text[begin - before : begin]
        inputs[row], targets[row] = text[begin : begin + width], text[begin + 1 : begin + width + 1]
    return dataclasses.replace(batch, inputs=inputs, targets=targets, earlier=earlier, alone=alone)


def warnings(facts: Mapping[str, Any]) -> list[str]:
    """Warnings that follow from the numbers."""
    sentences = []
    tokens, passes, count = facts["training_tokens"], facts["passes"], facts["parameters"]
    if tokens is not None and count > TOO_MANY_PARAMETERS_PER_TOKEN * tokens and passes > MANY_PASSES:
        sentences.append(
            f"{count:,} parameters for {tokens:,} {facts['counted']}, seen {passes:.0f} times: the model will most "
            f"likely learn them by heart (over-fit). Take at most {TOO_MANY_PARAMETERS_PER_TOKEN * tokens:,} "
            "parameters, more data, dropout, or training.patience=3 to stop in time."
        )
    return sentences
