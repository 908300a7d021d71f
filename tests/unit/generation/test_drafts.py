"""Drafts change nothing but the time: what is guessed, how sure it is, when, and that texts stay as they are."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.config import SamplingConfig
from octavo.config.parts import parts
from octavo.generation import Decoder, Engine, Sampling, TextRequest, native
from octavo.generation import drafts as module
from octavo.generation.cached import CachedDecoder
from octavo.generation.decoder import AHEAD
from octavo.generation.drafts import MATCHES, Drafts, Guess, Pace, Rate, TextSoFar
from octavo.generation.engine import in_order
from octavo.generation.full import FullDecoder
from octavo.generation.native import NativeDecoder
from octavo.generation.streams import Sample, Stream, seen_ahead
from octavo.model.base import build_model
from octavo.model.config import GPTConfig
from unit.generation.guesses import Knowing, drafted_by, undrafted
from unit.model import preferences

TEXT = "the small bird sees a big tree."
T = 24
KINDS = [NativeDecoder, CachedDecoder, FullDecoder]
KNESER_NEY = {"kind": "kneser-ney", "orders": 3, "hidden": 4, "recent": 12}
SHAPES: dict[str, dict[str, Any]] = {
    "plain": {"positions": "rotary"},
    "counts": {"counts": KNESER_NEY},
    "mixing": {"counts": "mixing"},
    "n-grams": {"ngrams": {"kind": "hashed", "longest": 3, "buckets": 29}},
}
SAMPLINGS = [
    Sampling(),
    Sampling(temperature=0.0, window="crop"),
    Sampling(temperature=1.1, top_k=20, top_p=0.95, min_p=0.01, repetition_penalty=1.3),
]


@cache
def engine_for(shape: str = "plain") -> Engine:
    torch.set_num_threads(1)
    tokenizer = parts("tokenizer")["char"]().build(lambda: iter([TEXT]), documents=True)
    options = {"layers": 2, "width": 16, "heads": 2, "context": T, **SHAPES[shape]}
    config = GPTConfig.model_validate(options | {"initialization": {"kind": "normal", "std": 0.4}})
    model = build_model(config, vocab_size=tokenizer.vocab_size, seed=3).eval()
    if "counts" in SHAPES[shape]:
        model.take_text(preferences.text(400, 0, vocabulary=tokenizer.vocab_size, evenly=0.4))
        preferences.trust_what_was_said(model.counts)
    return Engine(model, tokenizer)


def written(engine: Engine, asked: Sequence[TextRequest], kind: type[Decoder], **how: Any) -> list[Sample]:
    if issubclass(kind, NativeDecoder) and native.compiled() is None:
        pytest.skip("there is no C compiler here")
    return in_order(sample for sample, _ in engine.write_each(asked, decoder=kind, **how))


requests = st.builds(TextRequest, prompt=st.sampled_from(["", "th", TEXT]), seed=st.integers(0, 9))


@settings(max_examples=16)
@pytest.mark.parametrize("kind", KINDS)
@given(
    shape=st.sampled_from([*SHAPES]),
    asked=st.lists(requests, min_size=1, max_size=5),
    sampling=st.sampled_from(SAMPLINGS),
    stop=st.sampled_from([(), ("e",), ("ird", "s ")]),
    slots=st.sampled_from([None, 2]),
    seed=st.integers(0, 99),
)
def test_texts_are_the_same_to_the_bit_whatever_is_guessed(
    kind: type[Decoder],
    shape: str,
    asked: list[TextRequest],
    sampling: Sampling,
    stop: tuple[str, ...],
    slots: int | None,
    seed: int,
) -> None:
    engine = engine_for(shape)
    how: dict[str, Any] = {"tokens": 40, "sampling": sampling, "stop": stop, "slots": slots}
    expected = written(engine, asked, undrafted(kind), **how)
    with drafted_by(lambda d: Knowing(d, lambda s: expected[s.sample.number].ids, seed=seed)):
        found = written(engine, asked, kind, **how)
    assert found == expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", ["plain", "counts"])
def test_drafts_are_right_and_wrong_in_these_tests(kind: type[Decoder], shape: str) -> None:
    """And a text is told once with its end."""
    asked = [TextRequest("bird", seed) for seed in range(6)]
    how: dict[str, Any] = {"tokens": 40, "sampling": Sampling(temperature=0.6)}
    engine, made = engine_for(shape), []
    expected = written(engine, asked, undrafted(kind), **how)

    def make(decoder: Decoder) -> Drafts:
        made.append(Knowing(decoder, lambda stream: expected[stream.sample.number].ids))
        return made[-1]

    with drafted_by(make):
        pieces = [(s.number, piece, s.finish) for s, piece in engine.write_each(asked, decoder=kind, **how)]
    assert made[0].right > 20 and made[0].wrong > 5
    for sample in expected:
        own = [(piece, finish) for number, piece, finish in pieces if number == sample.number]
        assert "".join(piece for piece, _ in own) == sample.text
        assert [finish for _, finish in own if finish] == [own[-1][1]]
    assert len(pieces) + made[0].right >= sum(len(sample.ids) for sample in expected)


# What is guessed


def followed(ids: Sequence[int], most: int) -> tuple[list[int], int]:
    """The slow twin: the longest n-gram of those that are looked up, where it stood last."""
    for length in MATCHES:
        for place in range(len(ids) - 1, length - 1, -1):
            if [*ids[place - length : place]] == [*ids[len(ids) - length :]]:
                matched = length
                while (
                    matched < MATCHES[0] and place > matched and ids[place - 1 - matched] == ids[-1 - matched]
                ):
                    matched += 1
                whole = [*ids]
                while len(whole) < len(ids) + most:
                    whole.append(whole[place + len(whole) - len(ids)])
                return whole[len(ids) :], matched
    return [], 0


@given(
    ids=st.lists(st.integers(0, 2), max_size=60), parts=st.lists(st.integers(0, 60)), most=st.integers(1, 7)
)
def test_a_text_goes_on_as_it_did_after_its_longest_repetition(
    ids: list[int], parts: list[int], most: int
) -> None:
    text, cuts = TextSoFar(), sorted({0, len(ids), *(part for part in parts if part < len(ids))})
    for begin, end in itertools.pairwise(cuts):
        text.take(ids[begin:end])
    assert text.follow(most) == followed(ids, most)
    assert text.length == len(ids)


def test_of_a_long_text_the_last_part_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REACH", 20)
    text, said = TextSoFar(), list(range(100))
    for token in said:
        text.take([token])
    assert text.length == 100 and 20 <= len(text.ids) <= 41
    text.take([said[-9], said[-8]])
    assert text.follow(3) == (said[-7:-4], 2)
    text.take([3, 4])
    assert text.follow(3) == ([], 0)


def streams_of(engine: Engine, ids: Sequence[int], *, tokens: int = 50) -> Stream:
    return Stream(engine.tokenizer, ids, Sample(0), seed=0, tokens=tokens, stop=())


def test_a_guess_is_as_long_as_it_is_worth() -> None:
    guess = Guess([1, 2, 3], [Rate(0.9), Rate(0.5), Rate(0.8)])
    assert guess.worth(0.95) == (0.0, 0)
    assert guess.worth(0.5) == (pytest.approx(0.9), 1)
    assert guess.worth(0.4) == (pytest.approx(0.9 + 0.45), 2)
    assert guess.worth(0.1) == (pytest.approx(0.9 + 0.45 + 0.36), 3)


def test_rates_are_learned_up_to_the_first_mistake() -> None:
    rates = [Rate(0.5), Rate(0.5), Rate(0.5)]
    for _ in range(200):
        Guess([1, 2, 3], rates).learn([1, 7, 3])
    assert rates[0].value > 0.9 and rates[1].value < 0.1 and rates[2].value == 0.5
    for _ in range(200):  # and forgotten
        Guess([1, 2, 3], rates).learn([7])
    assert rates[0].value < 0.1


@pytest.mark.parametrize("shape", ["counts", "mixing"])
def test_the_training_text_is_drafted_from(shape: str) -> None:
    engine = engine_for(shape)
    decoder = FullDecoder(engine.model, slots=1)
    drafts = Drafts(decoder, engine.model.counts.ngrams)
    learned = preferences.text(400, 0, vocabulary=engine.tokenizer.vocab_size, evenly=0.4).tolist()
    stream = streams_of(engine, learned[100:103])
    (guess,) = drafts._guesses(stream, 4)
    tables = engine.model.counts.ngrams()
    assert tables is not None
    tokens, shares = tables.follow(learned[100:103], 4)
    assert (guess.tokens, len(shares)) == (tokens, 4)
    places = tables.contexts(np.array([learned[100:103]], np.int32))[0, -1:]
    every = np.arange(decoder.vocabulary)
    longest = tables.probabilities(np.repeat(places, len(every), axis=0), every)[:, -1]
    assert tokens[0] == longest.argmax()


def test_no_draft_goes_beyond_the_end_the_context_or_a_referee() -> None:
    engine = engine_for()
    decoder = FullDecoder(engine.model, slots=4)
    drafts = Knowing(decoder, lambda stream: range(3, 3 + 60))
    for held, tokens in ((1, 50), (T - 3, 50), (T - 1, 50), (T, 50), (1, 3), (1, 1)):
        most = min(AHEAD - 1, T - held - 1, tokens - 1)
        decoder.free(0)
        decoder.feed({0: [1] * held})
        found = [drafts.propose({0: streams_of(engine, [1] * held, tokens=tokens)}) for _ in range(60)]
        assert max(len(one.get(0, ())) for one in found) == max(0, most)
    decoder.free(0)
    stream = streams_of(engine, [1])
    stream.game = object()  # type: ignore[assignment]
    assert not any(drafts.propose({0: stream}) for _ in range(20))


def test_fewer_drafts_are_worth_it_among_many(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_for()
    decoder = FullDecoder(engine.model, slots=64)
    drafts = Drafts(decoder)
    guess = Guess([1, 2], [Rate(0.7), Rate(0.7)])
    monkeypatch.setattr(drafts, "_guesses", lambda *_: [Guess([5], [Rate(0.1)]), guess])
    lengths = [
        {
            len(one)
            for one in drafts.propose({slot: streams_of(engine, [1]) for slot in range(count)}).values()
        }
        for count in (1, 8, 64)
    ]
    assert lengths == [{2}, {1}, set()]


# When to guess


def paced(pace: Pace, passes: int, seconds: dict[bool, float], tokens: dict[bool, int]) -> list[bool]:
    drafted = []
    for _ in range(passes):
        drafted.append(pace.drafts)
        pace.note(tokens[pace.drafts], seconds[pace.drafts])
    return drafted


def test_it_drafts_where_that_is_faster_and_tries_seldom() -> None:
    for faster in (True, False):
        pace = Pace()
        seconds, tokens = {True: 1.5, False: 1.0}, {True: 2 if faster else 1, False: 1}
        drafted = paced(pace, 4000, seconds, tokens)
        assert drafted.count(not faster) < 0.06 * len(drafted)
        assert not all(each == faster for each in drafted[2000:])  # it keeps trying
        drafted = paced(pace, 4000, {True: 1.5, False: 1.0}, {True: 1 if faster else 2, False: 1})
        assert drafted[-1000:].count(faster) < 100  # and notices when that changes


def test_what_else_the_machine_does_decides_nothing() -> None:
    """A pass in thirteen takes fifty times as long, whichever way."""
    pace, drafted = Pace(), []
    for step in range(4000):
        drafted.append(pace.drafts)
        pace.note(2 if pace.drafts else 1, (1.5 if pace.drafts else 1.0) * (50 if step % 13 == 3 else 1))
    assert drafted.count(False) < 0.06 * len(drafted)


def test_the_time_of_a_pass_is_that_of_a_token() -> None:
    """By the clock between a pass's beginning and its end, per token that came."""
    engine, now = engine_for(), [0.0]
    drafts = Drafts(FullDecoder(engine.model, slots=1), clock=lambda: now[0])
    stream, ways = streams_of(engine, [1], tokens=10**6), []
    for _ in range(600):
        ways.append(drafts.begin(1))
        now[0] += 1.0
        if ways[-1]:
            drafts.propose({0: stream})
            now[0] += 1.0
            for _ in range(3):
                stream.sample.ids.append(1)
        drafts.end()
    assert ways.count(True) > 500


