"""What a report shows, as plain values; read from the run folder alone, so a report can be made again any time."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from octavo.config import Recipe, check, stored_tree
from octavo.config.parts import command
from octavo.errors import RunFolderError
from octavo.evaluation.stored import Remembered, Row
from octavo.report.about import trained_on
from octavo.report.sections import Answer, PromptTable, name_answers, prompt_tables
from octavo.report.test_looks import (
    chosen_and_tested,
    counting_there,
    looked_at,
    looks_of,
    of_result,
    reached,
)
from octavo.task import Command, Task, task_of
from octavo.util.records import AnyRecord, Shape, read_record, read_rows
from octavo.util.terminal import exact_duration, finite

if TYPE_CHECKING:
    from octavo.training.objective import Objective

BASELINE_NAMES = {
    "uniform": ("uniform", "every token equally likely"),
    "unigram": ("unigram", "how often each token occurs"),
    "bigram": ("bigram", "the token before"),
    "trigram": ("trigram", "the two tokens before, Kneser–Ney smoothed"),
    "ngram": ("{order}-gram", "the {before} tokens before, Kneser–Ney smoothed"),
    "mixing": (
        "context mixing",
        "what a strong compressor does: many contexts, learned on in the validation text",
    ),
    "gzip": ("gzip −9", "the validation text alone"),
    "xz": ("xz −9", "the validation text alone"),
    "start": ("its start", "the weights of the other run that it began with"),
    "xz_given_train": ("xz −9 after training text", "what the validation text adds"),
}


class Headline(NamedTuple):
    """One large number."""

    label: str
    value: str
    explanation: str


class Sample(NamedTuple):
    """Text that the model wrote. `text` follows `prompt`, which is not part of it."""

    step: int
    prompt: str
    text: str


class Standing(NamedTuple):
    """A row of the comparison. `loss` in the run's unit."""

    name: str
    explanation: str
    loss: float | None
    bits_per_byte: float | None
    kind: str  # "model", "baseline" or "source"


