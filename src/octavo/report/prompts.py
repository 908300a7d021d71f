"""What `octavo generate` left in a run folder for its report: tables of prompts, and who answers a name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from octavo.errors import CheckpointError
from octavo.evaluation.stored import Prompts, Speakers
from octavo.ground.records import Shape, read_record


class Cell(NamedTuple):
    """One sample as generated, and its corrected form where that was asked for."""

    text: str
    corrected: str | None
    changed: str


class PromptRow(NamedTuple):
    """A prompt and its samples."""

    prompt: str
    cells: list[Cell]


class PromptTable(NamedTuple):
    """A file of prompts as it was answered at a step."""

    name: str
    step: int | None
    rows: list[PromptRow]


class Answer(NamedTuple):
    """Who answers a name: a sentence, and (after what, share, interval, p) a row."""

    name: str
    sentence: str
    rows: list[tuple[str, str, str, str]]


def prompt_tables(folder: Path) -> list[PromptTable]:
    """The tables in `prompts/` of a run folder, by name. What is no such table is passed over."""
    return [
        PromptTable(
            found["name"],
            found.get("step"),
            [PromptRow(row["prompt"], list(map(_cell, row["samples"]))) for row in found["prompts"]],
        )
        for found in _documents(folder / "prompts", Prompts)
    ]


def name_answers(folder: Path) -> list[Answer]:
    """The counts in `speakers/` of a run folder, by name."""
    return [_answer(found) for found in _documents(folder / "speakers", Speakers)]


def _documents(folder: Path, shape: Shape) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("*.json")):
        with suppress(CheckpointError):
            yield read_record(path, shape)


def _cell(sample: dict[str, Any]) -> Cell:
    correction = sample.get("correction")
    if correction is None:
        return Cell(sample["text"], None, "")
    changed = f"{correction['words_changed']} of {correction['words']} words changed"
    return Cell(sample["text"], correction["corrected"], changed)


def _answer(found: dict[str, Any]) -> Answer:
    name, asked = found["name"], found["asked"]
    rows = [_row(f"after {name}", asked)]
    rows += [_row(f"after {one.get('prompt') or 'no prompt'}", one) for one in found["controls"]]
    rows.append(("in the text itself", f"{found['in_text']:.1%}", "", ""))
    if asked["share"] is None:
        return Answer(name, f"After {name} nobody speaks whom the text knows.", rows)
    worst = max((one["p"] for one in found["controls"] if one["p"] is not None), default=None)
    if worst is None:
        said = "nothing to compare it with"
    elif worst < 0.05:
        said = f"more than after other prompts (p ≤ {worst:.2g})"
    else:
        said = f"not clearly more than after every other prompt (p up to {worst:.2g})"
    sentence = f"{asked['share']:.0%} of the speakers who answer {name} are of its own play: {said}."
    return Answer(name, sentence, rows)


def _row(what: str, share: dict[str, Any]) -> tuple[str, str, str, str]:
    interval = share["interval"]
    return (
        what,
        "–" if share["share"] is None else f"{share['share']:.1%}",
        "" if interval is None else f"{interval[0]:.1%} to {interval[1]:.1%}",
        "" if share["p"] is None else f"{share['p']:.4f}",
    )
