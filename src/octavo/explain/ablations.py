"""What each part of a model is worth: the change of the validation loss where it is switched off, with its interval.

Switched off means that it adds nothing: a head's output, what attention or feed-forward add to the stream, or the
positions. All are measured on the same rows, and each row is compared with itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from octavo.data.batch import Batch
from octavo.model.gpt import GPT
from octavo.model.positions import Positions
from octavo.ngram.mixture import Counts
from octavo.training.objective import Objective
from octavo.util.stats import drawn_again, ends_of

DRAWS = 1000
NOTHING = {"positions": Positions, "counts": Counts}
"""Modules that stand in a model for none."""


def names_of_parts(model: GPT) -> list[str]:
    """Every part that can be switched off, as the page calls it: b0.h0, b0.attention, b0.feed_forward, positions,
    counts."""
    found = []
    for number, block in enumerate(model.blocks):
        found += [f"b{number}.h{head}" for head in range(block.attention.heads)]
        found.append(f"b{number}.attention")
        if block.feed_forward is not None:
            found.append(f"b{number}.feed_forward")
    found += ["positions"] * (type(model.positions) is not Positions)
    return found + ["counts"] * (type(model.counts) is not Counts)


def in_words(part: str) -> str:
    """A part's name for people: the feed-forward of block 0."""
    block, _, inner = part.removeprefix("b").partition(".")
    if not inner:
        return part
    head = inner.removeprefix("h")
    return (
        f"head {head} of block {block}"
        if head.isdigit()
        else f"the {inner.replace('_', '-')} of block {block}"
    )


@contextmanager
def switched_off(model: GPT, parts: Sequence[str]) -> Iterator[None]:
    """Within the context these parts of a model add nothing."""
    with ExitStack() as stack:
        for name in parts:
            if name in NOTHING:
                stack.callback(setattr, model, name, getattr(model, name))
                setattr(model, name, NOTHING[name]())
                continue
            number, _, part = name.removeprefix("b").partition(".")
            stack.callback(_silence(model.blocks[int(number)], part).remove)
        yield


def _silence(block: Any, part: str) -> Any:
    if part == "attention":
        return block.attention.register_forward_hook(_nothing)
    if part == "feed_forward":
        return block.feed_forward.register_forward_hook(_nothing)
    head, wide = int(part.removeprefix("h")), block.attention.head_width

    def without(_module: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        joined = inputs[0].clone()
        joined[..., head * wide : (head + 1) * wide] = 0
        return (joined,)

    return block.attention.project.register_forward_pre_hook(without)


def _nothing(_module: nn.Module, _inputs: Any, output: Tensor) -> Tensor:
    return torch.zeros_like(output)


@dataclass(frozen=True)
class RowLosses:
    """Sums of losses and how many tokens they are of, (rows,) each."""

    nats: np.ndarray
    tokens: np.ndarray

    @property
    def mean(self) -> float:
        """Per token."""
        return float(self.nats.sum() / self.tokens.sum())


@torch.no_grad()
def row_losses(model: GPT, batches: Sequence[Batch[Tensor]], objective: Objective) -> RowLosses:
    """The loss of each row of batches that predicts anything."""
    nats, tokens = [], []
    for batch in batches:
        losses = objective.evaluate(model, batch).losses.double()
        weights = (batch.targets >= 0).double() if batch.weights is None else batch.weights.double()
        nats.append((losses * weights).sum(dim=1).numpy())
        tokens.append(weights.sum(dim=1).numpy())
    found = RowLosses(np.concatenate(nats), np.concatenate(tokens))
    there = found.tokens > 0
    return RowLosses(found.nats[there], found.tokens[there])


def changes(
    model: GPT, batches: Sequence[Batch[Tensor]], objective: Objective, whole: RowLosses
) -> dict[str, dict[str, float]]:
    """By part, the change of the mean loss without it. Above 0: the model needs it."""
    found = {}
    for name in names_of_parts(model):
        with switched_off(model, [name]):
            found[name] = difference(row_losses(model, batches, objective), whole)
    return found


def difference(one: RowLosses, other: RowLosses, *, seed: int = 0) -> dict[str, float]:
    """The mean loss of one less that of the other on the same rows, and its interval over other rows."""
    change, tokens = one.nats - other.nats, other.tokens
    mean = float(change.sum() / tokens.sum())

    def of_rows(chosen: np.ndarray) -> np.ndarray:
        return change[chosen].sum(axis=1) / tokens[chosen].sum(axis=1)

    low, high = ends_of(drawn_again(of_rows, len(change), draws=DRAWS, random=np.random.default_rng(seed)))
    return {"mean": mean, "low": float(low), "high": float(high)}


def variants(model: GPT) -> int:
    """Forward passes that measuring takes."""
    return len(names_of_parts(model)) + 2
