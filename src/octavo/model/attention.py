"""Multi-head attention, fused for speed and explicit for looking: over the positions before, over a whole sequence, or
over a memory, which is another sequence. With caches for writing token by token.

On the CPU a kernel of our own (attend.c) does it in one go: heads split, normed, turned, attended and joined. Torch's
fused kernel and the operations around it take two to three times as long at contexts of some hundred positions. They
are the slow twin, and do the work wherever `fits` says no.

B batch, T new positions, S positions looked at, C width, M width of a memory, H heads, G key/value heads, D head width.
A mask is true where a query may look. A query that may look nowhere gets zeros.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from octavo.model.dropout import Dropout
from octavo.model.norms import rms_norm
from octavo.model.positions import Rotation, rotate
from octavo.util.kernels import Floats, address, kernel

QK_EPS = 1e-6


class KeyValueCache:
    """Keys and values of one layer, for at most `capacity` positions; memory is taken once."""

    def __init__(self, *, batch: int, heads: int, capacity: int, head_width: int, like: Tensor) -> None:
        self.keys = like.new_empty(batch, heads, capacity, head_width)
        self.values = torch.empty_like(self.keys)
        self.length = 0

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Add (B, G, T, D) each; returns all that is held, (B, G, S, D)."""
        end = self.length + keys.size(2)
        self.keys[:, :, self.length : end] = keys
        self.values[:, :, self.length : end] = values
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def select(self, rows: Tensor) -> None:
        """Hold these rows of the batch, in this order; one may come several times, or never."""
        self.keys, self.values = self.keys[rows], self.values[rows]

    def attend(
        self, attend: nn.Module, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None
    ) -> Tensor:
        """What new queries (B, H, T, D) find, (B, H, T, D), when their keys and values (B, G, T, D) are added."""
        return attend(queries, *self.append(keys, values), mask)


@dataclass(frozen=True)
class MemoryCache:
    """Keys and values (B, G, S, D) of a memory: it does not grow, so they are computed once for all that is written."""

    keys: Tensor
    values: Tensor


class FusedAttend(nn.Module):
    """Scaled dot-product attention by a fused kernel; the weights never exist as a tensor."""

    fused = True

    def __init__(self, *, scale: float, dropout: float) -> None:
        super().__init__()
        self.scale = scale
        self.dropout = dropout

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, *, causal: bool = True
    ) -> Tensor:
        """Without a mask a query looks at itself and what stands before it, or, where not `causal`, at everything."""
        length, seen = q.size(2), k.size(2)
        dropout = self.dropout if self.training else 0.0
        grouped = q.size(1) != k.size(1)
        causal = causal and mask is None
        if causal and length == seen:
            return F.scaled_dot_product_attention(
                q, k, v, dropout_p=dropout, is_causal=True, scale=self.scale, enable_gqa=grouped
            )
        if causal and length > 1:
            mask = causal_mask(length, seen, q.device)
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, dropout_p=dropout, scale=self.scale, enable_gqa=grouped
        )


