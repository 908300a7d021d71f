"""Slots: streams come, go and are copied in any order, and each gets what it would get alone, to the bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, get_args

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from octavo.generation import Decoder, Precision, native
from octavo.generation.cached import CachedDecoder
from octavo.generation.decoder import AHEAD
from octavo.generation.full import FullDecoder
from octavo.generation.native import NativeDecoder
from octavo.generation.sampling import Window
from octavo.model.base import build_model
from octavo.model.config import GPTConfig
from octavo.model.gpt import GPT
from unit.model import preferences

V, SLOTS, T = 23, 4, 9
SHAPES: dict[str, dict[str, Any]] = {
    "n-grams and odd widths": {
        "positions": "sinusoidal",
        "width": 33,
        "head_width": 7,
        "ngrams": {"kind": "hashed", "longest": 3, "buckets": 29},
    },
    "what was said": {"width": 32, "counts": {"kind": "kneser-ney", "orders": 3, "hidden": 4, "recent": 12}},
    "what little was said": {
        "width": 32,
        "counts": {"kind": "kneser-ney", "orders": 3, "hidden": 4, "recent": 3},
    },
    "context mixing": {"width": 32, "counts": {"kind": "mixing"}},
    "whole blocks": {"positions": "rotary", "width": 64, "kv_heads": 1, "feed_forward": "swiglu"},
}
KINDS = [NativeDecoder, CachedDecoder, FullDecoder]
PRECISIONS = get_args(Precision)

slots = st.integers(0, SLOTS - 1)
ids = st.lists(st.integers(0, V - 1), min_size=1, max_size=T + 4)
deeds = st.one_of(
    st.tuples(st.just("feed"), st.dictionaries(slots, ids, min_size=1)),
    st.tuples(st.just("feed"), st.dictionaries(slots, ids.map(lambda some: some[:1]), min_size=1)),
    st.tuples(
        st.just("ahead"),
        st.dictionaries(slots, st.tuples(ids, st.booleans(), st.integers(0, AHEAD)), min_size=1),
    ),
    st.tuples(st.just("free"), slots),
    st.tuples(st.just("copy"), st.tuples(slots, st.lists(slots, max_size=3))),
)


@cache
def model_of(shape: str) -> GPT:
    torch.set_num_threads(1)
    options = {"layers": 2, "heads": 2, "context": T, **SHAPES[shape]}
    model = build_model(GPTConfig.model_validate(options), vocab_size=V, seed=3).eval()
    model.take_text(preferences.text(400, 0, vocabulary=V, evenly=0.4))
    preferences.trust_what_was_said(model.counts)
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():  # what starts at zero would hide mistakes
            weight.add_(torch.randn_like(weight), alpha=0.1)
    return model


def made(kind: type[Decoder], **options: Any) -> Decoder:
    if kind is NativeDecoder and native.compiled() is None:
        pytest.skip("there is no C compiler here")
    return kind(model_of(options.pop("shape", "whole blocks")), **options)


def holds_for(kind: type[Decoder], schedule: Sequence[tuple[str, Any]], **options: Any) -> None:
    """Follow a schedule with all slots, and each stream with a decoder of its own."""
    together = made(kind, slots=SLOTS, **options)
    together.foresees()
    streams: dict[int, list[list[int]]] = {slot: [] for slot in range(SLOTS)}
    alone: dict[int, Decoder] = {}

    def follow_ahead(what: Mapping[int, tuple[list[int], bool, int]]) -> None:
        """Some slots read ahead, and what others read comes in the same step."""
        feeds: dict[int, list[int]] = {}
        for slot, (new, ahead, _) in what.items():
            room = min(AHEAD, T - together.lengths[slot])
            feeds[slot] = new[:room] if ahead and room else new
        ahead = {slot for slot, (_, ahead, _) in what.items() if ahead and together.lengths[slot] < T}
        logits = iter(together.feed(feeds, ahead=ahead))
        for slot, new in feeds.items():
            single = made(kind, slots=1, **options)
            for earlier in streams[slot]:
                single.feed({0: earlier})
            pieces = [[token] for token in new] if slot in ahead else [new]
            for piece in pieces:
                assert torch.equal(next(logits), single.feed({0: piece})[0]), (slot, streams[slot], new)
            kept = pieces
            if slot in ahead:
                back = min(what[slot][2], len(new))
                together.take_back(slot, back)
                kept = pieces[: len(pieces) - back]
            streams[slot] = streams[slot] + kept
            alone.pop(slot, None)
        assert next(logits, None) is None

    for deed, what in schedule:
        if deed == "feed":
            logits = together.feed(what)
            for row, (slot, new) in enumerate(what.items()):
                streams[slot] = [*streams[slot], new]
                if slot not in alone:
                    alone[slot] = made(kind, slots=1, **options)
                    for earlier in streams[slot][:-1]:  # it was copied
                        alone[slot].feed({0: earlier})
                assert torch.equal(logits[row], alone[slot].feed({0: new})[0]), (slot, streams[slot])
                assert together.held(slot) == alone[slot].held(0)
        elif deed == "ahead":
            follow_ahead(what)
        elif deed == "free":
            together.free(what)
            streams[what] = []
            alone.pop(what, None)
        else:
            source, to = what
            together.copy(source, to)
            for slot in set(to) - {source}:
                streams[slot] = streams[source]
                alone.pop(slot, None)


@pytest.mark.parametrize("kind", KINDS[:2])
def test_what_a_text_has_said_is_mixed_in_by_all_alike(kind: type[Decoder]) -> None:
    """Beyond the window, too: a stream that says the same again and again is foreseen."""
    one, twin = (made(each, shape="what was said", slots=2) for each in (kind, FullDecoder))
    for step in range(3 * T):
        fed = {0: [step % 4], 1: [step * step % 7]}
        found, expected = one.feed(fed), twin.feed(fed)
        torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-5)
        torch.testing.assert_close(found.exp().sum(dim=1), torch.ones(2), atol=1e-5, rtol=1e-5)
    again = found[0].exp()[(step + 1) % 4]
    one.free(0)
    alone = one.feed({0: [step % 4]})[0].exp()[(step + 1) % 4]
    assert again > alone


@settings(max_examples=20)
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("kind", KINDS)
@given(
    shape=st.sampled_from(list(SHAPES)),
    window=st.sampled_from(get_args(Window)),
    schedule=st.lists(deeds, max_size=20),
)
@example(  # the second slot's keys lay at no boundary of memory, and some processors add from there in another order
    shape="n-grams and odd widths",
    window="slide",
    schedule=[("feed", {0: [0], 1: [0, 0, 0, 0]}), ("feed", {0: [0], 1: [0]})],
)
@example(  # ids of the second slot are read ahead that see fewer n-grams before them than those of the first
    shape="n-grams and odd widths",
    window="slide",
    schedule=[("feed", {0: [1, 2, 3, 4]}), ("ahead", {0: ([5], True, 0), 1: ([6, 7, 8, 9], True, 0)})],
)
def test_a_stream_is_the_same_to_the_bit_among_others_that_come_and_go(
    kind: type[Decoder],
    precision: Precision,
    shape: str,
    window: Window,
    schedule: list[tuple[str, Any]],
) -> None:
    holds_for(kind, schedule, shape=shape, precision=precision, window=window)


@settings(max_examples=20)
@pytest.mark.parametrize("processor", ["AVX2", "SSE2"], indirect=True)
@pytest.mark.parametrize("precision", PRECISIONS)
@given(shape=st.sampled_from(list(SHAPES)), schedule=st.lists(deeds, max_size=20))
def test_so_it_is_by_the_kernel_of_other_processors(
    processor: str, precision: Precision, shape: str, schedule: list[tuple[str, Any]]
) -> None:
    holds_for(NativeDecoder, schedule, shape=shape, precision=precision)


@settings(max_examples=30)
@given(shape=st.sampled_from(list(SHAPES)), schedule=st.lists(deeds, max_size=20))
def test_slots_that_are_computed_together_round_otherwise_and_no_more(
    shape: str, schedule: list[tuple[str, Any]]
) -> None:
    """As they are on an accelerator: groups of equal length, side by side in memory and not."""
    grouped, single = (CachedDecoder(model_of(shape), slots=SLOTS) for _ in range(2))
    grouped.together, grouped._invariant, grouped._uneven = SLOTS, False, False
    for deed, what in schedule:
        if deed == "feed":
            torch.testing.assert_close(grouped.feed(what), single.feed(what), rtol=1e-5, atol=1e-5)
        elif deed == "ahead" and (feeds := {slot: ids[:1] for slot, (ids, _, _) in what.items()}):
            ahead = {slot for slot in feeds if single.lengths[slot] < T}
            found = [decoder.feed(feeds, ahead=ahead) for decoder in (grouped, single)]
            torch.testing.assert_close(*found, rtol=1e-5, atol=1e-5)
        for decoder in (grouped, single):
            if deed == "free":
                decoder.free(what)
            elif deed == "copy":
                decoder.copy(*what)


@pytest.mark.parametrize("kind", KINDS)
def test_a_copied_prefix_goes_on_as_if_it_had_been_read(kind: type[Decoder]) -> None:
    """Also one that has slid, and one that is copied over a longer text."""
    for length in (1, T - 1, T, T + 5):
        decoder, prompt = made(kind, slots=3), [token % V for token in range(length)]
        decoder.feed({2: list(range(T - 1))})
        first = decoder.feed({1: prompt})
        decoder.copy(1, [0, 2])
        assert decoder.held(0) == decoder.held(1) == decoder.held(2)
        other = made(kind, slots=1)
        assert torch.equal(other.feed({0: prompt}), first)
        for token in range(2 * T):
            rows = decoder.feed({2: [token], 0: [token], 1: [V - 1 - token]})
            assert torch.equal(rows[0], rows[1]) and not torch.equal(rows[0], rows[2])
            assert torch.equal(rows[:1], other.feed({0: [token]}))


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_each_id_of_a_prompt_has_logits_and_the_last_those_of_the_prompt(
    kind: type[Decoder], shape: str, precision: Precision
) -> None:
    """By a decoder that reads in parts, to the bit those that each id has when it is fed alone."""
    ids = [5, 1, 2, 2, 7, 1, 2]
    decoder, other, single = (made(kind, shape=shape, slots=2, precision=precision) for _ in range(3))
    decoder.feed({0: [4, 4, 4]})
    each = decoder.feed_each(1, ids)
    assert torch.equal(each[-1:], other.feed({1: ids}))
    alone = torch.cat([single.feed({1: [token]}) for token in ids])
    if decoder.in_parts:
        assert torch.equal(each, alone)
    tolerance = {"rtol": 0.05, "atol": 0.05} if precision == "bfloat16" else {"rtol": 1e-4, "atol": 1e-4}
    torch.testing.assert_close(each, alone, **tolerance)
    assert decoder.held(1) == ids
    assert torch.equal(decoder.feed({1: [3]}), other.feed({1: [3]}))
    with pytest.raises(ValueError, match=f"context of {T}"):
        decoder.feed_each(1, ids)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.in_parts])
def test_a_slot_that_keeps_its_first_ids_goes_on_as_if_it_had_read_no_more(
    kind: type[Decoder], shape: str
) -> None:
    for length in (0, 1, 4):
        decoder, other = (made(kind, shape=shape, slots=2) for _ in range(2))
        decoder.feed({1: [1, 2, 3, 1, 2, 3]})
        decoder.copy(1, [0], first=length)
        decoder.keep_first(1, length)
        if length:
            other.feed({1: [1, 2, 3, 1, 2, 3][:length]})
        assert decoder.held(0) == decoder.held(1) == other.held(1)
        expected = other.feed({1: [7, 8]})
        assert torch.equal(decoder.feed({1: [7, 8]}), expected)
        assert torch.equal(decoder.feed({0: [7, 8]}), expected)
    for too_many in (lambda: decoder.keep_first(1, T), lambda: decoder.copy(1, [0], first=T)):
        with pytest.raises(ValueError, match="does not hold"):
            too_many()


def test_more_places_than_are_computed_at_a_time_each_have_their_own_logits() -> None:
    """By the kernel, which computes 64 at a time."""
    long = build_model(GPTConfig(layers=1, heads=2, width=16, context=200), vocab_size=V, seed=3).eval()
    if native.compiled() is None:
        pytest.skip("there is no C compiler here")
    ids = [token * token % V for token in range(150)]
    decoder, single = (NativeDecoder(long, slots=40) for _ in range(2))
    each = decoder.feed_each(3, ids)
    assert torch.equal(each, torch.cat([single.feed({3: [token]}) for token in ids]))
    some = {slot: [slot % V, 1, 2] for slot in range(40)}
    ahead = decoder.feed(some, ahead=some)
    rows = [single.feed({slot: [ids[at]] for slot, ids in some.items()}) for at in range(3)]
    assert torch.equal(ahead.view(40, 3, V), torch.stack(rows, dim=1))


@pytest.mark.parametrize("shape", ["what was said", "what little was said"])
@pytest.mark.parametrize("kind", [NativeDecoder, CachedDecoder])
def test_what_was_said_is_taken_back_with_what_was_read_ahead(kind: type[Decoder], shape: str) -> None:
    """Beyond the window, when old tokens have just been let go, and where fewer count than are read ahead."""
    ahead, plain = (made(kind, shape=shape, slots=1) for _ in range(2))
    ahead.foresees()
    for step in range(90):
        token = step * step % 7
        room = min(AHEAD, T - ahead.lengths[0])
        if room > 1:
            found = ahead.feed({0: [token, *[5] * (room - 1)]}, ahead=[0])[:1]
            ahead.take_back(0, room - 1)
        else:
            found = ahead.feed({0: [token]})
        assert torch.equal(found, plain.feed({0: [token]})), step


@pytest.mark.parametrize("kind", KINDS)
def test_no_more_is_read_ahead_or_taken_back_than_there_is(kind: type[Decoder]) -> None:
    decoder = made(kind, slots=2)
    decoder.feed({0: [1, 2, 3], 1: [4]})
    for new in ([5] * (T - 2), [5] * (AHEAD + 1)):
        with pytest.raises(ValueError, match="slot 0"):
            decoder.feed({1: [4], 0: new}, ahead=[0])
    for slot, count in ((0, 4), (0, -1), (0, AHEAD + 1), (1, 2)):
        with pytest.raises(ValueError, match=f"slot {slot}"):
            decoder.take_back(slot, count)
    assert (decoder.held(0), decoder.held(1)) == ([1, 2, 3], [4])


def test_slots_say_how_much_of_a_text_they_begin_with() -> None:
    decoder = made(FullDecoder, slots=4)
    decoder.feed({0: [1, 2, 3, 4], 1: [1, 2], 2: [2]})
    for ids in ([1, 2, 3], [1, 2, 3, 4, 5, 6], [1, 3], [7], [0], list(range(1, T + 6))):
        expected = [
            next(
                (n for n, (a, b) in enumerate(zip(held, ids, strict=False)) if a != b),
                min(len(held), len(ids)),
            )
            for held in map(decoder.held, range(4))
        ]
        assert decoder.alike(ids).tolist() == expected
    assert list(decoder.lengths) == [4, 2, 1, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_come_in_the_order_in_which_slots_are_named(kind: type[Decoder]) -> None:
    decoder, other = made(kind, slots=3), made(kind, slots=3)
    some = {2: [1, 2, 3], 0: [4], 1: [5, 6]}
    forth, back = decoder.feed(some), other.feed(dict(reversed(some.items())))
    assert torch.equal(forth, back.flip(0)) and len(forth.unique(dim=0)) == 3


# What cannot be done is said before anything is read


@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_fed_leaves_all_slots_as_they_were(kind: type[Decoder]) -> None:
    decoder = made(kind, slots=2)
    decoder.feed({0: [1, 2], 1: [3]})
    wrong: list[tuple[dict[int, list[int]], type[Exception], str]] = [
        ({}, ValueError, "nothing to read"),
        ({0: [4], 1: []}, ValueError, "nothing to read"),
        ({0: [4], 2: [1]}, IndexError, "no slot 2 among 2"),
        ({0: [4], -1: [1]}, IndexError, "no slot -1 among 2"),
        *(
            ({0: [4], 1: [1, token]}, IndexError, f"{token} is beyond the vocabulary of {V}")
            for token in (V, -1, 2**40)
        ),
    ]
    for new, error, message in wrong:
        with pytest.raises(error, match=message):
            decoder.feed(new)
    assert decoder.held(0) == [1, 2] and decoder.held(1) == [3]
    other = made(kind, slots=1)
    other.feed({0: [1, 2]})
    assert torch.equal(decoder.feed({0: [5]}), other.feed({0: [5]}))


@pytest.mark.parametrize("kind", KINDS)
def test_slots_that_are_not_there(kind: type[Decoder]) -> None:
    decoder = made(kind, slots=2)
    for deed in (
        lambda: decoder.free(2),
        lambda: decoder.copy(2, [0]),
        lambda: decoder.copy(0, [1, 5]),
        lambda: decoder.held(-1),
    ):
        with pytest.raises(IndexError, match="no slot"):
            deed()
    for count in (0, -1):
        with pytest.raises(ValueError, match="at least one slot"):
            made(kind, slots=count)


@pytest.mark.parametrize("kind", KINDS)
def test_a_free_slot_begins_anew_and_a_copy_onto_itself_changes_nothing(kind: type[Decoder]) -> None:
    decoder = made(kind, slots=2)
    first = decoder.feed({0: [1, 2, 3]})
    decoder.copy(0, [0])
    decoder.copy(0, [])
    assert decoder.held(0) == [1, 2, 3]
    decoder.free(0)
    decoder.free(0)
    assert decoder.held(0) == []
    assert torch.equal(decoder.feed({0: [1, 2, 3]}), first)
    decoder.copy(1, [0])  # of one that holds nothing
    assert decoder.held(0) == []
    assert torch.equal(decoder.feed({0: [1, 2, 3]}), first)
