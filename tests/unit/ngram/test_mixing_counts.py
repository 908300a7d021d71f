"""A context mixer beside the network: where the gate begins, what of it learns where, and what a checkpoint holds.

That cached, native and full decoding agree, and that segments are kept apart, is in the contract of all models."""

from __future__ import annotations

import pickle
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from octavo.data.batch import SideInputs
from octavo.errors import CorpusError
from octavo.model.base import build_model
from octavo.model.config import GPTConfig
from octavo.model.gpt import GPT
from octavo.ngram import mixing_counts
from octavo.ngram.mixing import ContextMixing, compiled
from octavo.ngram.mixing_counts import MixingCounts
from octavo.ngram.slow_mixing import SlowMixing
from unit.model import preferences

V, C, T = 7, 6, 16
pytestmark = pytest.mark.skipif(compiled() is None, reason="there is no C compiler")


def text(length: int = 900, seed: int = 0) -> np.ndarray:
    return preferences.text(length, seed, vocabulary=V, evenly=0.3)


def held() -> np.ndarray:
    return np.arange(900) // 100 == 4


def counts_of(recent: int = 0, **given: Any) -> MixingCounts:
    torch.manual_seed(0)
    counts = MixingCounts(hidden=5, width=C, vocab_size=V, recent=recent)
    counts.take_text(text(), held(), spelt=lambda: "abcdef.", **given)
    return counts


def inputs(rows: int = 2) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    tokens = torch.from_numpy(text(rows * T, seed=3).reshape(rows, T).astype(np.int64))
    return torch.randn(rows, T, V), torch.randn(rows, T, C), tokens


def stirred(counts: MixingCounts) -> MixingCounts:
    """As after training."""
    preferences.trust_what_was_said(counts)
    with torch.no_grad():
        for weight in counts.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.3)
    return counts


def test_before_the_first_step_it_is_the_mixer_alone() -> None:
    counts, (logits, x, tokens) = counts_of().eval(), inputs()
    mixer = counts.tables
    spans = np.array([(row * T, row * T + end) for row in range(2) for end in range(1, T + 1)])
    expected = mixer.predict(tokens.numpy().ravel(), spans)[0].reshape(2, T, V)
    with torch.no_grad():
        np.testing.assert_allclose(counts(logits, x, tokens).numpy(), expected, atol=1e-4)


@given(st.integers(0, 1000), st.sampled_from([0, 9]), st.booleans())
@settings(max_examples=15, deadline=None)
def test_predictions_sum_to_one_and_depend_on_nothing_that_follows(
    seed: int, recent: int, trains: bool
) -> None:
    counts = stirred(counts_of(recent)).train(trains)
    torch.manual_seed(seed)
    logits, x, tokens = inputs()
    with torch.no_grad():
        whole = counts(5 * logits, x, tokens)
        cut = counts(5 * logits[:, :9], x[:, :9], tokens[:, :9])
    torch.testing.assert_close(whole.exp().sum(dim=-1), torch.ones(2, T), atol=1e-5, rtol=0)
    torch.testing.assert_close(whole[:, :9], cut, atol=1e-6, rtol=1e-6)


def test_what_is_held_out_is_not_known_while_it_trains() -> None:
    counts = counts_of()
    tokens = torch.from_numpy(text()[held()].astype(np.int64))[None]
    logits, x = torch.zeros(1, 100, V), torch.zeros(1, 100, C)
    with torch.no_grad():
        lost = [
            F.cross_entropy(counts.train(trains)(logits, x, tokens)[0, :-1], tokens[0, 1:]).item()
            for trains in (True, False)
        ]
    assert lost[1] < 0.7 * lost[0]
    anew = ContextMixing(counts._codes(text()), capacity=900)
    anew.read(counts._codes(text()).encode(np.concatenate((text()[~held()], text()[held()])))[0])
    np.testing.assert_array_equal(counts.tables.memory, anew.memory)


def test_a_gradient_reaches_the_gate_alone() -> None:
    config = GPTConfig.model_validate({"layers": 1, "width": 8, "heads": 2, "context": T, "counts": "mixing"})
    found = build_model(config, vocab_size=V, seed=0)
    assert isinstance(found, GPT)
    found.take_text(text(), held(), spelt=lambda: "abcdef.")
    tokens = inputs()[2]
    alone = torch.tensor([[1] * T, [0] * T])
    logits = found.train()(tokens, side=SideInputs(alone=alone))
    F.cross_entropy(logits[1], tokens[1]).backward()
    assert found.counts.out.weight.grad is not None and found.counts.out.weight.grad.any()
    assert found.embedding.weight.grad is None or not found.embedding.weight.grad.any()
    found.zero_grad(set_to_none=True)
    F.cross_entropy(found(tokens, side=SideInputs(alone=alone))[0], tokens[0]).backward()
    assert found.embedding.weight.grad is not None and found.embedding.weight.grad.any()


