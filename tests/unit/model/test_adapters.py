"""Low-rank adapters and the rows of added tokens: in pieces and joined they are the same model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from octavo.config import check
from octavo.config.parts import parts
from octavo.errors import ConfigError
from octavo.generation.native import NativeDecoder
from octavo.model.adapters import LowRank, LowRankConfig, adapted, apart, joined, merged
from octavo.model.base import build_model
from octavo.model.gpt import GPT
from octavo.training.recompute import recompute_blocks

V, ADDED = 13, 3
TOKENS = torch.randint(V, (2, 8), generator=torch.Generator().manual_seed(0))
SHAPES: list[dict[str, Any]] = [
    {},
    {"tied": True, "feed_forward": "swiglu", "kv_heads": 1, "positions": "rotary"},
    {"head_bias": True, "qkv_bias": True, "ngrams": "hashed", "norm_place": "post"},
]
shapes = pytest.mark.parametrize("settings", SHAPES, ids=str)


def gpt(**settings: Any) -> GPT:
    model = {"layers": 2, "width": 16, "heads": 2, "context": 8, **settings}
    return build_model(check({"model": model}).model, vocab_size=V, seed=1).eval()


def with_adapters(model: GPT, *, added: int = ADDED, moved: bool = False, **settings: Any) -> GPT:
    """The same model with adapters, which have learned something if `moved`."""
    LowRankConfig.model_validate({"rank": 4, **settings}).attach(model, added=added, seed=5)
    for index, each in enumerate(p for p in model.parameters() if p.requires_grad and moved):
        nn.init.normal_(each, generator=torch.Generator().manual_seed(index))
    return model


@shapes
def test_at_first_it_is_the_base_to_the_bit(settings: dict[str, Any]) -> None:
    base, model = gpt(**settings), with_adapters(gpt(**settings))
    with torch.no_grad():
        assert torch.equal(model(TOKENS), base(TOKENS))
    found = joined(model, dict(model.named_parameters()))
    expected = dict(base.named_parameters())
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    again = apart(model, found)
    assert again.keys() == dict(model.named_parameters()).keys()
    assert all(torch.equal(again[name], each) for name, each in model.named_parameters())


@shapes
def test_merged_logits_are_those_in_pieces(settings: dict[str, Any]) -> None:
    model = with_adapters(gpt(**settings).double(), moved=True)
    used, base = merged(model), gpt(**settings).double()
    assert not adapted(used) and adapted(model) and type(used) is GPT
    with torch.no_grad():
        logits = model(TOKENS)
        assert (logits - base(TOKENS)).abs().max() > 0.1
        torch.testing.assert_close(used(TOKENS), logits, rtol=1e-12, atol=1e-12)
    filled = gpt(**settings).double()
    missing, unexpected = filled.load_state_dict(joined(model, dict(model.named_parameters())), strict=False)
    assert not unexpected and missing in ([], ["lm_head.weight"])
    with torch.no_grad():
        assert torch.equal(filled(TOKENS), used(TOKENS))


def test_the_kernel_writes_with_what_is_merged() -> None:
    model = with_adapters(gpt(), moved=True)
    assert not NativeDecoder.fits(model)
    assert NativeDecoder.fits(merged(model)) == NativeDecoder.fits(gpt())
    plain = gpt()
    assert merged(plain) is plain


@shapes
@pytest.mark.parametrize("kind", parts("optimizer"))
def test_nothing_else_is_trained(settings: dict[str, Any], kind: str) -> None:
    model = with_adapters(gpt(**settings))
    before = {name: each.clone() for name, each in model.named_parameters()}
    optimizers = parts("optimizer")[kind]().build(model)
    for _ in range(2):  # B is zero, so at first A has no gradient
        F.cross_entropy(model(TOKENS).flatten(0, 1), TOKENS.flatten()).backward()
        for one in optimizers:
            one.step()
            one.zero_grad()
    last = {name.rpartition(".")[2] for name, each in model.named_parameters() if each.requires_grad}
    assert last == {"lora_a", "lora_b", "added"}
    owned = [each for one in optimizers for group in one.param_groups for each in group["params"]]
    assert len({id(each) for each in owned}) == len(owned)
    assert {id(each) for each in owned} == {id(each) for each in model.parameters() if each.requires_grad}
    for name, each in model.named_parameters():
        assert torch.equal(each, before[name]) != each.requires_grad, name


def test_gradients_are_those_of_the_weight_by_the_chain_rule() -> None:
    settings = {"tied": True}
    model = with_adapters(gpt(**settings).double(), moved=True)
    used = merged(model).requires_grad_()
    for one in (model, used):
        F.cross_entropy(one(TOKENS).flatten(0, 1), TOKENS.flatten()).backward()
    layer, plain = model.blocks[0].attention.qkv, used.blocks[0].attention.qkv
    assert isinstance(layer, LowRank) and plain.weight.grad is not None
    torch.testing.assert_close(layer.lora_a.grad, layer.scale * layer.lora_b.T @ plain.weight.grad)
    torch.testing.assert_close(layer.lora_b.grad, layer.scale * plain.weight.grad @ layer.lora_a.T)
    rows: Any = model.embedding
    theirs: list[Tensor] = [used.embedding.weight.grad[-ADDED:], used.lm_head.weight.grad[-ADDED:]]
    torch.testing.assert_close(rows.added.grad, theirs[0] + theirs[1])
    again = recomputing(with_adapters(gpt(**settings).double(), moved=True))
    F.cross_entropy(again.train()(TOKENS).flatten(0, 1), TOKENS.flatten()).backward()
    torch.testing.assert_close(again.blocks[0].attention.qkv.lora_a.grad, layer.lora_a.grad)


def recomputing(model: GPT) -> Any:
    recompute_blocks(model)
    return model


def test_targets_are_layers_or_the_parts_they_stand_in() -> None:
    def names(**settings: Any) -> set[str]:
        found = adapted(with_adapters(gpt(), **settings))
        return {name.removeprefix("blocks.1.") for name in found if not name.startswith("blocks.0.")}

    attention = {"attention.qkv", "attention.project"}
    assert names(added=0) == attention | {"feed_forward.up_proj", "feed_forward.down_proj"}
    assert names(added=0, targets=["attention"]) == attention
    assert names(targets=["qkv", "up_proj"]) == {
        "attention.qkv",
        "feed_forward.up_proj",
        "embedding",
        "lm_head",
    }


def refused(made: Callable[[], Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        made()
    assert said in f"{caught.value.what} {caught.value.problems} {caught.value.remedy}"


def test_what_cannot_be_adapted() -> None:
    refused(lambda: with_adapters(gpt(), rank=17), "a rank of at most 16")
    with_adapters(gpt(), rank=16)
    refused(lambda: with_adapters(gpt(), targets=["qvk"]), "there are: attention, down_proj, feed_forward")
    bare = gpt(feed_forward="none", layers=1)
    bare.blocks = nn.ModuleList()  # pyrefly: ignore
    refused(lambda: with_adapters(bare), "has no linear layers")
    for rank in (0, -1, 1.5):
        tree = {"start_from": "/runs/base", "adapters": {"rank": rank}}
        refused(lambda tree=tree: check({"training": tree}), "training.adapters")
    refused(lambda: check({"training": {"adapters": "lora"}}), "name a run in start_from")
    refused(lambda: check({"training": {"adapters": {"rank": 8, "alpha": float("nan")}}}), "alpha")
