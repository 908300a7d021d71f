"""Context mixing: the kernel beside its twin, and what any legal mixture owes (causal, one pass, scored before it is
learned, a distribution that sums to one)."""

from __future__ import annotations

import gc
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.ngram import mixing
from octavo.ngram.codes import MOST_SYMBOLS, UNITS, Codes
from octavo.ngram.mixing import Beside, ContextMixing, compiled
from octavo.ngram.slow_mixing import SlowMixing
from octavo.util.memory import own_pages

pytestmark = pytest.mark.skipif(compiled() is None, reason="there is no C compiler")

PROSE = (
    "The cat sat.\n  A second cat, who had heard of the first cat, sat down too.\n"
    '  A third cat: "I sit where the first cat sat!"\n\tNaïve cats sat in 1999.\n'
)
TEXT = np.frombuffer((PROSE * 3).encode(), np.uint8)
LOG = "".join(
    f'10.0.{n % 3}.{n * 7 % 11} - [17/May:10:0{n % 10}] "GET /item/{n * 37} HTTP" 200 {n * n}\n'
    for n in range(8)
)
CODE = "".join(
    f"def call_{n}(first, [second, {{third}}], size={n}):\n    if first(second, third[{n}]):\n"
    f"        for each in range({n}):\n            do(each,\n               {n}, (((1)))\n\n    done = {n}}})\n"
    for n in range(4)
)
DEEP = "".join(" " * n + "([{"[n % 3] * n + f"a, {n},\n" for n in range(0, 40, 3)) + ")" * 50 + "\n"


def codes_of(texts: Sequence[str], counts: Sequence[int]) -> Codes:
    return Codes.of(np.array(counts), texts)


def many_symbols(size: int = 600) -> Codes:
    """More symbols than units, of which the text has every third."""
    return codes_of(
        [f"w{symbol}" for symbol in range(size)], [int(symbol % 3 == 0) for symbol in range(size)]
    )


def spans_of(pairs: Sequence[tuple[int, int]]) -> np.ndarray:
    return np.array(pairs, np.int64)


def something_beside(random: np.random.Generator, shape: tuple[int, int]) -> Beside:
    """To some symbols of (N, V) a share of each distribution is given."""
    kept = random.uniform(size=shape[0]).astype(np.float32)
    some = random.uniform(size=shape) * (random.uniform(size=shape) < 0.1) + 1e-9
    return Beside(kept, ((1 - kept[:, None]) * some / some.sum(axis=1, keepdims=True)).astype(np.float32))


@pytest.mark.parametrize("text", [PROSE * 3, LOG, CODE, DEEP], ids=["prose", "log", "code", "deep"])
def test_the_kernel_is_its_twin_while_it_reads(text: str) -> None:
    units = np.frombuffer(text.encode(), np.uint8)
    kernel, twin = (kind(Codes.of_bytes(), capacity=len(units)) for kind in (ContextMixing, SlowMixing))
    own, others = kernel.read(units), twin.read(units)
    assert np.abs(own - others).max() < 1e-3


