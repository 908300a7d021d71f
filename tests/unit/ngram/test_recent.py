"""What a text has said so far: counted by hand, by numpy and by the kernel; the gate, and where it learns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from octavo.data.batch import SideInputs
from octavo.model.base import build_model
from octavo.model.config import GPTConfig
from octavo.model.gpt import GPT
from octavo.ngram import gate as first_gate
from octavo.ngram import recent
from octavo.ngram.gate import NOTHING, Recent, fit_recent
from octavo.ngram.kneser_ney import KneserNey
from octavo.ngram.mixture import KneserNeyCounts
from octavo.ngram.recent import LONGEST, Texts, recent_apart
from unit.model import preferences

V, T, MOST = 5, 12, 20


def by_hand(tokens: Sequence[int], beneath: np.ndarray) -> np.ndarray:
    """(V,) the interpolated estimate of what comes next, from counts in dictionaries, beneath which stands another."""
    found = beneath.astype(np.float64)
    for order in range(LONGEST + 1):
        last = tuple(tokens[len(tokens) - order :])
        followed = Counter(
            tokens[end] for end in range(order, len(tokens)) if tuple(tokens[end - order : end]) == last
        )
        if len(last) < order or not followed:
            break
        counts = np.array([followed[token] for token in range(V)])
        found = (counts + len(followed) * found) / (counts.sum() + len(followed))
    return found


def spans_of(lengths: Sequence[tuple[int, int]]) -> np.ndarray:
    return np.array([(0, begin, end) for begin, end in lengths], np.int32)


@pytest.mark.parametrize("kernel", [True, False])
@given(
    tokens=st.lists(st.integers(0, V - 1), min_size=1, max_size=60),
    ends=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=1, max_size=5),
)
@settings(max_examples=60)
def test_it_is_what_counting_by_hand_gives(
    kernel: bool, tokens: list[int], ends: list[tuple[int, int]]
) -> None:
    lengths = [(min(a, b) % len(tokens), max(a, b, 1) % (len(tokens) + 1)) for a, b in ends]
    lengths = [(min(pair), max(pair)) for pair in lengths]
    texts = Texts(np.array([tokens]), spans_of(lengths), vocab_size=V)
    beneath = np.random.default_rng(len(tokens)).dirichlet(np.ones(V), len(lengths)).astype(np.float32)
    expected = np.stack(
        [by_hand(tokens[begin:end], p) for (begin, end), p in zip(lengths, beneath, strict=True)]
    )
    with pytest.MonkeyPatch.context() as patch:
        if not kernel:
            patch.setattr(recent, "compiled", lambda: None)
        p = beneath.copy()
        texts.mix(np.ones(len(lengths), np.float32), p)
        np.testing.assert_allclose(p, expected, atol=1e-6)
        np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-6)
        half = beneath.copy()
        texts.mix(np.full(len(lengths), 0.5, np.float32), half)
        np.testing.assert_allclose(half, (beneath + expected) / 2, atol=1e-6)
        asked = np.arange(len(lengths)) % V
        said, rest = texts.shares_of(asked)
        own = beneath[np.arange(len(asked)), asked]
        np.testing.assert_allclose(said + rest * own, expected[np.arange(len(asked)), asked], atol=1e-6)


@pytest.mark.skipif(recent.compiled() is None, reason="no C compiler here")
def test_the_kernel_knows_what_numpy_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(1)
    text = random.integers(0, V, (3, 200))
    ends = random.integers(0, 201, 50)
    spans = np.stack((random.integers(0, 3, 50), np.maximum(0, ends - 90), ends), axis=1)
    texts = Texts(text, spans, vocab_size=V)
    mine = texts.known()
    monkeypatch.setattr(recent, "compiled", lambda: None)
    np.testing.assert_allclose(mine, texts.known(), atol=1e-6)
    assert (mine[:, : LONGEST + 1].sum(axis=1) == 1).all()


def test_a_span_begins_where_a_text_does() -> None:
    tokens = np.arange(8).reshape(2, 4) % V
    earlier = np.array([[-1, -1, 1], [2, 3, 4]])
    assert Texts.of(tokens, earlier, None, most=5, vocab_size=V).spans.tolist() == [
        *([0, 2, 4], [0, 2, 5], [0, 2, 6], [0, 2, 7]),
        *([1, 0, 4], [1, 0, 5], [1, 1, 6], [1, 2, 7]),
    ]
    segments = np.array([[0, 0, 1, 1], [3, 3, 3, 4]])
    assert Texts.of(tokens, None, segments, most=5, vocab_size=V).spans.tolist() == [
        *([0, 0, 1], [0, 0, 2], [0, 2, 3], [0, 2, 4]),
        *([1, 0, 1], [1, 0, 2], [1, 0, 3], [1, 3, 4]),
    ]


def test_a_segment_knows_nothing_of_what_stood_before_it() -> None:
    """Nor of what stood before its row: with an earlier text and without one it is the same."""
    random = np.random.default_rng(0)
    tokens, earlier = random.integers(0, V, (2, T)), random.integers(0, V, (2, 9))
    segments = np.array([[0] * 5 + [1] * 7, [4] * 12])
    alone = Texts.of(tokens, None, segments, most=6, vocab_size=V)
    after = Texts.of(tokens, earlier, segments, most=6, vocab_size=V)
    for one, other in zip(alone.spans, after.spans, strict=True):
        here, there = (texts.text[row, a:b] for texts, (row, a, b) in ((alone, one), (after, other)))
        assert here.tolist() == there.tolist() and 1 <= len(here) <= 6


def model(*, held_out: bool = True) -> GPT:
    counts = {"kind": "kneser-ney", "orders": 3, "hidden": 4, "recent": MOST}
    config = {"layers": 1, "width": 8, "heads": 2, "context": T, "counts": counts}
    found = build_model(GPTConfig.model_validate(config), vocab_size=V, seed=1)
    tokens = preferences.text(600, 0, vocabulary=V, evenly=0.4)
    apart = np.zeros(600, bool)
    apart[200:300] = True
    found.take_text(tokens, apart if held_out else None)
    preferences.trust_what_was_said(found.counts)
    return found


def counts_of(found: GPT) -> tuple[KneserNeyCounts, Recent]:
    counts = found.counts
    assert isinstance(counts, KneserNeyCounts) and isinstance(counts.recent, Recent)
    return counts, counts.recent


def test_a_text_that_repeats_itself_is_predicted_better_with_what_it_said() -> None:
    found = model().eval()
    once = torch.from_numpy(np.random.default_rng(3).integers(0, V, T))
    earlier, tokens = once[None], once[None]
    with torch.no_grad():
        logs = found(tokens, side=SideInputs(earlier=earlier))[0, :-1]
        with recent_apart():
            plain = found(tokens, side=SideInputs(earlier=earlier))[0, :-1]
    assert torch.allclose(logs.exp().sum(dim=-1), torch.ones(T - 1), atol=1e-5)
    assert F.cross_entropy(logs[4:], once[5:]) < F.cross_entropy(plain[4:], once[5:])
    assert found.counts.near == 2 and found.counts.before == MOST


def test_while_it_trains_nothing_is_mixed_in() -> None:
    found = model().train()
    tokens = torch.from_numpy(preferences.text(2 * T, 5, vocabulary=V, evenly=0.4)).view(2, T).long()
    with recent_apart():
        plain = found(tokens)
    assert torch.equal(found(tokens), plain)
    with recent_apart():
        plain = found.eval()(tokens)
    assert not torch.equal(found(tokens), plain)
    _, gate = counts_of(found)
    assert not list(gate.parameters()), "so it has nothing to learn"


def test_its_gate_learns_from_the_end_of_the_text() -> None:
    """Of two texts of random letters, one says every piece twice."""
    random = np.random.default_rng(0)
    pieces = random.integers(0, V, (60, 1, 25))
    shares = []
    for text in (pieces.repeat(2, axis=1).ravel(), random.integers(0, V, 3000)):
        gate = Recent(most=100, vocab_size=V)
        fit_recent(gate, text, 4)
        again = text[-50:]  # a piece, and again
        texts = Texts(again[None], spans_of([(0, 20), (0, 45)]), vocab_size=V)
        shares.append(gate.shares(texts).tolist())
    (new, said), (_, by_chance) = shares
    assert said > 0.8 > 0.3 > new and said > by_chance
    for few in (6, 10, 40, 149):  # too short to tell anything
        untold = Recent(most=100, vocab_size=V)
        fit_recent(untold, pieces.ravel()[:few], 4)
        assert untold.shares(texts).tolist() == pytest.approx([NOTHING, NOTHING])


def test_its_gate_learns_beside_n_grams_that_have_not_seen_that_end(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[np.ndarray] = []

    def spied(tokens: np.ndarray, **options: int) -> KneserNey:
        counted.append(tokens)
        return KneserNey(tokens, **options)

    monkeypatch.setattr(first_gate, "KneserNey", spied)
    text = np.arange(1000)
    fit_recent(Recent(most=100, vocab_size=1000), text, 4)
    (before,) = counted
    assert before.tolist() == list(range(800)), "a fifth at the end is read as if it were new"


@pytest.mark.parametrize("kinds", [26, 768])
def test_of_noise_it_makes_nothing(kinds: int) -> None:
    """Long n-grams of noise are worse than letters alone; beside those, what noise has said is worth nothing. A few
    that came again by luck may look like much."""
    random, trusted = np.random.default_rng(1), 0
    for _ in range(12):
        gate, noise = Recent(most=2000, vocab_size=kinds), random.integers(0, kinds, 12_000)
        fit_recent(gate, noise, 6)
        shares = gate.shares(Texts.at(noise, np.arange(1, 2000), most=2000, vocab_size=kinds))
        trusted += bool(shares.max() > 1.001 * NOTHING)
    assert trusted <= 1, "of twelve: more than two standard errors are one in twenty"


def test_what_helps_a_little_but_surely_has_its_share() -> None:
    """One in five letters is of what stood a hundred letters before."""
    random = np.random.default_rng(2)
    text = random.integers(0, 26, 20_000)
    for place in range(120, len(text), 20):
        text[place - 3 : place + 1] = text[place - 103 : place - 99]
    gate = Recent(most=2000, vocab_size=26)
    fit_recent(gate, text, 4)
    texts = Texts.at(text, np.arange(15_000, 20_000), most=2000, vocab_size=26)
    assert gate.shares(texts).mean() > 0.01


def test_with_slopes_and_without_it_is_the_same() -> None:
    texts = Texts(np.arange(40)[None] % V, spans_of([(0, 0), (0, 7), (3, 40)]), vocab_size=V)
    gate, p = Recent(most=MOST, vocab_size=V), torch.rand(3, V).softmax(dim=-1)
    with_slopes = gate(p.clone().requires_grad_(), texts)
    with_slopes.log().sum().backward()
    torch.testing.assert_close(gate(p.clone(), texts), with_slopes.detach())


def test_what_is_kept_and_what_is_added_are_the_same_without_a_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = Texts(np.arange(40)[None] % V, spans_of([(0, 0), (0, 7), (3, 40)]), vocab_size=V)
    gate = Recent(most=MOST, vocab_size=V)
    gate.start(0.4)
    torch.manual_seed(0)
    gate.onto.normal_()
    own = gate.beside(texts)
    np.testing.assert_allclose(own[0] + own[1].sum(axis=1), 1, atol=1e-6)
    assert own[1][1:].any() and own[0][0] == 1
    monkeypatch.setattr(recent, "compiled", lambda: None)
    for mine, others in zip(own, gate.beside(texts), strict=True):
        np.testing.assert_allclose(mine, others, rtol=1e-5, atol=1e-7)


SURE = [(0, 0), (0, 7), (3, 40), (0, 3000)]


@pytest.mark.parametrize("share", [0.5, 0.999999, 1.0])
def test_however_sure_it_is_all_ways_agree(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = Texts(np.arange(3000)[None] % 4, spans_of(SURE), vocab_size=V)
    beneath = np.random.default_rng(1).dirichlet(np.ones(V), len(SURE)).astype(np.float32)
    shares, found = np.full(len(SURE), share, np.float32), []
    for way in ("kernel", "numpy", "slopes"):
        p = beneath.copy()
        if way == "numpy":
            monkeypatch.setattr(recent, "compiled", lambda: None)
        if way != "slopes":
            texts.mix(shares, p)
        else:
            gate = Recent(most=MOST, vocab_size=V)
            monkeypatch.setattr(gate, "shares", lambda _: torch.from_numpy(shares))
            p = gate(torch.from_numpy(p).requires_grad_(), texts).detach().numpy()
        found.append(p)
        np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-6)
        np.testing.assert_allclose(p, found[0], rtol=1e-5)
        assert (p > 0).all()


def test_a_text_of_thousands_of_equal_tokens_adds_up_to_1() -> None:
    texts = Texts(np.zeros((1, 100_000)), spans_of([(0, 100_000)]), vocab_size=V)
    p = np.full((1, V), 1 / V, np.float32)
    texts.mix(np.full(1, 0.5, np.float32), p)
    np.testing.assert_allclose(p.sum(), 1, atol=1e-6)


@pytest.mark.parametrize("kernel", [True, False])
def test_after_a_text_that_says_one_thing_for_long_all_tokens_keep_a_chance(
    kernel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(0).integers(0, 26, 36_000)
    tokens = np.concatenate((random, np.zeros(9000, np.int64)))
    gate = Recent(most=2000, vocab_size=27)
    fit_recent(gate, tokens, orders=4)
    if not kernel:
        monkeypatch.setattr(recent, "compiled", lambda: None)
    texts = Texts.at(tokens, np.array([len(tokens)]), most=2000, vocab_size=27)
    assert 0.999 < gate.shares(texts).item() < 1
    p = torch.full((1, 27), 1 / 27)
    assert 1e-6 < gate(p.clone(), texts).min() < 1e-5
    if kernel:
        logs = p.log().numpy()
        texts.predict(gate.gate(), logs)
        assert -13.9 < logs.min() < -11.5


def test_models_are_made_without_memory_too() -> None:
    with torch.device("meta"):
        assert Recent(most=MOST, vocab_size=V).into.device.type == "meta"


def test_the_sides_add_up_to_what_is_predicted() -> None:
    found = model().eval()
    counts, _ = counts_of(found)
    tokens = torch.from_numpy(preferences.text(T, 6, vocabulary=V, evenly=0.4)).long()[None]
    x = torch.randn(1, T, 8)
    logits = torch.randn(1, T, V)
    with torch.no_grad():
        sides = counts.sides(logits, x, tokens, targets=tokens)
        logs = counts(logits, x, tokens)[0]
    assert sides is not None and sides.weights.shape == (T, 3 + 2)
    together = (sides.weights * sides.probabilities).sum(dim=1)
    torch.testing.assert_close(together, logs.exp().gather(1, tokens[0][:, None])[:, 0], rtol=1e-4, atol=1e-6)


def test_its_numbers_are_counted() -> None:
    found = model()
    config = GPTConfig.model_validate(
        {
            "layers": 1,
            "width": 8,
            "heads": 2,
            "context": T,
            "counts": {"kind": "kneser-ney", "orders": 3, "hidden": 4, "recent": MOST},
        }
    )
    assert config.parameters(vocab_size=V) == sum(weight.numel() for weight in found.parameters())
    assert config.before == MOST
