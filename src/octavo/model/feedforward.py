"""The position-wise layer after attention: x (B, T, C) → (B, T, C) through a wider layer of F features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from octavo.config.parts import PartConfig, register
from octavo.model.dropout import Dropout


class _SquaredReLU(torch.autograd.Function):
    """relu(x)² and its gradient in two operations each; torch's parts take five more."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        positive = x.clamp_min(0)
        ctx.save_for_backward(positive)
        return positive * positive

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # pyrefly: ignore
        (positive,) = ctx.saved_tensors
        return (gradient * positive).mul_(2)


def squared_relu(x: Tensor) -> Tensor:
    """relu(x)² (So et al. 2021)."""
    return _SquaredReLU.apply(x)


def gelu_tanh(x: Tensor) -> Tensor:
    """GELU by its tanh approximation."""
    return F.gelu(x, approximate="tanh")


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": gelu_tanh,
    "relu2": squared_relu,
}


class FeedForward(nn.Module):
    """down_proj(activation(up_proj(x))) with the activation named."""

    def __init__(self, *, width: int, features: int, activation: str, bias: bool, dropout: float) -> None:
        super().__init__()
        self.up_proj = nn.Linear(width, features, bias=bias)
        # For products in bfloat16: between two of them nothing is gained by float32.
        self.up_proj.weight.short_output = not bias  # pyrefly: ignore
        self.activation = ACTIVATIONS[activation]
        self.down_proj = nn.Linear(features, width, bias=bias)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = self.activation(self.up_proj(x))  # (B, T, F)
        return self.dropout(self.down_proj(x))  # (B, T, C)


class SwiGLU(nn.Module):
    """down_proj(silu(gate(x)) · up(x)) (Shazeer 2020)."""

    def __init__(self, *, width: int, features: int, bias: bool, dropout: float) -> None:
        super().__init__()
        self.gate_up_proj = nn.Linear(width, 2 * features, bias=bias)
        self.down_proj = nn.Linear(features, width, bias=bias)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up_proj(x).chunk(2, dim=-1)  # (B, T, F) twice
        return self.dropout(self.down_proj(F.silu(gate) * up))  # (B, T, C)


class FeedForwardConfig(PartConfig):
    """Base of the feed-forward kinds."""

    width: int | None = Field(None, ge=1, le=2**22)
    """F, the features inside; empty: 4 × the model's width."""
    bias: bool = True
    """Biases in its matrices."""

    def features(self, width: int) -> int:
        """F for a model of this width."""
        return self.width or 4 * width

    def build(self, *, width: int, dropout: float) -> nn.Module | None:
        """The module, or None if there is no such layer."""
        return FeedForward(
            width=width, features=self.features(width), activation=self.kind, bias=self.bias, dropout=dropout
        )

    def parameters(self, *, width: int) -> int:
        features = self.features(width)
        return 2 * width * features + self.bias * (features + width)

    def matrix_parameters(self, *, width: int) -> int:
        """Those of them that stand in matrix products, for counting FLOPs."""
        return 2 * width * self.features(width)


@register("feed_forward")
class ReLUConfig(FeedForwardConfig):
    """max(0, x) (reports A, C, E)."""

    kind: Literal["relu"] = "relu"


@register("feed_forward")
class GELUConfig(FeedForwardConfig):
    """x·Φ(x) (Hendrycks & Gimpel 2016; report D)."""

    kind: Literal["gelu"] = "gelu"


@register("feed_forward")
class GELUTanhConfig(FeedForwardConfig):
    """GELU by its tanh approximation, as the original GPT-2 computes it."""

    kind: Literal["gelu_tanh"] = "gelu_tanh"


@register("feed_forward")
class ReLU2Config(FeedForwardConfig):
    """max(0, x)² (So et al. 2021)."""

    kind: Literal["relu2"] = "relu2"


@register("feed_forward")
class SwiGLUConfig(FeedForwardConfig):
    """Gated linear unit with SiLU (Shazeer 2020; Llama)."""

    kind: Literal["swiglu"] = "swiglu"
    bias: bool = False
    """Biases in its matrices."""

    def features(self, width: int) -> int:
        """F; 8/3 × the width when empty, so that it holds as many parameters as the others."""
        return self.width or (8 * width // 3 + 7) // 8 * 8

    def build(self, *, width: int, dropout: float) -> nn.Module:
        return SwiGLU(width=width, features=self.features(width), bias=self.bias, dropout=dropout)

    def parameters(self, *, width: int) -> int:
        features = self.features(width)
        return 3 * width * features + self.bias * (2 * features + width)

    def matrix_parameters(self, *, width: int) -> int:
        return 3 * width * self.features(width)


@register("feed_forward")
class NoFeedForwardConfig(PartConfig):
    """Attention alone (report B)."""

    kind: Literal["none"] = "none"

    def build(self, *, width: int, dropout: float) -> None:
        """Nothing."""

    def parameters(self, *, width: int) -> int:
        return 0

    def matrix_parameters(self, *, width: int) -> int:
        """Those in matrix products."""
        return 0
