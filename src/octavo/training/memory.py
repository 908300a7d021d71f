"""Training where memory is short: how many sequences of a batch are computed at once, and whether blocks recompute.

Decided once, before the first step, and never where memory suffices; the step stays the same (see `Batch.parts`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from octavo.config import PartConfig, Recipe
from octavo.config.schema import TrainingConfig
from octavo.data.batch import Batch
from octavo.errors import InputError
from octavo.model.base import (
    FLOAT_BYTES,
    LanguageModel,
    ModelConfig,
    block_matrices,
    table_parameters,
    trained,
)
from octavo.tokenizers.base import of_sides
from octavo.training.device import Report, Runtime, accelerator, fast_bfloat16
from octavo.training.objective import NEXT_TOKEN, Objective
from octavo.util.memory import KEPT_BY_ALLOCATOR, available_memory, refuse_beyond_memory

if TYPE_CHECKING:
    from octavo.training.estimate import StepEstimate

T = TypeVar("T")


@dataclass(frozen=True)
class Fit:
    """A way to compute a step.

    Attributes:
        micro_batch: sequences at once; None: a whole batch.
        recompute: whether blocks are computed again in the backward pass.
    """

    micro_batch: int | None = None
    recompute: bool = False

    def __str__(self) -> str:
        at_once = (
            "a whole batch" if self.micro_batch is None else f"{self.micro_batch} of a batch's sequences"
        )
        return f"{at_once} at once" + (
            ", blocks computed again in the backward pass" if self.recompute else ""
        )


WHOLE = Fit()

ROUGHLY = 2
"""How many times too large an estimate's memory may be: what is so far beyond the machine's cannot fit."""


def ways(batch: int, *, micro_batch: int | str | None, recompute: bool | str) -> list[Fit]:
    """Every way that the settings leave open, from the one that needs the most memory to the one that needs least."""
    rows: list[int | None] = [micro_batch] if isinstance(micro_batch, int) else [None]
    if micro_batch == "auto":
        small = [part for part in range(1, math.isqrt(batch) + 1) if batch % part == 0]
        rows += sorted({*small, *(batch // part for part in small)} - {batch}, reverse=True)
    again = (False, True) if recompute == "auto" else (bool(recompute),)
    return [Fit(part, twice) for twice in again for part in rows]


def from_the_first_that_fits(
    open_ways: Sequence[Fit], need: Callable[[Fit], int], free: int, report: Report
) -> list[Fit]:
    """The ways from the first that needs no more than `free` bytes; the last alone, where none does."""
    first = need(open_ways[0])
    if first <= free:
        return list(open_ways)
    what = f"a step needs about {first / 2**30:.1f} GiB of memory with {open_ways[0]}, and {free / 2**30:.1f} are free"
    for index, way in enumerate(open_ways[1:], start=1):
        if need(way) <= free:
            report(f"{what}; so it is taken with {way}")
            return list(open_ways[index:])
    last = "" if len(open_ways) == 1 else f" even with {open_ways[-1]}"
    report(
        f"{what}: it may not fit{last}. Take a smaller model.context or model.width, or training.micro_batch=auto."
    )
    return [open_ways[-1]]


def open_ways(
    model: LanguageModel,
    recipe: Recipe,
    training: TrainingConfig,
    *,
    decided: Mapping[str, Any],
    device: torch.device,
    report: Report,
) -> list[Fit]:
    """The ways to compute a step that settings, an earlier session's decision and free memory leave open. `training` is
    the recipe's, with the batch of this process.
    """
    left = ways(
        training.batch,
        micro_batch=decided.get("micro_batch", "auto")
        if training.micro_batch == "auto"
        else training.micro_batch,
        recompute=decided.get("recompute", "auto") if training.recompute == "auto" else training.recompute,
    )
    free, vocab_size = free_memory(device), model.vocab_size
    if free is None:
        return left
    free += sum(weights.nbytes for weights in model.parameters() if weights.device == device)
    sides = max(1, recipe.batches.predictions(recipe.model.context) // recipe.model.context)  # of a pair two
    if bound(recipe.model, training.optimizer, vocab_size=vocab_size, batch=sides * training.batch) <= free:
        return left
    precision = training.precision
    if precision == "auto":  # what it will be is not known yet; an accelerator's memory is tried out as well
        precision = "bfloat16" if device.type != "cpu" and fast_bfloat16(device) else "float32"

    def need(way: Fit) -> int:
        step = estimated(recipe, training, way, vocab_size=vocab_size, precision=precision, device=device)
        return step.memory.total

    fits = from_the_first_that_fits(left, need, free, report)
    if device.type == "cpu" and len(fits) == 1:
        refuse_beyond_memory(need(fits[0]) / ROUGHLY, "A step takes")
    return fits


def attempted(open_ways: Sequence[Fit], attempt: Callable[[Fit], T], report: Report) -> T:
    """What `attempt` returns for the first way in which it does not run out of the device's memory.

    Raises InputError if all of them do.
    """
    for way, smaller in zip(open_ways, [*open_ways[1:], None], strict=True):
        try:
            return attempt(way)
        except torch.OutOfMemoryError:
            if smaller is None:
                raise InputError(
                    f"The device's memory is too short for this model, even with {way}.",
                    remedy="take a smaller model.context or model.width, or training.device=cpu",
                ) from None
        torch.cuda.empty_cache()
        report(f"out of memory with {way}; trying {smaller}")
    raise AssertionError("there is always a way")


def try_out(
    model: LanguageModel,
    training: TrainingConfig,
    batch: Batch[Tensor],
    runtime: Runtime,
    *,
    objective: Objective = NEXT_TOKEN,
) -> None:
    """A step on the real device, with room kept for what the optimizer will remember; no weight changes.

    Raises torch.OutOfMemoryError.
    """
    count = sum(weights.numel() for weights in trained(model.parameters()))
    matrices = sum(weights.numel() for weights in trained(block_matrices(model)))
    state = training.optimizer.state_size(parameters=count, matrices=matrices)
    accumulates = training.accumulation > 1 or runtime.micro_batch is not None
    model.to(runtime.device).train()
    batch = batch.to(runtime.device)
    try:
        kept = torch.empty(state, dtype=torch.float32, device=runtime.device)
        for _ in range(1 + accumulates):
            with runtime.autocast():
                loss = objective.loss(model, batch).total / batch.targets.numel()
            loss.backward()
        del kept
    finally:
        model.zero_grad(set_to_none=True)


def estimated(
    recipe: Recipe,
    training: TrainingConfig,
    way: Fit,
    *,
    vocab_size: int,
    precision: str = "float32",
    device: torch.device = torch.device("cpu"),  # noqa: B008 - it never changes
) -> StepEstimate:
    """What one of a step's parts takes, and its end, when it is computed so; for `training` see `open_ways`."""
    from octavo.training.estimate import estimate_step

    rows = min(way.micro_batch or training.batch, training.batch)
    return estimate_step(
        recipe.model,
        training.optimizer,
        vocab_size=vocab_size,
        rows=rows,
        accumulates=training.accumulation > 1 or rows < training.batch,
        recompute=way.recompute,
        precision=precision,
        device=device,
        objective=recipe.objective,
        batches=recipe.batches,
        adapters=training.adapters,
        added=len(recipe.tokenizer.special),
    )