def test_the_sides_make_the_models_own_prediction() -> None:
    for recent in (0, 9):
        counts, (logits, x, tokens) = stirred(counts_of(recent)).eval(), inputs()
        targets = tokens.roll(-1, 1)
        sides = counts.sides(logits, x, tokens, targets=targets)
        assert sides is not None
        own = counts(logits, x, tokens).gather(2, targets[..., None]).flatten()
        torch.testing.assert_close(sides.together.log(), own.detach(), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(sides.weights.sum(dim=1), torch.ones(2 * T))
        assert sides.probabilities.shape == (2 * T, 2 + (recent > 0))


@pytest.mark.parametrize("again", [lambda one: pickle.loads(pickle.dumps(one)), deepcopy])
def test_copies_predict_the_same_bits(again: Any) -> None:
    counts, given = stirred(counts_of(9)).eval(), inputs()
    assert torch.equal(again(counts)(*given), counts(*given))


def test_what_is_saved_predicts_the_same_bits_elsewhere() -> None:
    counts, given = stirred(counts_of(9)).eval(), inputs()
    expected, saved = counts(*given), {name: value.clone() for name, value in counts.state_dict().items()}
    mixing_counts._held.clear()
    for first in (None, text(500, seed=7)):
        other = MixingCounts(hidden=5, width=C, vocab_size=V, recent=9).eval()
        if first is not None:
            other.take_text(first, None, spelt=lambda: "ABCDEF.")
        other.load_state_dict(saved)
        assert torch.equal(other(*given), expected)


def test_what_was_asked_before_is_answered_alike() -> None:
    counts = stirred(counts_of()).eval()
    given = inputs(rows=6)
    first = counts(*given)
    assert len(counts._remembered) == 1
    assert torch.equal(counts(*given), first)
    counts.take_text(text(seed=9), None, spelt=lambda: "abcdef.")
    assert not torch.equal(counts(*given), first)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("units", torch.zeros(V, 2, dtype=torch.uint8)),
        ("lengths", torch.full((V,), 3, dtype=torch.uint8)),
        ("kinds", torch.zeros(256)),
        ("tokens", torch.full((40,), V, dtype=torch.int32)),
    ],
)
def test_a_checkpoint_that_would_lead_the_kernel_astray_is_refused(name: str, value: torch.Tensor) -> None:
    counts = counts_of()
    with pytest.raises(RuntimeError, match=name):
        counts.load_state_dict(counts.state_dict() | {name: value})


def test_texts_that_cannot_be_read_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CorpusError, match="needs 32"):
        MixingCounts(hidden=2, width=C, vocab_size=V).take_text(text(31), None)
    monkeypatch.setattr(mixing_counts, "compiled", lambda: None)
    monkeypatch.setattr(mixing_counts, "MOST_WITHOUT_KERNEL", 800)
    with pytest.raises(CorpusError, match="C compiler"):
        MixingCounts(hidden=2, width=C, vocab_size=V).take_text(text(), None)


def test_without_a_kernel_the_twin_predicts_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    given, found = inputs(), []
    for kind in (ContextMixing, SlowMixing):
        mixing_counts._held.clear()
        monkeypatch.setattr(mixing_counts, "context_mixing", kind)
        counts = stirred(counts_of()).eval()
        found.append(counts(*given).detach())
        assert isinstance(counts.tables, kind)
    mixing_counts._held.clear()
    torch.testing.assert_close(found[0], found[1], atol=0.05, rtol=0)


def test_a_vocabulary_of_more_tokens_than_units_is_read_too() -> None:
    size = 400
    tokens = np.random.default_rng(0).integers(size // 2, size=600)
    counts = MixingCounts(hidden=3, width=C, vocab_size=size)
    counts.take_text(tokens, None)
    given = torch.zeros(1, 8, size), torch.zeros(1, 8, C), torch.from_numpy(tokens[:8])[None]
    torch.testing.assert_close(counts.eval()(*given).exp().sum(dim=-1), torch.ones(1, 8), atol=1e-5, rtol=0)
