"""From logits to a token: pure functions on logits (B, V) and on numbers between 0 and 1 drawn elsewhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import torch
from pydantic import ValidationError
from torch import Tensor

from octavo.config import SamplingConfig
from octavo.errors import InputError

Window = Literal["slide", "crop"]

Precision = Literal["float32", "bfloat16", "int8"]
"""Of the numbers that are multiplied; int8: of the matrices alone, all else in float32."""


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen; see `SamplingConfig` for what each does."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float = 1.0
    window: Window = "slide"

    def choose(self, logits: Tensor, uniform: Tensor, seen: Tensor | None = None) -> Tensor:
        """Token ids (B,) for logits (B, V), numbers `uniform` (B,) in [0, 1), and tokens `seen` (B, V, bool)."""
        if self.repetition_penalty != 1.0 and seen is not None:
            logits = penalized(logits, seen, self.repetition_penalty)
        if self.temperature == 0:
            return logits.argmax(dim=-1)
        # In double and below zero, so that the smallest temperature makes −∞ of them, not NaN.
        logits = (logits - logits.amax(dim=-1, keepdim=True)).double() / self.temperature
        if self.top_k is not None:
            logits = keep_top_k(logits, self.top_k)
        if self.top_p is not None:
            logits = keep_top_p(logits, self.top_p)
        if self.min_p is not None:
            logits = keep_min_p(logits, self.min_p)
        return draw(logits, uniform)


def kept(context: int, window: Window) -> int:
    """How many of the last tokens a full window is read again with."""
    return context if window == "crop" else max(1, context - max(1, context // 4))


def penalized(logits: Tensor, seen: Tensor, penalty: float) -> Tensor:
    """Logits of seen tokens moved down: divided by the penalty if positive, multiplied if negative."""
    lowered = torch.where(logits > 0, logits / penalty, logits * penalty)
    return torch.where(seen, lowered, logits)


def keep_top_k(logits: Tensor, k: int) -> Tensor:
    """−∞ for all but the k largest (ties with the k-th stay)."""
    smallest = logits.topk(min(k, logits.size(-1)), dim=-1).values[..., -1:]
    return logits.masked_fill(logits < smallest, -math.inf)


def keep_top_p(logits: Tensor, p: float) -> Tensor:
    """−∞ for all but the fewest largest that together hold probability p."""
    ordered, order = logits.sort(dim=-1, descending=True, stable=True)
    probabilities = ordered.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities  # what the more probable ones hold
    dropped = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, order, before >= p)
    return logits.masked_fill(dropped, -math.inf)


def keep_min_p(logits: Tensor, p: float) -> Tensor:
    """−∞ where the probability is below p times the largest."""
    return logits.masked_fill(logits < logits.amax(dim=-1, keepdim=True) + math.log(p), -math.inf)


def draw(logits: Tensor, uniform: Tensor) -> Tensor:
    """The tokens at which the summed probability passes `uniform`."""
    total = logits.double().softmax(dim=-1).cumsum(dim=-1)  # (B, V)
    target = uniform.double()[:, None] * total[:, -1:]
    # searchsorted(right) never lands on a token of probability 0, whose sum equals that of the one before it.
    return torch.searchsorted(total, target, right=True)[:, 0].clamp_max(logits.size(-1) - 1)


# How a run's model chooses tokens.


class SamplingFields(TypedDict, total=False):
    """The fields of `SamplingOptions`, as keywords."""

    tokens: int | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    repetition_penalty: float | None
    window: Window | None
    stop: Sequence[str]
    seed: int
    precision: Precision
    only_valid: bool


@dataclass(frozen=True)
class SamplingOptions:
    """How a run writes. What is None, its recipe says; see `SamplingConfig`.

    Attributes:
        stop: texts to end before.
        precision: see `Engine`.
        only_valid: write only symbols that the recipe's validator lets through.
    """

    tokens: int | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    window: Window | None = None
    stop: Sequence[str] = ()
    seed: int = 0
    precision: Precision = "float32"
    only_valid: bool = False

    def given(self) -> SamplingFields:
        """What is not left to the recipe, as keywords; always the seed and the precision."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in type(self).__dataclass_fields__}
        left = (None, False)  # by identity: a temperature of 0 is given
        return SamplingFields(
            **{
                name: value
                for name, value in fields.items()
                if value != () and not any(value is one for one in left)
            }
        )


RECIPES = SamplingOptions()
"""All as the recipe has it."""


def sampling_of(settings: SamplingConfig, options: SamplingOptions = RECIPES) -> Sampling:
    """The way of choosing tokens by the recipe and `options`. Raises InputError for impossible ones."""
    values = {name: getattr(options, name) for name in Sampling.__dataclass_fields__}
    given = {name: value for name, value in values.items() if value is not None}
    try:
        checked = type(settings).model_validate(settings.model_dump() | given)
    except ValidationError as error:
        wrong = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        raise InputError(f"Sampling settings are invalid: {'; '.join(wrong)}.") from error
    return Sampling(**{name: getattr(checked, name) for name in Sampling.__dataclass_fields__})
