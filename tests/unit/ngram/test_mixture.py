"""Counts beside the network: tables, the gate, and what of it learns where."""

from __future__ import annotations

import weakref
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from octavo.config import check
from octavo.data.batch import SideInputs
from octavo.errors import CheckpointError, ConfigError, CorpusError
from octavo.model.base import build_model
from octavo.model.config import GPTConfig
from octavo.model.gpt import GPT
from octavo.ngram import kernel
from octavo.ngram.gate import HeldOut, best_weights
from octavo.ngram.kernel import rank_pairs, table_bytes
from octavo.ngram.kneser_ney import KneserNey, kinds, predict, tables_of, tables_of_text
from octavo.ngram.mixture import NETWORK, KneserNeyCounts
from octavo.training.checkpoint import Checkpoint, model_tensors, write_tensors
from unit.model import preferences

V, K, T = 7, 5, 16


def text(length: int = 900, seed: int = 0) -> np.ndarray:
    return preferences.text(length, seed, vocabulary=V, evenly=0.4)


@pytest.fixture
def without_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "compiled", lambda: None)


def test_the_bytes_of_the_tables_are_counted_before_they_are_made() -> None:
    tables = tables_of(KneserNey(text(), vocab_size=V, highest=K)).tables
    arrays = [value for table in tables for value in vars(table).values() if value is not None]
    assert table_bytes(kinds(text(), vocab_size=V, highest=K)) == sum(array.nbytes for array in arrays)
    config = GPTConfig.model_validate({"counts": {"kind": "kneser-ney", "orders": K}})
    whole = sum(array.nbytes for array in arrays)
    assert config.table_bytes(text(), vocab_size=V) == 2 * whole
    assert GPTConfig().table_bytes(text(), vocab_size=V) == 0


def test_a_text_whose_tables_are_held_is_not_counted_anew() -> None:
    held = tables_of_text(text(), vocab_size=V, orders=K)
    assert tables_of_text(text(), vocab_size=V, orders=K) is held
    others = (text(seed=1), V, K), (text(), V + 1, K), (text(), V, K - 1)
    assert all(
        tables_of_text(some, vocab_size=size, orders=orders) is not held for some, size, orders in others
    )
    for mine, anew in zip(
        held.tables, tables_of(KneserNey(text(), vocab_size=V, highest=K)).tables, strict=True
    ):
        for name, found in vars(mine).items():
            np.testing.assert_array_equal(found, vars(anew)[name])
    gone = weakref.ref(held)
    del held, mine, found
    assert gone() is None, "nothing is held that nobody uses"


def model(**options: object) -> GPT:
    config = {"layers": 1, "width": 8, "heads": 2, "context": T} | options
    config = {"counts": {"kind": "kneser-ney", "orders": K, "hidden": 4}} | config
    return build_model(GPTConfig.model_validate(config), vocab_size=V, seed=1)


def held(length: int = 900) -> np.ndarray:
    found = np.zeros(length, bool)
    found[200:300] = found[600:650] = True
    return found


def test_each_order_is_the_n_gram_model_written_on_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    counted, tokens = KneserNey(text(), vocab_size=V, highest=K), text(200, seed=1)
    tables = tables_of(counted)
    places = tables.contexts(tokens[None, :-1])[0]
    expected = np.stack(list(predict(counted.levels, tokens, vocab_size=V)))[:, 1:]
    for k in range(1, K + 1):
        weights = np.zeros((len(places), K + 1), np.float32)
        weights[:, k] = 1
        p = np.zeros((len(places), V), np.float32)
        tables.mix(places, weights, p)
        np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
        np.testing.assert_allclose(p[np.arange(len(p)), tokens[1:]], expected[k - 1], rtol=1e-5)
    monkeypatch.setattr(kernel, "AT_ONCE", 30 * V)  # in seven parts
    np.testing.assert_allclose(tables.probabilities(places, tokens[1:]), expected.T, rtol=1e-5)
    assert tables.probabilities(places[:0], tokens[:0]).shape == (0, K)


