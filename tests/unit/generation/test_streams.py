"""Several texts at once: each is what it would be alone, those that wait come after those that end, and no token is
computed for nobody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from octavo.config.parts import parts
from octavo.errors import InputError, TokenizerError
from octavo.generation import Decoder, Engine, Sample, Sampling, TextRequest, engine, native
from octavo.generation.cached import CachedDecoder
from octavo.generation.engine import in_order
from octavo.generation.full import FullDecoder
from octavo.generation.native import NativeDecoder
from octavo.model.base import build_model
from octavo.model.config import GPTConfig
from octavo.util import memory

TEXT = "the small bird sees a big tree."
SAMPLED = Sampling(temperature=1.1, top_k=20, top_p=0.95, min_p=0.01, repetition_penalty=1.1)
PROMPTS: list[str | list[int]] = ["", "th", "the small bird sees", [3], [1, 2, 3, 4, 5], "th"]


@cache
def engine_for() -> Engine:
    tokenizer = parts("tokenizer")["char"]().build(lambda: iter([TEXT]), documents=True)
    options = {"layers": 2, "width": 16, "heads": 2, "context": 8, "positions": "rotary"}
    config = GPTConfig.model_validate(options | {"initialization": {"kind": "normal", "std": 0.4}})
    return Engine(build_model(config, vocab_size=tokenizer.vocab_size, seed=3), tokenizer)


def counting(kind: type[Decoder]) -> Any:
    """A decoder that counts the ids and the slots that it is fed."""

    class Counting(kind):  # type: ignore[misc, valid-type]
        ids, rows, made = 0, 0, 0

        def __init__(self, model: Any, **options: Any) -> None:
            super().__init__(model, **options)
            Counting.made = self.slots

        def foresees(self) -> bool:
            return False

        def feed(self, new: Mapping[int, Sequence[int]]) -> Tensor:
            Counting.ids += sum(map(len, new.values()))
            Counting.rows += len(new)
            return super().feed(new)

    return Counting


def told(sample: Sample) -> tuple[Any, ...]:
    return sample.index, sample.ids, sample.log_probabilities, sample.text, sample.finish


requests = st.builds(
    TextRequest, prompt=st.sampled_from(PROMPTS), seed=st.integers(0, 2), index=st.integers(0, 3)
)


@settings(max_examples=16)
@pytest.mark.parametrize("kind", [NativeDecoder, CachedDecoder, FullDecoder])
@given(
    asked=st.lists(requests, min_size=1, max_size=8),
    slots=st.one_of(st.none(), st.integers(1, 9)),
    window=st.sampled_from(["slide", "crop"]),
    stop=st.sampled_from([[], ["e"], ["ird", "s "]]),
)
def test_each_text_is_what_it_is_alone(
    kind: type[Decoder], asked: list[TextRequest], slots: int | None, window: Any, stop: list[str]
) -> None:
    if kind is NativeDecoder and native.compiled() is None:
        pytest.skip("there is no C compiler here")
    sampling = Sampling(**{**vars(SAMPLED), "window": window})
    how: dict[str, Any] = {"tokens": 14, "sampling": sampling, "stop": stop, "decoder": kind}
    pieces = list(engine_for().write_each(asked, slots=slots, **how))
    samples = in_order(sample for sample, _ in pieces)
    assert [sample.number for sample in samples] == list(range(len(asked)))
    for request, sample in zip(asked, samples, strict=True):
        *_, (alone, _) = engine_for().write_each([request], **how)
        assert told(sample) == told(alone)
        assert sample.text == "".join(piece for one, piece in pieces if one is sample)


def test_a_text_within_the_context_ends_where_its_own_prompt_lets_it() -> None:
    """Not where the longest prompt among them would."""
    asked = [TextRequest(prompt, seed) for prompt in ("", "th", "the") for seed in range(8)]
    written = engine_for().write_each(asked, tokens=14, sampling=SAMPLED, within=True)
    room = engine_for().model.context + 1
    samples = in_order(sample for sample, _ in written)
    for request, sample in zip(asked, samples, strict=True):
        size = len(engine_for().prompt_ids(request.prompt)) + len(sample.ids)
        assert size == room if sample.finish == "length" else size <= room
    assert sum(sample.finish == "length" for sample in samples) > 8


def test_nothing_is_computed_for_a_text_that_has_ended() -> None:
    kind = counting(CachedDecoder)
    asked = [TextRequest("th", seed) for seed in range(12)]
    samples = in_order(
        s for s, _ in engine_for().write_each(asked, tokens=200, sampling=SAMPLED, decoder=kind)
    )
    lengths = [len(sample.ids) for sample in samples]
    assert len(set(lengths)) > 2
    prompt = len(engine_for().prompt_ids("th"))
    assert kind.made == 12
    assert (
        kind.ids == prompt + sum(lengths) - 12
    )  # read once for all; the last token of each is read by nobody
    assert kind.rows == 1 + sum(lengths) - 12


def test_those_that_wait_take_the_place_of_those_that_end() -> None:
    kind = counting(CachedDecoder)
    asked = [TextRequest("th", seed) for seed in range(9)]
    begun: set[int] = set()
    ended: set[int] = set()
    for sample, _ in engine_for().write_each(asked, tokens=30, sampling=SAMPLED, slots=2, decoder=kind):
        begun.add(sample.number)
        ended |= {sample.number} if sample.finish else set()
        # Both are told of after a step, in which the last token of either was written.
        assert len(begun - ended) <= 2
        assert max(begun) <= len(ended) + 2
    assert kind.made == 2 and ended == set(range(9))


@pytest.mark.parametrize("slots", [0, -1])
def test_texts_need_a_slot(slots: int) -> None:
    with pytest.raises(ValueError, match="at least one slot"):
        list(engine_for().write_each([TextRequest("th")], tokens=3, sampling=SAMPLED, slots=slots))


def test_no_requests_are_no_texts() -> None:
    assert list(engine_for().write_each([], tokens=3, sampling=SAMPLED)) == []


# Prompts


def test_a_prompt_of_ids_is_read_as_it_stands() -> None:
    ids = engine_for().prompt_ids("the")
    by_text, by_ids = (engine_for().samples(prompt, tokens=9, sampling=SAMPLED)[0] for prompt in ("the", ids))
    assert told(by_text) == told(by_ids)
    assert ids[0] == engine_for().tokenizer.start
    bare = engine_for().samples(ids[1:], tokens=9, sampling=SAMPLED)[0]
    assert bare.log_probabilities != by_ids.log_probabilities


def test_large_seeds_are_seeds_of_their_own() -> None:
    seeds = (2**63, 2**63 + 1, 2**64 - 1, 0)
    texts = [engine_for().samples("th", tokens=30, sampling=SAMPLED, seed=seed)[0].text for seed in seeds]
    assert len(set(texts)) == len(seeds)


@pytest.mark.parametrize("prompt", [[1, 99], [-1], [2**40]])
def test_ids_outside_the_vocabulary_are_an_error_that_names_them(prompt: list[int]) -> None:
    with pytest.raises(
        InputError, match=rf"id {max(prompt, key=abs)};.*0 to {engine_for().tokenizer.vocab_size - 1}"
    ):
        engine_for().samples(prompt, tokens=3, sampling=SAMPLED)


def test_a_prompt_without_ids_is_an_error() -> None:
    with pytest.raises(InputError, match="no ids"):
        engine_for().samples([], tokens=3, sampling=SAMPLED)


def test_a_wrong_prompt_stops_all_before_anything_is_written() -> None:
    kind = counting(CachedDecoder)
    with pytest.raises(TokenizerError, match="Ω"):
        list(
            engine_for().write_each(
                [TextRequest("the"), TextRequest("Ω")], tokens=3, sampling=SAMPLED, slots=1, decoder=kind
            )
        )
    assert kind.made == 0


# Memory


def test_where_memory_is_short_texts_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [TextRequest("th", seed) for seed in range(5)]
    plenty = in_order(sample for sample, _ in engine_for().write_each(asked, tokens=20, sampling=SAMPLED))
    kind = counting(CachedDecoder)
    one = 2 * 2 * 16 * 4 * 8 + engine.DRAWN * engine_for().tokenizer.vocab_size
    monkeypatch.setattr(engine, "available_memory", lambda: 2 * 3 * one + 1)
    scarce = in_order(
        sample for sample, _ in engine_for().write_each(asked, tokens=20, sampling=SAMPLED, decoder=kind)
    )
    assert kind.made == 3
    assert [told(sample)[1] for sample in scarce] == [told(sample)[1] for sample in plenty]


def test_what_memory_never_holds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"texts at once take at least .* of memory"):
        engine_for().samples("th", tokens=3, sampling=SAMPLED, count=10**11)
    monkeypatch.setattr(memory, "room", lambda: 1200)  # enough to keep a text, and not to write it
    with pytest.raises(InputError, match="A text of 5 tokens takes"):
        engine_for().samples("t", tokens=3, sampling=SAMPLED)
