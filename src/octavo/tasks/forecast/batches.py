"""Windows of series of numbers, as batches: pure functions of (seed, step) as those of tokens are.

B sequences, T positions, D columns. No window reaches from one series into another.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from octavo.config.parts import register
from octavo.data import Dataset
from octavo.data.batch import Batch
from octavo.data.batches import Batches, BatchesConfig, Stream, looked_at
from octavo.data.packing import TooShortError
from octavo.tasks.forecast.dataset import series_in


class ShortSeriesError(TooShortError):
    """A series is shorter than a window."""

    def __init__(self, number: int, rows: int, context: int, name: str | None = None) -> None:
        self.number, self.rows, self.context = number, rows, context
        super().__init__(
            f"{name or f'Series {number + 1}'} has {rows:,} rows; a context of {context:,} needs at least "
            f"{context + 1:,}.",
            remedy=f"leave it out, or set model.context to {max(1, rows - 1)} or less",
        )

    def called(self, dataset: Dataset) -> ShortSeriesError:
        """The same error with the series' name."""
        name = dataset.manifest["series"]["train"][self.number]
        return ShortSeriesError(self.number, self.rows, self.context, name)


class SeriesWindows(Batches):
    """Windows of T + 1 rows that begin anywhere in any series, each place as likely as the other.

    Args:
        stretch: see `SeriesBatchesConfig`.
    """

    def __init__(self, stream: Stream, *, seed: int, stretch: float = 0.0) -> None:
        self.size, self._rows, self._seed = len(stream.tokens), stream.array, seed
        self._stretch = stretch
        self._channels = channels_of(stream)
        spans = series_in((stream.tokens, stream.starts))
        choices = np.array([end - begin - stream.context for begin, end in spans])
        short = np.flatnonzero(choices < 1)
        if len(short):
            begin, end = spans[int(short[0])]
            raise ShortSeriesError(int(short[0]), end - begin, stream.context)
        self._begins = np.array([begin for begin, _ in spans])
        self._edges = np.cumsum(choices)
        self._columns = np.arange(stream.context + 1)
        self._batch = stream.batch

    def batch(self, step: int, micro: int = 0) -> Batch[np.ndarray]:
        # The step is part of the generator's counter, so no state is carried from one to the next.
        bits = np.random.Philox(key=self._seed, counter=(step << 128) | (micro << 64))
        raw = bits.random_raw(self._batch)
        chosen = ((raw >> np.uint64(11)) * 2.0**-53 * self._edges[-1]).astype(np.int64)
        series = np.searchsorted(self._edges, chosen, side="right")
        inside = chosen - np.concatenate([[0], self._edges[:-1]])[series]
        begins = self._begins[series] + inside
        windows = self._rows[begins[:, None] + self._columns]
        if self._stretch:
            factors = np.exp(self._stretch * np.random.Generator(bits).standard_normal((self._batch, 1, 1)))
            channels = windows[:, :, : self._channels] * factors.astype(np.float32)
            windows = np.concatenate([channels, windows[:, :, self._channels :]], axis=2)
        return as_batch(windows, self._channels)


def channels_of(stream: Stream) -> int:
    """How many columns are predicted, the first ones; the others are known in advance."""
    return stream.tokens.shape[1] if stream.channels is None else stream.channels


def as_batch(block: np.ndarray, channels: int) -> Batch[np.ndarray]:
    """Windows (B, T + 1, D) as inputs, with the covariates of the row to come, and what is to be predicted."""
    inputs = np.concatenate([block[:, :-1, :channels], block[:, 1:, channels:]], axis=2)
    values = np.array(block[:, 1:], np.float32)
    values[:, :, channels:] = np.nan
    targets = np.where(np.isnan(values).all(axis=2), -1, 0)
    return Batch(np.ascontiguousarray(inputs, np.float32), targets.astype(np.int64), values=values)


def blocks(stream: Stream, limit: int | None) -> Iterator[Batch[np.ndarray]]:
    """Every row but the first of each series predicted once; where there is more than half a context before it, from at
    least that much. Or the windows of these that are `looked_at`."""
    context, stride = stream.context, max(1, stream.context // 2)
    rows, spans = stream.array, series_in((stream.tokens, stream.starts))
    starts, ends = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for begin, end in spans:
        if end - begin > 1:  # the last window is the first that reaches the end
            count = 1 + max(0, -(-(end - 1 - context - begin) // stride))
            starts.append(begin + stride * np.arange(count))
            ends.append(np.full(count, end))
    first, end = np.concatenate(starts), np.concatenate(ends)
    until = np.minimum(first + context, end - 1)  # the last place that a window predicts
    same = end[1:] == end[:-1]
    done = first.copy()  # what was predicted before it
    done[1:][same] = until[:-1][same]
    chosen = looked_at(until - done, limit, documents=len(spans))
    for some in np.split(chosen, list(range(stream.batch, len(chosen), stream.batch))):
        if not len(some):
            return
        at = first[some, None] + np.arange(context + 1)
        inside = at < end[some, None]
        windows = np.where(inside[:, :, None], rows[np.where(inside, at, 0)], np.float32(np.nan))
        fresh = np.where((at > done[some, None]) & inside, at, -1)[:, 1:]
        yield _scored(windows, fresh, channels_of(stream))


def _scored(windows: np.ndarray, at: np.ndarray, channels: int) -> Batch[np.ndarray]:
    whole = as_batch(windows, channels)
    assert whole.values is not None
    at = np.where(whole.targets < 0, -1, at)
    values = np.where((at >= 0)[:, :, None], whole.values, np.float32(np.nan))
    return Batch(whole.inputs, np.where(at < 0, -1, 0), places=at, values=values)


@register("batches")
class SeriesBatchesConfig(BatchesConfig):
    """Random windows of series of numbers, counted in iterations."""

    kind: Literal["series"] = "series"
    task: ClassVar[str] = "forecast"

    has_epochs = False

    stretch: float = Field(0.0, ge=0, le=1)
    """All channels of a training window are multiplied by one number, e to the power of this times a normal draw: as if
    more people, heavier and lighter ones, had been recorded. What is zero stays zero."""

    def refuse(self, recipe: Any) -> str | None:
        if recipe.corpus.task != self.task and recipe.model.takes_vectors:
            return (
                f"corpus={recipe.corpus.kind} gives text, and the model reads rows of numbers (model.input)"
            )
        return super().refuse(recipe)

    def example(self, rows: int, context: int) -> Batch[np.ndarray]:
        """A batch of zeros with one column."""
        numbers = np.zeros((2, rows, context, 1), np.float32)
        return Batch(numbers[0], np.zeros((rows, context), np.int64), values=numbers[1])

    def training(self, stream: Stream, *, seed: int, accumulation: int) -> SeriesWindows:
        return SeriesWindows(stream, seed=seed, stretch=self.stretch)

    def scoring(self, stream: Stream, limit: int | None) -> Iterator[Batch[np.ndarray]]:
        return blocks(stream, limit)
