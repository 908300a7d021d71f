"""What a target is: it says what it can say, writes a folder, and opens such a folder with its own library again."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from octavo.config import SamplingConfig
from octavo.errors import InputError, MissingExtra
from octavo.export.solver import Solution, because
from octavo.export.weights import Shape, Weights
from octavo.tokenizers import Tokenizer

Status = Literal["exact", "approximate", "impossible"]
ORDER: tuple[Status, ...] = ("exact", "approximate", "impossible")


@dataclass(frozen=True)
class Support:
    """How a target says a model, or a tokenizer.

    Attributes:
        how: the architecture, or the form, by name.
        steps: the rewrites, in sentences.
        why: what is approximate, by how much; or why it is impossible. Empty where it is exact.
    """

    status: Status
    how: str
    steps: tuple[str, ...] = ()
    why: str = ""


def in_words(solution: Solution) -> Support:
    """What the solver found for an architecture."""
    title, steps = solution.architecture.title, tuple(map(str, solution.steps))
    if solution.conflicts:
        return Support("impossible", title, steps, because(solution))
    if solution.near:
        return Support("approximate", title, steps, "; ".join(map(str, solution.near)))
    return Support("exact", title, steps)


@dataclass(frozen=True)
class Parcel:
    """What a target gets to write.

    Attributes:
        weights: of the run, in float64, not rewritten.
        dtype: the number type of the matrices in the file.
        name: of the run, for people.
        sampling: how the run's recipe chooses tokens, for the settings of the file.
    """

    weights: Weights
    tokenizer: Tokenizer
    dtype: str
    name: str
    sampling: SamplingConfig = field(default_factory=SamplingConfig)


class Opened(ABC):
    """An exported folder, opened by the target's own library."""

    @abstractmethod
    def logits(self, ids: Sequence[int]) -> np.ndarray:
        """Logits (T, V), float32, after each of at most T = context ids."""

    @abstractmethod
    def greedy(self, ids: Sequence[int], count: int) -> list[int]:
        """The `count` ids that the library's own decoding, with its cache, writes after `ids`, each the likeliest.
        `ids` and `count` together fit into the context; a mark of the end does not end it."""

    @abstractmethod
    def encode(self, text: str) -> list[int] | None:
        """The ids of a text without marks; None where the library refuses it, or has no tokenizer in the folder."""

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str | None:
        """The text of ids, special ones left out; None as above."""

    @abstractmethod
    def versions(self) -> dict[str, str]:
        """The libraries that took part, with their versions."""


class Target(ABC):
    """A form that a model can be exported to.

    Attributes:
        name: the word for `--to`.
        title: for people.
        rank: its place in tables.
        packages: what it needs, as imported and as installed.
        types: the number types that it can write; the first is the default.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    rank: ClassVar[int] = 0
    packages: ClassVar[dict[str, str]] = {}
    types: ClassVar[tuple[str, ...]] = ("float32", "float16", "bfloat16")

    @abstractmethod
    def model(self, shape: Shape) -> Support:
        """How it says a model; nothing is loaded for it."""

    @abstractmethod
    def tokenizer(self, kind: str, made: Tokenizer | None = None) -> Support:
        """How it says a tokenizer of a kind, or the one that was made where that matters."""

    @abstractmethod
    def write(self, parcel: Parcel, folder: Path) -> None:
        """Put everything into an empty folder. Only for what `model` and `tokenizer` call possible."""

    @abstractmethod
    def reopen(self, folder: Path) -> Opened:
        """Open what was written, without Octavo's own code for it."""

    def how_to_run(self, parcel: Parcel) -> str:
        """Lines for the card, in Markdown, that run from inside the folder; blocks marked `python` are tested."""
        return ""

    def needs(self) -> None:
        """Raise MissingExtra for a package that is not installed."""
        for module, package in self.packages.items():
            try:
                importlib.import_module(module)
            except ImportError as error:
                raise MissingExtra(package, "ship", f"Exporting to {self.title}") from error

    def refuse(self, shape: Shape, tokenizer: Tokenizer, dtype: str) -> None:
        """Raise InputError where it cannot say the model or its tokenizer, or has no such number type."""
        if dtype not in self.types:
            raise InputError(f"{self.title} has no {dtype} here.", remedy=f"--dtype {', '.join(self.types)}")
        for what, supported in (
            ("this model", self.model(shape)),
            ("this tokenizer", self.tokenizer(tokenizer.kind, tokenizer)),
        ):
            if supported.status == "impossible":
                raise InputError(
                    f"{self.title} cannot say {what}: {supported.why}.", remedy="--to onnx torch"
                )
