"""Every way to make batches of pairs: pure in (seed, step), little padding, every target scored once."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.config.parts import parts
from octavo.data.batch import Batch
from octavo.data.batches import BatchesConfig, Stream
from octavo.errors import CorpusError
from octavo.tasks.translation.batches import _edges
from octavo.tokenizers.base import Tokenizer
from octavo.tokenizers.config import BPE

KINDS = [
    ("pairs", {}),
    ("joined-pairs", {}),
    ("joined-pairs", {"attention": "causal"}),
    ("joined-pairs", {"source_loss": True}),
]
MARKS = {"shared": (1, 1), "own": (0, 1)}
LINE, CONTEXT, BATCH = 2, 12, 3

Lengths = list[tuple[int, int]]


def documents(lengths: Lengths, marks: str = "shared") -> tuple[np.ndarray, np.ndarray]:
    """Pairs whose words are all different."""
    start, end = MARKS[marks]
    tokens: list[int] = []
    starts: list[int] = []
    for source, target in lengths:
        starts.append(len(tokens))
        tokens += [start] if start != end else []
        tokens += range(1000 + len(tokens), 1000 + len(tokens) + source)
        tokens.append(LINE)
        tokens += range(1000 + len(tokens), 1000 + len(tokens) + target)
        tokens.append(end)
    return np.array(tokens, np.uint16), np.array(starts, np.uint64)


def arguments(lengths: Lengths, marks: str = "shared", **changed: Any) -> dict[str, Any]:
    tokens, starts = documents(lengths, marks)
    start, end = MARKS[marks]
    shape = {"context": CONTEXT, "batch": BATCH, "start_id": start, "end_id": end, "line_id": LINE}
    return {"tokens": tokens, "starts": starts, **shape, **changed}


def config_of(kind: str, options: dict[str, Any]) -> BatchesConfig:
    found = parts("batches")[kind].model_validate(options)
    assert isinstance(found, BatchesConfig)
    return found


SHAPE = {"context": CONTEXT, "batch": BATCH, "start_id": 1, "end_id": 1, "line_id": LINE}

draw = np.random.default_rng(5)
LENGTHS: Lengths = [(int(a), int(b)) for a, b in draw.integers(1, 6, (60, 2))]


def test_every_kind_is_here() -> None:
    found = {name for name, kind in parts("batches").items() if kind.task == "translation"}
    assert {kind for kind, _ in KINDS} == found


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_batches_are_pure_functions_of_seed_and_step(kind: str, options: dict[str, Any]) -> None:
    one, other = (config_of(kind, options).build(**arguments(LENGTHS, seed=7, accumulation=2)) for _ in "ab")
    count = 2 * one.steps_per_epoch
    forwards = [one.batch(step, micro) for step in range(count) for micro in range(2)]
    backwards = [other.batch(step, micro) for step in reversed(range(count)) for micro in (1, 0)]
    for a, b in zip(forwards, reversed(backwards), strict=True):
        for (name, found), (_, expected) in zip(a.items(), b.items(), strict=True):
            assert np.array_equal(found, expected), name
    different = config_of(kind, options).build(**arguments(LENGTHS, seed=8, accumulation=2))
    assert any(not np.array_equal(one.batch(s).inputs, different.batch(s).inputs) for s in range(5))


def learned(batch: Batch[np.ndarray]) -> Counter[int]:
    return Counter(batch.targets[batch.targets >= 1000].tolist())


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_an_epoch_has_every_pair_once_with_little_padding(kind: str, options: dict[str, Any]) -> None:
    batches = config_of(kind, options).build(**arguments(LENGTHS, seed=7))
    for epoch in (0, 1):
        every = [batches.batch(epoch * batches.steps_per_epoch + at) for at in range(batches.steps_per_epoch)]
        seen = sum((learned(batch) for batch in every), Counter[int]())
        assert set(seen.values()) == {1}
        known = sum(target for _, target in LENGTHS)
        known += sum(source for source, _ in LENGTHS) if options.get("source_loss") else 0
        assert len(seen) == known
        for batch in every:
            widths = [batch.inputs.shape[1]] + ([] if batch.source is None else [batch.source.shape[1]])
            assert batch.rows * max(widths) <= BATCH * CONTEXT
        room = sum(batch.targets.size for batch in every)
        held = sum(int((batch.inputs > 0).sum()) for batch in every)
        assert held > 0.85 * room


def test_a_row_is_a_source_and_what_follows_from_it() -> None:
    given = arguments([(2, 3), (1, 1)], marks="own", batch=1)
    rows = list(config_of("pairs", {}).evaluation(**given))
    tokens = given["tokens"].tolist()
    assert rows[0].source.tolist() == [tokens[1:3]]
    assert rows[0].inputs.tolist() == [[0, *tokens[4:7]]] and rows[0].targets.tolist() == [tokens[4:8]]
    assert rows[0].places.tolist() == [[4, 5, 6, 7]]
    (row, _) = config_of("joined-pairs", {"source_loss": True}).evaluation(**given)
    assert row.inputs.tolist() == [tokens[:7]]  # the start, the source, the line break, the target
    assert row.targets.tolist() == [[-1, -1, -1, *tokens[4:8]]]  # the source is never judged
    assert row.prefix.tolist() == [[1, 1, 1, 1, 0, 0, 0]]
    (row, _) = config_of("joined-pairs", {"attention": "causal"}).evaluation(**given)
    assert row.prefix is None


@pytest.mark.parametrize(("kind", "options"), KINDS)
@pytest.mark.parametrize("marks", MARKS)
@given(lengths=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=25))
def test_evaluation_scores_every_target_once(
    kind: str, options: dict[str, Any], marks: str, lengths: Lengths
) -> None:
    given = arguments(lengths, marks)
    joined = kind == "joined-pairs"
    fits = [a + b + 2 <= CONTEXT if joined else max(a, b + 1) <= CONTEXT for a, b in lengths]
    kept = [min(pair) > 0 and fit for pair, fit in zip(lengths, fits, strict=True)]
    config = config_of(kind, options)
    if not any(kept):
        with pytest.raises(CorpusError, match="none is a pair"):
            list(config.evaluation(**given))
        return
    places = np.concatenate([batch.places[batch.places >= 0] for batch in config.evaluation(**given)])
    targets = np.concatenate([batch.targets[batch.targets >= 0] for batch in config.evaluation(**given)])
    assert np.array_equal(given["tokens"][places], targets)
    assert len(np.unique(places)) == sum(b + 1 for (_, b), good in zip(lengths, kept, strict=True) if good)
    notes = config.build(**given, seed=1).notes
    empty = sum(min(pair) == 0 for pair in lengths)
    assert (f"{empty} without a source or a target" in "".join(notes)) == (empty > 0)


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_held_out_sources_that_are_learned_from_are_counted(kind: str, options: dict[str, Any]) -> None:
    """Whatever follows from them; what is left out of training is not learned from."""
    long = CONTEXT + 1
    tokens = [9, 8, LINE, 7, 1, 9, LINE, 7, 1, *range(20, 20 + long), LINE, 7, 1]
    train = Stream(np.array(tokens, np.uint16), np.array([0, 5, 9], np.uint64), **SHAPE)
    held = [
        9,
        8,
        LINE,
        5,
        1,
        8,
        9,
        LINE,
        7,
        1,
        9,
        LINE,
        6,
        6,
        1,
        8,
        LINE,
        7,
        1,
        *range(20, 20 + long),
        LINE,
        7,
        1,
    ]
    held_out = Stream(np.array(held, np.uint32), np.array([0, 5, 10, 15, 19], np.uint64), **SHAPE)
    config = config_of(kind, options)
    known = config.known(train, held_out)
    assert known is not None and (known.sources, known.pairs) == (2, 4)
    assert str(known) == ("2 of 4 held-out pairs have a source that stands in the training part too (50%)")
    assert config.left_out(held_out).tolist() == [4]


def test_batches_of_texts_ask_nothing() -> None:
    stream = Stream(np.arange(100, dtype=np.uint16), np.zeros(1, np.uint64), **SHAPE)
    windows = config_of("windows", {})
    assert windows.known(stream, stream) is None and not len(windows.left_out(stream))


def test_a_tokenizer_that_has_no_line_break_is_refused() -> None:
    with pytest.raises(CorpusError, match="no token for the line break"):
        config_of("pairs", {}).build(**arguments(LENGTHS, seed=1, line_id=None))


WORDS = ["the bird flies", "a small bird", "the nest", "birds fly high", "nests stand higher", "small nests"]
PAIRS = [f"{source}\n{target}" for source in WORDS for target in reversed(WORDS)]


@pytest.fixture(scope="module")
def merged() -> Tokenizer:
    return BPE(size=290).build(lambda: iter(["\n".join(PAIRS)]), documents=True)


def merged_arguments(tokenizer: Tokenizer, **changed: Any) -> dict[str, Any]:
    ids = [tokenizer.encode_document(pair) for pair in PAIRS]
    starts = np.cumsum([0, *map(len, ids[:-1])]).astype(np.uint64)
    shape = {"context": 64, "batch": 2, **tokenizer.marks}
    return {"tokens": np.concatenate(ids).astype(np.uint16), "starts": starts, **shape, **changed}


def texts(batch: Batch[np.ndarray], tokenizer: Tokenizer) -> list[str]:
    """The pairs of a batch; joined ones that learn the source have all in their targets."""
    sides = [batch.targets] if batch.source is None else [batch.source, batch.targets]
    return ["\n".join(tokenizer.decode(row[row >= 0]) for row in rows) for rows in zip(*sides, strict=True)]


@pytest.mark.parametrize(("kind", "options"), [("pairs", {}), ("joined-pairs", {"source_loss": True})])
def test_merges_are_left_out_by_seed_and_step_and_texts_stay(
    kind: str, options: dict[str, Any], merged: Tokenizer
) -> None:
    given = merged_arguments(merged)
    plain = config_of(kind, options).build(**given, seed=7)
    config = config_of(kind, {**options, "merge_dropout": 0.4})
    one, other, different = (config.build(**given, seed=seed) for seed in (7, 7, 8))
    steps = range(2 * plain.steps_per_epoch)
    for step in reversed(steps):
        for (name, found), (_, again) in zip(one.batch(step).items(), other.batch(step).items(), strict=True):
            assert np.array_equal(found, again), name
        assert texts(one.batch(step), merged) == texts(plain.batch(step), merged)
        assert one.batch(step).inputs.shape[1] > plain.batch(step).inputs.shape[1]
    epochs = [one.batch(0).targets.tolist(), one.batch(plain.steps_per_epoch).targets.tolist()]
    assert epochs[0] != epochs[1] and different.batch(0).targets.tolist() not in epochs
    scored = [list(each.evaluation(**given)) for each in (config, config_of(kind, options))]
    for a, b in zip(*scored, strict=True):
        assert np.array_equal(a.targets, b.targets) and np.array_equal(a.inputs, b.inputs)


def test_a_pair_that_would_not_fit_keeps_its_merges(merged: Tokenizer) -> None:
    longest = max(len(merged.encode(word)) + 1 for word in WORDS)
    given = merged_arguments(merged, context=longest)
    batches = config_of("pairs", {"merge_dropout": 0.9}).build(**given, seed=7)
    found = [batches.batch(step) for step in range(batches.steps_per_epoch)]
    assert max(batch.targets.shape[1] for batch in found) <= longest
    assert sorted(text for batch in found for text in texts(batch, merged)) == sorted(PAIRS)


@pytest.mark.parametrize(("kind", "options"), KINDS)
@pytest.mark.parametrize("accumulation", [1, 3])
def test_pairs_of_one_length_meet_others_in_each_epoch(
    kind: str, options: dict[str, Any], accumulation: int
) -> None:
    """Wherever in a step an epoch ends: each has every pair once, in other company than the one before."""
    batches: Any = config_of(kind, options).build(
        **arguments([(3, 3)] * 38, seed=7, accumulation=accumulation)
    )
    epochs: list[list[frozenset[int]]] = []
    count = len(batches.edges) - 1
    assert accumulation == 1 or count % accumulation, "an epoch ends in the middle of a step"
    for number in range(3 * count):
        step, micro = divmod(number, accumulation)
        if number % count == 0:
            epochs.append([])
        epochs[-1].append(frozenset(learned(batches.batch(step, micro))))
    for epoch in epochs:
        assert len(frozenset.union(*epoch)) == sum(map(len, epoch))
    assert not set(epochs[0]) & set(epochs[1]) and not set(epochs[1]) & set(epochs[2])


@given(lengths=st.lists(st.integers(1, 12), min_size=1, max_size=40), most=st.integers(12, 40))
def test_a_batch_ends_where_the_next_pair_would_be_too_much(lengths: list[int], most: int) -> None:
    edges = _edges(lengths, most)
    assert (edges[0], edges[-1]) == (0, len(lengths)) and edges == sorted(set(edges))
    for begin, end in pairwise(edges):
        assert max(lengths[begin:end]) * (end - begin) <= most
        if end < len(lengths):
            assert max(lengths[begin : end + 1]) * (end + 1 - begin) > most


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_a_pair_that_a_split_cuts_in_two_is_none(kind: str, options: dict[str, Any]) -> None:
    given = arguments([(2, 3), (2, 3)])
    given["tokens"] = given["tokens"][:-1]  # the last target, without its end
    found = sum((learned(batch) for batch in config_of(kind, options).evaluation(**given)), Counter[int]())
    assert len(found) == 3
    assert "1 without a source or a target" in "".join(config_of(kind, options).build(**given, seed=1).notes)


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_a_limit_is_reached_with_no_pair_too_many(kind: str, options: dict[str, Any]) -> None:
    given, config = arguments(LENGTHS), config_of(kind, options)
    whole = sum(target + 1 for _, target in LENGTHS)
    assert config_of(kind, options).build(**given, seed=1).size == whole  # tokens and ends of all targets
    for limit in (1, 5, 6, 40, 41, 100, whole - 1):
        looks = config.evaluation(**given, limit=limit)
        rows = [int(row) for batch in looks for row in (batch.targets >= 0).sum(axis=1) if row]
        assert sum(rows) >= limit > sum(rows) - max(rows), "spread over the split, so the last may be any"
        assert len(rows) == 1 or sum(rows[:-1]) < limit
    for limit in (whole, whole + 5):
        assert (
            sum(int((batch.targets >= 0).sum()) for batch in config.evaluation(**given, limit=limit)) == whole
        )
