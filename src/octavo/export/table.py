"""What each target can say of a recipe, before anything is trained; and that of all shipped recipes as a page.

`python -m octavo.export.table > docs/ship-recipes.md`
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from octavo.config import Recipe, load_recipe, recipe_names
from octavo.errors import InputError
from octavo.export.targets import targets
from octavo.export.targets.base import ORDER, Support
from octavo.export.weights import shape_of

OF_WORDS = "the tokenizer: "

VOCABULARY = 256
"""Counted with where a recipe does not say how large its vocabulary is; no answer depends on it."""


def support(recipe: Recipe) -> dict[str, Support]:
    """For each target how it says a recipe's model with its tokenizer."""
    try:
        shape = shape_of(recipe.model, vocab_size=recipe.expected_vocabulary or VOCABULARY)
    except InputError as error:
        return dict.fromkeys(targets(), Support("impossible", "", (), error.what.rstrip(".")))
    by_target = {}
    for name, target in targets().items():
        model, words = target.model(shape), target.tokenizer(recipe.tokenizer.kind)
        status = max(model.status, words.status, key=ORDER.index)
        about = (("", model), (OF_WORDS, words))
        why = "; ".join(f"{what}{one.why}" for what, one in about if one.why)
        by_target[name] = Support(status, model.how, model.steps, why)
    return by_target


def as_rows(by_target: dict[str, Support]) -> list[dict[str, Any]]:
    """The same as plain data."""
    return [{"target": name, **asdict(one)} for name, one in by_target.items()]


def lines(by_target: dict[str, Support]) -> Iterator[str]:
    """The same in sentences, some lines for each target."""
    for name, one in by_target.items():
        how = f" as {one.how}" if one.how and one.status != "impossible" else ""
        yield f"{targets()[name].title} (--to {name}): {one.status}{how}"
        if one.why:
            yield f"  because {one.why}" if one.status == "impossible" else f"  {one.why}"
        if one.status != "impossible":
            yield from (f"  · {step}" for step in one.steps)


def page() -> str:
    """The page for the documentation."""
    head = [targets()[name].title for name in targets()]
    rows: list[str] = []
    notes: dict[str, list[str]] = {}
    for name in recipe_names():
        recipe = load_recipe(name)
        if recipe.objective.tunes:
            continue
        by_target = support(recipe)
        rows.append(f"| `{name}` | " + " | ".join(map(_cell, by_target.values())) + " |")
        for target, one in by_target.items():
            if one.status != "impossible" and (one.steps or one.why):
                steps = "; ".join([*one.steps, *([f"approximate: {one.why}"] if one.why else [])])
                notes.setdefault(f"{targets()[target].title}: {steps}", []).append(f"`{name}`")
            elif one.why:
                reason = f"{targets()[target].title}: impossible, because {one.why}"
                notes.setdefault(reason, []).append(f"`{name}`")
    columns = " | ".join(head)
    return (
        "<!-- Made by `python -m octavo.export.table > docs/ship-recipes.md`; a test keeps it current. -->\n"
        "# Where each recipe can go\n\n"
        "Before you train: `octavo plan RECIPE --ship`. How to export, and what is proven: "
        "[Ship](guide/ship.md). A recipe that tunes has the model of the run that it starts from.\n\n"
        f"| recipe | {columns} |\n| --- |{' --- |' * len(head)}\n" + "\n".join(rows) + "\n\n"
        "## How it is said\n\n"
        + "\n".join(f"- {', '.join(names)}. {note}." for note, names in notes.items())
        + "\n"
    )


def _cell(one: Support) -> str:
    if one.status == "impossible":
        return "impossible"
    if one.status == "approximate" and one.why.startswith(OF_WORDS):
        return f"exact, {one.how}; tokenizer approximate"
    return f"{one.status}, {one.how}"


if __name__ == "__main__":
    import sys

    sys.stdout.reconfigure(encoding="utf-8")  # pyrefly: ignore
    sys.stdout.write(page())
