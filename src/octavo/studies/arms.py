"""Which runs of a study count, and their metrics as the statistics take them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from octavo.evaluation.stored import validation_text
from octavo.studies.documents import resample
from octavo.studies.measures import OF_PATHS
from octavo.studies.spec import BASELINE
from octavo.studies.statistics import Arm
from octavo.util.records import read_record

if TYPE_CHECKING:
    from octavo.studies.measures import Measure
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
