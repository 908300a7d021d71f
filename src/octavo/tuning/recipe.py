"""The recipe of a tuned run: one of the tuning recipes, on the text of the run that is tuned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from octavo.config import recipe_tree, stored_recipe
from octavo.runs.start import find_start

OWN = ("description", "seed", "objective", "training", "parallel", "evaluation", "sampling", "logging")
"""What the tuning recipe says; the rest is the base's."""


def tuning_tree(base: Path, recipe: str | Path) -> dict[str, Any]:
    """The recipe as plain data, with the base's text, its split and its batches, to start from its weights.

    Raises InputError where no training can start from the base.
    """
    stored = stored_recipe(find_start(base).folder / "config.yaml").model_dump(mode="json")
    own = recipe_tree(recipe)
    tree = {key: value for key, value in stored.items() if key not in (*OWN, "model", "tokenizer")}
    tree |= {key: value for key, value in own.items() if key in OWN}
    # Prompts are the base's; the texts of a tuned model are drawn as it predicts.
    tree["sampling"] = {"tokens": stored["sampling"]["tokens"], **dict(own.get("sampling") or {})}
    training = dict(tree.get("training") or {})
    return {**tree, "training": {**training, "start_from": str(base.expanduser().absolute())}}
