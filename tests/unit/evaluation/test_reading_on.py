"""Counts that go on learning in the text they are judged by: scored first, in one pass, and nothing else changes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from octavo.data.batch import NO_SIDE_INPUTS, Batch
from octavo.data.batches import with_earlier
from octavo.evaluation.reading_on import AT_ONCE, Heard, reading_on, said, seconds_to_read_on
from octavo.evaluation.score import score
from octavo.model.base import build_model
from octavo.model.config import GPTConfig
from octavo.model.gpt import GPT
from octavo.ngram.mixing import READING, compiled
from octavo.ngram.mixing_counts import NOTHING_READ
from octavo.training.objective import NEXT_TOKEN
from unit.model import preferences

V, T = 7, 16
pytestmark = pytest.mark.skipif(compiled() is None, reason="there is no C compiler")


def text(length: int, seed: int) -> np.ndarray:
    return preferences.text(length, seed, vocabulary=V, evenly=0.3)


def model(counts: str = "mixing", context: int = T) -> GPT:
    shape = {"layers": 1, "width": 8, "heads": 2, "context": context, "counts": counts}
    config = GPTConfig.model_validate(shape)
    found = build_model(config, vocab_size=V, seed=0)
    assert isinstance(found, GPT)
    found.take_text(text(900, 0), spelt=lambda: "abcdef.")
    return found.eval()


def batches(tokens: np.ndarray, rows: int = 2, context: int = T) -> Iterator[Batch[np.ndarray]]:
    """Adjacent blocks, and where their targets stand."""
    blocks = (len(tokens) - 1) // context
    for first in range(0, blocks, rows):
        begins = np.arange(first, min(first + rows, blocks)) * context
        at = begins[:, None] + np.arange(context)
        yield Batch(
            inputs=tokens[at].astype(np.int64), targets=tokens[at + 1].astype(np.int64), places=at + 1
        )


def heard_before(tokens: np.ndarray, at: int, context: int = T) -> np.ndarray:
    """What the network is told before token `at`: its block, or from the middle of the one before."""
    block, place = divmod(at - 1, context)
    return tokens[block * context - (context // 2 if block and place < context // 2 else 0) : at]


def test_it_is_the_mixer_before_each_token_by_itself() -> None:
    found, tokens = model(), text(6 * T + 1, 3)
    own = reading_on(found, batches(tokens), NEXT_TOKEN, tokens)
    assert own is not None and own.tokens == 6 * T
    nats = [0.0, 0.0]
    mixers = [each.copy(more=200) for each in (found.counts.alone, found.counts.tables)]
    for at in range(len(tokens)):
        for side, mixer in enumerate(mixers):
            one, told = tokens[at : at + 1], None
            if side and at:
                before = torch.from_numpy(heard_before(tokens, at).astype(np.int64))[None]
                with torch.no_grad():
                    told = mixer.hear(found.network(before, None, NO_SIDE_INPUTS)[0][0, -1:].numpy(), one)
            nats[side] += float(mixer.read(one, told)[0]) * (at > 0)
    assert own.alone == pytest.approx(nats[0], rel=1e-6)
    assert own.total == pytest.approx(nats[1], rel=1e-4)
    assert own.total != own.alone
    assert f"{own.as_dict(100)['bits_per_byte']:.3f}" in said(own.as_dict(100))


@pytest.mark.parametrize("context", [1, 2, 5, T])
def test_only_what_was_scored_with_little_before_it_is_heard_again(context: int) -> None:
    found, tokens = model(context=context), text(40, 3)
    heard = Heard.of(found, tokens)
    assert heard is not None
    score(found, list(batches(tokens, context=context))[:3], listener=heard)
    heard.listen_again(found)
    again = np.flatnonzero((heard.told != heard.heard).any(axis=1))
    scored = np.flatnonzero(heard.places)
    little = [at for at in scored.tolist() if at > context and (at - 1) % context < context // 2]
    assert set(again.tolist()) <= set(little) and (not little or len(again) > len(little) // 2)


def test_what_reading_on_takes_grows_with_what_is_read() -> None:
    found = model()
    small, large = text(900, 1), text(90_000, 1)
    once, more = (seconds_to_read_on(found, each, None) for each in (small, large))
    audited, empty = (seconds_to_read_on(found, small, each) for each in (small, small[:0]))
    assert 0 < once < more and once == empty < audited
    # Two mixers read at once, of which each has to be copied once.
    assert audited == pytest.approx(once + AT_ONCE * READING * len(small))
    found.counts.tables.byte_seconds += 1e-3
    assert seconds_to_read_on(found, small, None) > once + 1
    assert seconds_to_read_on(model("none"), small, small) == 0


def test_a_split_after_another_is_read_on_by_the_same_mixers_or_by_new_ones_to_the_same_figures() -> None:
    found, first, second, third = model(), text(6 * T + 1, 3), text(8 * T + 1, 4), text(30 * T + 1, 5)

    def heard(tokens: np.ndarray) -> Heard:
        made = Heard.of(found, tokens)
        assert made is not None
        score(found, batches(tokens), objective=NEXT_TOKEN, listener=made)
        made.listen_again(found)
        return made

    for tokens, is_given in ((second, True), (third, False)):
        begun, after = heard(first), heard(tokens)
        assert begun.read() is not None and begun.known() is begun
        kept, _ = found.counts.read_on[1]
        own = after.read(begun)
        assert (kept.length == len(found.counts.tokens) + len(first) + len(tokens)) is is_given
        assert (begun.known() is None) is is_given, "whoever reads on has them for himself"
        found.counts.read_on = NOTHING_READ
        assert own is not None and own == after.read(begun)


def test_a_text_that_says_things_twice_is_known_the_second_time_and_the_model_stays_as_it_was() -> None:
    found, again = model(), np.random.default_rng(0).integers(V, size=10 * T)
    before = found.counts.tables.memory.copy()
    tokens = np.concatenate((again, again, again[:1]))
    own = reading_on(found, batches(tokens), NEXT_TOKEN, tokens)
    half = reading_on(found, batches(tokens[: 10 * T + 1]), NEXT_TOKEN, tokens)
    assert own is not None and half is not None
    assert own.total - half.total < 0.5 * half.total
    np.testing.assert_array_equal(found.counts.tables.memory, before)


def test_what_follows_changes_nothing_and_rows_at_once_neither() -> None:
    found, tokens, other = model(), text(6 * T + 1, 3), text(6 * T + 1, 4)
    other[: 2 * T + 1] = tokens[: 2 * T + 1]
    first = [reading_on(found, list(batches(each))[:1], NEXT_TOKEN, each) for each in (tokens, other)]
    assert first[0] == first[1]
    one, three = (reading_on(found, batches(tokens, rows), NEXT_TOKEN, tokens) for rows in (1, 3))
    assert one is not None and three is not None
    assert one.total == pytest.approx(three.total, rel=1e-5)


def test_others_have_no_such_figure() -> None:
    tokens = text(4 * T + 1, 3)
    assert reading_on(model("kneser-ney"), batches(tokens), NEXT_TOKEN, tokens) is None
    backwards = list(batches(tokens))[::-1]
    assert reading_on(model(), backwards, NEXT_TOKEN, tokens) == reading_on(
        model(), batches(tokens), NEXT_TOKEN, tokens
    )
    told = with_earlier(batches(tokens), tokens, 20)
    assert reading_on(model(), told, NEXT_TOKEN, tokens) is not None
    assert torch.is_grad_enabled()
