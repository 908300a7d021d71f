"""What the objective of a run names by its path: a learned reward, a file of prompts. Another one makes another run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from octavo.config import Recipe
from octavo.errors import InputError, OctavoError
from octavo.util.files import file_hash

KEY = "materials"
"""Of a manifest, where `hashes` stand."""


def hashes(recipe: Recipe) -> dict[str, str]:
    """SHA-256 of each file, or of the weights of each run, by the setting that names it. What is not there, or can be
    read once only, is left out."""
    digests = {}
    for setting, path in _paths("objective", recipe.objective):
        try:
            if path.is_dir():
                from octavo.run.run import Run
                from octavo.run.teachers import weights_hash

                digests[setting] = weights_hash(Run.open(path))
            elif path.is_file():
                digests[setting] = file_hash(path)
        except (OctavoError, OSError):
            continue
    return digests


def described(recipe: Recipe) -> dict[str, Any]:
    """Hashes of the files that a recipe's parts read, for its manifest; empty where there are none."""
    return {KEY: digests} if (digests := hashes(recipe)) else {}


def changed(recipe: Recipe, manifest: Mapping[str, Any]) -> list[str]:
    """The settings whose paths hold something else now than when the run began."""
    now, before = hashes(recipe), manifest.get(KEY, {})
    return [setting for setting, found in now.items() if before.get(setting, found) != found]


def refuse_others(recipe: Recipe, manifest: Mapping[str, Any]) -> None:
    """Raise InputError where a run that resumes would go on with others."""
    if settings := changed(recipe, manifest):
        raise InputError(
            f"What {' and '.join(settings)} names has changed since this run began, so it cannot be resumed or "
            "repeated.",
            remedy="bring the old one back, or start a new run with another --out",
        )


def _paths(key: str, value: Any) -> Iterator[tuple[str, Path]]:
    """Every path in a tree of settings, with its dotted key."""
    if isinstance(value, Path):
        yield key, value
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _paths(f"{key}.{name}", getattr(value, name))
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield from _paths(f"{key}.{index}", inner)
