"""From logits to a token: pure functions on logits (B, V) and on numbers between 0 and 1 drawn elsewhere, in numpy.

`on_device.py` has them for logits that lie on an accelerator.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np

from octavo.errors import InputError

if TYPE_CHECKING:
    from octavo.config import SamplingConfig

Window = Literal["slide", "crop"]

Precision = Literal["float32", "bfloat16", "int8"]
"""Of the numbers that are multiplied."""
BYTES: Mapping[Precision, int] = {"float32": 4, "bfloat16": 2, "int8": 1}
"""Of a number of keys and values, as they are kept."""


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen; see `SamplingConfig` for what each does."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float = 1.0
    window: Window = "slide"

    def choose(self, logits: np.ndarray, uniform: np.ndarray, seen: np.ndarray | None = None) -> np.ndarray:
        """Token ids (B,) for logits (B, V), numbers `uniform` (B,) in [0, 1), and tokens `seen` (B, V, bool)."""
        if self.repetition_penalty != 1.0 and seen is not None:
            logits = penalized(logits, seen, self.repetition_penalty)
        if self.temperature == 0:
            return logits.argmax(axis=-1)
        with np.errstate(over="ignore", invalid="ignore"):
            # In double and below zero, so that the smallest temperature makes −∞ of them, not NaN.
            logits = below_best(logits) / self.temperature
            if self.top_k is not None:
                logits = keep_top_k(logits, self.top_k)
            if self.top_p is not None:
                logits = keep_top_p(logits, self.top_p)
            if self.min_p is not None:
                logits = keep_min_p(logits, self.min_p)
            return draw(logits, uniform)

    def drawn(
        self,
        logits: np.ndarray,
        uniform: np.ndarray,
        *,
        seen: np.ndarray | None = None,
        allowed: np.ndarray | None = None,
    ) -> tuple[list[int], list[float]]:
        """What `choose` chooses, only of what is `allowed` (B, V, bool), and the log-probability that each had before
        any of this."""
        open_ones = logits if allowed is None else np.where(allowed, logits, np.float32(-math.inf))
        chosen = self.choose(open_ones, uniform, seen)
        with np.errstate(invalid="ignore"):
            below = below_best(logits)
            known = below[np.arange(len(logits)), chosen] - log_sums(below)
        return chosen.tolist(), known.astype(np.float32).tolist()


def kept(context: int, window: Window) -> int:
    """How many of the last tokens a full window is read again with."""
    return context if window == "crop" else max(1, context - max(1, context // 4))


def below_best(logits: np.ndarray) -> np.ndarray:
    """Logits less the largest of their row, in double."""
    return (logits - logits.max(axis=-1, keepdims=True)).astype(np.float64)


def log_sums(below: np.ndarray) -> np.ndarray:
    """(B,) how far log-probabilities are below `below_best`."""
    return np.log(np.exp(below).cumsum(axis=-1)[:, -1])


def log_probabilities(logits: np.ndarray) -> np.ndarray:
    """(B, V) in float32."""
    below = below_best(logits)
    return (below - log_sums(below)[:, None]).astype(np.float32)


def penalized(logits: np.ndarray, seen: np.ndarray, penalty: float) -> np.ndarray:
    """Logits of seen tokens moved down: divided by the penalty if positive, multiplied if negative."""
    with np.errstate(all="ignore"):
        return np.where(seen, np.where(logits > 0, logits / penalty, logits * penalty), logits)


def keep_top_k(logits: np.ndarray, k: int) -> np.ndarray:
    """−∞ for all but the k largest (ties with the k-th stay)."""
    size = logits.shape[-1]
    smallest = np.partition(logits, size - min(k, size), axis=-1)[:, [size - min(k, size)]]
    return np.where(logits < smallest, -math.inf, logits)


def keep_top_p(logits: np.ndarray, p: float) -> np.ndarray:
    """−∞ for all but the fewest largest that together hold probability p."""
    order = np.argsort(-logits, axis=-1, kind="stable")
    probabilities = np.exp(below_best(np.take_along_axis(logits, order, axis=-1)))
    probabilities /= probabilities.sum(axis=-1, keepdims=True)
    before = probabilities.cumsum(axis=-1) - probabilities  # what the more probable ones hold
    dropped = np.zeros(logits.shape, bool)
    np.put_along_axis(dropped, order, before >= p, axis=-1)
    return np.where(dropped, -math.inf, logits)


def keep_min_p(logits: np.ndarray, p: float) -> np.ndarray:
    """−∞ where the probability is below p times the largest."""
    return np.where(logits < logits.max(axis=-1, keepdims=True) + math.log(p), -math.inf, logits)


def draw(below: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """The tokens at which the summed probability passes `uniform`, by logits in double, the largest of a row 0."""
    total = np.exp(below).cumsum(axis=-1)  # (B, V)
    target = uniform * total[:, -1]
    # Never a token of probability 0, whose sum equals that of the one before it.
    passed = (total <= target[:, None]).sum(axis=-1)
    return np.minimum(passed, below.shape[-1] - 1)


# How a run's model chooses tokens.

SEEDS = 2**64
"""How many there are."""


def seed_of(text: str) -> int:
    """A seed, or one drawn by chance for the word random. Raises InputError for anything else."""
    if text == "random":
        return secrets.randbelow(2**32)
    if not text.isdecimal() or len(text) > len(str(SEEDS)) or int(text) >= SEEDS:
        raise InputError(f"--seed takes a whole number below 2^64, or random; '{text}' is neither.")
    return int(text)


class SamplingFields(TypedDict, total=False):
    """The fields of `SamplingOptions`, as keywords."""

    tokens: int | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    repetition_penalty: float | None
    window: Window | None
    stop: Sequence[str]
    seed: int
    precision: Precision
    only_valid: bool


@dataclass(frozen=True)
class SamplingOptions:
    """How a run writes. What is None, its recipe says; see `SamplingConfig`.

    Attributes:
        stop: texts to end before.
        precision: see `Engine`.
        only_valid: write only symbols that the recipe's validator lets through.
    """

    tokens: int | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    window: Window | None = None
    stop: Sequence[str] = ()
    seed: int = 0
    precision: Precision = "float32"
    only_valid: bool = False

    def given(self) -> SamplingFields:
        """What is not left to the recipe, as keywords; always the seed and the precision."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in type(self).__dataclass_fields__}
        left = (None, False)  # by identity: a temperature of 0 is given
        return SamplingFields(
            **{
                name: value
                for name, value in fields.items()
                if value != () and not any(value is one for one in left)
            }
        )


RECIPES = SamplingOptions()
"""All as the recipe has it."""


def sampling_of(settings: SamplingConfig, options: SamplingOptions = RECIPES) -> Sampling:
    """The way of choosing tokens by the recipe and `options`. Raises InputError for impossible ones."""
    from pydantic import ValidationError

    values = {name: getattr(options, name) for name in Sampling.__dataclass_fields__}
    given = {name: value for name, value in values.items() if value is not None}
    try:
        checked = type(settings).model_validate(settings.model_dump() | given)
    except ValidationError as error:
        wrong = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        raise InputError(f"Sampling settings are invalid: {'; '.join(wrong)}.") from error
    return Sampling(**{name: getattr(checked, name) for name in Sampling.__dataclass_fields__})
