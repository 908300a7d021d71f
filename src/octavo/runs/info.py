"""What a run is and how far it came, as plain data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from octavo.config import check, parse_yaml
from octavo.errors import CheckpointError
from octavo.runs.folder import RunFolder
from octavo.training.checkpoint import MANIFEST, Checkpoint, follow, list_checkpoints, read_json


def run_info(path: Path) -> dict[str, Any]:
    """Facts about a run folder or a checkpoint folder; every checkpoint is verified."""
    alone = (path / MANIFEST).is_file()
    folder = RunFolder(path) if alone else RunFolder.open(path)
    recipe = check(parse_yaml((path / "config.yaml").read_text(encoding="utf-8"), str(path / "config.yaml")))
    manifest = read_json(folder.manifest) if folder.manifest.is_file() else {}
    checkpoints = [Checkpoint(path)] if alone else list_checkpoints(folder.checkpoints)
    marks = {} if alone else {"best": follow(folder.best), "last": follow(folder.last)}
    states = {}
    for checkpoint in checkpoints:
        names = [
            name for name, target in marks.items() if target and target.folder == checkpoint.folder.resolve()
        ]
        states[checkpoint.folder.name] = ", ".join([condition(checkpoint), *names])
    newest = next((c for c in reversed(checkpoints) if condition(c) == "whole"), None)
    state = newest.state() if newest else {}
    data = manifest.get("data", {})
    taught_by = [teacher["checkpoint"] for teacher in manifest.get("teachers", [])]
    return {
        "run": str(path),
        "description": recipe.description,
        "octavo": manifest.get("octavo"),
        "seed": recipe.seed,
        "tokenizer": recipe.tokenizer.kind,
        "vocabulary": data.get("vocab_size"),
        "training_tokens": data.get("splits", {}).get("train", {}).get("tokens"),
        "shape": f"{recipe.model.layers} layers, {recipe.model.heads} heads, width {recipe.model.width}, "
        f"context {recipe.model.context}",
        **({"teachers": taught_by} if taught_by else {}),
        "step": state.get("step", 0),
        "finished": state.get("finished", False),
        "training_seconds": state.get("seconds"),
        "best_step": state.get("best_step"),
        "best_validation_loss": state.get("best_loss"),
        "report": str(folder.report / "index.html") if (folder.report / "index.html").is_file() else None,
        "checkpoints": states,
    }


def condition(checkpoint: Checkpoint) -> str:
    """whole, or what is wrong."""
    try:
        checkpoint.verify()
    except CheckpointError as error:
        return error.what
    return "whole"
