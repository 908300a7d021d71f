"""A context mixer that hears the network: what of it learns where, and what a checkpoint holds.

That cached, native and full decoding agree, and that segments are kept apart, is in the contract of all models."""

from __future__ import annotations

import gc
import pickle
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from octavo.data.batch import NO_SIDE_INPUTS, Batch, SideInputs
from octavo.errors import CorpusError
from octavo.model.base import build_model
from octavo.model.config import GPTConfig
from octavo.model.gpt import GPT
from octavo.ngram import kneser_ney, mixing_counts
from octavo.ngram.kneser_ney import tables_of
from octavo.ngram.mixing import ContextMixing, compiled
from octavo.ngram.mixing_counts import MixingCounts, MixingCountsConfig
from octavo.ngram.slow_mixing import WEIGHTS, SlowMixing
from octavo.training.objective import NEXT_TOKEN
from unit.model import preferences

V, C, T = 7, 6, 16
pytestmark = pytest.mark.skipif(compiled() is None, reason="there is no C compiler")


def text(length: int = 900, seed: int = 0) -> np.ndarray:
    return preferences.text(length, seed, vocabulary=V, evenly=0.3)


def held() -> np.ndarray:
    return np.arange(900) // 100 == 4


def counts_of(**given: Any) -> MixingCounts:
    counts = MixingCounts(vocab_size=V)
    counts.take_text(text(), held(), spelt=lambda: "abcdef.", **given)
    return counts


def inputs(rows: int = 2) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(rows)
    tokens = torch.from_numpy(text(rows * T, seed=3).reshape(rows, T).astype(np.int64))
    return 3 * torch.randn(rows, T, V), torch.randn(rows, T, C), tokens


def said(tokens: torch.Tensor) -> torch.Tensor:
    """A network that says something of every token."""
    return torch.sin(torch.arange(V) * (1.0 + tokens[..., None])) * 2


def heard() -> MixingCounts:
    counts = counts_of()
    counts.hear(said, T)
    return counts.eval()


def model(recent: int = 0) -> GPT:
    counts = {"kind": "mixing", "recent": recent}
    config = GPTConfig.model_validate({"layers": 1, "width": 8, "heads": 2, "context": T, "counts": counts})
    found = build_model(config, vocab_size=V, seed=0)
    assert isinstance(found, GPT)
    found.take_text(text(), held(), spelt=lambda: "abcdef.")
    return found


def test_it_predicts_as_the_mixer_does_that_hears_the_network() -> None:
    counts, (logits, x, tokens) = heard(), inputs()
    spans = np.array([(row * T, row * T + end) for row in range(2) for end in range(1, T + 1)])
    expected = counts.tables.predict(tokens.numpy().ravel(), spans, logits.view(2 * T, V).numpy())
    np.testing.assert_array_equal(counts(logits, x, tokens).numpy(), expected.reshape(2, T, V))
    assert not np.array_equal(counts.tables.weights, counts.alone.weights)


@given(st.integers(0, 1000))
@settings(max_examples=15, deadline=None)
def test_predictions_sum_to_one_and_depend_on_nothing_that_follows(seed: int) -> None:
    counts = heard()
    torch.manual_seed(seed)
    logits, (_, x, tokens) = 10 * torch.randn(2, T, V), inputs()
    whole = counts(logits, x, tokens)
    cut = counts(logits[:, :9], x[:, :9], tokens[:, :9])
    torch.testing.assert_close(whole.exp().sum(dim=-1), torch.ones(2, T), atol=1e-5, rtol=0)
    assert torch.equal(whole[:, :9], cut)


def test_what_the_network_is_worth_is_learned_from_text_that_is_new_to_both() -> None:
    """The held-out tokens are read last, with what the network says of each after those before it in its window."""
    counts = counts_of()
    assert counts.is_stale
    counts.hear(said, T)
    assert not counts.is_stale
    tail = text()[held()]
    mixer = ContextMixing(counts._codes(text()), capacity=900)
    mixer.read(text()[~held()])
    logits = said(torch.from_numpy(tail[:-1].astype(np.int64)))
    told = np.concatenate((np.full((1, 16), -1, np.float32), mixer.hear(logits.numpy(), tail[1:])))
    mixer.read(tail, told)
    np.testing.assert_array_equal(counts.weights.numpy(), mixer.weights)
    anew = ContextMixing(counts._codes(text()), capacity=900)
    anew.read(np.concatenate((text()[~held()], tail)))
    np.testing.assert_array_equal(counts.tables.memory, anew.memory)


def test_the_network_is_heard_again_where_it_has_learned_since() -> None:
    found = model().eval()
    tokens = inputs()[2]
    first = found(tokens)
    weights = found.counts.weights.clone()
    assert torch.equal(found(tokens), first) and torch.equal(found.counts.weights, weights)
    found.train()(tokens)
    with torch.no_grad():
        found.lm_head.weight.add_(torch.randn_like(found.lm_head.weight))
    found.eval()(tokens)
    assert not torch.equal(found.counts.weights, weights)
    found.train()
    assert found.counts.is_stale is False, "a text that is read changes nothing; only learning does"