@dataclass(frozen=True)
class ReportData:
    """Everything on the page. Lists may be empty; what is empty is left out."""

    title: str
    unit: str = "nats per token"
    """Of losses."""
    trained_on: str = ""
    """The text, its size, and how often it was seen."""
    held_out: str = ""
    """What the validation figures are worth, and whether there are others."""
    recipe: str = ""
    """What the recipe says of itself."""
    verdict: list[str] = field(default_factory=list)
    headlines: list[Headline] = field(default_factory=list)
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The resolved config."""
    metrics: list[dict[str, Any]] = field(default_factory=list)
    """Rows of metrics.jsonl."""
    evaluation: Mapping[str, Any] = field(default_factory=dict)
    pictures: list[str] = field(default_factory=list)
    """What the model drew, where its records are images: PNG files as data: addresses."""
    samples: list[Sample] = field(default_factory=list)
    """In the order of their steps."""
    prompts: list[PromptTable] = field(default_factory=list)
    """Tables of fixed prompts."""
    memory: Mapping[str, Any] = field(default_factory=dict)
    """What it remembers of planted passages."""
    answers: list[Answer] = field(default_factory=list)
    """For plays: who answers a name."""
    manifest: Mapping[str, Any] = field(default_factory=dict)
    task: Task | None = None
    commands: list[tuple[str, str]] = field(default_factory=list)
    """What one can do next, and the command for it."""

    @classmethod
    def from_run(cls, folder: Path, *, commands: list[tuple[str, str]] | None = None) -> ReportData:
        """Read a run folder; whatever is not there yet is left out. Raises RunFolderError without config.yaml."""
        if not (folder / "config.yaml").is_file():
            raise RunFolderError(
                f"{folder} is not a run folder (it has no config.yaml).",
                remedy="give the folder that --out named",
            )
        settings = stored_tree(folder / "config.yaml")
        recipe = check(settings)
        objective, task = recipe.objective.build(), task_of(recipe)
        evaluation = _record(folder / "evaluation.json", task.stored)
        metrics = read_rows(folder / "metrics.jsonl", Row)
        manifest = _record(folder / "manifest.json", AnyRecord)
        return cls(
            title=folder.resolve().name,
            trained_on=trained_on(recipe, manifest, metrics),
            held_out=chosen_and_tested(folder, recipe, manifest, evaluation),
            recipe=recipe.description,
            verdict=[str(line) for line in evaluation.get("verdict") or []],
            unit=str(objective.unit),
            headlines=[
                *test_headlines(manifest, evaluation, objective, task),
                *headlines(evaluation, metrics, objective, task),
            ],
            settings=settings,
            metrics=metrics,
            evaluation=evaluation,
            pictures=task.pictures(folder, recipe),
            samples=list(_samples(folder / "samples", recipe.sampling.prompts)),
            prompts=prompt_tables(folder),
            memory=_record(folder / "memory.json", Remembered),
            answers=name_answers(folder),
            manifest=manifest,
            task=task,
            commands=next_commands(folder, recipe, evaluation, tested=bool(of_result(manifest, evaluation)))
            if commands is None
            else commands,
        )

    def rows(self, event: str) -> list[dict[str, Any]]:
        """Rows of one event by step; of a step that was done again after a crash, the last."""
        by_step = {row["step"]: row for row in self.metrics if row.get("event") == event and "step" in row}
        return [by_step[step] for step in sorted(by_step)]

    def part(self) -> tuple[int, int] | None:
        """Tokens of the validation split that the curve is of, and all of them, which the end was judged by; None where
        these are the same, or unknown."""
        curve, whole = self.rows("validation"), self.evaluation.get("tokens")
        looked_at = curve[-1].get("tokens") if curve else None
        known = isinstance(looked_at, int) and isinstance(whole, int)
        return (looked_at, whole) if known and looked_at < whole else None

    def standings(self) -> list[Standing]:
        """The model, the baselines and the source's own entropy, from worst to best."""
        standings = []
        words_for = {**BASELINE_NAMES, **(self.task.baseline_words if self.task else {})}
        for key, values in (self.evaluation.get("baselines") or {}).items():
            name, explanation = words_for.get(key, (key, ""))
            order = values.get("order") or "n"
            words = {"order": order, "before": order - 1 if isinstance(order, int) else "n − 1"}
            standings.append(
                Standing(
                    name.format(**words),
                    explanation.format(**words),
                    finite(values.get("loss")),
                    finite(values.get("bits_per_byte")),
                    "baseline",
                )
            )
        loss, bits = (finite(self.evaluation.get(key)) for key in ("val_loss", "bits_per_byte"))
        if loss is not None:
            standings.append(
                Standing("this model", f"at step {self.evaluation.get('step', '?')}", loss, bits, "model")
            )
        if read_on := self.evaluation.get("reading_on"):
            loss_read_on, bits_read_on = (finite(read_on.get(key)) for key in ("loss", "bits_per_byte"))
            standings.append(
                Standing(
                    "this model, reading on",
                    "each token learned after it was scored",
                    loss_read_on,
                    bits_read_on,
                    "model",
                )
            )
        entropy = finite(self.evaluation.get("source_entropy"))
        if entropy is not None:
            scale = bits / loss if bits is not None and loss else None  # same text, so the same bytes a token
            standings.append(
                Standing(
                    "source entropy",
                    "the limit: the text's own randomness",
                    entropy,
                    None if scale is None else entropy * scale,
                    "source",
                )
            )
        return sorted(standings, key=lambda row: -(row.bits_per_byte or row.loss or math.inf))


def headline(label: str, value: Any, form: str, explanation: str) -> Headline | None:
    """Format a number or text by `form`; None without a value."""
    shown = value if isinstance(value, str) else finite(value)
    return None if shown is None else Headline(label, form.format(shown), explanation)


