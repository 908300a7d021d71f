"""Runs side by side: their results, the settings that differ, what they write, and which numbers compare."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from octavo.errors import InputError, RunFolderError
from octavo.evaluation.stored import validation_text
from octavo.ground.shown import duration
from octavo.report.data import finite
from octavo.report.page import flat
from octavo.runs.folder import RunFolder
from octavo.runs.listing import Seen, look, run_folders

FIGURES = (
    ("bits per byte", "bits_per_byte", "{:.3f}"),
    ("validation loss, {unit}", "val_loss", "{:.4f}"),
    ("perplexity", "perplexity", "{:,.2f}"),
    ("next tokens guessed first", "accuracy", "{:.1%}"),
    ("parameters", "parameters", "{:,.0f}"),
    ("best step", "step", "{:,.0f}"),
)
NONE = "–"


@dataclass(frozen=True)
class Comparison:
    """Runs in the order in which they were named."""

    runs: list[Seen]
    samples: list[str]
    prompt: str | None
    """What the samples continue; None: each run's own newest sample."""

    @property
    def names(self) -> list[str]:
        """The shortest names that tell them apart."""
        short = [run.path.resolve().name for run in self.runs]
        return short if len(set(short)) == len(short) else [str(run.path) for run in self.runs]

    @property
    def best(self) -> int | None:
        """The run with the fewest bits per byte, if they compare; a damaged one is none."""
        bits = [None if run.damage else run.bits_per_byte for run in self.runs]
        known = [number for number in bits if number is not None]
        return bits.index(min(known)) if len(known) > 1 and self.same_text else None

    @property
    def same_text(self) -> bool:
        """Whether all were evaluated on the same text."""
        texts = {validation_text(run.manifest) for run in self.runs if not run.damage}
        return len(texts) == 1 and None not in texts

    @property
    def figures(self) -> list[tuple[str, list[str]]]:
        """Rows of numbers by name, one for each run."""
        units = dict.fromkeys(run.figures.get("unit", "nats per token") for run in self.runs)
        rows = [
            (
                name.format(unit=" or ".join(units)),
                [_formed(finite(run.figures.get(key)), form) for run in self.runs],
            )
            for name, key, form in FIGURES
        ]
        rows.append(("tokens seen", [_formed(run.tokens, "{:,.0f}") for run in self.runs]))
        times = [NONE if run.seconds is None else duration(run.seconds) for run in self.runs]
        rows.append(("training time", times))
        rows.append(("state", [run.state for run in self.runs]))
        return rows

    @property
    def differences(self) -> list[tuple[str, list[str]]]:
        """Settings that are not the same in all runs, and each run's value; a description sets nothing."""
        trees = [dict(flat(run.config.model_dump())) if run.config else {} for run in self.runs]
        keys = dict.fromkeys(key for tree in trees for key in tree if key != "description")
        rows = [(key, [tree.get(key, NONE) for tree in trees]) for key in keys]
        known = [number for number, run in enumerate(self.runs) if run.config]
        return [(key, values) for key, values in rows if len({values[number] for number in known}) > 1]

    @property
    def notes(self) -> list[str]:
        """What to know before calling one of them better."""
        said = [f"{run.path} is damaged: {run.damage}" for run in self.runs if run.damage]
        whole = [run for run in self.runs if not run.damage]
        if not self.same_text:
            said.append("They were evaluated on different texts, so their losses do not compare.")
        elif len({_fingerprint(run) for run in whole}) > 1:
            pairs = any(run.config.batches.pairs for run in whole if run.config)
            said.append(
                "Their tokenizers differ, so their losses do not compare; octavo translate RUN --judge does."
                if pairs
                else "Their tokenizers differ: only bits per byte compare."
            )
        if self.best is not None:
            said.append("One seed each: a small difference may be noise, and octavo study tells.")
        return said

    def describe(self) -> dict[str, Any]:
        """For --json."""
        return {
            "runs": [run.describe() | {"figures": dict(run.figures)} for run in self.runs],
            "differences": dict(self.differences),
            "prompt": self.prompt,
            "samples": self.samples,
            "best": None if self.best is None else str(self.runs[self.best].path),
            "notes": self.notes,
        }


def compare(paths: Sequence[Path], *, prompt: str | None = None, tokens: int | None = None) -> Comparison:
    """Runs side by side; with a `prompt` each whole one continues it, else its newest sample stands there.

    Raises InputError for fewer than two runs, RunFolderError for a folder that is no run.
    """
    if len(paths) < 2:
        raise InputError("One run compares with nothing.", remedy="octavo compare RUN RUN …")
    for path in paths:
        if next(run_folders(path, 0), None) is None:
            what = "is not a run folder" if path.exists() else "does not exist"
            raise RunFolderError(f"{path} {what}.", remedy="octavo runs FOLDER lists the runs that there are")
    runs = [look(path) for path in paths]
    samples = [_newest(run.path) if prompt is None else _written(run, prompt, tokens) for run in runs]
    return Comparison(runs, samples, prompt)


def _written(run: Seen, prompt: str, tokens: int | None) -> str:
    from octavo.runs.run import Run

    return "" if run.damage else prompt + Run.open(run.path).generate(prompt, tokens=tokens)


def _newest(path: Path) -> str:
    """The first sample of the last step that has one."""
    found = [
        (int(match[1]), -int(match[2] or 1), file)
        for file in RunFolder(path).samples.glob("step-*.txt")
        if (match := re.fullmatch(r"step-(\d+)(?:-(\d+))?", file.stem))
    ]
    return max(found)[2].read_text(encoding="utf-8", errors="replace") if found else ""


def _fingerprint(run: Seen) -> Any:
    data = run.manifest.get("data")
    return str(data.get("tokenizer_fingerprint")) if isinstance(data, dict) else None


def _formed(value: float | None, form: str) -> str:
    return NONE if value is None else form.format(value)
