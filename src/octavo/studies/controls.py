"""What a study's baseline is held against: counting n-grams and gzip, on the same text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from octavo.studies.arms import counted
from octavo.studies.spec import BASELINE

if TYPE_CHECKING:
    from octavo.studies.results import RunResult, StudyResults

SHOWN = {"trigram": "counting {order}-grams", "ngram": "counting {order}-grams", "gzip": "gzip −9"}


class Control(NamedTuple):
    """What something simpler reaches on the validation text of the baseline."""

    key: str
    name: str
    bits_per_byte: float
    val_loss: float | None


def controls(results: StudyResults) -> list[Control]:
    """The trigram, the best n-gram and gzip, as far as the baseline's evaluation has them."""
    run = next((run for run in results.of(BASELINE) if run.status == "done"), None)
    found = counted(results, run) if run is not None else {}
    shown = []
    for key, name in SHOWN.items():
        one = found.get(key) or {}
        bits, order = one.get("bits_per_byte"), one.get("order") or 0
        best_is_the_trigram = key == "ngram" and order == (found.get("trigram") or {}).get("order")
        if bits is not None and not best_is_the_trigram:
            shown.append(Control(key, name.format(order=int(order)), bits, one.get("loss")))
    return shown


def nothing_learned(results: StudyResults, runs: Sequence[RunResult]) -> str | None:
    """Why the baseline's runs are no test of any claim, or None: they must be better than counting trigrams."""
    trigram = next((one for one in controls(results) if one.key == "trigram"), None)
    reached = [run.bits_per_byte for run in runs if run.bits_per_byte is not None]
    if trigram is None or not reached or float(np.mean(reached)) < trigram.bits_per_byte:
        return None
    return (
        f"Nothing has been learned yet: not a test of the claim. The baseline ends at {np.mean(reached):.3f} bits per "
        f"byte, and {trigram.name} has {trigram.bits_per_byte:.3f} on the same text."
    )
