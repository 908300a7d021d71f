"""GPT-2 as Hugging Face has it, tiny and with random weights, against the same weights in our GPT."""

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

V, T, C, H, L = 37, 24, 32, 4, 3
CONFIG = GPTConfig.model_validate(
    {
        "layers": L,
        "width": C,
        "heads": H,
        "context": T,
        "positions": "learned",
        "norm": {"kind": "layer", "eps": 1e-5},
        "qkv_bias": True,
        "feed_forward": "gelu_tanh",
        "tied": True,
    }
)


@pytest.fixture(scope="module")
def theirs() -> nn.Module:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=V, n_positions=T, n_embd=C, n_layer=L, n_head=H, attn_implementation="eager"
    )
    model = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # biases and scales as well, and large enough to matter
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return model


@pytest.fixture(scope="module")
def ours(theirs: nn.Module) -> GPT:
    model = build_model(CONFIG, vocab_size=V, seed=0).eval()
    model.load_state_dict(gpt2_weights(theirs.transformer.state_dict()))
    return model


def gpt2_weights(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Their tensors by our names; theirs are (inputs, outputs), ours (outputs, inputs)."""
    names = {
        "ln_1": "attention_norm",
        "attn.c_attn": "attention.qkv",
        "attn.c_proj": "attention.project",
        "ln_2": "feed_forward_norm",
        "mlp.c_fc": "feed_forward.up_proj",
        "mlp.c_proj": "feed_forward.down_proj",
    }
    weights = {"embedding.weight": theirs["wte.weight"], "lm_head.weight": theirs["wte.weight"]}
    weights["positions.weight"] = theirs["wpe.weight"]
    for end in ("weight", "bias"):
        weights[f"norm.{end}"] = theirs[f"ln_f.{end}"]
        for layer in range(L):
            for their, our in names.items():
                tensor = theirs[f"h.{layer}.{their}.{end}"]
                weights[f"blocks.{layer}.{our}.{end}"] = tensor.T if tensor.ndim == 2 else tensor
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
    expected = gpt2_weights({name: p.grad for name, p in theirs.transformer.named_parameters()})
    for name, parameter in ours.named_parameters():
        assert (parameter.grad - expected[name]).abs().max() <= 1e-5, name


@torch.no_grad()
def test_each_part(ours: GPT, theirs: nn.Module) -> None:
    x = torch.randn(2, 9, C, generator=torch.Generator().manual_seed(2))
    for our, their in zip(ours.blocks, theirs.transformer.h, strict=True):
        for found, expected in [
            (our.attention_norm(x), their.ln_1(x)),
            (our.feed_forward(x), their.mlp(x)),
            (our(x), _first(their(x, attention_mask=_mask(9)))),
            (our.attention(x), _first(their.attn(x, attention_mask=_mask(9)))),
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


def _first(output: Tensor | tuple[Tensor, ...]) -> Tensor:
    return output if isinstance(output, Tensor) else output[0]


def _mask(length: int) -> Tensor:
    return torch.full((length, length), -torch.inf).triu(1)[None, None]
