"""From logits to a token where they lie: `sampling.py` for tensors, so that those of an accelerator stay on it."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from octavo.generation.sampling import Sampling


def drawn(
    sampling: Sampling,
    logits: Tensor,
    uniform: np.ndarray,
    *,
    seen: np.ndarray | None = None,
    allowed: np.ndarray | None = None,
) -> tuple[list[int], list[float]]:
    """`Sampling.drawn` for logits (B, V) on any device."""
    where, numbers = logits.device, torch.from_numpy(uniform).to(logits.device)
    open_ones = logits
    if allowed is not None:
        open_ones = logits.masked_fill(torch.from_numpy(~allowed).to(where), -math.inf)
    chosen = choose(sampling, open_ones, numbers, None if seen is None else torch.from_numpy(seen).to(where))
    known = logits.log_softmax(dim=-1).gather(1, chosen[:, None])[:, 0]
    both = torch.stack((chosen.double(), known.double())).tolist()  # the device is waited for once
    return [*map(int, both[0])], both[1]


def choose(sampling: Sampling, logits: Tensor, uniform: Tensor, seen: Tensor | None = None) -> Tensor:
    """`Sampling.choose`."""
    if sampling.repetition_penalty != 1.0 and seen is not None:
        logits = penalized(logits, seen, sampling.repetition_penalty)
    if sampling.temperature == 0:
        return logits.argmax(dim=-1)
    # In double and below zero, so that the smallest temperature makes −∞ of them, not NaN.
    logits = (logits - logits.amax(dim=-1, keepdim=True)).double() / sampling.temperature
    if sampling.top_k is not None:
        logits = keep_top_k(logits, sampling.top_k)
    if sampling.top_p is not None:
        logits = keep_top_p(logits, sampling.top_p)
    if sampling.min_p is not None:
        logits = keep_min_p(logits, sampling.min_p)
    return draw(logits, uniform)


def penalized(logits: Tensor, seen: Tensor, penalty: float) -> Tensor:
    """`sampling.penalized`."""
    lowered = torch.where(logits > 0, logits / penalty, logits * penalty)
    return torch.where(seen, lowered, logits)


def keep_top_k(logits: Tensor, k: int) -> Tensor:
    """`sampling.keep_top_k`."""
    smallest = logits.topk(min(k, logits.size(-1)), dim=-1).values[..., -1:]
    return logits.masked_fill(logits < smallest, -math.inf)


def keep_top_p(logits: Tensor, p: float) -> Tensor:
    """`sampling.keep_top_p`."""
    ordered, order = logits.sort(dim=-1, descending=True, stable=True)
    probabilities = ordered.softmax(dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities  # what the more probable ones hold
    dropped = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, order, before >= p)
    return logits.masked_fill(dropped, -math.inf)


def keep_min_p(logits: Tensor, p: float) -> Tensor:
    """`sampling.keep_min_p`."""
    return logits.masked_fill(logits < logits.amax(dim=-1, keepdim=True) + math.log(p), -math.inf)


def draw(logits: Tensor, uniform: Tensor) -> Tensor:
    """`sampling.draw`."""
    total = logits.double().softmax(dim=-1).cumsum(dim=-1)  # (B, V)
    target = uniform.double()[:, None] * total[:, -1:]
    # searchsorted(right) never lands on a token of probability 0, whose sum equals that of the one before it.
    return torch.searchsorted(total, target, right=True)[:, 0].clamp_max(logits.size(-1) - 1)
