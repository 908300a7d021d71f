"""Beam search and its twins: greedy by hand, exhaustive search, the search without a cache."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from octavo.config.parts import parts
from octavo.errors import InputError
from octavo.model.base import build_model
from octavo.tasks.translation.batches import JoinedPairsConfig, PairsConfig
from octavo.tasks.translation.beam import Search, State, beam_search
from octavo.tasks.translation.translator import Skipped, Translator
from octavo.tokenizers import build_tokenizer

MODELS: dict[str, dict[str, Any]] = {
    "encoder-decoder": {"kind": "encoder-decoder", "positions": "rotary", "tied": True},
    "prefix": {"kind": "gpt", "positions": "learned"},
    "causal": {"kind": "gpt", "positions": "rotary", "ngrams": {"kind": "hashed", "buckets": 7}},
}
SOURCES = ["ab", "b", "aab", "bb", "ba"]


def translator(name: str, *, cached: bool = True, letters: str = "ab") -> Translator:
    torch.set_num_threads(1)
    text = f"{letters}\n{letters}\n"
    tokenizer = build_tokenizer(parts("tokenizer")["char"](), lambda: iter([text]), documents=True)
    batches = PairsConfig() if name == "encoder-decoder" else JoinedPairsConfig(attention=name)
    shape = {
        "layers": 2,
        "width": 16,
        "heads": 2,
        "context": 12,
        "initialization": {"kind": "normal", "std": 0.5},
    }
    config = parts("model")[MODELS[name]["kind"]].model_validate(shape | MODELS[name])
    model = build_model(config, vocab_size=tokenizer.vocab_size, seed=3).double()
    return Translator(model, tokenizer, batches, cached=cached)


def found(it: Translator, search: Search, sources: list[str] = SOURCES) -> list[list[tuple[str, float]]]:
    written = it.translate([it.ids(one) for one in sources], search)
    return [[(one.text, round(one.found.score, 4)) for one in ones] for ones in written]


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("name", MODELS)
def test_the_cache_changes_nothing_and_nor_do_others_in_the_batch(name: str, beams: int) -> None:
    search = Search(beams=beams)
    cached = found(translator(name), search)
    assert cached == found(translator(name, cached=False), search)
    assert cached == [found(translator(name), search, [one])[0] for one in SOURCES]
    assert all(len(ones) == beams for ones in cached) and len({ones[0] for ones in map(tuple, cached)}) > 1


@pytest.mark.parametrize("penalty", [0.0, 1.0])
@pytest.mark.parametrize("name", ["encoder-decoder", "prefix"])
def test_with_enough_beams_it_is_exhaustive(name: str, penalty: float) -> None:
    it = translator(name)
    it.longest = lambda source: 4  # pyrefly: ignore
    search = Search(beams=100, length_penalty=penalty)
    ids = [it.line, *it.tokenizer.encode("ab").tolist()]
    every = [text for length in range(4) for text in product(ids, repeat=length)]
    for source in ("ab", "b"):
        (ones,) = it.translate([it.ids(source)], search)
        assert len(ones) == len(every) == len({one.found.ids for one in ones})
        for one in ones[:20]:
            state, logits = it.begin([it.ids(source)])
            total = 0.0
            for token in [*one.found.ids, it.end]:
                total += logits.log_softmax(dim=-1)[0, token].item()
                logits = state.read(torch.tensor([token]))
            assert one.found.log_probability == pytest.approx(total, abs=1e-5)
        scores = [one.found.score for one in ones]
        assert scores == sorted(scores, reverse=True)
        if not penalty:
            assert sum(np.exp(one.found.log_probability) for one in ones) < 1


@pytest.mark.parametrize("name", MODELS)
def test_one_beam_is_greedy(name: str) -> None:
    it = translator(name)
    for source in SOURCES:
        ids = it.ids(source)
        state, logits = it.begin([ids])
        written: list[int] = []
        while len(written) + 1 < it.longest(ids) and (token := int(logits.argmax())) != it.end:
            written.append(token)
            logits = state.read(torch.tensor([token]))
        (ones,) = it.translate([ids], Search(beams=1))
        assert list(ones[0].found.ids) == written


@pytest.mark.parametrize("name", MODELS)
def test_what_it_writes_has_the_probability_that_force_decoding_gives(name: str) -> None:
    it = translator(name, letters="abc")
    sources = ["ab", "cb", "a"]
    ones = [found[0] for found in it.translate([it.ids(one) for one in sources], Search(beams=4))]
    texts = [it.tokenizer.decode(one.found.ids) for one in ones]
    kept = [
        (source, one)
        for source, one, text in zip(sources, ones, texts, strict=True)
        if one.text == text != ""
    ]
    assert kept
    scored = it.scores([(source, one.text) for source, one in kept])
    for (total, tokens), (_, one) in zip(scored, kept, strict=True):
        assert total == pytest.approx(one.found.log_probability, abs=1e-4) and tokens == one.found.tokens


@pytest.mark.parametrize("name", MODELS)
def test_pairs_that_cannot_be_scored_are_skipped_and_the_others_scored(name: str) -> None:
    it = translator(name)
    room, context = it.model.context - 3 * it.joined, it.model.context
    longest = (
        context - 3 if it.joined else context - 1
    )  # a target's end, and joined the source and the line break
    pairs = [
        ("ab", "b"),
        ("a" * (room + 1), "b"),
        ("a", "b" * longest),
        ("a", "b" * (longest + 1)),
        ("a", " "),
        ("a☃", "b"),
        ("a", "b☃"),
        ("b", "a"),
    ]
    scored = it.scores(pairs)
    skipped = {number: one for number, one in enumerate(scored) if isinstance(one, Skipped)}
    assert list(skipped) == [1, 3, 4, 5, 6] and skipped[1].place == "pair 2"
    assert f"a source of {room + 1} tokens, and the model sees {room}" in str(skipped[1])
    assert f"and the model sees {context}" in str(skipped[3]) and "an empty target" in str(skipped[4])
    kept = [pair for number, pair in enumerate(pairs) if number not in skipped]
    for number, one in zip((0, 2, 7), it.scores(kept), strict=True):
        assert one == pytest.approx(scored[number], abs=1e-5)
    assert all(isinstance(one, Skipped) for one in it.scores(pairs[3:7]))


class Chain(State):
    """What comes next depends on the place and on the last token, by tables of logits (T, V, V)."""

    def __init__(self, tables: torch.Tensor) -> None:
        self.tables, self.place = tables, 0

    def read(self, tokens: torch.Tensor) -> torch.Tensor:
        self.place += 1
        return self.tables[self.place, tokens]

    def select(self, rows: torch.Tensor) -> None:
        pass  # of a row it remembers nothing


def by_hand(
    logs: list[list[list[float]]], *, end: int, longest: int, search: Search
) -> list[tuple[int, ...]]:
    """The rule of `beam_search`, in words of one source."""
    beams, done = [(0.0, (0,))], []
    for length in range(1, longest + 1):
        ways = sorted(
            (
                (total + log, ids, token)
                for total, ids in beams
                for token, log in enumerate(logs[length - 1][ids[-1]])
            ),
            key=lambda way: -way[0],
        )
        if length == longest:
            ways = [way for way in ways if way[2] == end]
        ways = ways[: 2 * search.beams]
        done += [(total, ids) for total, ids, token in ways[: search.beams] if token == end]
        beams = [(total, (*ids, token)) for total, ids, token in ways if token != end][: search.beams]
        if len(done) >= search.beams or not beams:
            break
    done.sort(key=lambda one: -search.score(one[0], len(one[1])))  # its start stands for its end
    return [ids[1:] for _, ids in done[: search.beams]]


@pytest.mark.parametrize("beams", [1, 2, 3, 5])
def test_it_looks_as_the_rule_says(beams: int) -> None:
    """Ways that end leave room for others, and a source is done with its K-th end, not later."""
    search, longest = Search(beams=beams, length_penalty=1.0), [2, 5, 9, 6]
    for seed in range(25):
        drawn = np.random.default_rng(seed).normal(0, 1.5, (9, 6, 6))
        tables = torch.from_numpy(drawn)
        found = beam_search(Chain(tables), tables[0, [0] * 4], end=5, longest=longest, search=search)
        logs = tables.log_softmax(dim=-1).tolist()
        for ones, most in zip(found, longest, strict=True):
            assert [one.ids for one in ones] == by_hand(logs, end=5, longest=most, search=search)


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0])
def test_a_score_is_that_of_its_own_probability_and_length(penalty: float) -> None:
    """By the formula, written out: a bound on the length changes neither, and the best of equal scores is no longer
    one."""
    it = translator("prefix")
    for found in it.translate([it.ids(one) for one in SOURCES], Search(beams=4, length_penalty=penalty)):
        assert len({len(one.found.ids) for one in found}) > 1
        for one in found:
            tokens = len(one.found.ids) + 1  # the end is a token
            expected = one.found.log_probability / ((5 + tokens) / 6) ** penalty
            assert one.found.score == pytest.approx(expected) and one.found.tokens == tokens


def test_a_length_penalty_favours_longer_ones() -> None:
    short, long = Search(length_penalty=0.0), Search(length_penalty=1.0)
    assert short.score(-2.0, 4) == short.score(-2.0, 40) == -2.0
    assert long.score(-2.0, 1) == -2.0 < long.score(-2.0, 7) == -1.0


def test_more_beams_than_memory_holds_are_refused_by_their_name() -> None:
    it = translator("prefix")
    with pytest.raises(InputError, match="A search with 1,000,000,000,000 beams takes") as caught:
        it.translate([it.ids("ab")], Search(beams=10**12))
    assert caught.value.remedy == "--beams 5"
