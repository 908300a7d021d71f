"""The baselines against slow twins, known entropies and the law that probabilities add up to one."""

from __future__ import annotations

import gzip
import math
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.errors import CorpusError
from octavo.evaluation import baselines as module
from octavo.evaluation.baselines import Baseline, baselines, unigram_loss
from octavo.ngram.kneser_ney import FALLBACK, KneserNey, best_order, discounts
from octavo.ngram.mixing import compiled

TOKENS = st.lists(st.integers(0, 4), min_size=1, max_size=60)


class Twin:
    """Modified Kneser–Ney with dictionaries, one probability at a time, straight from the definition."""

    def __init__(self, tokens: list[int], vocab_size: int) -> None:
        self.tokens, self.vocab_size = tokens, vocab_size

    def counts(self, order: int, top: bool) -> Counter[tuple[int, ...]]:
        grams = [tuple(self.tokens[i : i + order]) for i in range(len(self.tokens) - order + 1)]
        if top:
            return Counter(grams)
        before: dict[tuple[int, ...], set[int | None]] = defaultdict(set)
        for i, gram in enumerate(grams):
            before[gram].add(self.tokens[i - 1] if i else None)
        return Counter({gram: len(kinds) for gram, kinds in before.items()})

    def probability(self, context: tuple[int, ...], token: int, order: int, top: bool = True) -> float:
        if order == 0:
            return 1 / self.vocab_size
        context = context[len(context) - order + 1 :] if len(context) >= order - 1 else context
        if len(context) < order - 1:
            return self.probability(context, token, len(context) + 1, top=False)
        beneath = self.probability(context[1:], token, order - 1, top=False)
        counts = self.counts(order, top)
        d = discounts(np.array(sorted(counts.values())))
        following = {gram: count for gram, count in counts.items() if gram[:-1] == context}
        if not following:
            return beneath
        total = sum(following.values())
        left = sum(d[min(count, 3)] for count in following.values())
        own = following.get((*context, token), 0)
        return float((own - d[min(own, 3)] + left * beneath) / total)


@given(train=TOKENS, validation=TOKENS, highest=st.integers(1, 4))
def test_probabilities_agree_with_the_slow_twin(
    train: list[int], validation: list[int], highest: int
) -> None:
    model, twin = KneserNey(np.array(train), vocab_size=6, highest=highest), Twin(train, 6)
    rows = model.probabilities(np.array(validation))
    for order in range(1, model.highest + 1):
        expected = [twin.probability(tuple(validation[:i]), w, order) for i, w in enumerate(validation)]
        np.testing.assert_allclose(rows[order - 1], expected, rtol=1e-9)


@given(train=TOKENS, context=st.lists(st.integers(0, 6), max_size=5))
def test_probabilities_of_the_whole_vocabulary_add_up_to_one(train: list[int], context: list[int]) -> None:
    V = 7  # tokens 5 and 6 never occur in training
    model = KneserNey(np.array(train), vocab_size=V, highest=4)
    after = np.stack([model.probabilities(np.array([*context, w]))[:, -1] for w in range(V)])
    assert (after > 0).all()
    np.testing.assert_allclose(after.sum(axis=0), 1, rtol=1e-12)


def test_discounts_of_a_real_shape_follow_the_formula() -> None:
    counts = np.repeat([1, 2, 3, 4, 9], [100, 40, 20, 10, 5])
    y = 100 / 180
    np.testing.assert_allclose(
        discounts(counts), [0, 1 - 2 * y * 40 / 100, 2 - 3 * y * 20 / 40, 3 - 4 * y * 10 / 20]
    )


@pytest.mark.parametrize("sizes", [[5, 0, 0, 0], [0, 0, 0, 0], [10, 10, 30, 0], [3, 2, 1, 40]])
def test_discounts_that_cannot_be_estimated_fall_back(sizes: list[int]) -> None:
    np.testing.assert_array_equal(discounts(np.repeat([1, 2, 3, 4], sizes)), FALLBACK)


def chain(length: int, seed: int) -> tuple[np.ndarray, float]:
    """A Markov source over 8 tokens, and its entropy rate in nats."""
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.full(8, 0.5), size=8)
    steps, tokens = table.cumsum(axis=1), np.zeros(length, np.uint16)
    draws = rng.random(length)
    for i in range(1, length):
        tokens[i] = min(int(np.searchsorted(steps[tokens[i - 1]], draws[i])), 7)
    stationary = np.linalg.matrix_power(table, 200)[0]
    return tokens, float(-(stationary[:, None] * table * np.log(table)).sum())


