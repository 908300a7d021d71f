"""From logits to a token: pure functions on logits (B, V) and on numbers between 0 and 1 drawn elsewhere."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from pydantic import ValidationError
from torch import Tensor

from octavo.config import SamplingConfig
from octavo.errors import InputError

Window = Literal["slide", "crop"]


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


def sampling_of(settings: SamplingConfig, **changes: Any) -> Sampling:
    """The recipe's way of choosing tokens, with `changes`. Raises InputError for impossible ones."""
    given = {name: value for name, value in changes.items() if value is not None}
    try:
        checked = type(settings).model_validate(settings.model_dump() | given)
    except ValidationError as error:
        wrong = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        raise InputError(f"This is no way to choose tokens: {'; '.join(wrong)}.") from error
    return Sampling(**{name: getattr(checked, name) for name in Sampling.__dataclass_fields__})