def learned_numbers(recipe: Recipe, *, vocab_size: int) -> tuple[int, int]:
    """How many numbers are trained, and how many of them in the matrices of the blocks."""
    config, adapters = recipe.model, recipe.training.adapters
    if adapters.kind == "none":
        return config.parameters(vocab_size=vocab_size), config.block_matrix_parameters()
    with torch.device("meta"):
        model = config.build(vocab_size=vocab_size)
        adapters.attach(model, added=len(recipe.tokenizer.special), seed=0)
    every, matrices = trained(model.parameters()), trained(block_matrices(model))
    return sum(weights.numel() for weights in every), sum(weights.numel() for weights in matrices)


def bound(model: ModelConfig, optimizer: PartConfig, *, vocab_size: int, batch: int) -> float:
    """More bytes than training holds: every matrix's inputs and outputs several times over, scores, logits, and the
    model that a tuning starts from.

    Known at once, where an estimate takes a second: most trainings fit many times over.
    """
    count = model.parameters(vocab_size=vocab_size)
    matrices = model.block_matrix_parameters()
    state = optimizer.state_size(parameters=count, matrices=matrices)
    a_position = model.activation_bounds()[1] + 8 * FLOAT_BYTES * vocab_size
    step = FLOAT_BYTES * (5 * count + state) + batch * model.context * a_position
    return step + KEPT_BY_ALLOCATOR


def least(recipe: Recipe, *, vocab_size: int) -> int:
    """Fewer bytes than training holds in any of its `ways`: weights, the optimizer's memory, the tokens of a batch, and
    either the gradients or what a forward pass leaves where every block is computed again.
    """
    model, training = recipe.model, recipe.training
    count = model.parameters(vocab_size=vocab_size)
    learned, matrices = learned_numbers(recipe, vocab_size=vocab_size)
    dense = max(0, learned - table_parameters(model))  # the gradients of tables are sparse
    state = training.optimizer.state_size(parameters=dense, matrices=min(dense, matrices))
    rows = (
        1 if training.micro_batch == "auto" else min(training.micro_batch or training.batch, training.batch)
    )
    logits = FLOAT_BYTES * of_sides(vocab_size)[1]
    kept = rows * model.context * (model.activation_bounds()[0] + logits)
    tokens = 2 * 8 * training.batch * model.context
    models = 1 + recipe.objective.build().asks_start
    return FLOAT_BYTES * (models * count + state) + max(FLOAT_BYTES * dense, kept) + tokens


def refuse_beyond_memory_of(recipe: Recipe, *, vocab_size: int, processes: int = 1) -> None:
    """Raise InputError, before a byte is taken, where training on this processor certainly needs more than there is."""
    device = recipe.training.device
    if processes == 1 and (device == "cpu" or (device == "auto" and accelerator() is None)):
        need = least(recipe, vocab_size=vocab_size)
        refuse_beyond_memory(need, "Training this model takes")


def free_memory(device: torch.device) -> int | None:
    """Bytes that are free for use on a device, where it tells."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device)
    return available_memory() if device.type == "cpu" else None