def texts(folder: Path, train: bytes = b"to be or not, " * 50, validation: bytes = b"to be " * 9) -> dict:
    (folder / "train.txt").write_bytes(train)
    (folder / "validation.txt").write_bytes(validation)
    return {"train_text": folder / "train.txt", "validation_text": folder / "validation.txt"}


def test_bigram_reaches_the_entropy_of_a_markov_source(tmp_path: Path) -> None:
    tokens, entropy = chain(120_000, seed=3)
    train, validation = tokens[:100_000], tokens[100_000:]
    found = baselines(train, validation, vocab_size=8, validation_bytes=20_000, **texts(tmp_path))
    loss = {name: result.loss for name, result in found.items()}
    here = -np.log(np.bincount(validation, minlength=8) / len(validation))[validation].mean()
    assert loss["bigram"] == pytest.approx(entropy, abs=0.01)
    assert loss["unigram"] == pytest.approx(here, abs=0.001)
    assert loss["uniform"] == math.log(8)
    assert loss["ngram"] == pytest.approx(loss["bigram"], abs=0.005)


def test_special_tokens_are_predicted_and_are_no_bytes(tmp_path: Path) -> None:
    """What is between documents, or was added and is in no text yet, is in the vocabulary like any other token; bits
    are divided by the bytes of the text alone."""
    tokens, _ = chain(3_000, seed=1)
    mixed = np.insert(tokens, np.arange(0, len(tokens), 30), 8)  # 9 is in the vocabulary, and nowhere else
    train, validation = mixed[:2_000], mixed[2_000:]
    found = baselines(train, validation, vocab_size=10, validation_bytes=500, **texts(tmp_path))
    assert found["uniform"].loss == math.log(10)
    for one in found.values():
        if one.loss is not None:
            assert one.bits_per_byte == pytest.approx(one.loss * (len(validation) - 1) / math.log(2) / 500)
    assert found["unigram"].loss == pytest.approx(unigram_loss(train, validation, vocab_size=10))
    bigram = found["bigram"].loss
    assert bigram is not None and math.isfinite(bigram) and bigram < found["uniform"].loss


def test_unigram_adds_one_and_skips_the_first_token() -> None:
    # Counts + 1: 3, 2, 1 of 6. The first validation token (2) is not scored.
    assert unigram_loss(np.array([0, 1, 0]), np.array([2, 0, 2]), vocab_size=3) == pytest.approx(
        -(math.log(3 / 6) + math.log(1 / 6)) / 2
    )


def test_losses_do_not_depend_on_where_the_text_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens, _ = chain(3_000, seed=1)
    model = KneserNey(tokens[:2_000], vocab_size=8, highest=4)
    whole = model.losses(tokens[2_000:])
    monkeypatch.setattr("octavo.ngram.kneser_ney.CHUNK", 7)
    np.testing.assert_allclose(model.losses(tokens[2_000:]), whole, rtol=1e-12)


def test_order_is_chosen_without_the_validation_split(tmp_path: Path) -> None:
    cycle = np.tile([0, 1, 0, 2, 1, 1, 2, 2], 400)  # wants a context of two or more
    assert best_order(cycle, vocab_size=3, highest=6) >= 3
    noise = np.random.default_rng(5).integers(0, 3, 1_000)
    results = [
        baselines(cycle, held, vocab_size=3, validation_bytes=1_000, **texts(tmp_path))
        for held in (cycle, noise)
    ]
    assert {found["ngram"].order for found in results} == {best_order(cycle, vocab_size=3, highest=8)}


@pytest.mark.parametrize("seed", range(4))
def test_noise_has_no_order(seed: int) -> None:
    """Chosen on tokens that were counted too, the longest n-gram would always be the best."""
    noise = np.random.default_rng(seed).integers(0, 4, 6_000)
    assert best_order(noise, vocab_size=4, highest=8) <= 4


def test_training_tokens_beyond_the_limit_are_left_out_and_said(tmp_path: Path) -> None:
    tokens, _ = chain(4_000, seed=2)
    said: list[str] = []
    common = {"vocab_size": 8, "validation_bytes": 1_000, **texts(tmp_path)}
    limited = baselines(tokens[:3_000], tokens[3_000:], limit=500, report=said.append, **common)
    assert limited == baselines(tokens[2_500:3_000], tokens[3_000:], **common)
    assert limited["ngram"].train_tokens == 500
    assert any("the last 500 of 3,000" in text for text in said)