@pytest.mark.skipif(kernel.compiled() is None, reason="no C compiler here")
@pytest.mark.parametrize("seed", range(4))
def test_the_kernel_computes_what_numpy_does(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(seed)
    learned = text(400 + 100 * seed, seed)
    tokens = random.integers(V, size=(3, 40)).astype(np.int32)
    tokens[:, :9] = learned[:9]
    tokens[0, 3] = tokens[1, 0] = -1
    fresh = random.random(tokens.shape) < 0.1
    weights = random.random((120, K + 1)).astype(np.float32)
    p, slope = random.random((2, 120, V)).astype(np.float32)

    def everything() -> list[np.ndarray]:
        tables = tables_of(KneserNey(learned, vocab_size=V, highest=K))
        held_apart = tables.contexts(tokens, fresh).reshape(-1, K)
        together = tables.contexts(tokens).reshape(-1, K)
        mixed = p.copy()
        tables.mix(together, weights, mixed)
        pairs = rank_pairs(learned[:-1], learned[1:], V, V)
        ahead = [
            tables.follow(row, 1 + n % 9) for n, row in enumerate([*tokens.tolist(), [], [0], [V - 1] * 9])
        ]
        told = [np.array(each) for one in ahead for each in one]
        known, sums = tables.known(together), tables.slopes(held_apart, slope)
        return [*pairs, held_apart, together, known, sums, mixed, *told]

    by_kernel = everything()
    monkeypatch.setattr(kernel, "compiled", lambda: None)
    for found, expected in zip(by_kernel, everything(), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_what_stands_before_a_row_is_read_where_a_batch_tells_of_it() -> None:
    found = model()
    found.take_text(text())
    found.eval()
    tokens = torch.from_numpy(text(60, seed=2)).long()[None]
    with torch.no_grad():
        whole, cut = found.counts, tokens[:, 40:]
        x, logits = torch.zeros(1, 60, 8), torch.zeros(1, 60, V)
        expected = whole(logits, x, tokens)[:, 40:]
        told = whole(logits[:, 40:], x[:, 40:], cut, tokens[:, 40 - K + 1 : 40])
        untold = whole(logits[:, 40:], x[:, 40:], cut)
        missing = whole(logits[:, 40:], x[:, 40:], cut, torch.full((1, K - 1), -1))
    torch.testing.assert_close(told, expected)
    assert not torch.allclose(untold[:, :2], expected[:, :2], atol=1e-3)
    torch.testing.assert_close(missing, untold)


def test_what_a_text_has_said_before_a_row_is_counted_and_its_last_tokens_are_the_context() -> None:
    counts = KneserNeyCounts(orders=K, hidden=8, width=6, vocab_size=V, recent=40)
    counts.take_text(text(), None)
    preferences.trust_what_was_said(counts)
    counts.eval()
    torch.manual_seed(0)
    tokens, logits = torch.from_numpy(text(60, seed=2)).long()[None], torch.randn(1, 60, V)
    state = torch.randn(1, 60, 6)
    with torch.no_grad():
        expected = counts(logits, state, tokens)[:, 40:]
        told = counts(logits[:, 40:], state[:, 40:], tokens[:, 40:], tokens[:, :40])
    torch.testing.assert_close(told, expected)


def test_segments_are_kept_apart() -> None:
    found = model()
    found.take_text(text())
    found.eval()
    tokens = torch.from_numpy(text(T, seed=3)).long()[None]
    segments = torch.tensor([[0] * 5 + [1] * (T - 5)])
    with torch.no_grad():
        both = found(tokens, side=SideInputs(segments=segments))
        changed = torch.cat(((tokens[:, :5] + 1) % V, tokens[:, 5:]), dim=1)
        assert torch.allclose(
            found(changed, side=SideInputs(segments=segments))[:, 5:], both[:, 5:], atol=1e-6
        )
        assert not torch.allclose(found(changed)[:, 5:], found(tokens)[:, 5:], atol=1e-4)


@pytest.mark.parametrize("recent", [0, 40])
def test_without_gradients_they_are_mixed_in_place_and_nothing_else_changes(recent: int) -> None:
    counts = KneserNeyCounts(orders=K, hidden=8, width=6, vocab_size=V, recent=recent)
    counts.take_text(text(), np.arange(900) % 9 == 4)
    preferences.trust_what_was_said(counts)
    counts.eval()
    torch.manual_seed(0)
    tokens = torch.from_numpy(text(2 * T, seed=3).reshape(2, T).astype(np.int64))
    logits, state = torch.randn(2, T, V), torch.randn(2, T, 6)
    before = logits.clone()
    slow = counts(logits, state, tokens)
    with torch.no_grad():
        fast = counts(logits, state, tokens)
    assert slow.requires_grad and not fast.requires_grad
    torch.testing.assert_close(fast, slow.detach(), rtol=1e-6, atol=1e-6)
    assert torch.equal(logits, before)


def test_gradients_of_the_gate_are_those_of_differences() -> None:
    found = model().double()
    found.take_text(text(), held())
    found.train()
    with torch.no_grad():
        for weight in found.counts.parameters():
            weight.add_(
                torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)).double(), alpha=0.1
            )
    tokens, targets = (torch.from_numpy(text(T, seed=seed)).long()[None] for seed in (4, 5))

    def loss() -> torch.Tensor:
        return F.cross_entropy(found(tokens).double().flatten(0, 1), targets.flatten())

    loss().backward()
    for name, weight in found.counts.named_parameters():
        flat, gradient = weight.data.view(-1), weight.grad
        assert gradient is not None, name
        place = int(gradient.abs().argmax())
        difference = []
        for step in (1e-2, -1e-2):
            kept = flat[place].item()
            flat[place] = kept + step
            difference.append(loss().item())
            flat[place] = kept
        slope = (difference[0] - difference[1]) / 2e-2
        assert gradient.view(-1)[place].item() == pytest.approx(slope, rel=2e-2, abs=1e-5), name


