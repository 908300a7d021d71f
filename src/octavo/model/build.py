"""The builder: from a `ModelConfig` to a `GPT`. Configs stop here; modules take plain arguments."""

from __future__ import annotations

import torch
from torch import nn

from octavo.config import ModelConfig
from octavo.ground.memory import refuse_beyond_memory
from octavo.model import accounting
from octavo.model.attention import Attention, ExplicitAttend, FusedAttend
from octavo.model.gpt import GPT, Block, PostNormBlock


def build_model(config: ModelConfig, *, vocab_size: int, seed: int, explicit_attention: bool = False) -> GPT:
    """A GPT with freshly drawn weights on the CPU, in float32; the same seed gives the same weights. Raises InputError,
    before they are drawn, where they are more than memory holds.

    With `explicit_attention` the attention weights exist as tensors and can be captured by name.
    """
    if torch.get_default_device().type != "meta":
        weights = accounting.FLOAT_BYTES * accounting.parameters(config, vocab_size=vocab_size)
        refuse_beyond_memory(weights, "The weights of this model take")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = assemble(config, vocab_size=vocab_size, explicit_attention=explicit_attention)
        if model.embedding.weight.device.type != "meta":
            config.initialization.build()(model)
    return model


def assemble(config: ModelConfig, *, vocab_size: int, explicit_attention: bool = False) -> GPT:
    """The modules without an initialization of their own (works under `torch.device("meta")`)."""
    embedding = nn.Embedding(vocab_size, config.width)
    head = nn.Linear(config.width, vocab_size, bias=config.head_bias)
    if config.tied:
        head.weight = embedding.weight
    return GPT(
        embedding=embedding,
        ngrams=config.ngrams.build(width=config.width),
        positions=config.positions.build(
            context=config.context, width=config.width, head_width=config.resolved_head_width
        ),
        embedding_norm=config.norm.build(width=config.width) if config.embedding_norm else nn.Identity(),
        dropout=config.dropout.embedding,
        blocks=[_block(config, explicit_attention) for _ in range(config.layers)],
        norm=config.norm.build(width=config.width) if config.final_norm else nn.Identity(),
        head=head,
        context=config.context,
        logit_softcap=config.logit_softcap,
    )


def _block(config: ModelConfig, explicit: bool) -> Block:
    scales = {"head": config.resolved_head_width**-0.5, "model": config.width**-0.5}
    scale = config.attention_scale
    attend = ExplicitAttend if explicit else FusedAttend
    attention = Attention(
        width=config.width,
        heads=config.heads,
        kv_heads=config.resolved_kv_heads,
        head_width=config.resolved_head_width,
        attend=attend(
            scale=scales[scale] if isinstance(scale, str) else scale, dropout=config.dropout.attention
        ),
        qkv_bias=config.qkv_bias,
        qk_norm=config.qk_norm,
        project=nn.Linear(config.query_width, config.width, bias=config.output_bias)
        if config.output_projection
        else nn.Identity(),
        dropout=config.dropout.projection,
    )
    kind = Block if config.norm_place == "pre" else PostNormBlock
    return kind(
        attention=attention,
        feed_forward=config.feed_forward.build(width=config.width, dropout=config.dropout.feed_forward),
        norms=(config.norm.build(width=config.width), config.norm.build(width=config.width)),
        residual=config.residual,
    )
