"""What a hypothesis expects, for the machine: a direction, equality, or a size; and whether it held."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field, FiniteFloat

from octavo.studies.measures import SHARES

if TYPE_CHECKING:
    from octavo.studies.statistics import Contrast

Verdict = Literal[
    "better",
    "worse",
    "no difference that matters",
    "no difference seen",
    "too few seeds for this noise",
    "unreliable",
    "failed to train",
    "not judged",
]

METRICS = {"bits": "bits_per_byte", "nats": "val_loss", "perplexity": "perplexity", "points": "accuracy"}
"""Units of a size, and the metric that each is of."""


def _in_order(ends: tuple[float, float]) -> tuple[float, float]:
    if ends[0] >= ends[1]:
        raise ValueError(f"{list(ends)} is no range; give the smaller end first")
    return ends


Size = Annotated[tuple[FiniteFloat, FiniteFloat], AfterValidator(_in_order)]
"""From where to where the difference lies, change minus baseline."""

Expected = (
    Literal["better", "worse", "same", "fails", "any"]
    | Annotated[
        dict[Literal["bits", "nats", "perplexity", "points"], Size], Field(min_length=1, max_length=1)
    ]
)


def held(
    expect: str | Mapping[Any, tuple[float, float]] | None,
    verdict: Verdict,
    contrast: Contrast | None,
    *,
    metric: str,
    matters: float | None,
    token_bytes: Sequence[float],
    learned_nothing: bool = False,
) -> bool | None:
    """Whether a hypothesis held; None where this is not decided. `matters`: the smallest interesting difference of the
    study's metric; `token_bytes`: how long a token is in each run, the baseline's first; `learned_nothing`: whether
    more than half of the change's runs have.

    A change that fails to train is worse too. A worse change need not fail; one that learned nothing does. `same` holds
    where all of the interval is within the study's smallest interesting difference, and is refuted where none of it is.
    """
    if expect is None or expect == "any" or verdict == "not judged":
        return None
    if expect == "fails" and learned_nothing:
        return True
    if isinstance(expect, str) and verdict == "too few seeds for this noise":
        return None
    if expect == "fails":
        return verdict == "failed to train"
    if expect == "worse":
        return verdict in ("worse", "failed to train")
    if expect == "better":
        return verdict == "better"
    if verdict in ("failed to train", "unreliable") or contrast is None:
        return False
    if isinstance(expect, str):
        nearest = max(contrast.low, -contrast.high, 0.0)
        return verdict == "no difference that matters" or (False if nearest > (matters or 0.0) else None)
    ((unit, ends),) = expect.items()
    factor = _factor(unit, metric, token_bytes)
    if factor is None:
        return None
    low, high = (end * factor for end in ends)
    if low <= contrast.low and contrast.high <= high:
        return True
    return False if contrast.high < low or contrast.low > high else None


def _factor(unit: str, metric: str, token_bytes: Sequence[float]) -> float | None:
    """From a size's unit to the study's metric. Nats and bits go over into each other where all cut the text alike."""
    if METRICS[unit] == metric or (unit == "points" and metric in SHARES):
        return 0.01 if unit == "points" else 1.0
    alike = token_bytes and max(token_bytes) <= 1.01 * min(token_bytes)
    if {METRICS[unit], metric} != {"bits_per_byte", "val_loss"} or not alike:
        return None
    nats_per_bit = math.log(2) * token_bytes[0]
    return 1 / nats_per_bit if unit == "nats" else nats_per_bit
