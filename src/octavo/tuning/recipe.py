"""The recipe of a tuned run: one of the tuning recipes, on the text of the run that is tuned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from octavo.config import Recipe, apply_value, recipe_tree, stored_recipe
from octavo.run.finetune import find_start
from octavo.util.files import from_home

OWN = ("description", "seed", "objective", "training", "parallel", "evaluation", "sampling", "logging")
"""What the tuning recipe says; the rest is the base's."""


def tuning_tree(base: Path, recipe: str | Path) -> dict[str, Any]:
    """The recipe as plain data, with the base's text, its split and its batches, to start from its weights.

    Raises InputError where no training can start from the base.
    """
    asks = asking(base)
    stored = asks.model_dump(mode="json")
    own = recipe_tree(recipe)
    tree = {key: value for key, value in stored.items() if key not in (*OWN, "model", "tokenizer")}
    tree |= {key: value for key, value in own.items() if key in OWN}
    if asks.form == "conversations":
        apply_value(tree, "objective.answers", True)
    # Prompts are the base's; the texts of a tuned model are drawn as it predicts.
    tree["sampling"] = {"tokens": stored["sampling"]["tokens"], **dict(own.get("sampling") or {})}
    training = dict(tree.get("training") or {})
    return {**tree, "training": {**training, "start_from": str(from_home(base).absolute())}}


def asking(base: Path) -> Recipe:
    """The recipe of the base, or where it learned from pairs of answers, that of the run it started from: the one whose
    texts a model can be asked."""
    found = stored_recipe(find_start(base).folder / "config.yaml")
    while found.form not in ("text", "conversations") and found.training.start_from is not None:
        found = stored_recipe(find_start(found.training.start_from).folder / "config.yaml")
    return found
