"""Attention on the CPU by a kernel of our own (attend.c): heads split, normed, turned, attended and joined in one go.

Torch's fused kernel and the operations around it take two to three times as long at contexts of some hundred positions.
They are the slow twin, and do the work wherever `fits` says no.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from octavo.model.positions import Rotation
from octavo.util.kernels import Floats, address, kernel

LONGEST = 512
"""Positions; a head's scores have to fit into the processor's cache."""
WIDEST = 256
"""Head width."""
LEVELS = 2**32
"""Dropout rates are rounded to one of so many."""


class _Shape(ctypes.Structure):
    _fields_ = (
        *(
            (name, ctypes.c_int)
            for name in (
                "batch",
                "length",
                "heads",
                "groups",
                "head_width",
                "turned",
                "qk_norm",
                "short_numbers",
            )
        ),
        ("dropped", ctypes.c_uint32),
        *((name, ctypes.c_float) for name in ("scale", "eps", "kept_grow")),
        ("seed", ctypes.c_uint64),
        *((name, Floats) for name in ("cosines", "sines")),
    )


@dataclass(frozen=True)
class Heads:
    """H query heads, G key/value heads, D head width.

    Attributes:
        qk_eps: queries and keys are normed, with that added; None: they are not.
        dropout: share of the attention weights that is dropped.
    """

    heads: int
    kv_heads: int
    width: int
    scale: float
    qk_eps: float | None
    dropout: float = 0.0


@kernel
def compiled(native: ctypes.CDLL) -> None:
    """The kernel, where it can be had."""
    there = ctypes.c_size_t.in_dll(native, "shape_size").value
    assert there == ctypes.sizeof(_Shape), f"{there} bytes in C, {ctypes.sizeof(_Shape)} here"
    native.attend.argtypes = (ctypes.POINTER(_Shape), *[Floats] * 4, ctypes.c_int)
    native.attend.restype = ctypes.c_int


def reaches(length: int, width: int) -> bool:
    """Whether the kernel is there, for T positions and head width D."""
    return length <= LONGEST and width <= WIDEST and compiled() is not None


def fits(qkv: Tensor, width: int) -> bool:
    """Whether the kernel can take these projections (B, T, (H + 2G)·D), and is there."""
    plain = type(qkv) is Tensor and qkv.device.type == "cpu" and qkv.dtype in (torch.float32, torch.bfloat16)
    return plain and not torch.compiler.is_compiling() and reaches(qkv.size(1), width)


def attend(qkv: Tensor, heads: Heads, rotation: Rotation | None) -> Tensor:
    """Joined heads (B, T, H·D) from the projections (B, T, (H + 2G)·D), in their number type; see `fits`."""
    return _Attend.apply(qkv, heads, rotation)


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, qkv: Tensor, heads: Heads, rotation: Rotation | None) -> Tensor:
        qkv = qkv.contiguous()
        batch, length, _ = qkv.shape
        y = qkv.new_empty(batch, length, heads.heads * heads.width)
        kept = torch.empty(batch, heads.heads, 2, length)
        seed = int(torch.randint(2**63 - 1, ())) if heads.dropout else 0
        turns = () if rotation is None else tuple(part.float().contiguous() for part in rotation)
        _run(heads, seed, turns, qkv, y, kept, None)
        ctx.save_for_backward(qkv, kept, *turns)
        ctx.heads, ctx.seed = heads, seed
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:  # pyrefly: ignore
        qkv, kept, *turns = ctx.saved_tensors
        of_qkv = torch.empty_like(qkv)
        _run(ctx.heads, ctx.seed, tuple(turns), qkv, gradient.contiguous(), kept, of_qkv)
        return of_qkv, None, None


def _run(
    heads: Heads,
    seed: int,
    turns: tuple[Tensor, ...],
    qkv: Tensor,
    y: Tensor,
    kept: Tensor,
    found: Tensor | None,
) -> None:
    batch, length, _ = qkv.shape
    dropped = min(round(heads.dropout * LEVELS), LEVELS - 1)
    shape = _Shape(
        batch=batch,
        length=length,
        heads=heads.heads,
        groups=heads.kv_heads,
        head_width=heads.width,
        turned=turns[0].size(1) if turns else 0,
        qk_norm=heads.qk_eps is not None,
        short_numbers=qkv.dtype == torch.bfloat16,
        dropped=dropped,
        scale=heads.scale,
        eps=heads.qk_eps or 0.0,
        kept_grow=LEVELS / (LEVELS - dropped),
        seed=seed,
        cosines=address(turns[0]) if turns else None,
        sines=address(turns[1]) if turns else None,
    )
    native = compiled()
    assert native is not None, "see `fits`"
    arrays = map(address, (qkv, y, kept, found))
    if not native.attend(ctypes.byref(shape), *arrays, torch.get_num_threads()):
        raise MemoryError(f"no memory for attention over {length} positions")
