"""Runs side by side: their results, the settings that differ, what they write, and which numbers compare."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import octavo.report
from octavo.data import Split
from octavo.errors import InputError, RunFolderError
from octavo.evaluation.baselines import HIGHEST, LIMIT
from octavo.evaluation.compare_tokens import HEAD, Where, cells, parts, words_of
from octavo.evaluation.score import TokenLosses, token_losses
from octavo.evaluation.stored import validation_text
from octavo.ngram.kneser_ney import KneserNey, best_order
from octavo.report.data import finite
from octavo.report.page import NARROW, WIDE, flat
from octavo.report.plots import (
    BASELINE,
    LINE_HEIGHT,
    SOURCE,
    TRAIN,
    VALIDATION,
    Label,
    inline,
    new_figure,
    place,
    tidy,
)
from octavo.run.data import build_dataset, evaluated_on, rows_at_once
from octavo.run.evaluate import refuse_other_text, whole_split
from octavo.run.folder import RunFolder
from octavo.run.list import Seen, look, run_folders
from octavo.run.run import Run
from octavo.task import task_of
from octavo.util.html import templates
from octavo.util.terminal import Console, duration

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
        """The whole run with the fewest bits per byte, if the runs compare."""
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
        notes = [f"{run.path} is damaged: {run.damage}" for run in self.runs if run.damage]
        whole = [run for run in self.runs if not run.damage]
        if not self.same_text:
            notes.append("They were evaluated on different texts, so their losses do not compare.")
        elif len({_fingerprint(run) for run in whole}) > 1:
            tasks = [task_of(run.config) for run in whole if run.config]
            own = [task.other_tokens for task in tasks if task.other_tokens]
            notes.append(own[0] if own else "Their tokenizers differ: only bits per byte compare.")
        if self.best is not None:
            notes.append("One seed each: a small difference may be noise, and octavo study tells.")
        return notes

    def describe(self) -> dict[str, Any]:
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
    from octavo.run.run import Run

    return "" if run.damage else prompt + Run.open(run.path).generate(prompt, tokens=tokens)


def _newest(path: Path) -> str:
    """The first sample of the last step that has one."""
    newest = [
        (int(match[1]), -int(match[2] or 1), file)
        for file in RunFolder(path).samples.glob("step-*.txt")
        if (match := re.fullmatch(r"step-(\d+)(?:-(\d+))?", file.stem))
    ]
    return max(newest)[2].read_text(encoding="utf-8", errors="replace") if newest else ""


def _fingerprint(run: Seen) -> Any:
    data = run.manifest.get("data")
    return str(data.get("tokenizer_fingerprint")) if isinstance(data, dict) else None


def _formed(value: float | None, form: str) -> str:
    return NONE if value is None else form.format(value)


# The page of a comparison: one HTML file without scripts or requests.

COLOURS = (VALIDATION, TRAIN, SOURCE, "#cc79a7", "#b58900", BASELINE)
DRAWN = int(0.8 / LINE_HEIGHT)  # curves whose names still fit next to the plot


def render(comparison: Comparison, places: Where | None = None) -> str:
    """The page as text; `places`: where one of two is better."""
    from markupsafe import Markup

    drawn = []
    if any(run.curve for run in comparison.runs):
        drawn = [
            Markup(inline(curves(comparison, width), f"loss-{name}", title="Bits per byte by step"))  # noqa: S704 — our own
            for width, name in ((WIDE, "wide"), (NARROW, "narrow"))
        ]
    pages = templates(Path(octavo.report.__file__).parent)
    return pages.get_template("comparison.html").render(
        names=comparison.names,
        notes=comparison.notes,
        figures=comparison.figures,
        best=comparison.best,
        plots=drawn,
        differences=comparison.differences,
        samples=comparison.samples,
        head=HEAD,
        places=[(title, [cells(part) for part in parts]) for title, parts in places.tables() if parts]
        if places
        else [],
        prompt=comparison.prompt,
    )


def curves(comparison: Comparison, width: float) -> str:
    """Validation bits per byte over the steps, a line for each run; `width` in inches. An SVG document."""
    figure = new_figure(width, 3.6)
    axes = figure.add_axes((0.5 / width, 0.13, 1 - 2.22 / width, 0.82))
    labels = []
    for number, (name, run) in enumerate(zip(comparison.names, comparison.runs, strict=True)):
        if not run.curve or len(labels) == DRAWN:
            continue
        colour = COLOURS[number % len(COLOURS)]
        steps, bits = zip(*run.curve, strict=True)
        axes.plot(steps, bits, color=colour, linewidth=1.8, marker="o", markersize=3)
        short = name if len(name) <= 16 else name[:15] + "…"
        labels.append(Label(bits[-1], f"{short} {bits[-1]:.3f}", colour))
    axes.set_xlabel("step")
    axes.set_ylabel("bits per byte")
    tidy(axes)
    place(axes, labels)
    return figure.svg()


# Token by token on the same text: opens runs, and asks `evaluation.where` in which places which are better.

MOST = 200_000
"""Tokens of the validation split that are read, from its beginning."""


def where(comparison: Comparison, console: Console) -> Where:
    """Compare two runs token by token.

    Raises what `between` raises, and InputError for other than two, a damaged one, or different texts.
    """
    if len(comparison.runs) != 2:
        raise InputError(
            f"Token by token two runs compare, not {len(comparison.runs)}.",
            remedy="octavo compare RUN RUN --where",
        )
    if any(run.damage for run in comparison.runs):
        raise InputError("A damaged run has no losses to compare.", remedy="leave out --where")
    if not comparison.same_text:
        raise InputError(
            "They were evaluated on different texts, so no token is in both.", remedy="leave out --where"
        )
    first, second = ([Run.open(run.path)] for run in comparison.runs)
    return between(first, second, console)


def between(first: Sequence[Run], second: Sequence[Run], console: Console) -> Where:
    """Compare runs with others, token by token; those of a side differ in their seed alone.

    Raises InputError where their losses do not stand for the same tokens, CorpusError if the text is another one now.
    """
    runs = [*first, *second]
    if len({run.tokenizer.fingerprint() for run in runs}) > 1:
        raise InputError(
            "Their tokenizers differ, so their tokens are not the same.", remedy="leave out --where"
        )
    recipe = whole_split(runs[0].config)
    if not all(run.config.objective.unit.has_bits_per_byte for run in runs):
        raise InputError("Only losses of text are compared token by token.", remedy="leave out --where")
    dataset = build_dataset(recipe, console, runs[0].tokenizer)
    for run in runs:
        refuse_other_text(run, dataset)
    tokens = np.asarray(dataset.validation.tokens[:MOST])
    counted = np.asarray(dataset.train.tokens[-LIMIT:])
    size = dataset.tokenizer.vocab_size
    order = best_order(counted, vocab_size=size, highest=HIGHEST)
    probabilities = KneserNey(counted, vocab_size=size, highest=order).probabilities(tokens)[-1]
    sides = [[_losses(run, dataset.validation) for run in side] for side in (first, second)]
    return parts(sides, -np.log(probabilities), words_of(tokens, dataset.tokenizer), order)


def _losses(run: Run, split: Split) -> TokenLosses:
    recipe = whole_split(run.config)
    part = replace(split, tokens=split.tokens[:MOST], starts=split.starts[split.starts < MOST])
    rows = rows_at_once(recipe, run.tokenizer, next(run.model.parameters()).device)
    batches = evaluated_on(part, recipe, run.tokenizer, rows=rows)
    return token_losses(run.model, batches, len(part.tokens), objective=recipe.objective.build())
