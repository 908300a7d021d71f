"""Every way to make batches: pure in (seed, step), targets one token on, evaluation that scores all exactly once."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.config.parts import parts
from octavo.data.batches import Batches, BatchesConfig
from octavo.data.packing import TooLongError
from octavo.errors import CorpusError

# Those of pairs, of numbers and of conversations have tests of their own.
KINDS = sorted(
    name for name, kind in parts("batches").items() if kind.task not in ("translation", "forecast", "chat")
)
MARKS = {"none": (None, None), "shared": (1, 1), "own": (0, 1)}
CONTEXT, BATCH = 8, 3


def config_of(kind: str, **options: Any) -> BatchesConfig:
    config = parts("batches")[kind].model_validate(options)
    assert isinstance(config, BatchesConfig)
    return config


def documents(lengths: list[int], marks: str) -> tuple[np.ndarray, np.ndarray]:
    """Tokens that are all different but for the marks, and where documents start."""
    start, end = MARKS[marks]
    tokens: list[int] = []
    starts: list[int] = []
    for length in lengths:
        starts.append(len(tokens))
        tokens += [start] if start is not None and start != end else []
        tokens += range(1000 + len(tokens), 1000 + len(tokens) + length)
        tokens += [end] if end is not None else []
    return np.array(tokens, np.uint16), np.array(starts if marks != "none" else [0], np.uint64)


def build(kind: str, lengths: list[int], marks: str, **changed: Any) -> Batches:
    tokens, starts = documents(lengths, marks)
    start, end = MARKS[marks]
    given = {"context": CONTEXT, "batch": BATCH, "seed": 7, "start_id": start, "end_id": end, **changed}
    return config_of(kind).build(tokens, starts, **given)


LENGTHS = [5, 9, 3, 30, 4, 4, 11, 2, 6, 17, 5]


@pytest.mark.parametrize("marks", MARKS)
@pytest.mark.parametrize("kind", KINDS)
def test_batches_are_pure_functions_of_seed_and_step(kind: str, marks: str) -> None:
    one, other = build(kind, LENGTHS, marks, accumulation=2), build(kind, LENGTHS, marks, accumulation=2)
    forwards = [one.batch(step, micro) for step in range(20) for micro in range(2)]
    backwards = [other.batch(step, micro) for step in reversed(range(20)) for micro in reversed(range(2))]
    for a, b in zip(forwards, reversed(backwards), strict=True):
        assert np.array_equal(a.inputs, b.inputs) and np.array_equal(a.targets, b.targets)
    different = build(kind, LENGTHS, marks, seed=8, accumulation=2)
    assert any(not np.array_equal(one.batch(step).inputs, different.batch(step).inputs) for step in range(5))
    assert len({batch.inputs.tobytes() for batch in forwards}) > 10


@pytest.mark.parametrize("marks", MARKS)
@pytest.mark.parametrize("kind", KINDS)
def test_shapes_and_targets(kind: str, marks: str) -> None:
    batches = build(kind, LENGTHS, marks)
    tokens, _ = documents(LENGTHS, marks)
    follows = {(int(a), int(b)) for a, b in pairwise(tokens.tolist())}
    if marks == "shared":
        follows.add((1, int(tokens[0])))  # the token before the first document is not in the tokens
    for step in range(30):
        batch = batches.batch(step)
        inputs, targets = batch.inputs, batch.targets
        for array in (inputs, targets):
            assert array.shape == (BATCH, CONTEXT) and array.dtype == np.int64
            assert array.flags.c_contiguous and array.flags.writeable
        scored = targets >= 0
        assert scored.any(axis=1).all()
        assert set(zip(inputs[scored].tolist(), targets[scored].tolist(), strict=True)) <= follows


@pytest.mark.parametrize("marks", MARKS)
@pytest.mark.parametrize("kind", KINDS)
@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=25),
    context=st.integers(1, 12),
    batch=st.integers(1, 5),
)
def test_evaluation_scores_everything_once(
    kind: str, marks: str, lengths: list[int], context: int, batch: int
) -> None:
    tokens, starts = documents(lengths, marks)
    if len(tokens) < 2:
        return
    start, end = MARKS[marks]
    seen: Counter[int] = Counter()
    shapes = []
    evaluated = config_of(kind).evaluation(
        tokens, starts, context=context, batch=batch, start_id=start, end_id=end
    )
    for found in evaluated:
        inputs, targets = found.inputs, found.targets
        assert inputs.shape == targets.shape and inputs.dtype == targets.dtype == np.int64
        seen.update(targets[targets >= 0].tolist())
        shapes.append(inputs.shape)
    assert all(shape == (batch, context) for shape in shapes[:-1])
    assert 1 <= shapes[-1][0] <= batch and shapes[-1][1] == context
    expected = Counter(tokens.tolist())
    if kind == "documents":
        if marks == "own":
            del expected[0]  # a start token of its own is never predicted
        elif marks == "none":
            expected[int(tokens[0])] -= 1
    else:
        expected[int(tokens[0])] -= 1
    assert seen == +expected


@pytest.mark.parametrize("marks", MARKS)
@pytest.mark.parametrize("kind", KINDS)
@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=25),
    context=st.integers(1, 12),
    batch=st.integers(1, 5),
)
def test_evaluation_says_where_each_target_stands(
    kind: str, marks: str, lengths: list[int], context: int, batch: int
) -> None:
    tokens, starts = documents(lengths, marks)
    if len(tokens) < 2:
        return
    start, end = MARKS[marks]
    options = {"context": context, "batch": batch, "start_id": start, "end_id": end}
    seen: list[int] = []
    for found in config_of(kind).evaluation(tokens, starts, **options):
        there = found.targets >= 0
        assert found.places.shape == found.targets.shape and found.places.dtype == np.int64
        assert np.array_equal(tokens[found.places[there]], found.targets[there])
        assert (found.places[~there] == -1).all()
        seen += found.places[there].tolist()
    assert len(set(seen)) == len(seen) and min(seen) >= 0 and max(seen) < len(tokens)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("several", [False, True])
def test_evaluation_of_a_part(kind: str, several: bool) -> None:
    tokens, starts = documents(LENGTHS if several else [sum(LENGTHS)], "shared")

    def scored(limit: int | None, batch: int = BATCH) -> list[int]:
        options = {"context": CONTEXT, "batch": batch, "start_id": 1, "end_id": 1, "limit": limit}
        return [
            int(place)
            for found in config_of(kind).evaluation(tokens, starts, **options)
            for place in found.places[found.targets >= 0]
        ]

    whole = scored(None)
    for limit in (1, 8, 20, 50, 10_000):
        part = scored(limit)
        assert part == scored(limit, batch=1) and min(limit, len(whole)) <= len(part) < limit + CONTEXT
        if several:
            assert part == [place for place in whole if place in set(part)]  # none twice, in order
        else:
            assert part == whole[: len(part)]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "windows"])
@pytest.mark.parametrize("accumulation", [1, 3])
def test_an_epoch_sees_everything_once(kind: str, accumulation: int) -> None:
    lengths = LENGTHS * 30
    marks = (
        "none" if kind == "prefixes" else "own"
    )  # a prefix that is a special token alone stands there many times
    tokens, starts = documents(lengths, marks)
    options = {"context": CONTEXT, "start_id": MARKS[marks][0], "end_id": MARKS[marks][1]}
    batches = config_of(kind).build(tokens, starts, batch=BATCH, seed=1, accumulation=accumulation, **options)
    rows: list[bytes] = []
    steps = batches.steps_per_epoch
    assert steps is not None
    for step in range(3 * steps):
        for micro in range(accumulation):
            batch = batches.batch(step, micro)
            rows += [np.stack(pair).tobytes() for pair in zip(batch.inputs, batch.targets, strict=True)]
    n = len(set(rows))
    assert steps == -(-n // (BATCH * accumulation))
    epochs = [rows[at : at + n] for at in (0, n, 2 * n)]
    assert all(len(set(epoch)) == n for epoch in epochs[: len(rows) // n])
    assert epochs[0] != epochs[1]
    if kind == "documents":
        evaluated = config_of(kind).evaluation(tokens, starts, batch=1, **options)
        assert set(rows) == {np.stack([one.inputs[0], one.targets[0]]).tobytes() for one in evaluated}


@pytest.mark.parametrize("stride", [None, 1, 3, 8, 11])
def test_sliding_windows_begin_every_stride(stride: int | None) -> None:
    tokens = np.arange(60, dtype=np.uint16)
    config = config_of("sliding", stride=stride, shuffle=False)
    none = {"start_id": None, "end_id": None}
    batches = config.build(tokens, np.zeros(1, np.uint64), context=8, batch=1, seed=0, **none)
    starts = list(range(0, 60 - 8, stride or 8))
    assert batches.steps_per_epoch == len(starts)
    assert [batches.batch(step).inputs[0, 0] for step in range(len(starts) + 2)] == [*starts, *starts[:2]]


@pytest.mark.parametrize("stride", [1, 5])
def test_prefixes_are_those_of_every_window_in_order(stride: int) -> None:
    tokens = np.arange(100, 120, dtype=np.uint16)
    none = {"start_id": None, "end_id": None}
    config = config_of("prefixes", stride=stride, shuffle=False)
    batches = config.build(tokens, np.zeros(1, np.uint64), context=4, batch=1, seed=0, **none)
    step = 0
    for begin in range(0, 20 - 4, stride):
        for length in range(1, 5):
            batch = batches.batch(step)
            inputs, targets = batch.inputs, batch.targets
            assert inputs[0].tolist() == [*tokens[begin : begin + length], *[0] * (4 - length)]
            assert targets[0].tolist() == [
                *[-1] * (length - 1),
                tokens[begin + length],
                *[-1] * (4 - length),
            ]
            step += 1
    assert batches.steps_per_epoch == step


def test_random_windows_begin_anywhere_alike() -> None:
    tokens = np.arange(12, dtype=np.uint16)
    none = {"start_id": None, "end_id": None}
    batches = config_of("windows").build(tokens, np.zeros(1, np.uint64), context=8, batch=100, seed=0, **none)
    assert batches.steps_per_epoch is None
    counts = np.bincount(np.concatenate([batches.batch(step).inputs[:, 0] for step in range(100)]))
    assert len(counts) == 4 and (np.abs(counts - 2500) < 6 * 44).all()  # 44 is a standard deviation


@pytest.mark.parametrize("marks", MARKS)
def test_documents_that_see_themselves_alone(marks: str) -> None:
    """The same rows; their segments change where a document ends, and nowhere else."""
    tokens, starts = documents(LENGTHS, marks)
    begins = set((starts.astype(np.int64) - (marks == "shared")).tolist())
    start, end = MARKS[marks]
    options = {"context": CONTEXT, "batch": BATCH, "start_id": start, "end_id": end}
    apart = config_of("documents", attention="document")
    evaluated = apart.evaluation(tokens, starts, **options)
    for found, plain in zip(
        evaluated, config_of("documents").evaluation(tokens, starts, **options), strict=True
    ):
        assert plain.segments is None
        assert np.array_equal(found.inputs, plain.inputs) and np.array_equal(found.targets, plain.targets)
        for segments, places in zip(found.segments, found.places, strict=True):
            assert segments[0] == 0 and (segments[places < 0] == -1).all()
            for at in range(1, CONTEXT):
                if places[at] >= 0:
                    jumps = places[at] != places[at - 1] + 1 or places[at] - 1 in begins
                    assert segments[at] == segments[at - 1] + jumps
    plain, trained = build("documents", LENGTHS, marks), apart.build(tokens, starts, **options, seed=7)
    for step in range(9):
        assert plain.batch(step).segments is None
        assert np.array_equal(trained.batch(step).inputs, plain.batch(step).inputs)
        assert trained.batch(step).segments.shape == (BATCH, CONTEXT)


def test_a_shared_mark_begins_every_row_of_documents() -> None:
    batches = build("documents", [3, 2, 4, 5, 1], "shared")
    for step in range(5):
        assert (batches.batch(step).inputs[:, 0] == 1).all()
    assert batches.notes == ()
    assert build("documents", LENGTHS, "shared").notes == (
        "4 documents are longer than the context of 8 tokens, and cut into rows",
    )


@pytest.mark.parametrize("kind", KINDS)
def test_too_little_text(kind: str) -> None:
    none = {"start_id": None, "end_id": None}
    starts = np.zeros(1, np.uint64)
    short = np.arange(1 if kind == "documents" else 8, dtype=np.uint16)
    with pytest.raises(CorpusError) as caught:
        config_of(kind).build(short, starts, context=8, batch=2, seed=0, **none)
    assert caught.value.remedy
    with pytest.raises(CorpusError, match="no token to predict"):
        list(config_of(kind).evaluation(short[:1], starts, context=8, batch=2, **none))
    exactly = np.arange(9, dtype=np.uint16)
    batch = config_of(kind).build(exactly, starts, context=8, batch=2, seed=0, **none).batch(5)
    inputs, targets = batch.inputs, batch.targets
    scored = targets >= 0  # `prefixes` scores one position of a row, and pads what comes after it
    assert scored.any(axis=1).all()
    assert (targets[scored] == inputs[scored] + 1).all()
    assert kind == "prefixes" or scored.all()


@pytest.mark.parametrize("marks", ["shared", "own"])
def test_documents_alone_in_their_rows(marks: str) -> None:
    """Each begins at column 0 and is whole, in training and in evaluation; one that is too long is refused."""
    lengths = [5, 7, 3, 1, 6]
    tokens, starts = documents(lengths, marks)
    start, end = MARKS[marks]
    options = {"context": CONTEXT, "batch": BATCH, "start_id": start, "end_id": end}
    config = config_of("documents", alone=True, shuffle=False)
    rows = [
        row
        for step in range(2)
        for row in config.build(tokens, starts, **options, seed=7).batch(step).targets
    ]
    rows = rows[: len(lengths)]
    rows += [row for batch in config.evaluation(tokens, starts, **options) for row in batch.targets]
    assert len(rows) == 2 * len(lengths)
    for row, length in zip(rows, 2 * lengths, strict=True):
        assert (row[: length + 1] >= 0).all() and row[length] == end and (row[length + 1 :] == -1).all()
    with pytest.raises(TooLongError, match="longest record has 10 tokens, and the context 8"):
        config.build(*documents([5, 9], marks), **options, seed=7)
