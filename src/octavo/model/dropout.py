"""Dropout (Srivastava et al. 2014), with masks that a CPU draws quickly."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

LEVELS = 2**16
"""A mask is drawn from 16 bits a number, so on the CPU a rate is rounded to 1/65,536."""


class Dropout(nn.Module):
    """In training each number becomes 0 with probability `rate`, and the others grow, so that the mean stays.

    Torch draws a CPU's masks one number after the other, which takes longer than the products around them; here four
    come from each draw of 64 bits. Elsewhere it is torch's own.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or not self.rate:
            return x
        return _Dropped.apply(x, self.rate) if x.device.type == "cpu" else F.dropout(x, self.rate)

    def extra_repr(self) -> str:
        return f"rate={self.rate}"


class _Dropped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rate: float) -> Tensor:
        dropped = min(round(rate * LEVELS), LEVELS - 1)
        draws = torch.empty(math.ceil(x.numel() / 4), dtype=torch.int64).random_(-(2**63), None)
        kept = draws.view(torch.int16)[: x.numel()].view(x.shape) >= dropped - LEVELS // 2
        ctx.save_for_backward(kept)
        ctx.scale = LEVELS / (LEVELS - dropped)
        return (x * kept).mul_(ctx.scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # pyrefly: ignore
        (kept,) = ctx.saved_tensors
        return (gradient * kept).mul_(ctx.scale), None