def headlines(
    evaluation: Mapping[str, Any], metrics: list[dict[str, Any]], objective: Objective, task: Task
) -> list[Headline]:
    """The numbers that one looks for first, as far as the run has them."""
    validation = [row for row in metrics if row.get("event") == "validation" and finite(row.get("loss"))]
    figures = dict(min(validation, key=lambda row: row["loss"])) if validation else {}
    figures = figures | {"val_loss": figures.get("loss")} | dict(evaluation)
    last = metrics[-1] if metrics else {}
    trained = [row for row in metrics if row.get("event") == "train"]
    tokens, seconds = (finite(trained[-1].get(key)) if trained else None for key in ("tokens", "seconds"))
    shown = [
        ("validation loss", figures.get("val_loss"), "{:.4f}", f"{objective.unit}; chosen on"),
        ("perplexity", figures.get("perplexity"), "{:,.2f}", "tokens that it hesitates between"),
        ("bits per byte", figures.get("bits_per_byte"), "{:.3f}", "to write down the validation text"),
        *(
            (one.label, one.written(figures[one.name]), "{}", one.explanation)
            for one in objective.metrics
            if finite(figures.get(one.name)) is not None
        ),
        ("parameters", figures.get("parameters"), "{:,.0f}", "trained numbers"),
        ("best step", figures.get("step"), "{:,.0f}", f"of {last.get('step', 0):,}"),
        (f"{objective.unit.counted} seen", tokens, "{:,.0f}", "while training"),
    ]
    numbers = [one for shown in shown if (one := headline(*shown)) is not None]
    result = task.headlines(figures, numbers, headline)
    if seconds is not None:
        result.append(Headline("training time", exact_duration(seconds), "without evaluations"))
    return result


def test_headlines(
    manifest: Mapping[str, Any], evaluation: Mapping[str, Any], objective: Objective, task: Task
) -> list[Headline]:
    """The figures of the last look at the test split."""
    if not (looks := looks_of(manifest)):
        return []
    counted, last = looked_at(len(looks)), (of_result(manifest, evaluation) or looks)[-1]
    what = (
        "the result"
        if last in of_result(manifest, evaluation)
        else f"of step {last.get('step'):,}, no result"
    )

    def shown(label: str, value: Any, form: str, explanation: str) -> Headline | None:
        return headline(label, value, form, ", ".join(filter(None, (what, explanation, counted))))

    numbers = (
        shown("test loss", last.get("loss"), "{:.4f}", str(objective.unit)),
        shown("test bits per byte", reached(last), "{:.3f}", counting_there(last)),
    )
    return task.headlines(last, [one for one in numbers if one is not None], shown)


def next_commands(
    folder: Path, recipe: Recipe, evaluation: Mapping[str, Any], *, tested: bool
) -> list[tuple[str, str]]:
    """What one can do next with a run of this recipe; `tested`: its result is known."""
    use, judge = task_of(recipe).commands(folder, recipe, evaluation)
    result = Command("The result, on the split kept out of everything", ("eval", folder, "--test"))
    commands = [
        *([result] if recipe.test and not tested else []),
        use,
        judge,
        Command("See what it is made of", ("info", folder)),
        Command("Train it again, to the bit", ("train", "--replay", folder)),
    ]
    return [(one.what, command("octavo", *one.words)) for one in commands]


def _record(path: Path, shape: Shape) -> dict[str, Any]:
    return read_record(path, shape, of="the run") if path.is_file() else {}


def _samples(folder: Path, prompts: Sequence[str]) -> Iterable[Sample]:
    """`step-000500.txt`, or `step-000500-2.txt` for the second of several prompts."""
    matches = (
        (re.fullmatch(r"step-(\d+)(?:-(\d+))?", path.stem), path) for path in folder.glob("step-*.txt")
    )
    files = sorted((int(match[1]), int(match[2] or 1), path) for match, path in matches if match is not None)
    for step, number, path in files:
        text = path.read_text(encoding="utf-8", errors="replace")
        prompt = prompts[min(number, len(prompts)) - 1]
        known = prompt if text.startswith(prompt) else ""
        yield Sample(step, known, text.removeprefix(known))
