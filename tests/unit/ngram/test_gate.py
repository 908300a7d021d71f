"""The gate over counts before the first step."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from octavo.ngram import gate as first_gate
from octavo.ngram.gate import HeldOut, best_weights, fit
from octavo.ngram.kneser_ney import KneserNey, predict, tables_of
from unit.model import preferences

V, K, H, SHARE = 7, 5, 8, 0.02


def text(length: int) -> np.ndarray:
    return preferences.text(length, 0, vocabulary=V, evenly=0.2)


def blocks(length: int, *, size: int = 60, every: int = 4) -> np.ndarray:
    """Every so manieth block is held out."""
    return np.arange(length) // size % every == 1


def held_out(length: int = 2400) -> HeldOut:
    tokens, apart = text(length), blocks(length)
    counted = KneserNey(tokens[~apart], vocab_size=V, highest=K)
    return HeldOut.of(tables_of(counted), tokens, apart)


def test_each_order_says_what_it_says_alone() -> None:
    tokens, apart = text(600), blocks(600)
    counted = KneserNey(tokens[~apart], vocab_size=V, highest=K)
    wanted = [
        np.stack(list(predict(counted.levels, tokens[begin : begin + 60], vocab_size=V)), axis=1)[1:]
        for begin in (60, 300, 540)
    ]
    found = HeldOut.of(tables_of(counted), tokens, apart)
    np.testing.assert_allclose(found.probabilities, np.concatenate(wanted), rtol=1e-5)
    assert found.known.shape == (177, 2 * (K - 1))


def test_of_many_tokens_some_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    every = held_out()
    monkeypatch.setattr(first_gate, "MOST", 50)
    some = held_out()
    chosen = np.linspace(0, len(every.known) - 1, 50).astype(int)
    np.testing.assert_array_equal(some.known, every.known[chosen])
    np.testing.assert_array_equal(some.probabilities, every.probabilities[chosen])


def test_no_fixed_weights_are_better() -> None:
    p = held_out().probabilities
    weights = best_weights(p)
    assert weights.sum() == pytest.approx(1)
    loss = -np.log(p @ weights).mean()
    assert loss <= -np.log(p).mean(axis=0).min(), "no order alone"
    random = np.random.default_rng(0)
    for _ in range(200):
        assert loss <= -np.log(p @ random.dirichlet(np.ones(K))).mean() + 1e-3


def gate() -> tuple[nn.Linear, nn.Linear, nn.Linear]:
    """With a column for each of two more things that it hears of the network."""
    torch.manual_seed(0)
    return nn.Linear(4, H, bias=False), nn.Linear(2 * K, H), nn.Linear(H, K + 1)


def begun(found: HeldOut) -> tuple[nn.Linear, nn.Linear, nn.Linear]:
    """A gate with the best fixed weights."""
    layers = gate()
    shares = np.concatenate(([SHARE], (1 - SHARE) * best_weights(found.probabilities)))
    with torch.no_grad():
        layers[2].weight.zero_()
        layers[2].bias.copy_(torch.from_numpy(np.log(np.maximum(shares, 1e-6))))
    return layers


def weights_of(layers: tuple[nn.Linear, nn.Linear, nn.Linear], known: np.ndarray) -> torch.Tensor:
    """(N, K + 1), whatever state and network are."""
    from_state, from_known, out = layers
    heard = torch.cat((torch.from_numpy(known), torch.randn(len(known), 2)), dim=1)
    with torch.no_grad():
        return out((from_state(torch.randn(len(known), 4)) + from_known(heard)).relu()).softmax(dim=1)


def loss_of(layers: tuple[nn.Linear, nn.Linear, nn.Linear], found: HeldOut) -> float:
    """Of the orders alone."""
    weights = weights_of(layers, found.known)[:, 1:]
    mixed = (weights / weights.sum(dim=1, keepdim=True) * torch.from_numpy(found.probabilities)).sum(dim=1)
    return -float(mixed.log().mean())


def test_how_often_a_context_was_seen_tells_whom_to_trust() -> None:
    """On the tokens that it learned from, and on others of the same text's kind."""
    tokens = text(9000)
    apart = blocks(9000)
    first = apart & (np.arange(9000) < 6000)
    tables = tables_of(KneserNey(tokens[~apart], vocab_size=V, highest=K))
    own, others = (HeldOut.of(tables, tokens, each) for each in (first, apart & ~first))
    layers = begun(own)
    before = [loss_of(layers, each) for each in (own, others)]
    fit(own, *layers)
    after = [loss_of(layers, each) for each in (own, others)]
    assert after[0] < before[0] - 0.002
    assert after[1] < before[1] - 0.001


def test_the_network_keeps_its_share() -> None:
    found = held_out()
    layers = begun(found)
    kept = layers[2].bias[0].item()
    fit(found, *layers)
    shares = weights_of(layers, found.known)[:, 0]
    assert layers[2].bias[0].item() == kept and not layers[2].weight[0].any()
    assert shares.mean().item() == pytest.approx(SHARE, rel=0.1)
    assert SHARE / 2 < shares.min().item() <= shares.max().item() < 2 * SHARE


def test_it_is_the_same_again() -> None:
    found = held_out()
    one, other = begun(found), begun(found)
    fit(found, *one)
    fit(found, *other)
    assert all(torch.equal(a.weight, b.weight) for a, b in zip(one, other, strict=True))


def test_a_text_too_short_to_tell_leaves_the_fixed_weights() -> None:
    """One token is held out, and nothing before it."""
    tokens, apart = text(40), np.arange(40) == 7
    found = HeldOut.of(tables_of(KneserNey(tokens[~apart], vocab_size=V, highest=K)), tokens, apart)
    assert not len(found.known)
    assert best_weights(found.probabilities) == pytest.approx(np.full(K, 1 / K))
    layers = begun(found)
    kept = layers[1].weight.clone()
    fit(found, *layers)
    assert torch.equal(layers[1].weight, kept)
