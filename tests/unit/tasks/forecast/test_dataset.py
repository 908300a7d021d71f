"""Series on disk and as batches: split by person, pure in (seed, step), every row predicted once, no border crossed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from octavo.config.parts import parts
from octavo.data import Dataset, store
from octavo.errors import CorpusError
from octavo.tasks.forecast.batches import ShortSeriesError
from octavo.tasks.forecast.columns import Columns
from octavo.tasks.forecast.dataset import prepare_new, prepare_series, series_in
from octavo.tasks.forecast.source import Series, SeriesSource, Suggested
from octavo.tokenizers.loading import load_tokenizer

LENGTHS = {"ann": [30, 9], "bo": [12], "cy": [40]}


class Made(SeriesSource):
    """Rows that say where they stand: (a number of its own, covariate)."""

    channels, covariates, rate = ("x",), ("speed",), 300.0

    def __init__(
        self,
        lengths: dict[str, list[int]] = LENGTHS,
        constant: bool = False,
        holes: bool = False,
        step: float = 1.0,
    ) -> None:
        self.lengths, self.factor = lengths, np.nan if holes else step * (not constant)

    def series(self) -> Iterator[Series]:
        at = 0
        for person, lengths in self.lengths.items():
            for length in lengths:
                rows = np.stack([np.arange(at, at + length), 1000 + np.arange(at, at + length)], axis=1)
                at += 100
                yield Series(f"{person}{length}", person, (rows * [self.factor, 1]).astype(np.float32))

    def describe(self) -> dict[str, Any]:
        return {}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return prepared(tmp_path_factory.mktemp("cache"))


def prepared(cache: Path, source: SeriesSource | None = None, **options: Any) -> Dataset:
    given = {"validation": 0.1, "held_out": ["cy"], "report": lambda sentence: None, **options}
    return prepare_series(source or Made(), cache=cache, **given)


def shape(context: int = 5, batch: int = 4) -> dict[str, Any]:
    return {"context": context, "batch": batch, **Columns(channels=["x"], covariates=["speed"]).marks}


def test_nobody_stands_on_both_sides(dataset: Dataset) -> None:
    assert dataset.manifest["persons"] == {"train": ["ann", "bo"], "validation": ["cy"]}
    assert [end - begin for begin, end in series_in(dataset.train)] == [30, 9, 12]
    assert np.isnan(dataset.train.tokens[[30, 40, 53]]).all()
    columns = load_tokenizer(dataset.folder / "tokenizer")
    assert isinstance(columns, Columns)
    assert (columns.channels, columns.covariates, columns.rate, columns.vocab_size) == (
        ("x",),
        ("speed",),
        300.0,
        2,
    )


def test_persons_are_chosen_by_their_names_alone(tmp_path: Path) -> None:
    turned = Made(dict(reversed(LENGTHS.items())))
    found = [prepared(tmp_path, source, held_out=(), validation=0.4) for source in (Made(), turned)]
    chosen = [one.manifest["persons"]["validation"] for one in found]
    assert chosen[0] == chosen[1] and len(chosen[0]) == 1


def test_the_same_numbers_are_the_same_dataset(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(store, "PUBLISHED", set())  # as another process finds it
    again = prepared(dataset.folder.parent.parent, report=said.append)
    assert again.folder == dataset.folder and any("reused" in sentence for sentence in said)


def test_the_same_numbers_of_another_person_are_another_dataset(dataset: Dataset) -> None:
    class Renamed(Made):
        def series(self) -> Iterator[Series]:
            for one in super().series():
                yield Series(one.name, "eve" if one.person == "bo" else one.person, one.rows)

    other = prepared(dataset.folder.parent.parent, Renamed())
    assert other.manifest["persons"]["train"] == ["ann", "eve"]


def test_of_one_person_the_end_is_held_out(tmp_path: Path) -> None:
    said: list[str] = []
    found = prepared(tmp_path, Made({"ann": [30]}), held_out=(), report=said.append)
    assert [len(found.train.tokens), len(found.validation.tokens)] == [28, 4] and "their ends" in said[0]


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        (
            Made(constant=True),
            {},
            "Channel 'x' is 0 in all 51 rows of what is learned from .ann30, ann9, bo12",
        ),
        (Made(), {"differences": True}, "Channel 'x' changes by 1 from each row to the next"),
        (Made({"ann": [1], "bo": [1], "cy": [9]}), {"held_out": ["cy", "bo"]}, "'x' is 0 in all 1 rows"),
        (Made(step=-2.0), {"differences": True}, "Channel 'x' changes by -2 from each row to the next"),
        (Made(holes=True), {}, "Channel 'x' has no numbers"),
        (Made({}), {}, "no series"),
        (Made(), {"held_out": ["dora"]}, "Nobody is called 'dora'"),
        (Made(), {"held_out": ["ann", "bo", "cy"]}, "nobody is left to learn from"),
        (Made({"ann": [30]}), {"held_out": ["ann"]}, "nobody is left to learn from"),
        (Made({"ann": [30]}), {"held_out": [], "validation": 0.01}, "no end of a series has two rows"),
        (Made({"ann": [30], "bo": [1]}), {"held_out": ["bo"]}, "bo. has no series of two rows"),
    ],
)
def test_what_cannot_be_learned_from(
    tmp_path: Path, source: Made, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(CorpusError, match=said):
        prepared(tmp_path, source, **options)


class Many(Made):
    """Two channels of three that never change."""

    channels = ("x", "y", "z")

    def series(self) -> Iterator[Series]:
        for series in super().series():
            rows = np.concatenate([series.rows[:, :1], 0 * series.rows[:, :1], 0 * series.rows], axis=1)
            yield Series(series.name, series.person, rows)


def test_all_constant_channels_are_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(
        CorpusError, match="Channel 'y' is 0 in all 51 rows; channel 'z' is 0 in all"
    ) as error:
        prepared(tmp_path, Many())
    assert "'corpus.without=[y,z]'" in str(error.value) and "'x'" not in str(error.value)


def test_other_columns_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="knows the columns z"):
        prepare_new(Made(), Columns(channels=["z"]), cache=tmp_path, report=lambda sentence: None)
    with pytest.raises(CorpusError, match="knows the columns x, grade"):
        other = Columns(channels=["x"], covariates=["grade"])
        prepare_new(Made(), other, cache=tmp_path, report=lambda sentence: None)


def test_of_one_row_nothing_can_be_predicted(tmp_path: Path) -> None:
    one = Made({"ann": [1]})
    with pytest.raises(CorpusError, match="nothing to predict"):
        prepare_new(
            one, Columns(channels=["x"], covariates=["speed"]), cache=tmp_path, report=lambda sentence: None
        )


def test_batches_are_pure_and_stay_inside_a_series(dataset: Dataset) -> None:
    config = parts("batches")["series"]()
    made = [config.build(dataset.train.tokens, dataset.train.starts, seed=3, **shape()) for _ in range(2)]
    forwards = [made[0].batch(step) for step in range(40)]
    seen = set()
    for a, b in zip(forwards, [made[1].batch(step) for step in reversed(range(40))][::-1], strict=True):
        assert np.array_equal(a.inputs, b.inputs) and np.array_equal(a.values, b.values, equal_nan=True)
        assert a.inputs.shape == a.values.shape == (4, 5, 2) and a.targets.shape == (4, 5)
        assert (a.values[..., 0] == a.inputs[..., 0] + 1).all() and np.isnan(a.values[..., 1]).all()
        assert (a.inputs[..., 1] == a.inputs[..., 0] + 1001).all()  # the covariate of the row to come
        seen |= set(a.values[..., 0].ravel().tolist())
    assert seen == {*range(1, 30), *range(101, 109), *range(201, 212)}


def test_parts_of_a_step_are_drawn_apart_and_every_window_as_often(dataset: Dataset) -> None:
    config, split = parts("batches")["series"](), dataset.train
    made = config.build(split.tokens, split.starts, seed=3, accumulation=2, **shape(batch=64))
    parts_ = [made.batch(step, micro).inputs[:, 0, 0] for step in range(100) for micro in (0, 1)]
    assert len({one.tobytes() for one in parts_}) == len(parts_)
    begins, counts = np.unique(np.concatenate(parts_), return_counts=True)
    assert begins.tolist() == [*range(25), *range(100, 104), *range(200, 207)]  # 25 + 4 + 7 windows
    expected = counts.sum() / len(begins)
    assert np.abs(counts - expected).max() < 5 * np.sqrt(expected)


def test_a_short_series_is_named(dataset: Dataset) -> None:
    with pytest.raises(ShortSeriesError, match="has 9 rows; a context of 9 needs at least 10") as error:
        parts("batches")["series"]().build(dataset.train.tokens, dataset.train.starts, seed=0, **shape(9))
    assert "ann9 has 9 rows" in str(error.value.called(dataset))


@pytest.mark.parametrize("context", [1, 2, 5, 8, 64])
@pytest.mark.parametrize("batch", [1, 3])
def test_evaluation_predicts_every_row_once_and_knows_what_stood_before(
    dataset: Dataset, context: int, batch: int
) -> None:
    split = dataset.train
    found = list(parts("batches")["series"]().evaluation(split.tokens, split.starts, **shape(context, batch)))
    places = np.concatenate([one.places.ravel() for one in found])
    expected = [place for begin, end in series_in(split) for place in range(begin + 1, end)]
    assert sorted(places[places >= 0].tolist()) == expected
    for one in found:
        there = one.places >= 0
        assert ((one.targets >= 0) == there).all()
        assert (one.values[there][:, 0] == split.tokens[one.places[there]][:, 0]).all()
        assert (one.inputs[there][:, 0] == one.values[there][:, 0] - 1).all()
        begins = one.inputs[:, :1, 0]
        depth = one.values[..., 0] - begins  # rows seen before each prediction
        later = there & ((one.values[..., 0] % 100) > context // 2)
        assert (depth[later] >= max(1, context // 2)).all()


def test_a_limit_ends_an_evaluation(dataset: Dataset) -> None:
    config, split = parts("batches")["series"](), dataset.train
    found = list(config.evaluation(split.tokens, split.starts, limit=7, **shape(5, 2)))
    assert 7 <= sum(one.scored for one in found) <= 10


def test_a_look_reads_of_every_series_as_large_a_share(tmp_path: Path) -> None:
    made = prepared(tmp_path, Made({"ann": [300, 100], "bo": [200], "cy": [9]}))
    config, split = parts("batches")["series"](), made.train
    places = np.concatenate(
        [
            one.places[one.places >= 0]
            for one in config.evaluation(split.tokens, split.starts, limit=150, **shape(8, 7))
        ]
    )
    spans = series_in(split)
    shares = [((places >= begin) & (places < end)).sum() / (end - begin) for begin, end in spans]
    assert 150 <= len(places) <= 158 and np.allclose(shares, 0.25, atol=0.05)
    gaps = np.diff(np.concatenate([[0], places, [len(split.tokens)]]))
    assert gaps.max() < 30  # no long stretch of any series is passed over


class Named(Made):
    """Files whose names suggest that ann wrote two of them."""

    def suggested_persons(self) -> Suggested:
        return Suggested({"ann1": "ann", "ann2": "ann", "bo1": "bo"}, "(?P<person>[a-z]+)")


@pytest.mark.parametrize(
    ("held_out", "said"),
    [("ann2", "by the files' names ann may stand on both sides .* 'corpus.pattern=.*'"), ("bo1", None)],
)
def test_a_person_who_may_stand_on_both_sides_is_said(
    tmp_path: Path, held_out: str, said: str | None
) -> None:
    heard: list[str] = []
    source = Named({"ann1": [30], "ann2": [20], "bo1": [10]})
    prepared(tmp_path, source, held_out=[held_out], report=heard.append)
    found = [sentence for sentence in heard if "files' names" in sentence]
    assert len(found) == (said is not None) and (said is None or re.search(said, found[0]))


@pytest.mark.parametrize(("held_out", "where"), [("Ana", ", on both sides of the split"), ("bo", "")])
def test_persons_whose_names_look_alike_are_said(tmp_path: Path, held_out: str, where: str) -> None:
    heard: list[str] = []
    source = Made({"ana": [30], "Ana": [20], "bo": [10]})
    prepared(tmp_path, source, held_out=[held_out], report=heard.append)
    assert f"names that look alike count as different persons{where}: 'Ana' and 'ana'" in heard
