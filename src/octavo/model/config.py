"""The GPT as a part: its options, what they cost, and the modules that they become. Configs stop here.

L layers, C width, H heads, D head width, T context, V vocabulary.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import nn

from octavo.config.parts import LARGEST, PartConfig, PartOf, Strict, register
from octavo.model.attention import QK_EPS, Attention, ExplicitAttend, FusedAttend, reaches
from octavo.model.base import FLOAT_BYTES, ModelConfig, table_parameters
from octavo.model.gpt import GPT, Block, PostNormBlock


class DropoutConfig(Strict):
    """Where activations are dropped in training. A single number means report E's three places."""

    attention: float = Field(0.0, ge=0, lt=1)
    """On the attention weights, after the softmax."""
    projection: float = Field(0.0, ge=0, lt=1)
    """After the heads' projection."""
    feed_forward: float = Field(0.0, ge=0, lt=1)
    """After the feed-forward layer."""
    embedding: float = Field(0.0, ge=0, lt=1)
    """On the sum of token and position embedding (GPT-2 has it, report E does not)."""

    @model_validator(mode="before")
    @classmethod
    def _three_places(cls, value: Any) -> Any:
        if isinstance(value, int | float) and not isinstance(value, bool):
            if not 0 <= value < 1:
                raise ValueError(f"the share that is dropped is at least 0 and below 1, not {value}")
            return {"attention": value, "projection": value, "feed_forward": value}
        return value