def test_the_network_learns_alone_and_the_gate_where_counts_are_mixed_in() -> None:
    found = model()
    found.take_text(text(), held())
    found.train()
    tokens = torch.from_numpy(np.stack([text(T, seed=6), text(T, seed=7)])).long()
    alone = torch.tensor([[1] * T, [0] * T])
    logits = found(tokens, side=SideInputs(alone=alone))
    plain = deepcopy(found)
    plain.counts = model(counts="none").counts
    assert torch.equal(logits[0], plain(tokens)[0])
    F.cross_entropy(logits[0], tokens[0]).backward()
    assert all(weight.grad is None or not weight.grad.any() for weight in found.counts.parameters())
    assert found.embedding.weight.grad is not None and found.embedding.weight.grad.any()
    found.zero_grad(set_to_none=True)
    F.cross_entropy(found(tokens, side=SideInputs(alone=alone))[1], tokens[1]).backward()
    assert found.counts.out.bias.grad is not None and found.counts.out.bias.grad.any()
    assert found.embedding.weight.grad is None or not found.embedding.weight.grad.any()


def test_what_is_held_out_is_not_counted_while_it_trains() -> None:
    found, tokens, apart = model(), text(), held()
    found.take_text(tokens, apart)
    counts = found.counts
    assert isinstance(counts, KneserNeyCounts)

    def counted() -> float:
        assert counts.tables is not None
        return float(np.expm1(counts.tables.tables[0].known[0, 0]))

    found.train()
    assert counted() == pytest.approx((~apart).sum())
    found.eval()
    assert counted() == pytest.approx(len(tokens))


def test_it_begins_with_what_counting_alone_makes_of_what_is_held_out() -> None:
    tokens, apart = text(3000), np.zeros(3000, bool)
    apart[500:800] = True
    found = model()
    found.take_text(tokens, apart)
    counts = found.counts
    assert isinstance(counts, KneserNeyCounts) and not counts.from_state.weight.any()
    row = torch.from_numpy(text(T, seed=8)).long()[None]
    with torch.no_grad():
        x = torch.randn(1, T, 8)
        found.train()
        sides = counts.sides(torch.zeros(1, T, V), x, row, targets=row.roll(-1, 1))
    assert sides is not None
    assert sides.weights[:, 0].mean().item() == pytest.approx(NETWORK, rel=0.1)
    orders = sides.weights[:, 1:].mean(dim=0)
    assert orders[0] < orders.max() / 2, "characters that follow each other with preferences"
    counted = KneserNey(tokens[~apart], vocab_size=V, highest=K)
    fixed = best_weights(HeldOut.of(tables_of(counted), tokens, apart).probabilities)
    np.testing.assert_allclose(orders.numpy(), (1 - NETWORK) * fixed, atol=0.15)


def test_the_gate_hears_how_sure_the_network_is() -> None:
    """A gate that hears nothing but the entropy, and one that hears the logarithm of the largest probability alone."""
    found = model()
    found.take_text(text(), held())
    counts, logits = found.counts.eval(), torch.randn(1, T, V, generator=torch.Generator().manual_seed(3))
    assert isinstance(counts, KneserNeyCounts)
    row = torch.from_numpy(text(T, seed=8)).long()[None]
    p = logits[0].softmax(dim=-1)
    for heard, known in ((-2, -(p * p.log()).sum(dim=-1)), (-1, p.amax(dim=-1).log())):
        with torch.no_grad():
            for part in counts.gate_parameters():
                part.zero_()
            counts.from_known.bias[0] = 5.0  # so that no hidden unit is cut off
            counts.from_known.weight[0, heard] = 1.0
            counts.out.weight[0, 0] = 1.0
            sides = counts.sides(logits, torch.randn(1, T, 8), row, targets=row.roll(-1, 1))
        assert sides is not None
        wanted = (5 + known).exp() / ((5 + known).exp() + K)
        torch.testing.assert_close(sides.weights[:, 0], wanted)


