"""Recipes and lists of cleaning steps that ship with the package, or stand in a file of the user's."""

from __future__ import annotations

import difflib
from importlib import resources
from pathlib import Path
from typing import Any

from octavo.config.plain import file_text, parse_yaml
from octavo.errors import ConfigError
from octavo.util.files import is_file

RECIPES, CLEANING = "octavo.recipes", "octavo.recipes.cleaning"  # packages


def shipped_text(what: str, name: str | Path, package: str, *, listed_by: str) -> str:
    """The YAML of a shipped recipe or study, or of a file.

    Args:
        what: "recipe" or "study".
        name: the shipped one's name, or a file's path.
        package: where the shipped ones lie.
        listed_by: the command that lists them.

    Raises:
        ConfigError: there is neither; it names what comes near.
    """
    names = shipped_names(package)
    if str(name) in names:
        return resources.files(package).joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    if is_file(name):
        return file_text(Path(name))
    near = difflib.get_close_matches(str(name), names, n=1)
    raise ConfigError(
        f"There is no {what} '{name}': neither a shipped one nor a file."
        + (f" Did you mean '{near[0]}'?" if near else ""),
        remedy=f"{listed_by}    lists the shipped ones",
    )


def shipped_names(package: str) -> list[str]:
    """The YAML files of a package, in alphabetical order."""
    entries = resources.files(package).iterdir()
    return sorted(entry.name[:-5] for entry in entries if entry.name.endswith(".yaml"))


def recipe_names() -> list[str]:
    """The shipped recipes, in alphabetical order."""
    return shipped_names(RECIPES)


def recipe_text(recipe: str | Path) -> str:
    """The YAML of a shipped recipe, or of a recipe file. Raises ConfigError when there is neither."""
    return shipped_text("recipe", recipe, RECIPES, listed_by="octavo recipes")


def cleaning_names() -> list[str]:
    """The shipped lists of cleaning steps, in alphabetical order."""
    return shipped_names(CLEANING)


def cleaning_steps(name: str | Path) -> list[Any]:
    """The steps, as plain data, of a shipped list, or those of the key `cleaning` in a YAML file.

    Raises ConfigError when there is neither.
    """
    names = cleaning_names()
    if str(name) in names:
        entry = resources.files(CLEANING).joinpath(f"{name}.yaml")
        text = entry.read_text(encoding="utf-8")
    elif is_file(name):
        text = recipe_text(Path(name))
    else:
        raise ConfigError(f"Cleaning steps '{name}' not found: name a file or one of {', '.join(names)}.")
    tree = parse_yaml(text, str(name))
    steps = tree.get("cleaning") if isinstance(tree, dict) else None
    if isinstance(steps, str) and steps != str(name) and steps in names:
        return cleaning_steps(steps)
    if not isinstance(steps, list):
        raise ConfigError(f"{name} has no list of steps under the key 'cleaning'.")
    return steps
