"""Which runs of a study count, and their metrics as the statistics take them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from octavo.evaluation.stored import validation_text
from octavo.studies.measures import OF_PATHS, Measure, measure, usual
from octavo.studies.spec import BASELINE, Study
from octavo.studies.statistics import Arm, resample
from octavo.util.records import read_record

if TYPE_CHECKING:
    from octavo.studies.results import RunResult, StudyResults

NOTHING_LEARNED = 0.99
"""A run whose loss is above this share of the untrained model's, or of the unigram's, has learned nothing."""


WITHOUT = {
    **dict.fromkeys(
        OF_PATHS, "it has no forecasts: the series held out are too short for the furthest horizon"
    ),
    "valid": "none of its texts was judged",
}
"""Why a run that has a loss may have none of these metrics."""


def finished(run: RunResult) -> bool:
    """Whether it has a metric to compare."""
    return run.status == "done" and run.metric is not None and math.isfinite(run.metric)


def failure(results: StudyResults, run: RunResult) -> str | None:
    """Why a run counts as failed to train, so that it has no figure to compare; or None."""
    if run.status == "failed":
        return (run.reason or "it failed").rstrip(".")
    if run.status == "stopped" or finished(run):
        return None
    return WITHOUT.get(results.study.metric if run.metric is None else "", "its loss is not a finite number")


def learned_nothing(results: StudyResults, run: RunResult) -> str | None:
    """Why a finished run counts as one that has learned nothing, or None. Its figure is compared all the same."""
    if not finished(run):
        return None
    unit, least = results.study.unit, f"not {100 * (1 - NOTHING_LEARNED):g} % below"
    initial = 0.0 if unit.density else run.initial_loss  # of a density no share means anything
    if initial and run.val_loss is not None and run.val_loss > NOTHING_LEARNED * initial:
        return f"it ended at {run.val_loss:.3f} {unit}, {least} the untrained model ({initial:.3f})"
    unigram = counted(results, run).get("unigram", {}).get("bits_per_byte")
    if unigram and run.bits_per_byte is not None and run.bits_per_byte > NOTHING_LEARNED * unigram:
        return (
            f"it ended at {run.bits_per_byte:.3f} bits per byte, {least} counting how often each token occurs "
            f"({unigram:.3f})"
        )
    return None


def counted(results: StudyResults, run: RunResult) -> dict[str, dict[str, float | None]]:
    """What counting and packing, or other simple means, reach on the run's validation text, by name, where its
    evaluation says so."""
    return _evaluation(results, run).get("baselines") or {}


def floor_of(results: StudyResults, run: RunResult) -> float | None:
    """The least loss that is possible on the run's validation text, where its evaluation knows it."""
    return _evaluation(results, run).get("source_entropy")


def best_reached(results: StudyResults, run: RunResult, shown: Measure) -> float | None:
    """What a run's best weights reached on the whole validation split, where its evaluation says so; the best
    evaluation on the way may be of a part of it."""
    return _evaluation(results, run).get(shown.metric)


def reached_by_others(results: StudyResults, run: RunResult) -> dict[str, float]:
    """What each predictor reached by the study's metric, where that is one of its task's own."""
    return results.study.task.by_predictor(_evaluation(results, run), results.study.metric)


def _evaluation(results: StudyResults, run: RunResult) -> dict[str, Any]:
    path = results.folder / run.folder / "evaluation.json"
    return read_record(path, results.study.task.stored, of="the run") if path.is_file() else {}


def too_many(failed: Sequence[RunResult], runs: Sequence[RunResult]) -> bool:
    """Whether they are more than half."""
    return 2 * len(failed) > len(runs) > 0


def stopped(runs: Sequence[RunResult]) -> bool:
    """Whether more than half were stopped as hopeless."""
    return too_many([run for run in runs if run.status == "stopped"], runs)


def arm(results: StudyResults, runs: Sequence[RunResult], *, steady: bool) -> Arm:
    """The runs' metric, and on documents drawn again where the metric is made of documents' losses."""
    values = np.array([run.metric for run in runs], float)
    seeds, metric = tuple(run.seed for run in runs), results.study.metric
    units = {len(run.nats) for run in runs}
    if metric in ("accuracy", "valid", *OF_PATHS) or len(units) != 1 or min(units) < 2:
        return Arm(values, steady, seeds=seeds)
    sizes = [run.bytes if metric == "bits_per_byte" else run.tokens_scored for run in runs]
    nats = np.array([run.nats for run in runs], float)
    resampled = resample(nats, np.array(sizes[0], float), stream=_text(results, runs[0]))
    if metric == "bits_per_byte":
        resampled = resampled / math.log(2)
    elif metric == "nats_per_record":  # so many tokens make a record
        resampled = resampled * (values / [run.val_loss for run in runs])
    if metric == "improvement":  # the untrained model is as bad on every document
        resampled = 1 - resampled / np.array([run.initial_loss for run in runs], float)
    return Arm(values, steady, np.exp(resampled) if metric == "perplexity" else resampled, seeds)


def _text(results: StudyResults, run: RunResult) -> int:
    """A number for the text that a run was evaluated on: the same text has the same draws."""
    texts = [text_key(results, other) for other in results.runs if other.nats]
    return list(dict.fromkeys(texts)).index(text_key(results, run))


def text_key(results: StudyResults, run: RunResult) -> tuple[object, int]:
    """What identifies the validation text of a run: the hash of its file, where it is one, for a text may be split in
    other ways; else that of the whole text."""
    manifest = results.folder / run.folder / "manifest.json"
    held_out = validation_text(read_record(manifest, of="the run")) if manifest.is_file() else None
    data = results.study.data.get(run.slug) or results.study.data.get(BASELINE)
    return held_out or data, len(run.nats)


# What the baseline is held against on the same text: counting n-grams and gzip or, where the loss is none of text,
# the simple predictors that its objective has.

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
    baselines = counted(results, run) if run is not None else {}
    if not results.study.unit.has_bits_per_byte:
        losses = {name: one.get("loss") for name, one in baselines.items() if name != "start"}
        losses[FLOOR] = None if run is None else floor_of(results, run)
        paths = {} if run is None else reached_by_others(results, run)
        return [
            Control(name, name, loss, paths.get(name)) for name, loss in losses.items() if loss is not None
        ]
    shown = []
    for key, name in SHOWN.items():
        one = baselines.get(key) or {}
        bits, order = one.get("bits_per_byte"), one.get("order") or 0
        best_is_the_trigram = key == "ngram" and order == (baselines.get("trigram") or {}).get("order")
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