def test_what_was_read_twice_is_known() -> None:
    own = ContextMixing(Codes.of_bytes(), capacity=len(TEXT)).read(TEXT)
    assert own[-len(TEXT) // 3 :].mean() < 0.2 * own[: len(TEXT) // 3].mean(), "the third time it is known"


@pytest.mark.parametrize("codes", [Codes.of_bytes(), many_symbols()], ids=["bytes", "two units"])
def test_the_kernel_is_its_twin_where_it_foretells(codes: Codes) -> None:
    random = np.random.default_rng(0)
    tokens = random.integers(codes.size // 3, size=120) * 3 % codes.size
    kernel, twin = (kind(codes, capacity=1000) for kind in (ContextMixing, SlowMixing))
    kernel.read(tokens), twin.read(tokens)
    spans, came = spans_of([(0, 0), (0, 20), (3, 119)]), tokens[[0, 20, 119]]
    for logits in (None, random.normal(size=(3, codes.size + 2)).astype(np.float32)):
        np.testing.assert_allclose(
            kernel.predict(tokens, spans, logits), twin.predict(tokens, spans, logits), atol=0.02
        )
        for beside in (None, something_beside(random, (3, codes.size))):
            own, other = (mixer.score(tokens, spans, came, logits, beside) for mixer in (kernel, twin))
            for mine, others in zip(own, other, strict=True):
                np.testing.assert_allclose(mine, others, atol=2e-3)


def test_the_kernel_is_its_twin_where_it_foretells_words() -> None:
    kernel, twin = (kind(Codes.of_bytes(), capacity=1000) for kind in (ContextMixing, SlowMixing))
    kernel.read(TEXT), twin.read(TEXT)
    other = np.frombuffer(b'"A cat," it heard (first), and sat', np.uint8)
    spans, came = spans_of([(0, end) for end in range(1, len(other))]), other[1:]
    own, others = (mixer.score(other, spans, came)[0] for mixer in (kernel, twin))
    np.testing.assert_allclose(own, others, atol=2e-3)


@pytest.mark.parametrize("codes", [Codes.of_bytes(), many_symbols()], ids=["bytes", "two units"])
@pytest.mark.parametrize("kind", [ContextMixing, SlowMixing])
def test_a_walk_is_what_reading_is(codes: Codes, kind: type[ContextMixing] | type[SlowMixing]) -> None:
    random = np.random.default_rng(3)
    tokens = np.tile(random.integers(codes.size // 3, size=60) * 3 % codes.size, 3).astype(np.int32)
    logits = 3 * random.normal(size=(len(tokens), codes.size)).astype(np.float32)
    walking, reading, nats = kind(codes, capacity=1000), kind(codes, capacity=1000), []
    for token, said in zip(tokens.tolist(), logits, strict=True):
        walk, probability = walking.walk(said), 1.0
        for bit in np.flatnonzero(codes.paths[token] >= 0).tolist():
            came = int(codes.units[token, bit // 8]) >> (7 - bit % 8) & 1
            assert walk.p is not None and walk.token is None
            probability *= walk.p if came else 1 - walk.p
            walk.go(came)
        assert walk.p is None and walk.token == token
        nats.append(-np.log(probability))
    np.testing.assert_allclose(nats, reading.read(tokens, reading.hear(logits, tokens)), rtol=1e-3, atol=1e-5)
    np.testing.assert_array_equal(walking.weights, reading.weights)
    assert walking.length == reading.length
    np.testing.assert_allclose(walking.read(tokens), reading.read(tokens), rtol=1e-6)


@pytest.mark.parametrize("kind", [ContextMixing, SlowMixing])
def test_a_walk_without_room_is_refused(kind: type[ContextMixing] | type[SlowMixing]) -> None:
    mixer = kind(Codes.of_bytes(), capacity=2)
    for token in (65, 66):
        walk = mixer.walk()
        while walk.p is not None:
            walk.go(token >> 7 & 1)
            token = token << 1 & 255
    with pytest.raises(ValueError, match="do not fit"):
        mixer.walk()


@pytest.mark.parametrize("codes", [Codes.of_bytes(), many_symbols()], ids=["bytes", "two units"])
def test_the_kernel_hears_a_network_as_its_twin_does(codes: Codes) -> None:
    random = np.random.default_rng(1)
    tokens = random.integers(codes.size // 3, size=150) * 3 % codes.size
    logits = 3 * random.normal(size=(150, codes.size)).astype(np.float32)
    kernel, twin = (kind(codes, capacity=1000) for kind in (ContextMixing, SlowMixing))
    heard = kernel.hear(logits, tokens)
    np.testing.assert_allclose(heard, twin.hear(logits, tokens), atol=1e-5)
    np.testing.assert_allclose(kernel.read(tokens, heard), twin.read(tokens, heard), atol=2e-3)
    np.testing.assert_allclose(kernel.weights, twin.weights, atol=1e-3)


def test_a_network_that_knows_what_comes_is_believed_more_and_more() -> None:
    tokens = np.random.default_rng(2).integers(256, size=1200)
    knows = np.where(np.arange(256) == tokens[:, None], 4.0, 0.0).astype(np.float32)
    model = ContextMixing(Codes.of_bytes(), capacity=len(tokens))
    alone = ContextMixing(Codes.of_bytes(), capacity=len(tokens)).read(tokens)
    nats = model.read(tokens, model.hear(knows, tokens))
    assert alone[-300:].mean() > 5.4
    assert nats[-300:].mean() < 0.7 * nats[:100].mean() < 0.7 * 4


@given(
    size=st.integers(1, 700),
    tokens=st.lists(st.integers(0, 699), min_size=1, max_size=200),
    seed=st.integers(0, 9),
)
@settings(max_examples=25, deadline=None)
def test_every_distribution_sums_to_one(size: int, tokens: list[int], seed: int) -> None:
    read = np.array(tokens) % size
    spelt = [chr(32 + symbol) if symbol % 2 else f"s{symbol}" for symbol in range(size)]
    codes = Codes.of(np.bincount(read, minlength=size), spelt)
    model = ContextMixing(codes, capacity=4 * len(read))
    model.read(read)
    random = np.random.default_rng(seed)
    for text in (read, random.integers(size, size=30)):
        spans = spans_of([(0, end) for end in range(min(20, len(text)))])
        said = (10 * random.normal(size=(len(spans), size))).astype(np.float32)
        for logits in (None, said):
            logs = model.predict(text, spans, logits)
            np.testing.assert_allclose(np.exp(logs.astype(np.float64)).sum(axis=1), 1, atol=1e-5)
            assert np.isfinite(logs).all()
            came = text[: len(spans)]
            scored = model.score(text, spans, came, logits)
            np.testing.assert_array_equal(scored.logs, logs[np.arange(len(spans)), came])
            mine = logs[np.arange(len(spans)), came]
            np.testing.assert_array_equal(scored.first > 0, mine >= logs.max(axis=1))
            beside = something_beside(random, logs.shape)
            together = beside.kept[:, None] * np.exp(logs.astype(np.float64)) + beside.added
            mine, scored = (
                together[np.arange(len(spans)), came],
                model.score(text, spans, came, logits, beside),
            )
            np.testing.assert_allclose(scored.logs, np.log(mine), atol=1e-5)
            others = np.where(np.arange(size) == came[:, None], 0, together).max(axis=1)
            clear = np.abs(mine / others - 1) > 1e-5 if size > 1 else np.ones(len(spans), bool)
            np.testing.assert_array_equal(scored.first[clear] > 0, (mine > others)[clear])


@given(st.binary(max_size=120), st.binary(max_size=40), st.binary(max_size=40))
@settings(max_examples=25, deadline=None)
def test_nothing_depends_on_what_follows(text: bytes, one: bytes, other: bytes) -> None:
    before, first, second = (np.frombuffer(each, np.uint8) for each in (text, one, other))
    whole = [np.concatenate((before, each)) for each in (first, second)]
    read = [ContextMixing(Codes.of_bytes(), capacity=200).read(each) for each in whole]
    same = len(before) + int(np.cumprod(first[: len(second)] == second[: len(first)]).sum())
    np.testing.assert_array_equal(read[0][:same], read[1][:same])


@pytest.mark.parametrize("hears", [False, True])
def test_what_is_read_had_probabilities_that_sum_to_one(hears: bool) -> None:
    """So no symbol told of itself: each of all was scored before it was learned."""
    size = 60
    codes, tokens = codes_of([chr(32 + symbol) for symbol in range(size)], [1] * size), TEXT % size
    model = ContextMixing(codes, capacity=len(tokens))
    model.read(tokens[:200])
    for at in (200, 230):
        told = np.random.default_rng(at).normal(size=(1, size)).astype(np.float32)
        each = (np.array([symbol]) for symbol in range(size))
        nats = [model.copy().read(one, model.hear(told, one) if hears else None)[0] for one in each]
        assert np.exp(-np.array(nats, np.float64)).sum() == pytest.approx(1, abs=1e-5)
        model.read(tokens[200:230])


def test_a_text_may_be_read_in_pieces() -> None:
    long_line = np.concatenate((np.frombuffer(b"word, " * 400, np.uint8), TEXT))
    whole, pieces = (ContextMixing(Codes.of_bytes(), capacity=len(long_line)) for _ in range(2))
    at_once = whole.read(long_line)
    in_pieces = [pieces.read(piece) for piece in np.split(long_line, [1, 2, 1000, 1900, 2500])]
    np.testing.assert_array_equal(at_once, np.concatenate(in_pieces))
    np.testing.assert_array_equal(whole.memory, pieces.memory)


def test_a_copy_in_memory_that_another_one_had_is_the_same() -> None:
    gc.collect()  # mixers of other tests, whose end drops spare memory
    model = ContextMixing(Codes.of_bytes(), capacity=60_000)  # of whole pages
    model.read(TEXT)
    noise = np.random.default_rng(0).integers(256, size=2_000).astype(np.uint8)
    fresh = model.copy(more=5_000)
    expected = fresh.read(noise)
    kept = fresh.memory.ctypes.data
    del fresh
    other = model.copy(more=100)
    assert other.memory.ctypes.data == kept, "it is filled, not made"
    np.testing.assert_array_equal(other.read(noise[:100]), expected[:100])
    another = model.copy(more=5_000)
    assert another.memory.ctypes.data != kept, "the other one is still held"
    np.testing.assert_array_equal(another.read(noise), expected)
    mixing._spare.extend([own_pages(4096)] * 2)  # of another text
    assert len(model.copy(more=5_000).memory) == len(another.memory)
    del other
    assert kept in [np.frombuffer(each, np.uint8).ctypes.data for each in mixing._spare]
    del model
    gc.collect()
    assert not mixing._spare, "what nobody copies any more keeps no memory"


def test_predicting_leaves_it_as_it_was_and_a_copy_is_another() -> None:
    model = ContextMixing(Codes.of_bytes(), capacity=len(TEXT) + 100)
    model.read(TEXT)
    before, copy = model.memory.copy(), model.copy()
    alone = model.predict(TEXT, spans_of([(0, 90)]))
    among = model.predict(TEXT, spans_of([(end - 80, end) for end in range(80, 120)] + [(0, 90)]))
    np.testing.assert_array_equal(alone[0], among[-1])
    other = model.weighing(np.zeros_like(model.weights))
    assert other.memory is model.memory
    assert not np.array_equal(other.predict(TEXT, spans_of([(0, 90)])), alone)
    copy.read(TEXT[:50])
    np.testing.assert_array_equal(model.copy(more=50).read(TEXT[:150])[:100], model.copy().read(TEXT[:100]))
    np.testing.assert_array_equal(model.memory, before)
    assert (copy.memory != before).any()


def test_what_a_text_says_itself_comes_again_in_it() -> None:
    """Where each line stands twice: one that was never read, and most of it once more."""
    lines = np.random.default_rng(6).choice(np.frombuffer(b"bcdfghjklmnpqrtvwxz", np.uint8), (12, 30))
    text, asked = np.concatenate((lines[-1], lines[-1, :20])), np.repeat(lines[-1, 20], 2)
    spans = spans_of([(0, len(text)), (30, len(text))])
    for kind in (ContextMixing, SlowMixing):
        model = kind(Codes.of_bytes(), capacity=660)
        model.read(lines[:-1].repeat(2, axis=0).ravel())
        beside, without = model.score(text, spans, asked)[0]
        assert beside > without + 1, kind


def test_what_does_not_fit_is_refused() -> None:
    model = ContextMixing(Codes.of_bytes(), capacity=10)
    model.read(TEXT[:6])
    for each in (model, SlowMixing(Codes.of_bytes(), capacity=4)):
        with pytest.raises(ValueError, match="room for 4"):
            each.read(TEXT[:5])
    with pytest.raises(ValueError, match=f"{MOST_SYMBOLS:,}"):
        Codes.of(np.ones(MOST_SYMBOLS + 1), [""] * (MOST_SYMBOLS + 1))


@pytest.mark.parametrize("text", [b"", b"\xff" * 3000, b"\x00\n" * 1500, bytes(range(256)) * 8])
def test_odd_texts_are_read(text: bytes) -> None:
    nats = ContextMixing(Codes.of_bytes(), capacity=len(text)).read(np.frombuffer(text, np.uint8))
    assert len(nats) == len(text)
    assert np.isfinite(nats).all()
    assert (nats > 0).all()


@pytest.mark.parametrize("size", [1, 2, 255, 256, 257, 511, 512, 700, 9000])
def test_every_symbol_has_a_code_of_its_own_and_none_begins_another(size: int) -> None:
    spelt = [chr(symbol) if symbol < 200 else f"s{symbol}" for symbol in range(size)]
    codes = Codes.of(np.arange(size) % 7, spelt)
    whole = {
        tuple(units[:length])
        for units, length in zip(codes.units.tolist(), codes.lengths.tolist(), strict=True)
    }
    assert len(whole) == size
    assert not {code[:1] for code in whole if len(code) == 2} & {code for code in whole if len(code) == 1}
    assert len(codes.branches) == size - 1
    assert set(codes.symbols.tolist()) == set(range(size))
    if size <= UNITS:
        assert all(codes.units[symbol, 0] == symbol for symbol in range(min(size, 128))), "ASCII as it is"


def test_a_capital_stands_for_its_letter_in_words() -> None:
    codes = codes_of(["a", "A", "é", "É", "."], [1, 1, 1, 1, 1])
    unit = dict(zip(("a", "A", "é", "É", "."), codes.units[:, 0].tolist(), strict=True))
    assert codes.folds[unit["A"]] == unit["a"]
    assert codes.folds[unit["É"]] == unit["é"]
    assert codes.folds[unit["."]] == unit["."]