def test_the_network_learns_by_itself() -> None:
    found, tokens = model().train(), inputs()[2]
    plain = build_model(
        GPTConfig.model_validate({"layers": 1, "width": 8, "heads": 2, "context": T}), vocab_size=V, seed=0
    )
    assert torch.equal(found(tokens), plain(tokens))
    F.cross_entropy(found(tokens)[0], tokens[0]).backward()
    assert found.embedding.weight.grad is not None and found.embedding.weight.grad.any()
    assert not list(found.counts.parameters())


def test_one_token_is_scored_as_among_all() -> None:
    found, (_, _, tokens) = model().eval(), inputs()
    targets = tokens.roll(-1, 1)
    own = found.judged(tokens, targets, NO_SIDE_INPUTS)
    assert own is not None
    logs = found(tokens)
    assert torch.equal(own[0], logs.gather(2, targets[..., None])[..., 0])
    assert torch.equal(own[1], logs.argmax(dim=-1) == targets)
    judged = NEXT_TOKEN.evaluate(found, Batch(inputs=tokens, targets=targets.where(targets > 0, -1)))
    torch.testing.assert_close(judged.losses, torch.where(targets > 0, -own[0], 0))


def test_what_a_text_has_said_is_mixed_in_after_the_mixer() -> None:
    found, alone = model(recent=40), model().eval()
    assert isinstance(found.counts, MixingCounts) and found.counts.recent is not None
    assert found.counts.before == 256 and found.counts.near == 256
    found.counts.recent.start(0.3)
    found.eval()
    tokens = inputs(1)[2].repeat(1, 3)[:, :T]
    earlier = inputs(1)[2].repeat(1, 4)
    side = SideInputs(earlier=earlier)
    logs, plain = found(tokens, side=side), alone(tokens, side=side)
    np.testing.assert_allclose(logs.detach().exp().sum(dim=-1), 1, atol=1e-5)
    texts = found.counts.recent.texts(tokens, earlier)
    shares, (_, rest) = found.counts.recent.shares(texts).numpy(), texts.shares_of(np.zeros(T, np.int32))
    for token in range(V):
        said, _ = texts.shares_of(np.full(T, token, np.int32))
        before = plain.detach().exp().numpy()[0, :, token]
        expected = (1 - shares) * before + shares * (said + rest * before)
        np.testing.assert_allclose(logs.detach().exp().numpy()[0, :, token], expected, atol=1e-6)
    targets = tokens.roll(-1, 1)
    own = found.judged(tokens, targets, side)
    assert own is not None
    torch.testing.assert_close(own[0], logs.gather(2, targets[..., None])[..., 0])
    assert torch.equal(own[1], logs.argmax(dim=-1) == targets)
    network, x, before = found.network(tokens, None, side)
    sides = found.counts.sides(network, x, tokens, before, targets=targets)
    assert sides is not None and sides.weights.shape == (T, 3)
    torch.testing.assert_close(sides.weights.sum(dim=1), torch.ones(T))
    torch.testing.assert_close(sides.together.log(), own[0].flatten())


def test_what_a_text_has_said_gets_a_share_where_texts_repeat_themselves() -> None:
    """Pages of which each says something of its own again and again; nothing where all is chance."""
    random = np.random.default_rng(0)
    pages = [np.tile(random.integers(V, size=9), 40) for _ in range(40)]
    shares = []
    for tokens in (np.concatenate(pages), random.integers(V, size=14_400)):
        counts = MixingCounts(vocab_size=V, recent=400)
        counts.take_text(tokens, None, spelt=lambda: "abcdef.")
        assert counts.recent is not None
        new = torch.from_numpy(np.tile(random.integers(V, size=9), 10))[None]
        shares.append(float(counts.recent.shares(counts.recent.texts(new)).mean()))
    assert shares[0] > 0.3 and shares[1] < 0.01


def test_the_sides_are_the_network_and_the_mixer_alone() -> None:
    counts, (logits, x, tokens) = heard(), inputs()
    targets = tokens.roll(-1, 1)
    sides = counts.sides(logits, x, tokens, targets=targets)
    assert sides is not None
    own = counts(logits, x, tokens).gather(2, targets[..., None]).flatten()
    torch.testing.assert_close(sides.together.log(), own)
    torch.testing.assert_close(sides.weights.sum(dim=1), torch.ones(2 * T))
    assert (sides.weights > 0).all()
    network = logits.log_softmax(dim=-1).gather(2, targets[..., None]).flatten()
    torch.testing.assert_close(sides.probabilities[:, 0].log(), network)


@pytest.mark.parametrize("again", [lambda one: pickle.loads(pickle.dumps(one)), deepcopy])
def test_copies_predict_the_same_bits(again: Any) -> None:
    counts, given = heard(), inputs()
    assert torch.equal(again(counts)(*given), counts(*given))