def test_bits_per_byte_follow_from_the_loss(tmp_path: Path) -> None:
    tokens, _ = chain(2_000, seed=4)
    found = baselines(tokens[:1_500], tokens[1_500:], vocab_size=8, validation_bytes=777, **texts(tmp_path))
    for name in ("uniform", "unigram", "bigram", "ngram"):
        assert found[name].bits_per_byte == pytest.approx(found[name].loss * 499 / math.log(2) / 777)


def test_compressors_measure_the_validation_text(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).bytes(4_000)
    tokens = np.zeros(20, np.uint16)
    common = {"vocab_size": 2, "validation_bytes": len(noise)}
    new = baselines(tokens, tokens, **common, **texts(tmp_path, validation=noise))
    seen = baselines(tokens, tokens, **common, **texts(tmp_path, train=b"x" + noise, validation=noise))
    for name in ("gzip", "xz"):
        assert new[name].loss is None
        assert 8 < new[name].bits_per_byte < 8.3  # noise does not shrink
        assert new[name] == seen[name]  # and neither knows the training text
    assert new["xz_given_train"].bits_per_byte > 8
    assert seen["xz_given_train"].bits_per_byte < 1


def test_gzip_is_the_file_that_gzip_writes(tmp_path: Path) -> None:
    """Header, checksum and all: what `gzip -9` makes of the text."""
    text = " ".join(f"{number} foxes" for number in range(300)).encode()
    tokens = np.zeros(20, np.uint16)
    found = baselines(
        tokens, tokens, vocab_size=2, validation_bytes=len(text), **texts(tmp_path, validation=text)
    )
    assert found["gzip"].bits_per_byte == 8 * len(gzip.compress(text, 9)) / len(text)


def test_xz_is_given_only_the_end_of_a_long_training_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WINDOW", 4_096)
    held, rest = np.random.default_rng(1).bytes(2_000), np.random.default_rng(2).bytes(8_000)
    tokens, common = np.zeros(20, np.uint16), {"vocab_size": 2, "validation_bytes": 2_000}
    at_the_start = baselines(tokens, tokens, **common, **texts(tmp_path, train=held + rest, validation=held))
    at_the_end = baselines(tokens, tokens, **common, **texts(tmp_path, train=rest + held, validation=held))
    assert at_the_end["xz_given_train"].bits_per_byte < 1 < at_the_start["xz_given_train"].bits_per_byte


def test_as_dict_keeps_what_says_something() -> None:
    assert Baseline(None, 3.2).as_dict() == {"loss": None, "bits_per_byte": 3.2}
    assert Baseline(1.5, 2.2, 7, 100).as_dict() == {
        "loss": 1.5,
        "bits_per_byte": 2.2,
        "order": 7,
        "train_tokens": 100,
    }


@pytest.mark.parametrize("length", [1, 2, 3, 19, 25])
def test_tiny_splits_work(tmp_path: Path, length: int) -> None:
    tokens = np.arange(length) % 3
    found = baselines(tokens, np.array([0, 2]), vocab_size=3, validation_bytes=2, **texts(tmp_path))
    assert all(math.isfinite(result.bits_per_byte) for result in found.values())


@pytest.mark.parametrize(("train", "validation"), [(0, 5), (5, 1), (5, 0)])
def test_splits_without_anything_to_predict_are_an_error(tmp_path: Path, train: int, validation: int) -> None:
    with pytest.raises(CorpusError, match=f"the splits have {train} and {validation}"):
        baselines(
            np.zeros(train, np.uint16),
            np.zeros(validation, np.uint16),
            vocab_size=2,
            validation_bytes=1,
            **texts(tmp_path),
        )


def test_real_text_falls_in_the_known_order(test_data: Path, tmp_path: Path) -> None:
    text = (test_data / "tinyshakespeare.txt").read_bytes()[:300_000]
    ids = np.frombuffer(text, np.uint8)
    found = baselines(
        ids[:270_000],
        ids[270_000:],
        vocab_size=256,
        validation_bytes=30_000,
        **texts(tmp_path, train=text[:270_000], validation=text[270_000:]),
    )
    losses = [found[name].loss for name in ("uniform", "unigram", "bigram", "ngram")]
    assert losses == sorted(losses, reverse=True)
    assert 1.3 < losses[-1] < 1.6
    assert found["ngram"].order in (5, 6, 7)
    assert found["ngram"].bits_per_byte < found["xz_given_train"].bits_per_byte < found["gzip"].bits_per_byte
    if compiled() is not None:
        assert found["mixing"].bits_per_byte < 0.95 * found["ngram"].bits_per_byte
