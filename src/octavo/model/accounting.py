"""What a model costs, from its config alone: parameters, FLOPs, bytes of cache (of training: `training.estimate`).

Tests hold every figure against the built model. L layers, C width, H heads, D head width, T context, V vocabulary.
"""

from __future__ import annotations

from octavo.config import ModelConfig
from octavo.model.tables import table_parameters

FLOAT_BYTES = 4


def _attention_matrices(config: ModelConfig) -> int:
    qkv = config.width * (config.heads + 2 * config.resolved_kv_heads) * config.resolved_head_width
    return qkv + (config.query_width * config.width if config.output_projection else 0)


def block_matrix_parameters(config: ModelConfig) -> int:
    """Numbers in the matrices of all blocks."""
    return config.layers * (
        _attention_matrices(config) + config.feed_forward.matrix_parameters(width=config.width)
    )


def matrix_parameters(config: ModelConfig, *, vocab_size: int) -> int:
    """N, the numbers that take part in matrix products: blocks and head, not the looked-up tables."""
    return block_matrix_parameters(config) + config.width * vocab_size


def parameters(config: ModelConfig, *, vocab_size: int, head: bool = True) -> int:
    """All trained numbers; `head=False` leaves the output head out, as GPT-2's "124M" does (report D)."""
    has_feed_forward = config.feed_forward.kind != "none"
    norm = config.norm.parameters(width=config.width)
    biases = config.qkv_bias * (config.heads + 2 * config.resolved_kv_heads) * config.resolved_head_width
    biases += config.width if config.output_projection and config.output_bias else 0
    block = (
        _attention_matrices(config)
        + biases
        + config.feed_forward.parameters(width=config.width)
        + norm * (1 + has_feed_forward)
    )
    total = vocab_size * config.width + config.positions.parameters(
        context=config.context, width=config.width
    )
    total += table_parameters(config)
    total += config.layers * block + norm * (config.embedding_norm + config.final_norm)
    if head:
        total += (0 if config.tied else vocab_size * config.width) + config.head_bias * vocab_size
    return total


def forward_flops(config: ModelConfig, *, vocab_size: int, length: int | None = None) -> int:
    """Floating-point operations of one forward pass over one token, in a sequence of `length` (default T).

    2 per number in a matrix product, and 4·L·H·D·T for scores and weighted values; the mask is not halved
    (Chowdhery et al. 2022, appendix B).
    """
    length = length or config.context
    return (
        2 * matrix_parameters(config, vocab_size=vocab_size) + 4 * config.layers * config.query_width * length
    )


def training_flops(config: ModelConfig, *, vocab_size: int) -> int:
    """Of one token in training: forward and twice that backward, (6N + 12·L·H·D·T)."""
    return 3 * forward_flops(config, vocab_size=vocab_size)


def cache_bytes(config: ModelConfig, *, batch: int = 1) -> int:
    """Bytes of the key/value cache for a full context."""
    return (
        2
        * batch
        * config.layers
        * config.resolved_kv_heads
        * config.context
        * config.resolved_head_width
        * FLOAT_BYTES
    )
