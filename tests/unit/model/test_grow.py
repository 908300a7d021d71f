"""More tokens and fewer positions for a trained model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from octavo.config import check
from octavo.errors import InputError
from octavo.model.base import LanguageModel, build_model
from octavo.model.gpt import GPT
from octavo.model.grow import grow_vocabulary


def gpt(vocab_size: int = 11, seed: int = 1, **settings: Any) -> GPT:
    model = {"layers": 2, "width": 16, "heads": 2, "context": 8, **settings}
    return build_model(check({"model": model}).model, vocab_size=vocab_size, seed=seed).eval()


SHAPES = [{}, {"tied": True}, {"head_bias": True}, {"tied": True, "head_bias": True, "ngrams": "hashed"}]


@pytest.mark.parametrize("settings", SHAPES, ids=str)
def test_old_rows_stay_to_the_bit_and_new_ones_are_their_mean(settings):
    before, grown = gpt(**settings), gpt(**settings)
    grow_vocabulary(grown, 14)
    assert grown.vocab_size == 14
    old, new = before.state_dict(), grown.state_dict()
    assert old.keys() == new.keys()
    for name, weight in old.items():
        if name in ("embedding.weight", "lm_head.weight", "lm_head.bias"):
            assert torch.equal(new[name][:11], weight)
            mean = weight.double().mean(dim=0).float()
            assert all(torch.equal(row, mean) for row in new[name][11:]) and len(new[name]) == 14
        else:
            assert torch.equal(new[name], weight)
    assert (grown.lm_head.weight is grown.embedding.weight) == settings.get("tied", False)
    assert all(parameter.requires_grad for parameter in grown.parameters())


@pytest.mark.parametrize("settings", SHAPES, ids=str)
def test_logits_of_old_tokens_are_the_same(settings):
    before, grown = gpt(**settings), gpt(**settings)
    grow_vocabulary(grown, 12)
    tokens = torch.tensor([[1, 2, 10, 0, 5]])
    with torch.no_grad():
        logits, found = before(tokens), grown(tokens)
        torch.testing.assert_close(found[..., :11], logits, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(found[..., 11], logits.mean(dim=-1), rtol=1e-4, atol=1e-5)
        assert grown(torch.tensor([[11, 3]])).isfinite().all()


@pytest.mark.parametrize("settings", SHAPES, ids=str)
def test_a_grown_model_is_one_that_is_built_so(settings):
    grown, built = gpt(**settings), gpt(vocab_size=20, seed=2, **settings)
    grow_vocabulary(grown, 20)
    built.load_state_dict(grown.state_dict())
    tokens = torch.tensor([[19, 1, 2]])
    assert torch.equal(built(tokens), grown(tokens))
    grown(tokens).sum().backward()
    assert grown.embedding.weight.grad is not None and grown.embedding.weight.grad.shape == (20, 16)


def test_as_many_tokens_as_before_change_nothing():
    model = gpt()
    weight = model.embedding.weight
    grow_vocabulary(model, 11)
    assert model.embedding.weight is weight


def test_a_kind_without_these_rows_says_so():
    class Other(LanguageModel):
        vocab_size = 4

        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(4, 3)

    with pytest.raises(InputError, match="A Other cannot take more than its 4 tokens"):
        grow_vocabulary(Other(), 5)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary", "none"])
def test_a_shortened_model_is_the_same_on_short_texts(positions):
    before, model = gpt(positions=positions), gpt(positions=positions)
    model.shorten(5)
    tokens = torch.tensor([[1, 2, 10, 0, 5]])
    assert model.context == 5 and torch.equal(model(tokens), before(tokens))
    built = gpt(positions=positions, context=5, seed=2)
    built.load_state_dict(model.state_dict())
    assert torch.equal(built(tokens), before(tokens))


def test_the_config_knows_which_contexts_go():
    for positions, longest in (("learned", 8), ("sinusoidal", 2**24), ("rotary", 2**24), ("none", 2**24)):
        assert check({"model": {"context": 8, "positions": positions}}).model.contexts == (1, longest)
