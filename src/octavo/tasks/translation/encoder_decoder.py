"""The encoder–decoder (Vaswani et al. 2017): an encoder reads a whole source, and a decoder that looks at what the
encoder made of it writes the target. Which parts they are made of is decided in `encoder_decoder_config.py`.

B batch, T positions of the target, S positions of the source, C width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from octavo.config.parts import register
from octavo.data.batch import NO_SIDE_INPUTS, SideInputs
from octavo.model.attention import CrossAttention, KeyValueCache, MemoryCache, padding_mask
from octavo.model.base import FLOAT_BYTES, LanguageModel, table_parameters
from octavo.model.config import GPTConfig
from octavo.model.dropout import Dropout
from octavo.model.gpt import Block, Cache, PostNormBlock
from octavo.model.inputs import NGrams
from octavo.model.positions import Positions, Rotation
from octavo.tokenizers.base import of_sides

Memory = Tensor | MemoryCache
"""What an encoder made of a source, (B, S, C), or a layer's keys and values of it."""


class CrossBlock(Block):
    """x + f(norm(x)) for attention, attention to a memory, and then feed-forward (pre-norm)."""

    def __init__(self, *, cross: CrossAttention, cross_norm: nn.Module, **block: Any) -> None:
        super().__init__(**block)
        self.cross, self.cross_norm = cross, cross_norm

    def forward(  # pyrefly: ignore  # it takes more than a block
        self,
        x: Tensor,
        rotation: Rotation | None,
        cache: KeyValueCache | None,
        memory: Memory,
        seen: Tensor,
    ) -> Tensor:
        """`memory` may be looked at where `seen` (B, 1, 1, S) is true."""
        x = self.join(x, self.attention(self.attention_norm(x), rotation, cache))  # (B, T, C)
        x = self.join(x, self.cross(self.cross_norm(x), memory, seen))  # (B, T, C)
        if self.feed_forward is not None:
            x = self.join(x, self.feed_forward(self.feed_forward_norm(x)))  # (B, T, C)
        return x


class PostNormCrossBlock(CrossBlock):
    """norm(x + f(x)) for attention, attention to a memory, and then feed-forward."""

    def forward(  # pyrefly: ignore
        self,
        x: Tensor,
        rotation: Rotation | None,
        cache: KeyValueCache | None,
        memory: Memory,
        seen: Tensor,
    ) -> Tensor:
        x = self.attention_norm(self.join(x, self.attention(x, rotation, cache)))  # (B, T, C)
        x = self.cross_norm(self.join(x, self.cross(x, memory, seen)))  # (B, T, C)
        if self.feed_forward is not None:
            x = self.feed_forward_norm(self.join(x, self.feed_forward(x)))  # (B, T, C)
        return x


class Side(nn.Module):
    """What encoder and decoder have alike: embedding, positions, blocks, and a norm at the end."""

    def __init__(
        self,
        *,
        embedding: nn.Embedding,
        positions: Positions,
        embedding_norm: nn.Module,
        dropout: float,
        blocks: Sequence[Block],
        norm: nn.Module,
    ) -> None:
        super().__init__()
        self.embedding, self.positions, self.embedding_norm = embedding, positions, embedding_norm
        self.dropout = Dropout(dropout)
        self.blocks = nn.ModuleList(blocks)
        self.norm = norm


class SourceCache(Cache):
    """What was written so far, and the source that it follows from: `memories` has keys and values of each layer, and
    `seen` (B, 1, 1, S) says where they may be looked at. The source is read once, and does not grow.
    """

    def __init__(
        self, layers: list[KeyValueCache], *, before: int, memories: Sequence[MemoryCache], seen: Tensor
    ) -> None:
        super().__init__(layers, before=before)
        self.memories, self.seen = list(memories), seen

    def select(self, rows: Tensor) -> None:
        super().select(rows)
        self.memories = [MemoryCache(one.keys[rows], one.values[rows]) for one in self.memories]
        self.seen = self.seen[rows]