def test_a_checkpoint_brings_the_text_along(tmp_path: Path) -> None:
    found = model()
    found.take_text(text(), held())
    write_tensors(tmp_path / "model.safetensors", model_tensors(found))
    other = model()
    Checkpoint(tmp_path).load_model(other)
    tokens = torch.from_numpy(text(T, seed=8)).long()[None]
    with torch.no_grad():
        assert torch.equal(other.eval()(tokens), found.eval()(tokens))
    again = model()
    again.take_text(text(300, seed=9), None)
    again.eval()(tokens)  # whose tables are made
    Checkpoint(tmp_path).load_model(again)
    with torch.no_grad():
        assert torch.equal(again(tokens), found(tokens))


@pytest.mark.parametrize(
    "wrong",
    [
        torch.full((60,), 60_000, dtype=torch.uint16),
        torch.full((60,), -1, dtype=torch.int32),
        torch.full((60,), V, dtype=torch.int64),
        torch.zeros(60),
        torch.zeros(60, dtype=torch.bool),
        torch.zeros(6, 10, dtype=torch.int32),
        torch.zeros(9, dtype=torch.int32),
    ],
)
def test_a_text_that_is_none_is_refused_before_a_kernel_sees_it(wrong: torch.Tensor, tmp_path: Path) -> None:
    found = model()
    found.take_text(text(), held())
    write_tensors(tmp_path / "model.safetensors", model_tensors(found) | {"counts.tokens": wrong})
    with pytest.raises(CheckpointError, match="does not fit this model"):
        Checkpoint(tmp_path).load_model(found)


def test_a_text_is_loaded_into_a_vocabulary_that_grew_beyond_two_bytes() -> None:
    def of(size: int) -> GPT:
        counts = {"kind": "kneser-ney", "orders": 2}
        config = {"layers": 1, "width": 8, "heads": 2, "context": T, "counts": counts}
        return build_model(GPTConfig.model_validate(config), vocab_size=size, seed=0)

    small, large = of(2**16), of(2**16 + 4)
    small.take_text(np.array([0, 2**16 - 1, 7] * 20))
    assert small.counts.tokens.dtype == torch.uint16
    tokens = {name: each for name, each in small.state_dict().items() if "tokens" in name}
    for taken in (np.array([0, 1, 7] * 20), np.array([0, 1] * 20)):  # as long, and not
        large.take_text(taken)
        large.load_state_dict(tokens, strict=False)
        assert large.counts.tokens.tolist() == [0, 2**16 - 1, 7] * 20
    large.take_text(np.array([0, 2**16 + 1, 7] * 20), None, learned=True)
    assert large.counts.tokens.tolist() == [0, 2**16 + 1, 7] * 20


def test_learned_weights_stay_when_a_text_is_taken() -> None:
    found = model()
    found.take_text(text(), held())
    with torch.no_grad():
        found.counts.out.bias.fill_(0.25)  # type: ignore[union-attr]
    found.take_text(text(500, seed=1), held(500), learned=True)
    assert (found.counts.out.bias == 0.25).all()  # type: ignore[union-attr]


def test_without_a_text_the_network_is_alone() -> None:
    found, plain = model(), model(counts="none")
    plain.load_state_dict({name: w for name, w in found.state_dict().items() if "counts" not in name})
    tokens = torch.from_numpy(text(T)).long()[None]
    assert torch.equal(found(tokens), plain(tokens))


@pytest.mark.usefixtures("without_kernel")
def test_a_machine_without_a_compiler_trains_too() -> None:
    found = model()
    found.take_text(text(), held())
    found.train()
    tokens = torch.from_numpy(text(T, seed=6)).long()[None]
    F.cross_entropy(found(tokens)[0], tokens[0]).backward()
    assert found.counts.out.bias.grad is not None


def test_a_text_too_short_to_count_is_refused() -> None:
    with pytest.raises(CorpusError, match="9 tokens; counting 5-grams needs 10"):
        model().take_text(text(9))
    apart = np.arange(12) >= 4
    with pytest.raises(CorpusError, match="5 of them not held out"):
        model().take_text(text(12), apart)
    apart[4] = False
    model().take_text(text(12), apart)


def test_large_vocabularies_keep_their_ids() -> None:
    config = GPTConfig.model_validate(
        {"layers": 1, "width": 8, "heads": 2, "context": T, "counts": {"kind": "kneser-ney", "orders": 2}}
    )
    found = build_model(config, vocab_size=70_000, seed=0)
    tokens = np.array([0, 69_999, 65_536] * 20, np.int32)
    found.take_text(tokens)
    assert found.counts.tokens.tolist() == tokens.tolist()
    with torch.no_grad():
        assert found.eval()(torch.tensor([[0, 69_999]]))[0].argmax(dim=-1).tolist() == [69_999, 65_536]


def test_counts_of_rows_of_numbers_are_refused() -> None:
    with pytest.raises(ConfigError, match="counts are of tokens"):
        check({"model": {"input": "linear", "output": "gaussian", "counts": "kneser-ney"}})
