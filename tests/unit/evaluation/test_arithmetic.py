"""Arithmetic coding: any text comes back from any predictions, in as many bits as they claim."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.evaluation.arithmetic import TOTAL, Decoder, Encoder, bit_bounds, bounds, decoded, encoded


def predictor(vocabulary: int, seed: int, scale: float) -> Callable[[int | None], np.ndarray]:
    """Logits that depend on all tokens so far, as a model's do."""
    state = [seed]

    def predict(before: int | None) -> np.ndarray:
        state[0] = state[0] * 31 + (0 if before is None else before + 1) & 0xFFFFFFFF
        return (scale * np.random.default_rng(state[0]).normal(size=vocabulary)).astype(np.float32)

    return predict


@given(
    vocabulary=st.integers(1, 300),
    tokens=st.lists(st.integers(0, 299), max_size=80),
    seed=st.integers(0, 99),
    scale=st.sampled_from([0.0, 1.0, 30.0, 1e4]),
)
@settings(max_examples=60, deadline=None)
def test_what_was_written_is_read(vocabulary: int, tokens: list[int], seed: int, scale: float) -> None:
    text = np.array(tokens, np.int64) % vocabulary
    content = encoded(text, predictor(vocabulary, seed, scale))
    assert decoded(content, len(text), predictor(vocabulary, seed, scale)).tolist() == text.tolist()


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 1)), max_size=80))
@settings(max_examples=100, deadline=None)
def test_bits_that_were_written_are_read(bits: list[tuple[bool, float]]) -> None:
    encoder = Encoder()
    for bit, p in bits:
        encoder.put(bit, bit_bounds(p))
    content = encoder.finish()
    decoder = Decoder(content)
    assert [decoder.take(bit_bounds(p)) for _, p in bits] == [bit for bit, _ in bits]
    claimed = sum(-math.log2(max(p if bit else 1 - p, 1 / TOTAL)) for bit, p in bits)
    assert 8 * len(content) <= claimed + 16


def test_it_takes_the_bits_that_are_claimed() -> None:
    text, predict, claimed = np.random.default_rng(0).integers(5, size=3000), predictor(5, 1, 2.0), 0.0
    before = None
    for token in text.tolist():
        logits = predict(before).astype(np.float64)
        claimed -= (logits[token] - np.logaddexp.reduce(logits)) / math.log(2)
        before = token
    assert 8 * len(encoded(text, predictor(5, 1, 2.0))) == pytest.approx(claimed, abs=16)


def test_other_predictions_do_not_read_it() -> None:
    text = np.random.default_rng(0).integers(5, size=200)
    content = encoded(text, predictor(5, 1, 2.0))
    assert decoded(content, 200, predictor(5, 2, 2.0)).tolist() != text.tolist()
    with pytest.raises(ValueError, match="at an end"):
        decoded(content[:-9], 200, predictor(5, 1, 2.0))


@pytest.mark.parametrize(
    "logits", [np.zeros(1), np.full(65_281, -1e30), np.array([0.0, -1e38, 80.0]), np.arange(5.0)]
)
def test_every_token_has_a_share(logits: np.ndarray) -> None:
    found = bounds(logits.astype(np.float32))
    assert found[0] == 0 and found[-1] == TOTAL
    assert (np.diff(found) > 0).all()
