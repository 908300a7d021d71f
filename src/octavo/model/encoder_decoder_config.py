"""The encoder–decoder as a part: the GPT's options on both sides, what they cost, and the modules that they become.

C width, H heads, D head width, T context, V vocabulary.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from pydantic import Field, model_validator
from torch import nn

from octavo.config.parts import register
from octavo.model.attention import CrossAttention
from octavo.model.encoder_decoder import (
    CrossBlock,
    EncoderDecoder,
    PostNormCrossBlock,
    Side,
)
from octavo.model.gpt import Block, PostNormBlock
from octavo.model.gpt_config import GPTConfig
from octavo.model.kind import FLOAT_BYTES
from octavo.model.tables import table_parameters
from octavo.tokenizers.vocabulary import of_sides


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
                f"counts={self.counts.kind} go on in running text, and a source is none; "
                "take kind=gpt with batches=joined-pairs, or counts=none"
            )
        return self

    @property
    def resolved_encoder_layers(self) -> int:
        """Blocks of the encoder."""
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
        """See the base class: the head has the target's tokens alone."""
        return super().matrix_parameters(vocab_size=of_sides(vocab_size)[1])

    def block_matrix_parameters(self) -> int:
        """See the base class."""
        inner = self.feed_forward.matrix_parameters(width=self.width)
        return self._attentions * self._attention_matrices + self._blocks * inner

    def parameters(self, *, vocab_size: int, head: bool = True) -> int:
        """See the base class."""
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
        """See the base class: of one token of the target and one of the source, both sequences of `length`."""
        length = length or self.context
        scores = 4 * self._attentions * self.query_width * length
        return 2 * self.matrix_parameters(vocab_size=vocab_size) + scores

    def cache_bytes(self, *, batch: int = 1) -> int:
        """See the base class: keys and values of the target, and as many of the source."""
        return 2 * super().cache_bytes(batch=batch)

    def activation_bounds(self) -> tuple[int, int]:
        """See the base class."""
        features = self.block_matrix_parameters() // self.width + self._attentions * 16 * self.width
        scores = self._attentions * self.heads * self.context
        return 2 * self._blocks * self.width, FLOAT_BYTES * (6 * features + 8 * scores)

    def as_estimated(self, device: torch.device, *, segments: bool = False) -> GPTConfig:
        """See the base class; a padded source has a mask, as segments have."""
        return super().as_estimated(device, segments=True)

    # What it becomes

    def build(self, *, vocab_size: int, explicit_attention: bool = False) -> EncoderDecoder:  # pyrefly: ignore
        """See the base class. With `explicit_attention` the attention weights exist as tensors and can be captured."""
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
