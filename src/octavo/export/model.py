"""A transformer from a plain description: every switch of Octavo's GPT and what rewrites make of them.

This file needs torch alone. It is the yardstick that rewrites are proven against. It stands beside the weights where no
library knows the architecture. B batch, T positions, S positions looked at, C width, H heads, G key/value heads,
D head width, F features, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Past = tuple[Tensor, ...]
"""The last tokens (B, ≤ longest − 1), then each layer's keys and values (B, G, S, D)."""


def xielu(x: Tensor) -> Tensor:
    """αₚx² + βx above 0, αₙ(eˣ − 1 − x) + βx below (Huang & Schlag 2024), here with αₚ = 1, β = 0 and αₙ = 0."""
    return torch.where(x > 0, x.square(), torch.zeros_like(x))


ACTIVATIONS = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_table": lambda x: F.gelu(x, approximate="tanh"),
    "relu2": lambda x: F.relu(x).square(),
    "silu": F.silu,
    "xielu": xielu,
}


class Norm(nn.Module):
    """Layer norm, root mean square or nothing over the last dimension; scale and shift where they are trained."""

    def __init__(self, kind: str, width: int, *, eps: float, scale: bool, bias: bool) -> None:
        super().__init__()
        self.kind, self.eps = kind, eps
        self.weight = nn.Parameter(torch.ones(width)) if scale else None
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        if self.kind == "none":
            return x
        if self.kind == "layer":
            x = x - x.mean(-1, keepdim=True)
        x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps)
        x = x if self.weight is None else x * self.weight
        return x if self.bias is None else x + self.bias


class Attention(nn.Module):
    """Masked multi-head attention."""

    def __init__(self, shape: Mapping[str, Any]) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_width = shape["heads"], shape["kv_heads"], shape["head_width"]
        self.scale, width = shape["attention_scale"], shape["width"]
        inside, bias = self.heads * self.head_width, shape["qkv_bias"]
        self.q = nn.Linear(width, inside, bias=bias)
        self.k = nn.Linear(width, self.kv_heads * self.head_width, bias=bias)
        self.v = nn.Linear(width, self.kv_heads * self.head_width, bias=bias)
        self.out = nn.Linear(inside, width, bias=shape["output_bias"]) if shape["projects"] else nn.Identity()
        kind = "rms" if shape["qk_norm"] else "none"
        options = {"eps": shape["qk_eps"], "scale": shape["qk_scale"], "bias": False}
        self.q_norm = Norm(kind, self.head_width, **options)
        self.k_norm = Norm(kind, self.head_width, **options)

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor] | None, past: Past) -> tuple[Tensor, Past]:
        batch, length, _ = x.shape
        q = self.q_norm(self.q(x).view(batch, length, self.heads, self.head_width)).transpose(1, 2)
        k = self.k_norm(self.k(x).view(batch, length, self.kv_heads, self.head_width)).transpose(1, 2)
        v = self.v(x).view(batch, length, self.kv_heads, self.head_width).transpose(1, 2)
        if turn is not None:
            q, k = rotate(q, *turn), rotate(k, *turn)
        if past:
            k, v = torch.cat((past[0], k), dim=2), torch.cat((past[1], v), dim=2)  # (B, G, S, D)
        every = [
            each.repeat_interleave(self.heads // self.kv_heads, dim=1) for each in (k, v)
        ]  # (B, H, S, D)
        seen = k.size(2)
        places = torch.arange(seen, device=x.device)
        hidden = places[None, :] > places[seen - length :, None]  # (T, S)
        scores = (q @ every[0].transpose(-2, -1) * self.scale).masked_fill(hidden, -math.inf)
        y = scores.softmax(dim=-1) @ every[1]  # (B, H, T, D)
        y = y.transpose(1, 2).reshape(batch, length, self.heads * self.head_width)
        return self.out(y), (k, v)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair (x[i], x[i + R/2]) of x (B, H, T, D) by its position's angle; what is beyond R stays."""
    half = cos.size(-1)
    first, second, still = x.split((half, half, x.size(-1) - 2 * half), dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin, still), dim=-1)


