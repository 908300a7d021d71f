"""The GPT: tokens in, logits out. Reads top to bottom; which parts it is made of is decided in `build.py`.

B batch, T positions, C width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from octavo.data.batch import NO_SIDE_INPUTS, SideInputs
from octavo.model.attention import Attention, KeyValueCache, prefix_mask, segment_mask
from octavo.model.base import LanguageModel
from octavo.model.dropout import Dropout
from octavo.model.inputs import NGrams, VectorInput
from octavo.model.positions import Positions, Rotation, in_segments, placed, rotations, turned_at
from octavo.model.vectors import calibrate
from octavo.ngram.mixture import Counts, Judged, Spelt


class Block(nn.Module):
    """x + f(norm(x)) for attention and then feed-forward (pre-norm)."""

    def __init__(
        self,
        *,
        attention: Attention,
        feed_forward: nn.Module | None,
        norms: tuple[nn.Module, nn.Module],
        residual: bool,
    ) -> None:
        super().__init__()
        self.attention = attention
        self.feed_forward = feed_forward
        self.attention_norm = norms[0]
        self.feed_forward_norm = norms[1] if feed_forward is not None else nn.Identity()
        self.residual = residual

    def join(self, x: Tensor, y: Tensor) -> Tensor:
        """The residual connection, if there is one."""
        return x + y if self.residual else y

    def forward(
        self,
        x: Tensor,
        rotation: Rotation | None = None,
        cache: KeyValueCache | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        x = self.join(x, self.attention(self.attention_norm(x), rotation, cache, mask))  # (B, T, C)
        if self.feed_forward is not None:
            x = self.join(x, self.feed_forward(self.feed_forward_norm(x)))  # (B, T, C)
        return x


class PostNormBlock(Block):
    """norm(x + f(x)) for attention and then feed-forward (Vaswani et al. 2017; written down in report E)."""

    def forward(
        self,
        x: Tensor,
        rotation: Rotation | None = None,
        cache: KeyValueCache | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        x = self.attention_norm(self.join(x, self.attention(x, rotation, cache, mask)))  # (B, T, C)
        if self.feed_forward is not None:
            x = self.feed_forward_norm(self.join(x, self.feed_forward(x)))  # (B, T, C)
        return x


class Cache:
    """What the model has read: each block's keys and values, and the last tokens where n-grams need them.

    Attributes:
        starts: the positions that each row holds, where they differ; see `LanguageModel.takes_uneven_cache`.
        places: the same (B, T), where only the device knows them.
    """

    def __init__(self, layers: list[KeyValueCache], *, before: int) -> None:
        self.layers, self.before = layers, before
        self.recent: Tensor | None = None  # (B, ≤ before)
        self.starts: Sequence[int] | None = None
        self.places: Tensor | None = None

    @property
    def length(self) -> int:
        """Positions that it holds; the most that a row holds."""
        return self.layers[0].length

    def append(self, tokens: Tensor) -> Tensor | None:
        """Take in (B, T) tokens; returns those before them that n-grams depend on, None if there are none."""
        earlier = self.recent
        if self.before:
            held = tokens if earlier is None else torch.cat((earlier, tokens), dim=1)
            self.recent = held[:, -self.before :]
        return earlier

    def select(self, rows: Tensor) -> None:
        """Hold these rows of the batch, in this order; one may come several times, or never."""
        for layer in self.layers:
            layer.select(rows)
        if self.recent is not None:
            self.recent = self.recent[rows]


class GPT(LanguageModel):
    """A decoder-only transformer. `context` is the number of positions that it can see."""

    blocks: Sequence[Block]
    takes_uneven_cache = True

    def __init__(
        self,
        *,
        embedding: nn.Embedding | VectorInput,
        ngrams: NGrams,
        positions: Positions,
        embedding_norm: nn.Module,
        dropout: float,
        blocks: list[Block],
        norm: nn.Module,
        lm_head: nn.Linear,
        counts: Counts,
        context: int,
        logit_softcap: float | None = None,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.ngrams = ngrams
        self.positions = positions
        self.embedding_norm = embedding_norm
        self.dropout = Dropout(dropout)
        self.blocks = nn.ModuleList(blocks)  # pyrefly: ignore  # torch does not know what its list holds
        self.norm = norm
        self.lm_head = lm_head
        self.counts = counts
        self.context = context
        self.vocab_size = embedding.num_embeddings
        self.logit_softcap = logit_softcap

    def forward(
        self,
        tokens: Tensor,
        cache: Cache | None = None,
        side: SideInputs[Tensor] = NO_SIDE_INPUTS,
    ) -> Tensor:
        """Logits (B, T, V) of the token after each of `tokens` (B, T). Where these are rows of numbers, (B, T, V),
        what describes the next ones.

        With a cache (see `new_cache`) the tokens follow what it holds, and are added to it. It does not go together
        with `side.segments`, and is empty before a `side.prefix`.
        """
        if self.counts.is_stale and not self.training:
            self.settle()
        logits, x, earlier = self.network(tokens, cache, side)
        return self.counts(logits, x, tokens, earlier, segments=side.segments, alone=side.alone)

    def network(
        self, tokens: Tensor, cache: Cache | None, side: SideInputs[Tensor]
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """What counts beside the network are given: its logits (B, T, V), its last state (B, T, C), and the tokens
        before (B, ≤ before), if there are any. For the rest see `forward`."""
        segments, prefix = side.segments, side.prefix
        assert segments is None or (cache is None and prefix is None), "a segment stands alone"
        assert prefix is None or cache is None or cache.length == 0, "a prefix stands first"
        start, starts = (cache.length, cache.starts) if cache else (0, None)
        assert start + tokens.size(1) <= self.context, (
            f"{start + tokens.size(1)} tokens, but {self.context} positions"
        )
        x = self.embedding(tokens)  # (B, T, C)
        recent = cache.append(tokens) if cache else None
        x = self.ngrams(x, tokens, recent) if segments is None else self.ngrams(x, tokens, segments=segments)
        places = cache.places if cache else None
        if segments is not None:
            places = in_segments(segments)
        if places is not None:
            most = self.context if cache else tokens.size(1)
            x, rotation = self.positions.at(x, places), turned_at(self.positions, places, most=most)
        elif starts is None:
            x, rotation = self.positions(x, start), self.positions.rotation(start, tokens.size(1))
        else:
            x, rotation = placed(self.positions, x, starts), rotations(self.positions, starts, tokens.size(1))
        x = self.dropout(self.embedding_norm(x))
        mask = None if segments is None else segment_mask(segments)
        if prefix is not None:
            mask = prefix_mask(prefix.sum(dim=1), tokens.size(1))
        for index, block in enumerate(self.blocks):
            x = block(x, rotation, cache.layers[index] if cache else None, mask)  # (B, T, C)
        x = self.norm(x)
        truth = () if side.values is None else (tokens, side.values)
        logits = self.lm_head(x, *truth)  # (B, T, V)
        if self.logit_softcap is not None:
            logits = self.logit_softcap * (logits / self.logit_softcap).tanh()
        return logits, x, recent if cache else side.earlier

    def judged(self, tokens: Tensor, targets: Tensor, side: SideInputs[Tensor]) -> Judged | None:
        judged = getattr(self.counts, "judged", None)
        if self.training or judged is None:
            return None
        if self.counts.is_stale:
            self.settle()
        logits, _, earlier = self.network(tokens, None, side)
        return judged(logits, tokens, earlier, side.segments, targets.clamp(min=0))

    @torch.no_grad()
    def settle(self) -> None:
        if not self.counts.is_stale:
            return
        was_training, device = self.training, self.lm_head.weight.device

        def said(tokens: Tensor) -> Tensor:
            return self.network(tokens.to(device), None, NO_SIDE_INPUTS)[0]

        self.eval()
        with torch.autocast(device.type, enabled=False):
            self.counts.hear(said, self.context)
        self.train(was_training)

    def take_text(
        self,
        tokens: np.ndarray,
        held_out: np.ndarray | None = None,
        *,
        learned: bool = False,
        spelt: Spelt | None = None,
    ) -> None:
        self.counts.take_text(tokens, held_out, learned=learned, spelt=spelt)
        if tokens.ndim == 2 and not learned:  # else the scales are those that the weights were learned with
            calibrate(self, tokens)

    def shorten(self, context: int) -> None:
        self.positions.shorten(context)
        self.context = min(context, self.context)

    @property
    def cache_numbers(self) -> int:
        return sum(2 * block.attention.kv_heads * block.attention.head_width for block in self.blocks)

    @property
    def predicts_untrained(self) -> bool:
        return self.counts.before > 0

    @property
    def embeddings(self) -> list[nn.Embedding | VectorInput]:
        """Modules that turn tokens into vectors."""
        return [self.embedding]

    @property
    def sides(self) -> tuple[GPT]:
        """Its stacks of blocks: one, an encoder–decoder has two."""
        return (self,)

    def new_cache(self, batch: int) -> Cache:
        """An empty cache for `batch` sequences."""
        layers = [
            KeyValueCache(
                batch=batch,
                heads=block.attention.kv_heads,
                capacity=self.context,
                head_width=block.attention.head_width,
                like=block.attention.qkv.weight,
            )
            for block in self.blocks
        ]
        return Cache(layers, before=max(self.ngrams.before, self.counts.before))