def test_what_is_saved_predicts_the_same_bits_elsewhere() -> None:
    counts, given = heard(), inputs()
    expected, saved = counts(*given), {name: value.clone() for name, value in counts.state_dict().items()}
    mixing_counts._held.clear()
    for first in (None, text(500, seed=7)):
        other = MixingCounts(vocab_size=V).eval()
        if first is not None:
            other.take_text(first, None, spelt=lambda: "ABCDEF.")
        other.load_state_dict(saved)
        assert not other.is_stale
        assert torch.equal(other(*given), expected)


def test_n_grams_for_drafts_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counts, counted = counts_of(), []
    monkeypatch.setattr(kneser_ney, "tables_of", lambda model: counted.append(model) or tables_of(model))
    for _ in range(2):
        assert counts.ngrams() is not None
        gc.collect()  # what nobody holds is gone
    assert len(counted) == 1
    counts.take_text(text(seed=9), None, spelt=lambda: "abcdef.")
    counts.ngrams()
    assert len(counted) == 2


def test_of_a_long_text_it_reads_the_last_part_as_if_that_were_all() -> None:
    """What is held out from the network, which is read last, is in it."""
    given, most = inputs(), 500
    limited = MixingCounts(vocab_size=V, most=most)
    limited.take_text(text(), held(), spelt=lambda: "abcdef.")
    whole = MixingCounts(vocab_size=V)
    part, there = np.concatenate((text()[~held()], text()[held()]))[-most:], np.arange(most) >= most - 100
    whole.take_text(part, there, spelt=lambda: "abcdef.")
    for counts in (limited, whole):
        counts.hear(said, T)
    assert limited.tokens.tolist() == part.tolist()
    assert torch.equal(limited.eval()(*given), whole.eval()(*given))
    longer = MixingCounts(vocab_size=V, most=2000)
    longer.take_text(text(), held(), spelt=lambda: "abcdef.")
    assert len(longer.tokens) == 900
    config = MixingCountsConfig(most=mixing_counts.MOST_HEARD)
    few, many = (np.zeros(tokens, np.int32) for tokens in (mixing_counts.MOST_HEARD, 1_000_000))
    assert config.table_bytes(many, vocab_size=V) == config.table_bytes(few, vocab_size=V)


def test_another_text_is_another_mixer() -> None:
    counts, given = heard(), inputs()
    first = counts(*given)
    counts.take_text(text(seed=9), None, spelt=lambda: "abcdef.")
    assert not torch.equal(counts(*given), first)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("units", torch.zeros(V, 2, dtype=torch.uint8)),
        ("lengths", torch.full((V,), 3, dtype=torch.uint8)),
        ("kinds", torch.zeros(256)),
        ("tokens", torch.full((40,), V, dtype=torch.int32)),
        ("weights", torch.full((WEIGHTS,), torch.nan)),
        ("weights", torch.zeros(5)),
        ("mixer_version", torch.tensor(1, dtype=torch.uint8)),
        ("mixer_version", torch.tensor(2)),
    ],
)
def test_a_checkpoint_that_would_lead_the_kernel_astray_is_refused(name: str, value: torch.Tensor) -> None:
    counts = counts_of()
    with pytest.raises(RuntimeError, match=name):
        counts.load_state_dict(counts.state_dict() | {name: value})


def test_a_checkpoint_of_a_mixer_that_had_no_version_is_refused() -> None:
    counts = counts_of()
    saved = counts.state_dict()
    del saved["mixer_version"]
    with pytest.raises(RuntimeError, match="another context mixer"):
        counts.load_state_dict(saved)


def test_texts_that_cannot_be_read_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CorpusError, match="needs 32"):
        MixingCounts(vocab_size=V).take_text(text(31), None)
    monkeypatch.setattr(mixing_counts, "compiled", lambda: None)
    monkeypatch.setattr(mixing_counts, "MOST_WITHOUT_KERNEL", 800)
    with pytest.raises(CorpusError, match="C compiler"):
        MixingCounts(vocab_size=V).take_text(text(), None)


def test_without_a_kernel_the_twin_predicts_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    given, found = inputs(), []
    for kind in (ContextMixing, SlowMixing):
        mixing_counts._held.clear()
        monkeypatch.setattr(mixing_counts, "context_mixing", kind)
        counts = heard()
        found.append(counts(*given))
        assert isinstance(counts.tables, kind)
    mixing_counts._held.clear()
    torch.testing.assert_close(found[0], found[1], atol=0.02, rtol=0)


def test_a_vocabulary_of_more_tokens_than_units_is_read_too() -> None:
    size = 400
    tokens = np.random.default_rng(0).integers(size // 2, size=600)
    counts = MixingCounts(vocab_size=size)
    counts.take_text(tokens, None)
    given = torch.randn(1, 8, size), torch.zeros(1, 8, C), torch.from_numpy(tokens[:8])[None]
    torch.testing.assert_close(counts.eval()(*given).exp().sum(dim=-1), torch.ones(1, 8), atol=1e-5, rtol=0)
