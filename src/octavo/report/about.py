"""What a run was trained on, in a sentence: the text's name and size, and how often it was seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from octavo.config import PartConfig, Recipe
from octavo.task import task_of

NAMED = 3
"""Texts that are named; of more, the rest is counted."""


def trained_on(recipe: Recipe, manifest: Mapping[str, Any], metrics: Sequence[Mapping[str, Any]]) -> str:
    """From a run's recipe, manifest and metrics; empty if they do not tell."""
    train, validation = split_of(manifest, "train"), split_of(manifest, "validation")
    names = text_names(recipe.corpus)
    start = manifest.get("start_from")
    if not names or not train.get("tokens"):
        return f"Trained on {names}." if names else ""
    counted = recipe.objective.unit.counted
    said = f"Trained on {names}: {amount(train, counted)} to learn from"
    if validation:
        said += f", {amount(validation, counted)} kept to judge it by"
        test = split_of(manifest, "test")
        said += f", {amount(test, counted)} kept out of everything" if test else ""
    seen = max((row["tokens"] for row in metrics if row["event"] == "train"), default=0)
    if seen and not recipe.training.teachers.written:
        said += f"; {task_of(recipe).passes(train, recipe, seen):,.3g} passes over it"
    if isinstance(start, Mapping) and recipe.training.start_from is not None:
        said += f". It began with the weights of {recipe.training.start_from.name} after step {start.get('step', '?')}"
    return said + "."


def split_of(manifest: Mapping[str, Any], name: str) -> dict[str, int]:
    """The numbers of a split, as far as the manifest has them."""
    found: Any = manifest
    for key in ("data", "splits", name):
        found = found.get(key) if isinstance(found, Mapping) else None
    known = found if isinstance(found, Mapping) else {}
    return {key: value for key, value in known.items() if isinstance(value, int)}


def text_names(corpus: PartConfig) -> str:
    """The names of a recipe's texts, without their folders."""
    if (name := corpus.in_words()) is not None:
        return name
    paths = getattr(corpus, "paths", ())
    names = ["standard input" if path == "-" else PurePath(path).name or path for path in paths]
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more:,} more" if more > 0 else "")


def amount(split: Mapping[str, int], counted: str) -> str:
    """A split's size: its characters, and its tokens where these are others; or its rows of numbers, if these are what
    is counted."""
    characters, tokens, documents = (split.get(key) or 0 for key in ("characters", "tokens", "documents"))
    if counted == "rows":  # after each series stands a row without a number
        return f"{tokens - documents:,} rows ({documents:,} series)"
    said = [f"{characters:,} characters"]
    if tokens != characters:
        said.append(f"{tokens:,} tokens")
    if documents > 1:
        said.append(f"{documents:,} documents")
    return said[0] + (f" ({', '.join(said[1:])})" if said[1:] else "")
