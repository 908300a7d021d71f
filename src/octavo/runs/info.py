"""What a run is and how far it came, as plain data."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from octavo.config import stored_recipe, stored_tree
from octavo.config.schema import shape_in_words
from octavo.errors import CheckpointError
from octavo.runs.folder import RunFolder
from octavo.runs.progress import Progress
from octavo.training.checkpoint_folder import MANIFEST, CheckpointFolder, follow, list_checkpoints


def run_info(path: Path) -> dict[str, Any]:
    """Facts about a run folder or a checkpoint folder; every checkpoint is verified."""
    alone = (path / MANIFEST).is_file()
    folder = RunFolder(path) if alone else RunFolder.open(path)
    saved = folder.settings_as_saved()
    recipe = stored_tree(folder.config) if saved else stored_recipe(folder.config).model_dump(mode="json")
    manifest = folder.made_by() or {}
    checkpoints = [CheckpointFolder(path)] if alone else list_checkpoints(folder.checkpoints)
    marks = {} if alone else {"best": follow(folder.best), "last": follow(folder.last)}
    states = {}
    for checkpoint in checkpoints:
        names = [
            name for name, target in marks.items() if target and target.folder == checkpoint.folder.resolve()
        ]
        states[checkpoint.folder.name] = ", ".join([condition(checkpoint), *names])
    newest = next((c for c in reversed(checkpoints) if condition(c) == "whole"), None)
    state = Progress.of(newest) if newest else None
    data = manifest.get("data", {})
    taught_by = [teacher["checkpoint"] for teacher in manifest.get("teachers", [])]
    imported = manifest.get("imported")
    start, saved = manifest.get("start_from"), manifest.get("saved_from")
    return {
        "run": str(path),
        "description": recipe["description"],
        "octavo": manifest.get("octavo"),
        "seed": recipe["seed"],
        **read_as(recipe, data),
        "shape": shape_in_words(recipe["model"]),
        **({"teachers": taught_by} if taught_by else {}),
        **({"imported_from": f"{imported['path']}, {imported['form']}"} if imported else {}),
        **({"saved_from": saved["checkpoint"]} if saved else {}),
        **({"start_from": start["checkpoint"]} if start else {}),
        "step": state.step if state else 0,
        "finished": state.finished if state else False,
        "training_seconds": state and state.seconds,
        "best_step": state and state.best_step,
        "best_validation_loss": state and (None if state.best_loss == math.inf else state.best_loss),
        **({"loss_unit": unit} if (unit := loss_unit(folder)) else {}),
        "report": str(folder.report / "index.html") if (folder.report / "index.html").is_file() else None,
        "checkpoints": states,
    }


def loss_unit(folder: RunFolder) -> str | None:
    """What its loss is told in, as its evaluation says, where that is not nats per token."""
    try:
        return json.loads(folder.evaluation.read_text(encoding="utf-8")).get("unit")
    except (OSError, ValueError, AttributeError):
        return None


def read_as(recipe: Mapping[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """What the model reads, and how much of it it learned from."""
    train = data.get("splits", {}).get("train", {})
    count = train.get("tokens")
    if (columns := data.get("columns")) is not None:
        return {
            "channels": columns["channels"],
            "covariates": columns["covariates"],
            "training_rows": count - train["documents"],  # a row of NaN stands after each series
        }
    return {
        "tokenizer": recipe["tokenizer"]["kind"],
        "vocabulary": data.get("vocab_size"),
        "training_tokens": count,
    }


def condition(checkpoint: CheckpointFolder) -> str:
    """whole, or what is wrong."""
    try:
        checkpoint.verify()
    except CheckpointError as error:
        return error.what
    return "whole"
