"""A model as a run that every verb takes: whole, or not there at all. Of one that was trained elsewhere, or changed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

import octavo
from octavo.config import Recipe, to_yaml
from octavo.errors import InputError, StorageError
from octavo.run.folder import Progress, RunFolder
from octavo.run.manifest import code_identity, machine, versions
from octavo.tokenizers import Tokenizer
from octavo.training.checkpoint import save_checkpoint
from octavo.training.checkpoint_folder import point
from octavo.util.files import (
    FULL,
    claim_folder,
    folder_aside,
    publish_folder,
    storage_errors,
)
from octavo.util.records import json_text


def save_run(
    out: Path,
    recipe: Recipe,
    tokenizer: Tokenizer,
    weights: Mapping[str, Tensor],
    *,
    step: int,
    facts: Mapping[str, Any],
    log: str,
) -> RunFolder:
    """Make the run `out` of a recipe, a tokenizer and `weights` (`model_tensors`). `facts`: where these come from, for
    the manifest.

    Raises InputError for an `out` that exists and for a full disk; nothing of the run is left then.
    """
    claim_folder(out, "a run", new=True)
    try:
        with storage_errors(out), folder_aside(out) as aside:
            _write(RunFolder(aside), recipe, tokenizer, weights, step=step, facts=facts, log=log)
            publish_folder(aside, out)
    except StorageError as error:
        if _is_full(error):
            raise InputError(
                f"The disk is full: {out} could not be written, and nothing of it is left.",
                remedy="free some space, then run the same command again",
            ) from error
        raise
    return RunFolder.open(out)


def _is_full(error: StorageError) -> bool:
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno in FULL


def _write(
    folder: RunFolder,
    recipe: Recipe,
    tokenizer: Tokenizer,
    weights: Mapping[str, Tensor],
    *,
    step: int,
    facts: Mapping[str, Any],
    log: str,
) -> None:
    config = to_yaml(recipe)
    manifest = {
        "octavo": octavo.__version__,
        "code": code_identity(),
        "config_sha256": hashlib.sha256(config.encode()).hexdigest(),
        "seed": recipe.seed,
        **facts,
        "runtime": {"device": "cpu", "precision": "float32", "threads": 1},
        "versions": versions(),
        "machine": machine(),
    }
    tokenizer.save(folder.tokenizer)
    folder.config.write_text(config, encoding="utf-8")
    folder.metrics.write_text("", encoding="utf-8")
    folder.log.write_text(f"{log}\n", encoding="utf-8")
    folder.manifest.write_text(json_text(manifest, indent=1), encoding="utf-8")
    checkpoint = save_checkpoint(
        folder.checkpoints,
        step,
        weights=weights,
        memory={},
        state=Progress(step=step, best_step=step, finished=True).state(),
        config=config,
        tokenizer=folder.tokenizer,
        version=octavo.__version__,
    )
    for link in (folder.best, folder.last):
        point(link, checkpoint)
