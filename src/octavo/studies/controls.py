"""What a study's baseline is held against on the same text: counting n-grams and gzip or, where the loss is none of
text, the simple predictors that its objective has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from octavo.studies.arms import best_reached, counted, floor_of, reached_by_others
from octavo.studies.measures import OF_PATHS, Measure, measure, usual
from octavo.studies.spec import BASELINE, Study

if TYPE_CHECKING:
    from octavo.studies.results import RunResult, StudyResults

SHOWN = {"trigram": "counting {order}-grams", "ngram": "counting {order}-grams", "gzip": "gzip −9"}

FLOOR = "the source itself: no model can beat it"


class Control(NamedTuple):
    """What something simpler reaches on the validation text of the baseline."""

    key: str
    name: str
    reached: float
    """As `measures.usual` has it."""
    other: float | None
    """As `other_measure` has it."""


def other_measure(study: Study) -> Measure | None:
    """What stands beside the usual measure of a study: a text's loss, or how good drawn paths are, if they decide."""
    if study.unit.has_bits_per_byte:
        return measure("val_loss", study.unit)
    return measure(study.metric) if study.metric in OF_PATHS else None


def controls(results: StudyResults) -> list[Control]:
    """The trigram, the best n-gram and gzip, or all simple predictors, as far as the baseline's evaluation has them."""
    run = next((run for run in results.of(BASELINE) if run.status == "done"), None)
    found = counted(results, run) if run is not None else {}
    if not results.study.unit.has_bits_per_byte:
        losses = {name: one.get("loss") for name, one in found.items() if name != "start"}
        losses[FLOOR] = None if run is None else floor_of(results, run)
        paths = {} if run is None else reached_by_others(results, run)
        return [
            Control(name, name, loss, paths.get(name)) for name, loss in losses.items() if loss is not None
        ]
    shown = []
    for key, name in SHOWN.items():
        one = found.get(key) or {}
        bits, order = one.get("bits_per_byte"), one.get("order") or 0
        best_is_the_trigram = key == "ngram" and order == (found.get("trigram") or {}).get("order")
        if bits is not None and not best_is_the_trigram:
            shown.append(Control(key, name.format(order=int(order)), bits, one.get("loss")))
    return shown


def nothing_learned(results: StudyResults, runs: Sequence[RunResult]) -> str | None:
    """Why the baseline's runs are no test of any claim, or None: they must have been better than counting trigrams, or
    than the best simple predictor, at their end or with their best weights: what over-fits later has learned before.
    Both sides are of the whole validation split."""
    unit = results.study.unit
    shown = usual(unit)
    others = not unit.has_bits_per_byte
    rivals = [one for one in controls(results) if one.key == "trigram" or (others and one.key != FLOOR)]
    best = min(rivals, key=lambda one: one.reached, default=None)
    levels = [(shown.of(run), best_reached(results, run, shown)) for run in runs]
    reached = [min(end, end if at_best is None else at_best) for end, at_best in levels if end is not None]
    if best is None or not reached or float(np.mean(reached)) < best.reached:
        return None
    return (
        f"Nothing has been learned yet: not a test of the claim. The baseline reaches {np.mean(reached):.3f} "
        f"{shown.unit}, and {best.name} has {best.reached:.3f} on the same {'data' if others else 'text'}."
    )