# What they do to a text


class Counted(FullDecoder):
    """Counts passes, and reads ahead."""

    passes = 0

    def foresees(self) -> bool:
        return True

    def feed(self, *arguments: Any, **options: Any) -> torch.Tensor:
        Counted.passes += 1
        return super().feed(*arguments, **options)


@pytest.mark.parametrize("temperature", [0.0, 0.1])
def test_a_text_that_repeats_itself_takes_fewer_passes(
    temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pace, "note", lambda *_: None)
    engine, how = engine_for(), {"tokens": 200, "sampling": Sampling(temperature=temperature)}
    Counted.passes = 0
    found = written(engine, [TextRequest("bird")], Counted, **how)
    assert found == written(engine, [TextRequest("bird")], undrafted(FullDecoder), **how)
    assert Counted.passes < 100 < len(found[0].ids) == 200


def test_what_was_seen_grows_along_a_draft() -> None:
    seen = np.array([True, False, False, False])
    assert seen_ahead(seen, (2, 2, 1)).tolist() == [
        [True, False, False, False],
        [True, False, True, False],
        [True, False, True, False],
        [True, True, True, False],
    ]
    assert seen.tolist() == [True, False, False, False]


def test_a_recipe_can_ask_for_every_sampling_of_these_tests() -> None:
    """None of its fields is left out above."""
    assert set(vars(SAMPLINGS[2])) == set(SamplingConfig.model_fields) - {
        "tokens",
        "every",
        "prompt",
        "stop",
        "count",
    }
