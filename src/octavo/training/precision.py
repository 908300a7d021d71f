"""bfloat16: whether the hardware has it, and how a CPU uses it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode


def fast_bfloat16(device: torch.device) -> bool:
    """Whether the device multiplies bfloat16 matrices in hardware (on a CPU: by AVX-512 or AMX instructions)."""
    if device.type == "cpu":
        return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
    return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)


def autocast(precision: str, device: torch.device) -> AbstractContextManager[Any]:
    """The context in which a forward pass computes in `precision` (float32 or bfloat16) on `device`.

    On a CPU only the matrix products are taken in bfloat16: everything else is bound by memory and by the number of
    operations there, and torch's own autocast adds to both.
    """
    if precision == "float32":
        return nullcontext()
    return Bfloat16Products() if device.type == "cpu" else torch.autocast(device.type, dtype=torch.bfloat16)


class Bfloat16Products(TorchFunctionMode):
    """Within this context every linear layer multiplies in bfloat16, forward and backward; in and out is float32.

    Out of a layer whose weight has `short_output` set, bfloat16 comes: what it feeds rounds to that anyway.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Put the product in the place of `F.linear`."""
        if func is F.linear:
            return linear(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`F.linear` with its product in bfloat16."""
    product = _Product.apply(input, weight)
    return product if bias is None else product + bias


FAST_ON_CPU = fast_bfloat16(torch.device("cpu"))
"""Whether this processor multiplies bfloat16 itself; known before anything is compiled."""


def times(a: Tensor, b: Tensor) -> Tensor:
    """a · b of bfloat16 matrices on a CPU, summed in float32. Without such arithmetic torch takes some fifty times as
    long as in float32, in which the same products are exact."""
    return a @ b if FAST_ON_CPU else (a.float() @ b.float()).bfloat16()


class _Product(torch.autograd.Function):
    """x (…, C) times weight (F, C) transposed, and both gradients, multiplied in bfloat16."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        rows, short = x.reshape(-1, x.size(-1)).bfloat16(), weight.bfloat16()
        ctx.save_for_backward(rows, short)
        ctx.shape, ctx.dtype = x.shape, x.dtype
        y = times(rows, short.T)
        y = y if getattr(weight, "short_output", False) else y.float()
        return y.view(*x.shape[:-1], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None]:  # pyrefly: ignore
        rows, short = ctx.saved_tensors
        gradient = gradient.reshape(-1, gradient.size(-1)).bfloat16()
        trained = ctx.needs_input_grad[1]
        to_weight = times(gradient.T, rows).float() if trained else None
        return times(gradient, short).to(ctx.dtype).view(ctx.shape), to_weight
