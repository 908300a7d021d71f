"""A batch: what a model reads, what it is to predict, and what else is known of each position.

B sequences, T positions, S positions of what an encoder reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

if TYPE_CHECKING:
    import torch

A = TypeVar("A")
"""numpy arrays, as batches are made, or torch tensors, as models take them."""

NO_ROW = {
    "inputs": 0,
    "targets": -1,
    "weights": 0,
    "segments": 0,
    "source": -1,
    "prefix": 0,
    "places": -1,
    "values": float("nan"),
    "advantages": 0,
    "behaviour": 0,
    "earlier": -1,
    "alone": 0,
    "sides": -1,
    "begins": 0,
}
"""What a row holds that is there for its shape alone."""
UNSAID = NO_ROW | {"weights": 1}
"""What a field means that is not there."""
BY_PROCESSOR = ("alone",)
"""Fields that tell the processor what to do, and so stay with it."""
WHOLE = ("source", "earlier", "sides", "begins")
"""Fields whose second axis is not that of the positions."""


@dataclass(frozen=True, eq=False)
class SideInputs(Generic[A]):
    """What a model reads beside the tokens; each None where there is nothing.

    Attributes:
        segments: the document of each position, (B, T): none sees beyond its own, and positions count from its
            beginning, so that each document is as if alone.
        source: ids that an encoder reads, (B, S); −1 where there is none.
        prefix: 1 at the first positions of a row that all its positions see (Raffel et al. 2020), 0 after them, (B, T).
        values: the rows of numbers to predict, (B, T, D), for channels that see one another; NaN where a number is not.
        earlier: ids (B, E) that stand before each row, for counts alone; −1 where there is none.
        alone: 1 where a network that has counts beside it predicts without them, (B, T).
    """

    segments: A | None = None
    source: A | None = None
    prefix: A | None = None
    values: A | None = None
    earlier: A | None = None
    alone: A | None = None

    def at(self, rows: Any) -> SideInputs[A]:
        """Those of some sequences."""
        every = ((field.name, getattr(self, field.name)) for field in fields(self))
        return SideInputs(**{name: value if value is None else value[rows] for name, value in every})


NO_SIDE_INPUTS: SideInputs[Any] = SideInputs()


@dataclass(frozen=True, eq=False)
class Batch(Generic[A]):
    """B sequences. The first axis of every field is B.

    Attributes:
        inputs: ids (B, T), or rows of numbers (B, T, D), float32, NaN where one is missing.
        targets: the token to predict at each position, (B, T); −1 where nothing is. Where rows of numbers are, 0.
        weights: how much each target counts, float32 (B, T); None: each counts 1.
        segments, source, prefix, values, earlier, alone: see `SideInputs`.
        places: where in its split each target stands, (B, T); −1 where there is none. Batches that score have them.
        advantages: of texts that the model wrote: how much better than usual each token turned out, float32 (B, T).
        behaviour: with what log-probability each token was written, in nats, float32 (B, T).
        sides: of preferences, the whole conversation with the chosen answer and that with the rejected one, ids
            (B, 2, S); −1 after their ends. Each row is a pair, and has one target: the chosen answer's end.
        begins: where each side's answer begins in it, (B, 2).
    """

    inputs: A
    targets: A
    weights: A | None = None
    segments: A | None = None
    source: A | None = None
    prefix: A | None = None
    places: A | None = None
    values: A | None = None
    advantages: A | None = None
    behaviour: A | None = None
    earlier: A | None = None
    alone: A | None = None
    sides: A | None = None
    begins: A | None = None

    def items(self) -> Iterator[tuple[str, Any]]:
        """The fields that are there, by name."""
        for field in fields(self):
            if (value := getattr(self, field.name)) is not None:
                yield field.name, value

    @property
    def side_inputs(self) -> SideInputs[A] | None:
        """What a model reads of it beside the inputs; None where that is nothing."""
        found = {field.name: getattr(self, field.name) for field in fields(SideInputs)}
        return None if all(value is None for value in found.values()) else SideInputs(**found)

    @property
    def rows(self) -> int:
        """B, the number of sequences."""
        inputs: Any = self.inputs
        return len(inputs)

    @property
    def scored(self) -> int:
        """How many targets are predicted."""
        targets: Any = self.targets
        return int((targets >= 0).sum())

    @property
    def weight(self) -> float:
        """What all predicted targets count together: what a sum over them is divided by for their mean."""
        targets: Any = self.targets
        weights: Any = self.weights
        return float(self.scored) if weights is None else float((weights * (targets >= 0)).sum())

    def rows_at(self, rows: slice) -> Batch[A]:
        """The batch with these sequences alone."""
        return Batch(**{name: value[rows] for name, value in self.items()})

    def corner(self, rows: int, positions: int) -> Batch[A]:
        """At most so many sequences, and of each at most so many positions; an encoder reads the whole."""
        cut = {name: value if name in WHOLE else value[:, :positions] for name, value in self.items()}
        return Batch(**cut).rows_at(slice(rows))

    def widened(self: Batch[np.ndarray], columns: int) -> Batch[np.ndarray]:
        """An example of rows of one number as one of so many; any other is what it was."""
        if self.values is None:
            return self
        wide = {"inputs": self.inputs, "values": self.values}
        return replace(self, **{name: np.repeat(value, columns, axis=2) for name, value in wide.items()})

    def parts(self, rows: int | None) -> list[Batch[A]]:
        """Batches of at most `rows` sequences each; without a number, this one."""
        if rows is None or rows >= self.rows:
            return [self]
        return [self.rows_at(slice(at, at + rows)) for at in range(0, self.rows, rows)]

    def shard(self: Batch[np.ndarray], rank: int, size: int) -> Batch[np.ndarray]:
        """The rows of one process of several, of an array batch; all get equally many, the last ones perhaps rows
        without a target.
        """
        rows = -(-self.rows // size)
        mine = self.rows_at(slice(rank * rows, (rank + 1) * rows))
        missing = rows - mine.rows
        filled = {
            name: np.pad(value, ((0, missing), *[(0, 0)] * (value.ndim - 1)), constant_values=NO_ROW[name])
            for name, value in mine.items()
        }
        return Batch(**filled)

    def joined(self: Batch[np.ndarray], other: Batch[np.ndarray]) -> Batch[np.ndarray]:
        """The rows of this array batch, then those of another. What only one of the two has is filled in, and so is the
        shorter source.
        """
        both = (dict(self.items()), dict(other.items()))
        together = {}
        for name in both[0] | both[1]:
            like = both[name not in both[0]][name]
            halves = [
                has[name]
                if name in has
                else np.full_like(like, UNSAID[name], shape=(len(has["targets"]), *like.shape[1:]))
                for has in both
            ]
            longest = max(half.shape[1] for half in halves)
            filled = [
                np.pad(half, ((0, 0), (0, longest - half.shape[1])), constant_values=NO_ROW[name])
                for half in halves
            ]
            together[name] = np.concatenate(filled)
        return Batch(**together)

    def to(self, device: torch.device | str) -> Batch[torch.Tensor]:
        """The same as tensors on a device, but for what only the processor asks."""
        import torch

        tensors = {name: torch.as_tensor(value) for name, value in self.items()}
        return Batch(
            **{name: each if name in BY_PROCESSOR else each.to(device) for name, each in tensors.items()}
        )