class EncoderDecoder(LanguageModel):
    """A source is read as a whole; the target is written left to right. Each may have `context` positions.

    Args:
        vocab_size: V; of a `Vocabulary` with a source of its own, logits are of the target's ids alone, and `first` is
            the first of the source's.
    """

    def __init__(
        self,
        *,
        encoder: Side,
        writer: Side,
        ngrams: NGrams,
        lm_head: nn.Linear,
        context: int,
        vocab_size: int,
        logit_softcap: float | None = None,
    ) -> None:
        super().__init__()
        self.encoder, self.writer, self.ngrams, self.lm_head = encoder, writer, ngrams, lm_head
        self.context, self.logit_softcap = context, logit_softcap
        self.vocab_size = vocab_size
        self.first = vocab_size - of_sides(vocab_size)[0]

    @property
    def blocks(self) -> list[Block]:
        """Those of the encoder, then those of the decoder."""
        return [*self.encoder.blocks, *self.writer.blocks]  # pyrefly: ignore

    @property
    def embeddings(self) -> list[nn.Embedding]:
        """That of the target and that of the source; one, where they are shared."""
        both = (self.writer.embedding, self.encoder.embedding)
        return list({id(one): one for one in both}.values())

    @property
    def sides(self) -> tuple[nn.Module, nn.Module]:
        """What reads the source, and what writes the target."""
        return self.encoder, self.writer

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """The memory (B, S, C) of a source (B, S), −1 where there is none, and where it may be looked at."""
        side = self.encoder
        assert source.size(1) <= self.context, f"{source.size(1)} tokens, but {self.context} positions"
        seen = padding_mask(source)  # (B, 1, 1, S)
        x = side.positions(side.embedding((source - self.first).clamp(min=0)), 0)  # (B, S, C)
        x = side.dropout(side.embedding_norm(x))
        rotation = side.positions.rotation(0, source.size(1))
        for block in side.blocks:
            x = block(x, rotation, None, seen)  # (B, S, C)
        return side.norm(x), seen

    def forward(
        self,
        tokens: Tensor,
        cache: SourceCache | None = None,
        side: SideInputs[Tensor] = NO_SIDE_INPUTS,
    ) -> Tensor:
        """Logits (B, T, V) of the token after each of `tokens` (B, T), given `side.source` or what a cache keeps of one
        (see `remember`). With a cache the tokens follow what it holds, and are added to it.
        """
        writer, start = self.writer, cache.length if cache else 0
        assert start + tokens.size(1) <= self.context, (
            f"{start + tokens.size(1)} tokens, but {self.context} positions"
        )
        if cache is None:
            assert side.source is not None, "an encoder needs a source"
            memory, seen = self.encode(side.source)
            memories: Sequence[Memory] = [memory] * len(writer.blocks)
        else:
            memories, seen = cache.memories, cache.seen
        x = self.ngrams(
            writer.embedding(tokens), tokens, cache.append(tokens) if cache else None
        )  # (B, T, C)
        x = writer.dropout(writer.embedding_norm(writer.positions(x, start)))
        rotation = writer.positions.rotation(start, tokens.size(1))
        layers = cache.layers if cache else [None] * len(writer.blocks)
        for block, layer, memory in zip(writer.blocks, layers, memories, strict=True):
            x = block(x, rotation, layer, memory, seen)  # (B, T, C)
        logits = self.lm_head(writer.norm(x))  # (B, T, V)
        if self.logit_softcap is not None:
            logits = self.logit_softcap * (logits / self.logit_softcap).tanh()
        return logits

    @torch.no_grad()
    def remember(self, source: Tensor, *, capacity: int | None = None) -> SourceCache:
        """A cache to write from sources (B, S), at most `capacity` tokens each (default: the context)."""
        memory, seen = self.encode(source)
        blocks: Any = self.writer.blocks
        layers = [
            KeyValueCache(
                batch=len(source),
                heads=block.attention.kv_heads,
                capacity=capacity or self.context,
                head_width=block.attention.head_width,
                like=memory,
            )
            for block in blocks
        ]
        memories = [block.cross.remember(memory) for block in blocks]
        return SourceCache(layers, before=self.ngrams.before, memories=memories, seen=seen)

    def shorten(self, context: int) -> None:
        for side in (self.encoder, self.writer):
            side.positions.shorten(context)
        self.context = min(context, self.context)

    @property
    def cache_numbers(self) -> int:
        """What is written, and the keys and values of a source as long."""
        blocks: Any = self.writer.blocks
        return sum(4 * block.attention.kv_heads * block.attention.head_width for block in blocks)


# The encoder–decoder as a part: the GPT's options on both sides, what they cost, and the modules that they
# become.