@register("model")
class GPTConfig(ModelConfig):
    """A decoder-only transformer: every architectural choice of the reports is a switch here."""

    kind: Literal["gpt"] = "gpt"

    takes_segments: ClassVar[bool] = True
    takes_prefix: ClassVar[bool] = True

    layers: int = Field(4, ge=1, le=10_000)
    """Transformer blocks."""
    width: int = Field(128, ge=1, le=2**20)
    """C, the width of the residual stream."""
    heads: int = Field(4, ge=1, le=2**16)
    """H, attention heads."""
    kv_heads: int | None = Field(None, ge=1, le=2**16)
    """Key/value heads, each shared by H / kv_heads query heads; empty means one for each head."""
    head_width: int | None = Field(None, ge=1, le=2**20)
    """D, free of the width; empty means width // heads."""
    context: int = Field(64, ge=1, le=2**24)
    """T, the positions that the model sees."""
    input: Annotated[PartConfig, PartOf("input", "tokens")] = Field({"kind": "tokens"}, validate_default=True)
    """What stands at a position: a token, or a row of numbers."""
    output: Annotated[PartConfig, PartOf("output", "tokens")] = Field(
        {"kind": "tokens"}, validate_default=True
    )
    """What is predicted: the next token, or a distribution of the next row."""
    positions: Annotated[PartConfig, PartOf("positions", "learned")] = Field(
        {"kind": "learned"}, validate_default=True
    )
    """How positions enter."""
    ngrams: Annotated[PartConfig, PartOf("ngrams", "none")] = Field({"kind": "none"}, validate_default=True)
    """Vectors for the last few tokens together, added to each token's own."""
    counts: Annotated[PartConfig, PartOf("counts", "none")] = Field({"kind": "none"}, validate_default=True)
    """Counted n-grams of the training text, mixed with what the network predicts."""
    norm: Annotated[PartConfig, PartOf("norm", "layer")] = Field({"kind": "layer"}, validate_default=True)
    """Normalization of the activations."""
    norm_place: Literal["pre", "post"] = "pre"
    """pre: x + f(norm(x)); post: norm(x + f(x))."""
    embedding_norm: bool = False
    """A norm on the embeddings, before the first block."""
    final_norm: bool = True
    """A norm before the head."""
    residual: bool = True
    """Residual connections around attention and feed-forward."""
    qkv_bias: bool = False
    """Bias in the query, key and value projections."""
    output_projection: bool = True
    """Project the concatenated heads back to the width (without it, H·D must equal the width)."""
    output_bias: bool = True
    """Bias in that projection."""
    attention_scale: Literal["head", "model"] | Annotated[float, Field(gt=0, le=LARGEST)] = "head"
    """Scores divided by √(head width), or by √(model width) as in report C's listing, or multiplied by a number."""
    qk_norm: bool = False
    """Queries and keys brought to unit root mean square before the scores."""
    qk_norm_eps: float = Field(QK_EPS, gt=0, le=1)
    """Added to their mean square."""
    qk_norm_scale: bool = False
    """Train a scale after it, one for all queries and one for all keys (Qwen3 has it)."""
    feed_forward: Annotated[PartConfig, PartOf("feed_forward", "gelu")] = Field(
        {"kind": "gelu"}, validate_default=True
    )
    """The position-wise layer after attention."""
    dropout: DropoutConfig = Field({}, validate_default=True)
    """Dropout, one number or by place."""
    tied: bool = False
    """Head shares the token embedding's weights."""
    head_bias: bool = False
    """Bias in the head."""
    logit_softcap: float | None = Field(None, gt=0, le=LARGEST)
    """Logits squashed to ±this by a tanh; empty means off."""
    initialization: Annotated[PartConfig, PartOf("initialization", "gpt2")] = Field(
        {"kind": "gpt2"}, validate_default=True
    )
    """How weights start."""

    @property
    def takes_vectors(self) -> bool:
        return self.input.vectors

    @property
    def contexts(self) -> tuple[int, int]:
        return 1, self.positions.longest(context=self.context)

    @property
    def before(self) -> int:
        return self.counts.before

    @property
    def held_out(self) -> float:
        return self.counts.held_out

    def held_out_of(self, starts: np.ndarray, size: int) -> np.ndarray | None:
        return self.counts.held_out_of(starts, size, context=self.context)

    @property
    def reads_on(self) -> bool:
        return self.counts.reads_on

    @property
    def gate_share(self) -> float:
        return self.counts.gate_share

    def table_bytes(self, tokens: np.ndarray, *, vocab_size: int) -> int:
        return self.counts.table_bytes(tokens, vocab_size=vocab_size)

    @property
    def query_width(self) -> int:
        """H·D, the width of all heads together."""
        return self.heads * self.resolved_head_width

    @property
    def resolved_head_width(self) -> int:
        """D, the width of a head."""
        return self.head_width or self.width // self.heads

    @property
    def resolved_kv_heads(self) -> int:
        """Number of key/value heads."""
        return self.kv_heads or self.heads

    @model_validator(mode="after")
    def _fits(self) -> GPTConfig:
        if self.resolved_head_width < 1:
            raise ValueError(f"{self.heads} heads do not fit into width {self.width}; set head_width")
        if self.heads % self.resolved_kv_heads:
            raise ValueError(f"heads ({self.heads}) must be a multiple of kv_heads ({self.kv_heads})")
        if not self.output_projection and self.query_width != self.width:
            raise ValueError(
                f"without output_projection, heads × head_width ({self.query_width}) must equal width ({self.width})"
            )
        if self.qk_norm_scale and not self.qk_norm:
            raise ValueError("qk_norm_scale is the scale of qk_norm, which is off; set qk_norm=true")
        if wrong := self.input.unfit(self):
            raise ValueError(wrong)
        if self.positions.turns and self.resolved_head_width % 2:
            raise ValueError(
                f"{self.positions.kind} positions need an even head width, not {self.resolved_head_width}"
            )
        return self

    # What it costs

    @property
    def _attention_matrices(self) -> int:
        qkv = self.width * (self.heads + 2 * self.resolved_kv_heads) * self.resolved_head_width
        return qkv + (self.query_width * self.width if self.output_projection else 0)

    def block_matrix_parameters(self) -> int:
        return self.layers * (
            self._attention_matrices + self.feed_forward.matrix_parameters(width=self.width)
        )

    def matrix_parameters(self, *, vocab_size: int) -> int:
        """Parameters in the matrix products of blocks and head."""
        size = {"vocab_size": vocab_size, "width": self.width}
        ends = self.input.matrix_parameters(**size) + self.output.matrix_parameters(**size)
        return self.block_matrix_parameters() + ends

    def parameters(self, *, vocab_size: int, head: bool = True) -> int:
        has_feed_forward = self.feed_forward.kind != "none"
        norm = self.norm.parameters(width=self.width)
        biases = self.qkv_bias * (self.heads + 2 * self.resolved_kv_heads) * self.resolved_head_width
        biases += self.width if self.output_projection and self.output_bias else 0
        scales = 2 * self.qk_norm_scale * self.resolved_head_width
        block = (
            self._attention_matrices
            + biases
            + scales
            + self.feed_forward.parameters(width=self.width)
            + norm * (1 + has_feed_forward)
        )
        total = self.input.parameters(vocab_size=vocab_size, width=self.width)
        total += self.positions.parameters(context=self.context, width=self.width)
        total += table_parameters(self) + self.counts.parameters(width=self.width)
        total += self.layers * block + norm * (self.embedding_norm + self.final_norm)
        if head:
            total += self.output.parameters(vocab_size=vocab_size, width=self.width, bias=self.head_bias)
            total -= self.tied * vocab_size * self.width
        return total

    def forward_flops(self, *, vocab_size: int, length: int | None = None) -> int:
        """2 per number in a matrix product, and 4·L·H·D·T for scores and weighted values; the mask
        is not halved (Chowdhery et al. 2022, appendix B).
        """
        length = length or self.context
        return 2 * self.matrix_parameters(vocab_size=vocab_size) + 4 * self.layers * self.query_width * length

    def cache_bytes(self, *, batch: int = 1) -> int:
        positions = batch * self.layers * self.resolved_kv_heads * self.context
        return 2 * positions * self.resolved_head_width * FLOAT_BYTES

    def activation_bounds(self) -> tuple[int, int]:
        matrices = self.block_matrix_parameters()
        features = (
            matrices // self.width + self.layers * 16 * self.width
        )  # C to F and back: F + C numbers a position
        scores = self.layers * self.heads * self.context
        inputs = self.layers * self.width  # of blocks that are computed again, at two bytes a number
        return 2 * inputs, FLOAT_BYTES * (6 * features + 8 * scores)

    def as_estimated(self, device: torch.device, *, segments: bool = False) -> GPTConfig:
        """Where attention is fused, no weights are kept for its dropout."""
        if device.type == "cpu" and (segments or not reaches(self.context, self.resolved_head_width)):
            return self
        return self.model_copy(update={"dropout": self.dropout.model_copy(update={"attention": 0.0})})

    # What it becomes

    def build(self, *, vocab_size: int, explicit_attention: bool = False) -> GPT:
        """With `explicit_attention` the attention weights exist as tensors and can be captured."""
        embedding = self.input.build(vocab_size=vocab_size, width=self.width)
        lm_head = self.output.build(vocab_size=vocab_size, width=self.width, bias=self.head_bias)
        if self.tied:
            lm_head.weight = embedding.weight
        return GPT(
            embedding=embedding,
            ngrams=self.input.recent(vocab_size=vocab_size, width=self.width)
            or self.ngrams.build(width=self.width),
            positions=self.positions.build(
                context=self.context, width=self.width, head_width=self.resolved_head_width
            ),
            embedding_norm=self.norm.build(width=self.width) if self.embedding_norm else nn.Identity(),
            dropout=self.dropout.embedding,
            blocks=[self._block(explicit_attention) for _ in range(self.layers)],
            norm=self.norm.build(width=self.width) if self.final_norm else nn.Identity(),
            lm_head=lm_head,
            counts=self.counts.build(width=self.width, vocab_size=vocab_size),
            context=self.context,
            logit_softcap=self.logit_softcap,
        )

    def draw(self, model: nn.Module) -> None:
        self.initialization.build()(model)

    def _block(self, explicit: bool) -> Block:
        return (Block if self.norm_place == "pre" else PostNormBlock)(**self.block_options(explicit))

    def block_options(self, explicit: bool, *, causal: bool = True) -> dict[str, Any]:
        """What a block is made of."""
        return {
            "attention": Attention(**self.attention_options(explicit), causal=causal),
            "feed_forward": self.feed_forward.build(width=self.width, dropout=self.dropout.feed_forward),
            "norms": (self.norm.build(width=self.width), self.norm.build(width=self.width)),
            "residual": self.residual,
        }

    def attention_options(self, explicit: bool) -> dict[str, Any]:
        """What attention is made of, within a sequence or to a memory."""
        scales = {"head": self.resolved_head_width**-0.5, "model": self.width**-0.5}
        scale = self.attention_scale
        attend = ExplicitAttend if explicit else FusedAttend
        return {
            "width": self.width,
            "heads": self.heads,
            "kv_heads": self.resolved_kv_heads,
            "head_width": self.resolved_head_width,
            "attend": attend(
                scale=scales[scale] if isinstance(scale, str) else scale, dropout=self.dropout.attention
            ),
            "qkv_bias": self.qkv_bias,
            "qk_norm": self.qk_norm,
            "qk_norm_eps": self.qk_norm_eps,
            "qk_norm_scale": self.qk_norm_scale,
            "project": nn.Linear(self.query_width, self.width, bias=self.output_bias)
            if self.output_projection
            else nn.Identity(),
            "dropout": self.dropout.projection,
        }
