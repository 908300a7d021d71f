"""What the report shows of the text that a model wrote: copies and variety, each next to held-out text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from octavo.evaluation.stored import Answered, Prompts, Share, Speakers
from octavo.util.records import Record

Document = TypeVar("Document", bound=Record)

# Counting or learning: what the report shows of a model that mixes n-grams with its network.

FULL = 2.0
"""A lead of so many nats has the full colour."""


class Side(NamedTuple):
    """A row of the table."""

    name: str
    trust: float
    loss: float
    best: float
    network: bool


class Piece(NamedTuple):
    """A token of the sample: who gave it more probability, and how strong its colour is, in percent."""

    text: str
    side: str
    strength: int
    lead: str


def of_counted(evaluation: Mapping[str, Any]) -> dict[str, Any]:
    """The table and the coloured sample; nothing without counts."""
    counted = evaluation.get("counted") or {"sides": (), "sample": ()}
    return {
        "counted": evaluation.get("counted"),
        "sides": [side(one) for one in counted["sides"]],
        "pieces": [piece(text, lead) for text, lead in counted["sample"]],
    }


def side(one: Mapping[str, Any]) -> Side:
    """A row: the network, an order, or what the text has said so far."""
    order = one["order"]
    counted = "context mixing" if one.get("mixer") else f"{order}-grams"
    name = "the text so far" if order is None else counted if order else "the network"
    return Side(name, one["trust"], one["loss"], one["best"], network=order == 0)


def piece(text: str, lead: float) -> Piece:
    """A token, and by how much counting (above zero) or the network was ahead."""
    who = "counting" if lead > 0 else "network"
    strength = round(100 * min(1.0, abs(lead) / FULL))
    return Piece(text, who, strength, f"{who} gives it {times(abs(lead))} as much")


def times(nats: float) -> str:
    """A ratio of probabilities, from its logarithm."""
    return "over 1,000 times" if nats > 6.9 else f"{2.718281828459045**nats:.3g} times"


# What `octavo generate` left in a run folder for its report: tables of prompts, and who answers a name.


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
            found.name,
            found.step,
            [PromptRow(row.prompt, list(map(_cell, row.samples))) for row in found.prompts],
        )
        for found in _documents(folder / "prompts", Prompts)
    ]


def name_answers(folder: Path) -> list[Answer]:
    """The counts in `speakers/` of a run folder, by name."""
    return [_answer(found) for found in _documents(folder / "speakers", Speakers)]


def _documents(folder: Path, shape: type[Document]) -> Iterator[Document]:
    for path in sorted(folder.glob("*.json")):
        with suppress(OSError, ValueError):
            yield shape.parse(path.read_bytes())


def _cell(sample: Answered) -> Cell:
    correction = sample.correction
    if correction is None:
        return Cell(sample.text, None, "")
    changed = f"{correction.words_changed} of {correction.words} words changed"
    return Cell(sample.text, correction.corrected, changed)


def _answer(found: Speakers) -> Answer:
    name, asked = found.name, found.asked
    rows = [_row(f"after {name}", asked)]
    rows += [_row(f"after {one.prompt or 'no prompt'}", one) for one in found.controls]
    rows.append(("in the text itself", f"{found.in_text:.1%}", "", ""))
    if asked.share is None:
        return Answer(name, f"After {name} nobody speaks whom the text knows.", rows)
    worst = max((one.p for one in found.controls if one.p is not None), default=None)
    if worst is None:
        beside = "nothing to compare it with"
    elif worst < 0.05:
        beside = f"more than after other prompts (p ≤ {worst:.2g})"
    else:
        beside = f"not clearly more than after every other prompt (p up to {worst:.2g})"
    sentence = f"{asked.share:.0%} of the speakers who answer {name} are of its own play: {beside}."
    return Answer(name, sentence, rows)


def _row(what: str, one: Share) -> tuple[str, str, str, str]:
    return (
        what,
        "–" if one.share is None else f"{one.share:.1%}",
        "" if one.interval is None else f"{one.interval[0]:.1%} to {one.interval[1]:.1%}",
        "" if one.p is None else f"{one.p:.4f}",
    )


class Copied(NamedTuple):
    """A row of the memorization meter: shares of characters in copied runs of at least `length`."""

    length: int
    generated: float
    held_out: float


class Figure(NamedTuple):
    """A row of the variety table."""

    name: str
    explanation: str
    generated: str
    held_out: str
    stands_out: bool


def copied(evaluation: Mapping[str, Any]) -> list[Copied]:
    """The memorization meter by length; empty without one."""
    meter = evaluation.get("memorization")
    if not meter:
        return []
    own, control = meter["generated"]["shares"], meter["held_out"]["shares"]
    return [Copied(int(length), own[length], control[length]) for length in own]


def longest(evaluation: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The longest copied runs of the generated and of the held-out text, if there are any."""
    meter = evaluation.get("memorization") or {}
    named = (("generated", "in what the model wrote"), ("held_out", "in held-out text"))
    return [(words, meter[key]["longest"]) for key, words in named if meter.get(key, {}).get("longest")]


def variety(evaluation: Mapping[str, Any]) -> list[Figure]:
    """Repetition, distinct n-grams, likeness and thread; what stands out is what a diagnostic names."""
    diversity = evaluation.get("diversity")
    if not diversity:
        return []
    own, control = diversity["generated"], diversity["held_out"]
    named = {diagnostic["kind"] for diagnostic in evaluation.get("diagnostics") or ()}
    rows = []
    for key, kind, name, explanation in (
        ("repeated", "repetition", "repeated 4-grams", "the share that stood in the same sample before"),
        ("alike", "likeness", "likeness of samples", "4-grams of a sample that another one has too"),
        ("thread", "drift", "thread", "what a sample's halves share beyond what halves of others do"),
    ):
        form = "{:+.3f}" if key == "thread" else "{:.1%}"
        shown = (shown_as(side[key]["mean"], form) for side in (own, control))
        rows.append(Figure(name, explanation, *shown, stands_out=kind in named))
    for order in own["distinct"]:
        what = f"{diversity['unit']}s" if order == "1" else f"{order}-grams"
        shown = (shown_as(side["distinct"][order], "{:.1%}") for side in (own, control))
        rows.append(
            Figure(f"distinct-{order}", f"different {what} among all of them", *shown, stands_out=False)
        )
    return rows


def shown_as(value: float | None, form: str) -> str:
    """The number, or a dash."""
    return "–" if value is None else form.format(value)


def evidence(diagnostic: Mapping[str, Any]) -> list[tuple[str, str]]:
    """A diagnostic's figures with their names, for reading."""
    shown = []
    for name, value in diagnostic["evidence"].items():
        if value is None:
            continue
        form = ",.4g" if isinstance(value, float) else "," if isinstance(value, int) else ""
        shown.append((name.replace("_", " "), format(value, form)))
    return shown
