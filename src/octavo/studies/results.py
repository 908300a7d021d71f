"""The results of a study, read from its folder alone.

study.yaml      the study with everything that it takes to repeat it
runs/<slug>/seed-<n>/   run folders
results.json    every figure but timings: the same however often the study was stopped
timings.json    seconds and tokens a second
looks.json      with how many seeds it was judged, each time that it had grown
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import yaml

from octavo.config import file_text, parse_yaml
from octavo.errors import InputError
from octavo.run.folder import RunFolder
from octavo.studies.job import UNITS, outcome_of
from octavo.studies.measures import OF_PATHS, EvaluationCurve
from octavo.studies.plan import run_path
from octavo.studies.resolve import load_study
from octavo.studies.spec import Change, Study
from octavo.studies.stored import Units
from octavo.util.files import replace_text
from octavo.util.records import json_text, read_record

STUDY, RESULTS, TIMINGS = "study.yaml", "results.json", "timings.json"


@dataclass(frozen=True)
class RunResult:
    """One run. Metrics are those of the evaluated weights on the whole validation split; None if a run failed.

    Attributes:
        reason: why it failed or was stopped, in a sentence.
        initial_loss: of the untrained model.
        step, tokens: that the evaluated weights have seen; flops: of the whole run.
        nats, bytes, tokens_scored: of each unit of the validation text.
        train_curve: step and training loss.
        sample: the last text that the run wrote.
        seconds: of training; no part of the results' identity.
        folder: relative to the study's.
    """

    change: str
    slug: str
    seed: int
    status: Literal["done", "failed", "stopped"]
    reason: str | None = None
    metric: float | None = None
    val_loss: float | None = None
    bits_per_byte: float | None = None
    accuracy: float | None = None
    perplexity: float | None = None
    nats_per_record: float | None = None
    valid: float | None = None
    crps: float | None = None
    scaled_crps: float | None = None
    initial_loss: float | None = None
    step: int | None = None
    tokens: int | None = None
    flops: float | None = None
    parameters: int | None = None
    nats: tuple[float, ...] = ()
    bytes: tuple[int, ...] = ()
    tokens_scored: tuple[int, ...] = ()
    curve: EvaluationCurve = field(default_factory=EvaluationCurve)
    train_curve: tuple[tuple[int, float], ...] = ()
    sample: str = ""
    seconds: float | None = None
    folder: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class StudyResults:
    """All runs of a study: the baseline's first, then each change's, by seed."""

    folder: Path
    study: Study
    runs: tuple[RunResult, ...]

    def of(self, change: str) -> list[RunResult]:
        """The runs of a variant, by its name or slug."""
        return [run for run in self.runs if change in (run.change, run.slug)]

    @property
    def to_come(self) -> int:
        """How many planned runs have not ended yet."""
        study = self.study
        planned = len(study.seeds) * (1 + len(study.changes)) + len(study.noise_seeds)
        return max(0, planned - len(self.runs))


def study_of(folder: Path) -> Study:
    """The study that a folder holds. Raises InputError if there is none."""
    path = folder / STUDY
    if not is_study(folder):
        what = (
            "is not a study folder (it has no study.yaml of a run)" if folder.exists() else "does not exist"
        )
        raise InputError(f"{folder} {what}.", remedy="octavo study run STUDY --text PATH --out DIR makes one")
    return load_study(path)


def is_study(folder: Path) -> bool:
    """Whether a study was run in a folder. A study.yaml that was never run does not count."""
    path = folder / STUDY
    if not path.is_file():
        return False
    tree = parse_yaml(file_text(path), str(path))
    return isinstance(tree, dict) and "resolved" in tree


def study_tree(study: Study) -> dict[str, Any]:
    """A planned study as plain data that is a study file again."""
    settings = study.stop_hopeless
    tree: dict[str, Any] = {
        "name": study.name,
        "description": study.description,
        "finding": study.finding,
        "baseline": dict(study.recipe),
        "set": dict(study.settings),
        "seeds": list(study.seeds),
        "noise": list(study.noise_seeds),
        "metric": study.metric,
        "judge": study.judge,
        "budget": dict(study.budget) or None,
        "changes": [_entry(change) for change in study.changes],
        "text": list(study.text) if study.text else None,
        "before": [{"name": one.name, "recipe": dict(one.tree)} for one in study.before] or None,
        "stop_hopeless": settings.model_dump() if settings else None,
        "smallest_interesting": study.smallest_interesting,
        "resolved": {
            "octavo": study.octavo,
            "baseline": study.baseline,
            "budget": dict(study.budget),
            "steps": dict(study.steps),
            "data": dict(study.data),
            "sources": list(study.sources),
        },
    }
    return {key: value for key, value in tree.items() if value not in (None, "", {})}


def _entry(change: Change) -> dict[str, Any]:
    entry = {
        "name": change.name,
        "hypothesis": change.hypothesis,
        "expect": _plain(change.expect),
        "set": dict(change.settings),
        "text": list(change.text) if change.text else None,
        "budget": dict(change.budget) or None,
    }
    return {key: value for key, value in entry.items() if value not in (None, {})}


def _plain(expect: str | Mapping[Any, tuple[float, float]] | None) -> Any:
    return {unit: list(ends) for unit, ends in expect.items()} if isinstance(expect, Mapping) else expect


def write_study(study: Study, folder: Path) -> None:
    """Write study.yaml in one atomic step."""
    text = yaml.safe_dump(study_tree(study), sort_keys=False, allow_unicode=True, width=100)
    replace_text(folder / STUDY, text)


def collect(folder: Path) -> StudyResults:
    """Read a study folder. Runs that have not ended yet are left out. Raises InputError if there is no study."""
    folder = Path(folder)
    study = study_of(folder)
    runs = [
        run
        for variant in study.variants
        for seed in study.seeds_of(variant)
        if (run := _run(folder, study, variant, seed)) is not None
    ]
    return StudyResults(folder, study, tuple(runs))


def _run(folder: Path, study: Study, variant: Change, seed: int) -> RunResult | None:
    path = run_path(folder, variant.slug, seed)
    outcome = outcome_of(path)
    if outcome is None:
        return None
    units = read_record(path / UNITS, Units, of="the run") if outcome.status == "done" else {}
    rows = RunFolder(path).rows()
    validation = list({row["step"]: row for row in rows if row["event"] == "validation"}.values())
    losses = {row["step"]: row for row in rows if row["event"] == "train"}
    curve = EvaluationCurve(
        steps=tuple(row["step"] for row in validation),
        tokens=tokens_at([row["step"] for row in validation], list(losses.values())),
        losses=tuple(row["loss"] for row in validation),
        bits_per_byte=tuple(row["bits_per_byte"] for row in validation if "bits_per_byte" in row),
        evaluated=validation[-1].get("tokens") if validation else None,
    )
    samples = sorted((path / "samples").glob("step-*.txt"))
    figures = (
        "val_loss",
        "bits_per_byte",
        "accuracy",
        "perplexity",
        "nats_per_record",
        "valid",
        *OF_PATHS,
        "initial_loss",
    )
    counts = ("step", "tokens", "flops", "parameters", "seconds")
    return RunResult(
        change=variant.name,
        slug=variant.slug,
        seed=seed,
        status=outcome.status,
        reason=outcome.reason,
        metric=improvement(outcome.val_loss, outcome.initial_loss)
        if study.metric == "improvement"
        else getattr(outcome, study.metric, None),
        nats=tuple(units.get("nats", ())),
        bytes=tuple(units.get("bytes", ())),
        tokens_scored=tuple(units.get("tokens", ())),
        curve=curve,
        train_curve=tuple((step, row["loss"]) for step, row in losses.items()),
        sample=samples[-1].read_text(encoding="utf-8", errors="replace") if samples else "",
        folder=path.relative_to(folder).as_posix(),
        settings=dict(variant.settings),
        **{name: getattr(outcome, name) for name in (*figures, *counts)},
    )


def improvement(loss: float | None, initial: float | None) -> float | None:
    """The share of its initial loss that a model lost: report E's measure; 1 = a loss of zero."""
    return None if loss is None or not initial else 1 - loss / initial


