"""Llama as Hugging Face has it, tiny and with random weights, against the same weights in our GPT."""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch
from torch import Tensor, nn

from octavo.generation.cached import CachedDecoder
from octavo.model.base import build_model
from octavo.model.config import GPTConfig
from octavo.model.gpt import GPT

transformers = pytest.importorskip("transformers")

V, T, C, H, G, L, F, BASE = 37, 24, 32, 4, 2, 3, 40, 500.0
CONFIG = GPTConfig.model_validate(
    {
        "layers": L,
        "width": C,
        "heads": H,
        "kv_heads": G,
        "context": T,
        "positions": {"kind": "rotary", "base": BASE},
        "norm": {"kind": "rms", "eps": 1e-6},
        "output_bias": False,
        "feed_forward": {"kind": "swiglu", "width": F},
    }
)


@pytest.fixture(scope="module")
def theirs() -> nn.Module:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=V,
        hidden_size=C,
        intermediate_size=F,
        num_hidden_layers=L,
        num_attention_heads=H,
        num_key_value_heads=G,
        max_position_embeddings=T,
        rms_norm_eps=1e-6,
        tie_word_embeddings=False,
        attn_implementation="eager",
    )
    if getattr(config, "rope_parameters", None) is not None:  # where transformers keeps the base since 5.0
        config.rope_parameters = config.rope_parameters | {"rope_theta": BASE}
    else:
        config.rope_theta = BASE
    model = transformers.LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return model


@pytest.fixture(scope="module")
def ours(theirs: nn.Module) -> GPT:
    model = build_model(CONFIG, vocab_size=V, seed=0).eval()
    model.load_state_dict(llama_weights(theirs.state_dict()))
    return model


def llama_weights(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Their tensors by our names; what we multiply at once stands in their matrices one by one."""
    joined = {
        "attention_norm": ["input_layernorm"],
        "attention.qkv": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
        "attention.project": ["self_attn.o_proj"],
        "feed_forward_norm": ["post_attention_layernorm"],
        "feed_forward.gate_up_proj": ["mlp.gate_proj", "mlp.up_proj"],
        "feed_forward.down_proj": ["mlp.down_proj"],
    }
    weights = {
        "embedding.weight": theirs["model.embed_tokens.weight"],
        "norm.weight": theirs["model.norm.weight"],
        "lm_head.weight": theirs["lm_head.weight"],
    }
    for layer in range(L):
        for our, several in joined.items():
            pieces = [theirs[f"model.layers.{layer}.{their}.weight"] for their in several]
            weights[f"blocks.{layer}.{our}.weight"] = torch.cat(pieces)
    return weights


def tokens(length: int = T) -> Tensor:
    return torch.randint(V, (3, length), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
@pytest.mark.parametrize("length", [1, 7, T])
def test_logits(ours: GPT, theirs: nn.Module, length: int) -> None:
    assert (ours(tokens(length)) - theirs(tokens(length)).logits).abs().max() <= 1e-5


def test_gradients(ours: GPT, theirs: nn.Module) -> None:
    def loss(logits: Tensor) -> Tensor:
        return nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens()[:, 1:].flatten())

    loss(ours(tokens())).backward()
    loss(theirs(tokens()).logits).backward()
    expected = llama_weights({name: p.grad for name, p in theirs.named_parameters()})
    for name, parameter in ours.named_parameters():
        assert (parameter.grad - expected[name]).abs().max() <= 1e-5, name


@torch.no_grad()
def test_each_part(ours: GPT, theirs: nn.Module) -> None:
    x = torch.randn(2, 9, C, generator=torch.Generator().manual_seed(2))
    turns = theirs.model.rotary_emb(x, torch.arange(9)[None])
    for found, expected in zip(ours.positions.rotation(0, 9), turns, strict=True):
        assert (
            torch.cat((found, found), dim=1) - expected[0]
        ).abs().max() <= 1e-6  # theirs stand there twice
    rotation = ours.positions.rotation(0, 9)
    mask = torch.full((9, 9), -torch.inf).triu(1)[None, None]
    for our, their in zip(ours.blocks, theirs.model.layers, strict=True):
        attended = their.self_attn(x, position_embeddings=turns, attention_mask=mask)[0]
        block = their(x, position_embeddings=turns, attention_mask=mask)
        for found, expected in [
            (our.attention_norm(x), their.input_layernorm(x)),
            (our.feed_forward(x), their.mlp(x)),
            (our.attention(x, rotation), attended),
            (our(x, rotation), block if isinstance(block, Tensor) else block[0]),
        ]:
            assert (found - expected).abs().max() <= 1e-5


@torch.no_grad()
def test_greedy_text(ours: GPT, theirs: nn.Module) -> None:
    text = tokens(4)
    decoder, new = CachedDecoder(ours, slots=3), text
    found = []
    for _ in range(20):
        text = torch.cat((text, theirs(text).logits[:, -1:].argmax(dim=-1)), dim=1)
        new = decoder.feed(dict(enumerate(new.tolist()))).argmax(dim=-1)[:, None]
        found.append(new)
    assert torch.equal(torch.cat(found, dim=1), text[:, 4:])
    assert len(text[:, 4:].unique()) > 2, "a text of one token would prove little"