class ExplicitAttend(nn.Module):
    """The same, step by step, with its weights (B, H, T, S) passing through `weights`, where they can be captured."""

    fused = False

    def __init__(self, *, scale: float, dropout: float) -> None:
        super().__init__()
        self.scale = scale
        self.weights = nn.Identity()
        self.dropout = dropout
        self.drop = Dropout(dropout)

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, *, causal: bool = True
    ) -> Tensor:
        k = k.repeat_interleave(q.size(1) // k.size(1), dim=1)  # (B, H, S, D)
        v = v.repeat_interleave(q.size(1) // v.size(1), dim=1)
        weights = attention_weights(q @ k.transpose(-2, -1) * self.scale, mask, causal=causal)  # (B, H, T, S)
        return self.drop(self.weights(weights)) @ v  # (B, H, T, D)


def attention_weights(scores: Tensor, mask: Tensor | None, *, causal: bool) -> Tensor:
    """(B, H, T, S) attention weights from scores, where a mask lets a query look, or, where there is none, `causal`
    says so."""
    if causal and mask is None:
        mask = causal_mask(scores.size(-2), scores.size(-1), scores.device)
    if mask is None:
        return scores.softmax(dim=-1)
    weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
    return weights.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)  # no numbers where it may look nowhere


def causal_mask(length: int, seen: int, device: torch.device) -> Tensor:
    """(T, S): what stands before a query, and itself; the T queries are the last of the S positions."""
    return torch.ones(length, seen, dtype=torch.bool, device=device).tril(diagonal=seen - length)


def segment_mask(segments: Tensor, *, causal: bool = True) -> Tensor:
    """(B, 1, T, T): what is in a query's own segment, by `segments` (B, T); where `causal`, only what stands before it,
    and itself.
    """
    same = segments[:, :, None] == segments[:, None, :]
    if causal:
        same = same & causal_mask(segments.size(1), segments.size(1), segments.device)
    return same[:, None]


def prefix_mask(prefix: Tensor, length: int) -> Tensor:
    """(B, 1, T, T) of a prefix LM (Raffel et al. 2020): all of a row's first `prefix` (B,) positions, and what stands
    before a query, and itself.
    """
    known = torch.arange(length, device=prefix.device) < prefix[:, None]  # (B, T)
    return (known[:, None, :] | causal_mask(length, length, prefix.device))[:, None]


def padding_mask(ids: Tensor) -> Tensor:
    """(B, 1, 1, S): where `ids` (B, S) hold one; −1 is none."""
    return (ids >= 0)[:, None, None, :]


class Attention(nn.Module):
    """Queries, keys and values from x; heads attend; their outputs are joined and projected.

    Args:
        causal: whether a query looks at itself and what stands before it, as in a decoder, or at all of x, as in an
            encoder. A mask says it instead.
    """

    def __init__(
        self,
        *,
        width: int,
        heads: int,
        kv_heads: int,
        head_width: int,
        attend: FusedAttend | ExplicitAttend,
        qkv_bias: bool,
        qk_norm: bool,
        project: nn.Module,
        dropout: float,
        qk_norm_eps: float = QK_EPS,
        qk_norm_scale: bool = False,
        causal: bool = True,
    ) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_width, self.qk_norm = heads, kv_heads, head_width, qk_norm
        self.causal = causal
        self.qkv = nn.Linear(width, (heads + 2 * kv_heads) * head_width, bias=qkv_bias)
        # For optimizers that treat matrices as such: these rows are three matrices, multiplied at once for speed.
        row_blocks = (heads * head_width, kv_heads * head_width, kv_heads * head_width)
        self.qkv.weight.row_blocks = row_blocks  # pyrefly: ignore
        # For products in bfloat16: the kernel takes and gives it, and `project` rounds to it anyway.
        self.qkv.weight.short_output = not qkv_bias and isinstance(project, nn.Linear)  # pyrefly: ignore
        self.qk_norm_eps = qk_norm_eps
        self.q_scale = nn.Parameter(torch.ones(head_width)) if qk_norm_scale else None
        self.k_scale = nn.Parameter(torch.ones(head_width)) if qk_norm_scale else None
        self.attend = attend
        self.project = project
        self.dropout = Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        rotation: Rotation | None = None,
        cache: KeyValueCache | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """`mask` (B or 1, 1, T, S) says alone where a query may look."""
        assert cache is None or self.causal, "a cache holds what stands before"
        qkv = self.qkv(x)  # (B, T, (H+2G)·D)
        known = self.causal and cache is None and mask is None and self.attend.fused
        if known and fits(qkv, self.head_width):
            y = self.by_kernel(qkv, rotation)  # (B, T, H·D)
        else:
            qkv = qkv.to(x.dtype) if x.device.type == "cpu" else qkv
            y = self.in_parts(qkv, rotation, cache, mask)
        return self.dropout(self.project(y))  # (B, T, C)

    def described(self) -> Heads:
        """Shapes and constants that the kernel needs."""
        qk_eps = self.qk_norm_eps if self.qk_norm else None
        dropout = self.attend.dropout if self.training else 0.0
        return Heads(self.heads, self.kv_heads, self.head_width, self.attend.scale, qk_eps, dropout)

    def by_kernel(self, qkv: Tensor, rotation: Rotation | None) -> Tensor:
        """Joined heads (B, T, H·D). The kernel knows no scale and gives it no gradient: then torch norms."""
        scales = self.scales()
        if scales is None:
            return attend(qkv, self.described(), rotation)
        heads = qkv.float().unflatten(-1, (-1, self.head_width))  # (B, T, H+2G, D)
        qk, v = heads.split((self.heads + self.kv_heads, self.kv_heads), dim=2)
        normed = torch.cat((rms_norm(qk, eps=self.qk_norm_eps) * scales, v), dim=2)
        return attend(normed.flatten(2), replace(self.described(), qk_eps=None), rotation)

    def scales(self) -> Tensor | None:
        """What normed queries and keys are multiplied by, (H+G, D); None if there is no scale."""
        if self.q_scale is None or self.k_scale is None:
            return None
        return torch.cat((self.q_scale.expand(self.heads, -1), self.k_scale.expand(self.kv_heads, -1)))

    def in_parts(
        self,
        qkv: Tensor,
        rotation: Rotation | None,
        cache: KeyValueCache | None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Joined heads (B, T, H·D), operation by operation."""
        batch, length, _ = qkv.shape
        heads = qkv.view(batch, length, -1, self.head_width).transpose(1, 2)  # (B, H+2G, T, D)
        qk, v = heads.split((self.heads + self.kv_heads, self.kv_heads), dim=1)
        if self.qk_norm:
            qk = rms_norm(qk, eps=self.qk_norm_eps)
            scales = self.scales()
            qk = qk if scales is None else qk * scales[:, None]
        if rotation is not None:
            qk = rotate(qk, rotation)
        q, k = qk.split((self.heads, self.kv_heads), dim=1)  # (B, H, T, D), (B, G, T, D)
        if cache is None:
            y = self.attend(q, k, v, mask, causal=self.causal)  # (B, H, T, D)
        else:
            y = cache.attend(self.attend, q, k, v, mask)  # (B, H, T, D)
        return y.transpose(1, 2).reshape(batch, length, self.heads * self.head_width)


class CrossAttention(nn.Module):
    """Queries from x, keys and values from a memory, such as what an encoder made of a source.

    There are no turned positions here (`model.positions`): the two sequences share no count of places. What stands
    where in the memory is for its own encoder to say, as in the first transformer and in T5.
    """

    def __init__(
        self,
        *,
        width: int,
        memory_width: int,
        heads: int,
        kv_heads: int,
        head_width: int,
        attend: FusedAttend | ExplicitAttend,
        qkv_bias: bool,
        qk_norm: bool,
        project: nn.Module,
        dropout: float,
        qk_norm_eps: float = QK_EPS,
        qk_norm_scale: bool = False,
    ) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_width, self.qk_norm = heads, kv_heads, head_width, qk_norm
        self.qk_norm_eps = qk_norm_eps
        self.q_scale = nn.Parameter(torch.ones(head_width)) if qk_norm_scale else None
        self.k_scale = nn.Parameter(torch.ones(head_width)) if qk_norm_scale else None
        self.q = nn.Linear(width, heads * head_width, bias=qkv_bias)
        self.kv = nn.Linear(memory_width, 2 * kv_heads * head_width, bias=qkv_bias)
        self.kv.weight.row_blocks = (kv_heads * head_width,) * 2  # pyrefly: ignore  # see `Attention`
        self.attend = attend
        self.project = project
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, memory: Tensor | MemoryCache, mask: Tensor | None = None) -> Tensor:
        """Each of x (B, T, C) looks at all of the memory (B, S, M), or where a mask (B or 1, 1, T or 1, S) lets it."""
        known = memory if isinstance(memory, MemoryCache) else self.remember(memory)
        q = self.normed(_heads(self.q(x), self.head_width), self.q_scale)  # (B, H, T, D)
        y = self.attend(q, known.keys, known.values, mask, causal=False)  # (B, H, T, D)
        return self.dropout(self.project(y.transpose(1, 2).flatten(2)))  # (B, T, C)

    def remember(self, memory: Tensor) -> MemoryCache:
        """What `forward` takes in the place of a memory (B, S, M) that many calls look at."""
        kv = _heads(self.kv(memory), self.head_width)  # (B, 2G, S, D)
        keys, values = kv.split((self.kv_heads, self.kv_heads), dim=1)
        return MemoryCache(self.normed(keys, self.k_scale), values)

    def normed(self, x: Tensor, scale: nn.Parameter | None) -> Tensor:
        """Queries or keys, normed and scaled where the options say so."""
        x = rms_norm(x, eps=self.qk_norm_eps) if self.qk_norm else x
        return x if scale is None else x * scale


def _heads(x: Tensor, head_width: int) -> Tensor:
    """(B, T, N·D) as (B, N, T, D)."""
    return x.unflatten(-1, (-1, head_width)).transpose(1, 2)


# The kernel on the CPU.

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