def by_improvement(results: StudyResults) -> StudyResults:
    """The same runs, compared by relative improvement."""
    runs = (
        dataclasses.replace(run, metric=improvement(run.val_loss, run.initial_loss)) for run in results.runs
    )
    study = dataclasses.replace(results.study, metric="improvement", smallest_interesting=None)
    return dataclasses.replace(results, study=study, runs=tuple(runs))


def tokens_at(steps: list[int], trained: list[dict[str, Any]]) -> tuple[int, ...]:
    """Tokens seen after some steps, from the rows of the training loss, which may stand at others."""
    if not trained:
        return (0,) * len(steps)
    known, seen = ([0, *(row[key] for row in trained)] for key in ("step", "tokens"))
    return tuple(np.interp(np.array(steps, float), known, seen).round().astype(int).tolist())


def write_results(results: StudyResults) -> None:
    """Write results.json, and timings.json next to it."""
    rows, timings = [], []
    for run in results.runs:
        row = dataclasses.asdict(run)
        seconds = row.pop("seconds")
        rows.append(row)
        seen = run.curve.tokens[-1] if run.curve.tokens else None
        speed = seen / seconds if seen and seconds else None
        timings.append({"folder": run.folder, "seconds": seconds, "tokens_per_second": speed})
    study = results.study
    whole = {"study": study.name, "metric": study.metric, "octavo": study.octavo, "runs": rows}
    for name, content in ((RESULTS, whole), (TIMINGS, timings)):
        replace_text(results.folder / name, json_text(content, indent=1, ensure_ascii=False) + "\n")
