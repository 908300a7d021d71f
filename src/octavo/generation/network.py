"""A GPT as the writing kernel reads it: its options and weights, in numpy. It is made of modules (`native.py`), or
of what a checkpoint holds (`from_arrays.py`).

C width, D head width, T context, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from octavo.ngram.kernel import Tables
    from octavo.ngram.recent import Gate

KINDS = ("none", "relu", "gelu", "gelu_tanh", "relu2", "swiglu")
"""Feed-forward layers, as decode.c numbers them."""
NORMS = ("none", "layer", "rms")
"""Norms, as decode.c numbers them."""


@dataclass(frozen=True, eq=False)
class Matrix:
    """A linear layer: weight (rows, columns) and bias (rows,), float32.

    Attributes:
        owner: what has the weight; the matrix is packed once for as long as it lives unchanged.
    """

    weight: np.ndarray
    bias: np.ndarray | None = None
    owner: object = None


@dataclass(frozen=True, eq=False)
class Norm:
    """One of NORMS, with scale and shift (C,) where it has them."""

    kind: str
    weight: np.ndarray | None = None
    bias: np.ndarray | None = None
    eps: float = 0.0


@dataclass(frozen=True, eq=False)
class Layer:
    """A block. `into` and `out` are of its feed-forward layer."""

    attention_norm: Norm
    feed_forward_norm: Norm
    qkv: Matrix
    project: Matrix | None
    into: Matrix | None
    out: Matrix | None
    q_scale: np.ndarray | None = None
    k_scale: np.ndarray | None = None


class Mixture(Protocol):
    """What mixes counts in."""

    def __call__(
        self, logits: np.ndarray, text: np.ndarray, spans: Sequence[tuple[int, int, int]]
    ) -> np.ndarray:
        """(n, V) logits from those of the network's head after each of the spans of a text (slots, T); see
        `decoder.Span`."""
        ...


@dataclass(frozen=True, eq=False)
class Counted:
    """What is counted beside a network.

    Attributes:
        mixture: gives it; the training text is counted when it is asked for.
        ngrams: gives those of the training text, from which texts are drafted.
        recent: what a text has said so far, if that is counted.
    """

    mixture: Callable[[], Mixture]
    ngrams: Callable[[], Tables | None]
    recent: Gate | None


@dataclass(frozen=True, eq=False)
class Network:
    """A whole GPT. All blocks have the same options.

    Attributes:
        qk_eps: added to the mean square of queries and keys; None: they are not normed.
        activation: one of KINDS.
        before: tokens before a position that its vector depends on, by a table `ngrams` of `buckets` rows for each.
        positions: (T, C) added to the embeddings.
        cosines, sines: (T, R/2) of the angles that queries and keys are turned by.
        counts: what is counted beside it. Below the head's V rows stand those that its gate takes.
    """

    vocab_size: int
    context: int
    width: int
    heads: int
    kv_heads: int
    head_width: int
    scale: float
    qk_eps: float | None
    activation: str
    post_norm: bool
    residual: bool
    softcap: float | None
    embedding: np.ndarray
    embedding_norm: Norm
    layers: Sequence[Layer]
    norm: Norm
    head: Matrix
    before: int = 0
    buckets: int = 0
    ngrams: np.ndarray | None = None
    positions: np.ndarray | None = None
    cosines: np.ndarray | None = None
    sines: np.ndarray | None = None
    counts: Counted | None = None

    @property
    def cache_numbers(self) -> int:
        """See `LanguageModel.cache_numbers`."""
        return 2 * len(self.layers) * self.kv_heads * self.head_width
