"""What the report shows of the text that a model wrote: copies and variety, each next to held-out text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


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
    found = evaluation.get("memorization")
    if not found:
        return []
    own, control = found["generated"]["shares"], found["held_out"]["shares"]
    return [Copied(int(length), own[length], control[length]) for length in own]


def longest(evaluation: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The longest copied runs of the generated and of the held-out text, if there are any."""
    found = evaluation.get("memorization") or {}
    named = (("generated", "in what the model wrote"), ("held_out", "in held-out text"))
    return [(words, found[key]["longest"]) for key, words in named if found.get(key, {}).get("longest")]


def variety(evaluation: Mapping[str, Any]) -> list[Figure]:
    """Repetition, distinct n-grams, likeness and thread; what stands out is what a diagnostic names."""
    found = evaluation.get("diversity")
    if not found:
        return []
    own, control = found["generated"], found["held_out"]
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
        what = f"{found['unit']}s" if order == "1" else f"{order}-grams"
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


class Valid(NamedTuple):
    """A row of the table of valid records."""

    name: str
    share: float
    records: str
    interval: str


def valid(evaluation: Mapping[str, Any]) -> list[Valid]:
    """How many records are valid: the model's, those of n-grams, held-out ones; empty without a validator."""
    found = evaluation.get("validity") or {}
    order = (found.get("control") or {}).get("order")
    names = {"generated": "this model", "control": f"{order}-grams", "held_out": "held-out records"}
    return [
        Valid(
            name,
            one["valid"] / one["records"],
            f"{one['valid']:,} of {one['records']:,}",
            f"{one['interval'][0]:.1%} to {one['interval'][1]:.1%}",
        )
        for key, name in names.items()
        if (one := found.get(key))
    ]
