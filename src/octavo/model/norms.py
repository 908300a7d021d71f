"""Normalization of activations x (B, T, C) over C: layer norm, without parameters, root mean square, none."""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from octavo.config.parts import PartConfig, register


class _RootMeanSquare(torch.autograd.Function):
    """x / √(mean(x²) + ε) in few passes over memory; torch's own is made of many parts on the CPU, twice as slow."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, eps: float) -> Tensor:
        mean_square = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_().div_(x.size(-1))
        factor = mean_square.add_(eps).rsqrt_()
        y = x * factor
        ctx.save_for_backward(y, factor)
        return y

    @staticmethod
    @once_differentiable
    def backward(  # pyrefly: ignore
        ctx: Any, gradient: Tensor
    ) -> tuple[Tensor, None]:
        y, factor = ctx.saved_tensors
        along = (gradient * y).mean(dim=-1, keepdim=True)
        return torch.addcmul(gradient, y, along, value=-1).mul_(factor), None


def rms_norm(x: Tensor, *, eps: float) -> Tensor:
    """x / √(mean(x²) + ε) over the last dimension."""
    if x.device.type == "cpu":
        return _RootMeanSquare.apply(x, eps)
    return F.rms_norm(x, x.shape[-1:], eps=eps)


class RootMeanSquareNorm(nn.Module):
    """x / √mean(x²), scaled (Zhang & Sennrich 2019); `scale=False` leaves out the trained scale."""

    def __init__(self, *, width: int, eps: float, scale: bool = True) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width)) if scale else None

    def forward(self, x: Tensor) -> Tensor:
        x = rms_norm(x, eps=self.eps)
        return x if self.weight is None else x * self.weight


class NormConfig(PartConfig):
    """Base of the norms' configs."""

    def parameters(self, *, width: int) -> int:
        return 0


@register("norm")
class NoNormConfig(NormConfig):
    """No normalization (report E: converges, about 0.1 worse)."""

    kind: Literal["none"] = "none"

    def build(self, *, width: int) -> nn.Module:
        return nn.Identity()


@register("norm")
class LayerNormConfig(NormConfig):
    """Layer normalization with trained scale and shift (Ba et al. 2016)."""

    kind: Literal["layer"] = "layer"
    eps: float = Field(1e-5, gt=0, le=1)
    """Added to the variance."""
    bias: bool = True
    """Train the shift as well as the scale."""

    def build(self, *, width: int) -> nn.Module:
        return nn.LayerNorm(width, eps=self.eps, bias=self.bias)

    def parameters(self, *, width: int) -> int:
        return width * (1 + self.bias)


@register("norm")
class PlainNormConfig(NormConfig):
    """Layer normalization without trained scale or shift (report B)."""

    kind: Literal["plain"] = "plain"
    eps: float = Field(1e-5, gt=0, le=1)
    """Added to the variance."""

    def build(self, *, width: int) -> nn.Module:
        return nn.LayerNorm(width, eps=self.eps, elementwise_affine=False)


@register("norm")
class RootMeanSquareNormConfig(NormConfig):
    """Division by the root mean square."""

    kind: Literal["rms"] = "rms"
    eps: float = Field(1e-5, gt=0, le=1)
    """Added to the mean square."""
    scale: bool = True
    """Train a scale."""

    def build(self, *, width: int) -> nn.Module:
        return RootMeanSquareNorm(width=width, eps=self.eps, scale=self.scale)

    def parameters(self, *, width: int) -> int:
        return width * self.scale