@register("model")
class EncoderDecoderConfig(GPTConfig):
    """An encoder that reads a source, and a decoder that writes what follows from it (Vaswani et al. 2017). Options are
    those of the GPT, for both sides; `context` holds for source and target, each by itself, and `layers` are the
    decoder's. Batches need a source (`batches=pairs`)."""

    kind: Literal["encoder-decoder"] = "encoder-decoder"  # pyrefly: ignore  # not the GPT's

    takes_segments: ClassVar[bool] = False
    takes_prefix: ClassVar[bool] = False
    takes_source: ClassVar[bool] = True

    encoder_layers: int | None = Field(None, ge=1, le=10_000)
    """Blocks of the encoder; empty means as many as the decoder's."""
    shared_embedding: bool = True
    """Source and target share one table of token embeddings. With `tied` the head has it too. It takes one vocabulary:
    with `tokenizer=separate` each side has a table of its own."""

    @model_validator(mode="after")
    def _reads_tokens(self) -> EncoderDecoderConfig:
        if self.input.vectors:
            raise ValueError(f"an encoder–decoder reads tokens, and input={self.input.kind} rows of numbers")
        if self.counts.kind != "none":
            raise ValueError(
                f"counts={self.counts.kind} need running text, which a source is not; "
                "take kind=gpt with batches=joined-pairs, or counts=none"
            )
        return self

    @property
    def resolved_encoder_layers(self) -> int:
        """Blocks of the encoder; as many as the decoder has, where not given."""
        return self.encoder_layers or self.layers

    # What it costs

    @property
    def _attentions(self) -> int:
        """Layers that attend; those of the decoder do so twice."""
        return self.resolved_encoder_layers + 2 * self.layers

    @property
    def _blocks(self) -> int:
        return self.resolved_encoder_layers + self.layers

    def matrix_parameters(self, *, vocab_size: int) -> int:
        """The head has the target's tokens alone."""
        return super().matrix_parameters(vocab_size=of_sides(vocab_size)[1])

    def block_matrix_parameters(self) -> int:
        inner = self.feed_forward.matrix_parameters(width=self.width)
        return self._attentions * self._attention_matrices + self._blocks * inner

    def parameters(self, *, vocab_size: int, head: bool = True) -> int:
        has_feed_forward = self.feed_forward.kind != "none"
        norm = self.norm.parameters(width=self.width)
        attention = self._attention_matrices + norm
        attention += self.qkv_bias * (self.heads + 2 * self.resolved_kv_heads) * self.resolved_head_width
        attention += self.width if self.output_projection and self.output_bias else 0
        attention += 2 * self.qk_norm_scale * self.resolved_head_width
        inner = self.feed_forward.parameters(width=self.width) + norm * has_feed_forward
        total = self._attentions * attention + self._blocks * inner
        total += 2 * norm * (self.embedding_norm + self.final_norm)
        total += 2 * self.positions.parameters(context=self.context, width=self.width)
        source, target = of_sides(vocab_size)
        total += (target + (0 if self.shared_embedding else source)) * self.width + table_parameters(self)
        if head:
            total += (0 if self.tied else target * self.width) + self.head_bias * target
        return total

    def forward_flops(self, *, vocab_size: int, length: int | None = None) -> int:
        """Of one token of the target and one of the source, both sequences of `length`."""
        length = length or self.context
        scores = 4 * self._attentions * self.query_width * length
        return 2 * self.matrix_parameters(vocab_size=vocab_size) + scores

    def cache_bytes(self, *, batch: int = 1) -> int:
        """Keys and values of the target, and as many of the source."""
        return 2 * super().cache_bytes(batch=batch)

    def activation_bounds(self) -> tuple[int, int]:
        features = self.block_matrix_parameters() // self.width + self._attentions * 16 * self.width
        scores = self._attentions * self.heads * self.context
        return 2 * self._blocks * self.width, FLOAT_BYTES * (6 * features + 8 * scores)

    def as_estimated(self, device: torch.device, *, segments: bool = False) -> GPTConfig:
        """A padded source has a mask, as segments have."""
        return super().as_estimated(device, segments=True)

    # What it becomes

    def build(self, *, vocab_size: int, explicit_attention: bool = False) -> EncoderDecoder:  # pyrefly: ignore
        """With `explicit_attention` the attention weights exist as tensors and can be captured."""
        sources, targets = of_sides(vocab_size)
        assert sources == vocab_size or not self.shared_embedding, "one table cannot hold two vocabularies"
        target = nn.Embedding(targets, self.width)
        source = target if self.shared_embedding else nn.Embedding(sources, self.width)
        lm_head = nn.Linear(self.width, targets, bias=self.head_bias)
        if self.tied:
            lm_head.weight = target.weight
        encoding = Block if self.norm_place == "pre" else PostNormBlock
        writing = CrossBlock if self.norm_place == "pre" else PostNormCrossBlock
        encoder = [
            encoding(**self.block_options(explicit_attention, causal=False))
            for _ in range(self.resolved_encoder_layers)
        ]
        writer = [
            writing(**self._cross(explicit_attention), **self.block_options(explicit_attention))
            for _ in range(self.layers)
        ]
        return EncoderDecoder(
            encoder=self._side(source, encoder),
            writer=self._side(target, writer),
            ngrams=self.ngrams.build(width=self.width),
            lm_head=lm_head,
            context=self.context,
            vocab_size=vocab_size,
            logit_softcap=self.logit_softcap,
        )

    def _cross(self, explicit: bool) -> dict[str, Any]:
        cross = CrossAttention(**self.attention_options(explicit), memory_width=self.width)
        return {"cross": cross, "cross_norm": self.norm.build(width=self.width)}

    def _side(self, embedding: nn.Embedding, blocks: list[Any]) -> Side:
        return Side(
            embedding=embedding,
            positions=self.positions.build(
                context=self.context, width=self.width, head_width=self.resolved_head_width
            ),
            embedding_norm=self.norm.build(width=self.width) if self.embedding_norm else nn.Identity(),
            dropout=self.dropout.embedding,
            blocks=blocks,
            norm=self.norm.build(width=self.width) if self.final_norm else nn.Identity(),
        )