class FeedForward(nn.Module):
    """out(activation(into(x))), or out(activation(gate(x)) · into(x))."""

    def __init__(self, shape: Mapping[str, Any]) -> None:
        super().__init__()
        width, features, bias = shape["width"], shape["features"], shape["feed_forward_bias"]
        self.activation = shape["activation"]
        self.gate = nn.Linear(width, features, bias=bias) if shape["gated"] else None
        self.into = nn.Linear(width, features, bias=bias)
        self.out = nn.Linear(features, width, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        act = ACTIVATIONS[self.activation]
        y = act(self.into(x)) if self.gate is None else act(self.gate(x)) * self.into(x)  # (B, T, F)
        return self.out(y)  # (B, T, C)


class Block(nn.Module):
    """x + f(norm(x)), or norm(x + f(x)), for attention and then feed-forward."""

    def __init__(self, shape: Mapping[str, Any]) -> None:
        super().__init__()
        self.post, self.residual = shape["norm_place"] == "post", shape["residual"]
        self.attention_norm, self.attention = norm_of(shape), Attention(shape)
        self.feed_forward = FeedForward(shape) if shape["activation"] != "none" else None
        self.feed_forward_norm = norm_of(shape) if self.feed_forward is not None else nn.Identity()

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor] | None, past: Past) -> tuple[Tensor, Past]:
        y, kept = self.attention(x if self.post else self.attention_norm(x), turn, past)
        x = x + y if self.residual else y
        x = self.attention_norm(x) if self.post else x
        if self.feed_forward is not None:
            y = self.feed_forward(x if self.post else self.feed_forward_norm(x))
            x = x + y if self.residual else y
            x = self.feed_forward_norm(x) if self.post else x
        return x, kept


def norm_of(shape: Mapping[str, Any]) -> Norm:
    """A norm over the width."""
    options = {"eps": shape["norm_eps"], "scale": shape["norm_scale"], "bias": shape["norm_bias"]}
    return Norm(shape["norm"], shape["width"], **options)


class Model(nn.Module):
    """Tokens in, logits out. `shape` holds the fields of `octavo.export.weights.Shape` as plain values."""

    def __init__(self, shape: Mapping[str, Any]) -> None:
        super().__init__()
        assert shape["positions"] in ("none", "table", "rotary"), shape["positions"]
        self.shape = dict(shape)
        width = shape["width"]
        self.embedding = nn.Embedding(shape["vocab_size"], width)
        self.ngrams = nn.Embedding((shape["longest"] - 1) * shape["buckets"], width)
        self.positions = nn.Embedding(shape["context"], width) if shape["positions"] == "table" else None
        self.embedding_norm = norm_of(shape) if shape["embedding_norm"] else nn.Identity()
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape["layers"]))
        self.norm = norm_of(shape) if shape["final_norm"] else nn.Identity()
        self.head = nn.Linear(width, shape["vocab_size"], bias=shape["head_bias"])
        if shape["tied"]:
            self.head.weight = self.embedding.weight

    def forward(self, tokens: Tensor, past: Past = ()) -> tuple[Tensor, Past]:
        """Logits (B, T, V) after each of `tokens` (B, T), and what to give as `past` with the next tokens."""
        start = past[1].size(2) if past else 0
        x = self.embedding(tokens)  # (B, T, C)
        recent = torch.cat((past[0], tokens), dim=1) if past else tokens
        for rows in self.ngram_rows(recent, tokens.size(1)):
            x = x + self.ngrams(rows)
        places = torch.arange(start, start + tokens.size(1), device=tokens.device)
        if self.positions is not None:
            x = x + self.positions(places)
        x = self.embedding_norm(x)
        turn = self.angles(places, x.dtype) if self.shape["positions"] == "rotary" else None
        kept: Past = ()
        for index, block in enumerate(self.blocks):
            x, own = block(x, turn, past[2 * index + 1 : 2 * index + 3])
            kept += own
        logits = self.head(self.norm(x))  # (B, T, V)
        if self.shape["softcap"] is not None:
            logits = self.shape["softcap"] * (logits / self.shape["softcap"]).tanh()
        return logits, (recent[:, max(0, recent.size(1) - self.shape["longest"] + 1) :], *kept)

    def ngram_rows(self, recent: Tensor, length: int) -> list[Tensor]:
        """For each n from 2 on the rows (B, T) of the n-grams' table; what stands before the first token is nothing."""
        before, buckets = self.shape["longest"] - 1, self.shape["buckets"]
        held = F.pad(recent + 1, (before, 0))
        end = held.size(1)
        hashed, rows = held[:, end - length :], []
        for back in range(1, before + 1):
            hashed = hashed * 1_000_003 + held[:, end - length - back : end - back]
            rows.append(((hashed * (0x9E3779B97F4A7C15 - 2**64) >> 32) % buckets) + (back - 1) * buckets)
        return rows

    def angles(self, places: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Cosines and sines (T, R/2) of some positions."""
        turned, exact = self.shape["turned"], torch.float64 if dtype == torch.float64 else torch.float32
        pairs = torch.arange(0, turned, 2, device=places.device, dtype=exact) / turned
        speeds = self.shape["base"] ** -pairs
        if self.shape["slowness"]:
            speeds = speeds / torch.tensor(self.shape["slowness"], device=places.device, dtype=exact)
        angles = places[:, None].to(exact) * speeds
        return angles.cos().to(dtype), angles.sin().to(dtype)
