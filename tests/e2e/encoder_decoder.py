"""An encoder–decoder of Octavo's own parts, as a file for --parts: each document says something twice, and the second
time follows from the first. A prompt is the source.

B sequences, T positions, S positions of the source, C width, V vocabulary.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from octavo.config.parts import register
from octavo.data.batch import NO_SIDE_INPUTS, Batch, SideInputs
from octavo.data.batches import Batches, BatchesConfig, Stream
from octavo.generation.decoder import Decoder, Span
from octavo.model.attention import (
    Attention,
    CrossAttention,
    FusedAttend,
    KeyValueCache,
    MemoryCache,
    padding_mask,
)
from octavo.model.base import LanguageModel, ModelConfig
from octavo.model.feedforward import GELUConfig
from octavo.model.gpt import Block
from octavo.model.norms import RootMeanSquareNorm
from octavo.model.positions import LearnedPositions
from octavo.training.objective import NextToken, ObjectiveConfig, Unit


class Pairs(Batches):
    """Documents drawn at random, each cut in its middle: a source, and what follows from it."""

    def __init__(self, stream: Stream, *, seed: int) -> None:
        self.size, self.stream, self.seed = len(stream.tokens), stream, seed
        edges = [*stream.starts.tolist(), len(stream.tokens)]
        self.documents = [(a, b) for a, b in pairwise(edges) if 3 <= b - a <= stream.context]

    def batch(self, step: int, micro: int = 0) -> Batch[np.ndarray]:
        random = np.random.Philox(key=self.seed, counter=(step << 128) | (micro << 64))
        chosen = random.random_raw(self.stream.batch) % np.uint64(len(self.documents))
        return replace(self.rows([self.documents[at] for at in chosen.tolist()]), places=None)

    def rows(self, documents: Sequence[tuple[int, int]]) -> Batch[np.ndarray]:
        shape = (len(documents), self.stream.context)
        inputs, (targets, source, places) = np.zeros(shape, np.int64), np.full((3, *shape), -1, np.int64)
        tokens = self.stream.array
        for row, (begin, end) in enumerate(documents):
            middle = (begin + end - 1) // 2  # the last token is the document's end
            source[row, : middle - begin] = tokens[begin:middle]
            targets[row, : end - middle] = tokens[middle:end]
            inputs[row, 0] = self.stream.start_id
            inputs[row, 1 : end - middle] = tokens[middle : end - 1]
            places[row, : end - middle] = np.arange(middle, end)
        return Batch(inputs, targets, source=source, places=places)


@register("batches")
class PairsConfig(BatchesConfig):
    """A source, and what follows from it."""

    kind: Literal["twice"] = "twice"
    has_epochs: ClassVar[bool] = False

    def example(self, rows: int, context: int) -> Batch[np.ndarray]:
        zeros = super().example(rows, context)
        return replace(zeros, source=zeros.inputs)

    def training(self, stream: Stream, *, seed: int, accumulation: int) -> Pairs:
        return Pairs(stream, seed=seed)

    def scoring(self, stream: Stream, limit: int | None) -> Iterator[Batch[np.ndarray]]:
        pairs = Pairs(stream, seed=0)
        for first in range(0, len(pairs.documents), stream.batch):
            yield pairs.rows(pairs.documents[first : first + stream.batch])


class CrossBlock(Block):
    """A block that also looks at a memory."""

    def __init__(self, *, cross: CrossAttention, cross_norm: nn.Module, **block: Any) -> None:
        super().__init__(**block)
        self.cross, self.cross_norm = cross, cross_norm

    def forward(  # pyrefly: ignore  # it takes more than a block
        self, x: Tensor, memory: Tensor | MemoryCache, seen: Tensor, cache: KeyValueCache | None = None
    ) -> Tensor:
        x = x + self.attention(self.attention_norm(x), None, cache)  # (B, T, C)
        x = x + self.cross(self.cross_norm(x), memory, seen)
        assert self.feed_forward is not None
        return x + self.feed_forward(self.feed_forward_norm(x))


class EncoderDecoder(LanguageModel):
    """A block that reads the whole source, and blocks that write."""

    def __init__(self, *, vocab_size: int, width: int, heads: int, layers: int, context: int) -> None:
        super().__init__()
        self.vocab_size, self.context, self.heads, self.width = vocab_size, context, heads, width
        shape = {"width": width, "heads": heads, "kv_heads": heads, "head_width": width // heads}
        shape |= {"qkv_bias": False, "qk_norm": False, "dropout": 0.0}

        def attending() -> dict[str, Any]:
            attend = FusedAttend(scale=(width // heads) ** -0.5, dropout=0.0)
            return {**shape, "attend": attend, "project": nn.Linear(width, width)}

        def block(*, causal: bool) -> dict[str, Any]:
            return {
                "attention": Attention(**attending(), causal=causal),
                "feed_forward": GELUConfig().build(width=width, dropout=0.0),
                "norms": (norm(), norm()),
                "residual": True,
            }

        def norm() -> nn.Module:
            return RootMeanSquareNorm(width=width, eps=1e-6)

        self.embedding = nn.Embedding(vocab_size, width)
        self.positions = LearnedPositions(context=context, width=width)
        self.encoder = Block(**block(causal=False))
        crosses = (CrossAttention(**attending(), memory_width=width) for _ in range(layers))
        blocks = [CrossBlock(cross=cross, cross_norm=norm(), **block(causal=True)) for cross in crosses]
        self.blocks = nn.ModuleList(blocks)
        self.head = nn.Linear(width, vocab_size, bias=False)

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """The memory (B, S, C) of a source (B, S), and where it may be looked at."""
        seen = padding_mask(source)  # (B, 1, 1, S)
        x = self.positions(self.embedding(source.clamp(min=0)), 0)
        return self.encoder(x, None, None, seen), seen

    def decode(
        self,
        tokens: Tensor,
        memories: Sequence[Tensor | MemoryCache],
        seen: Tensor,
        caches: Sequence[KeyValueCache | None],
    ) -> Tensor:
        """Logits (B, T, V)."""
        start = caches[0].length if caches[0] is not None else 0
        x = self.positions(self.embedding(tokens), start)  # (B, T, C)
        for block, memory, cache in zip(self.blocks, memories, caches, strict=True):
            x = block(x, memory, seen, cache)
        return self.head(x)

    def forward(
        self, tokens: Tensor, cache: None = None, side: SideInputs[Tensor] = NO_SIDE_INPUTS
    ) -> Tensor:
        assert side.source is not None
        memory, seen = self.encode(side.source)
        layers = len(self.blocks)
        return self.decode(tokens, [memory] * layers, seen, [None] * layers)


class Translator(Decoder):
    """The first ids of a slot are its source; its memory is computed once, and what is written is kept."""

    def __init__(self, model: EncoderDecoder, **options: Any) -> None:
        super().__init__(model, **options)
        self.kept: dict[int, tuple[list[MemoryCache], Tensor, list[KeyValueCache]]] = {}

    @torch.no_grad()
    def read(self, spans: Sequence[Span]) -> Tensor:
        return torch.cat([self.last(*span) for span in spans])

    def last(self, slot: int, start: int, end: int) -> Tensor:
        model: Any = self.model
        ids = torch.from_numpy(self.text[slot, start:end]).long()[None]
        if start == 0:
            source = ids[:, 1:] if ids.size(1) > 1 else torch.full((1, 1), -1)
            memory, seen = model.encode(source)
            memories = [block.cross.remember(memory) for block in model.blocks]
            self.kept[slot] = (memories, seen, [self.cache() for _ in memories])
            ids = ids[:, :1]
        memories, seen, caches = self.kept[slot]
        return model.decode(ids, memories, seen, caches)[:, -1]

    def cache(self) -> KeyValueCache:
        model: Any = self.model
        width = model.width // model.heads
        shape = {"batch": 1, "heads": model.heads, "capacity": self.context + 1, "head_width": width}
        return KeyValueCache(**shape, like=model.embedding.weight)

    def share(self, source: int, to: Sequence[int], length: int) -> None:
        memories, seen, caches = self.kept[source]
        for slot in to:
            self.kept[slot] = (memories, seen, copy.deepcopy(caches))


EncoderDecoder.decoder = Translator


@register("model")
class EncoderDecoderConfig(ModelConfig):
    """An encoder and a decoder."""

    kind: Literal["own-encoder-decoder"] = "own-encoder-decoder"
    takes_source: ClassVar[bool] = True
    width: int = 32
    heads: int = 2
    layers: int = 2

    def build(self, *, vocab_size: int) -> EncoderDecoder:
        shape = {"width": self.width, "heads": self.heads, "layers": self.layers}
        return EncoderDecoder(vocab_size=vocab_size, context=self.context, **shape)


class Following(NextToken):
    """The next token, given the source: not the probability of the text, of which the source is a part."""

    unit = Unit(name="nats", per="token given its source", text=False)


@register("objective")
class FollowingConfig(ObjectiveConfig):
    """The next token, given the source."""

    kind: Literal["following"] = "following"

    def build(self) -> Following:
        return Following()
