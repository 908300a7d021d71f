"""From a model of elsewhere to a run that every verb takes: whole, or not there at all."""

from __future__ import annotations

import errno
import hashlib
import secrets
from pathlib import Path
from typing import Any

import octavo
from octavo.config import Recipe, check, to_yaml
from octavo.errors import InputError, OctavoError, RunFolderError, StorageError
from octavo.ground.files import ASIDE, exists, from_home, storage_errors, sync
from octavo.ground.made import Made, refuse_no_folder, remove
from octavo.ground.records import json_text
from octavo.runs.folder import RunFolder
from octavo.runs.manifest import code_identity, machine, versions
from octavo.runs.progress import Progress
from octavo.ship.back import tensors_of
from octavo.ship.incoming import Incoming, read_model
from octavo.training.checkpoint import save_checkpoint
from octavo.training.checkpoint_folder import PARTS, point

OURS = (
    *("config.yaml", "manifest.json", "metrics.jsonl", "log.txt", "best", "last", "tokenizer/*"),
    *(f"checkpoints/*/{part}" for part in PARTS),
)


def import_model(path: str | Path, out: str | Path, *, tokenizer: str | Path | None = None) -> RunFolder:
    """Make the run `out` of a model in a local folder of Hugging Face's form, a GGUF file, or what Octavo exported.

    `tokenizer`: a tokenizer.json in place of the model's own. Raises InputError for what cannot be read or said, for an
    `out` that exists and for a full disk; nothing of the run is left then.
    """
    path, out = from_home(path), from_home(out)
    refuse_no_folder(out, "a run")
    if exists(out) or out.is_symlink():
        raise RunFolderError(f"{out} exists already.", remedy="choose another --out")
    found = read_model(path, tokenizer=None if tokenizer is None else from_home(tokenizer))
    made, aside = Made(), out.with_name(f"{ASIDE}{secrets.token_hex(8)}-{out.name[:40]}")
    try:
        with storage_errors(out):
            made.folder(out.absolute().parent)
            aside.mkdir()
        _write(found, RunFolder(aside), out.absolute())
        with storage_errors(out):
            aside.rename(out)
            sync(out.absolute().parent)
    except (OctavoError, OSError) as error:
        remove(aside, OURS)
        made.take_back()
        if isinstance(error, StorageError) and _is_full(error):
            raise InputError(
                f"The disk is full: {out} could not be written, and nothing of it is left.",
                remedy="free some space, then run the same command again",
            ) from error
        raise
    except BaseException:
        remove(aside, OURS)
        made.take_back()
        raise
    return RunFolder.open(out)


def _is_full(error: StorageError) -> bool:
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def recipe_of(found: Incoming, out: Path) -> Recipe:
    """The settings of an imported run; its tokenizer is the file in the run."""
    tokenizer = found.tokenizer
    end = None if tokenizer.end is None else tokenizer.token_text(tokenizer.end)
    return check(
        {
            "description": f"Imported from {found.path.name}, {found.form}; Octavo trained nothing of it.",
            "tokenizer": {
                "kind": tokenizer.kind,
                "file": str(out / "tokenizer" / "tokenizer.json"),
                "end": end,
            },
            "model": found.config.model_dump(mode="json"),
        }
    )


def _write(found: Incoming, folder: RunFolder, out: Path) -> None:
    recipe = recipe_of(found, out)
    config = to_yaml(recipe)
    with storage_errors(out):
        found.tokenizer.save(folder.tokenizer)
        folder.config.write_text(config, encoding="utf-8")
        folder.metrics.write_text("", encoding="utf-8")
        names = ", ".join(f"{name} ({sha[:12]}…)" for name, sha in found.files.items())
        folder.log.write_text(f"imported from {found.path.absolute()}: {names}\n", encoding="utf-8")
        folder.manifest.write_text(json_text(_manifest(found, recipe, config), indent=1), encoding="utf-8")
        for file in (*sorted(folder.tokenizer.iterdir()), folder.config, folder.metrics, folder.manifest):
            sync(file)
    checkpoint = save_checkpoint(
        folder.checkpoints,
        0,
        weights=tensors_of(found.weights, found.config),
        memory={},
        state=Progress(finished=True).state(),
        config=config,
        tokenizer=folder.tokenizer,
        version=octavo.__version__,
    )
    for link in (folder.best, folder.last):
        point(link, checkpoint)


def _manifest(found: Incoming, recipe: Recipe, config: str) -> dict[str, Any]:
    return {
        "octavo": octavo.__version__,
        "code": code_identity(),
        "config_sha256": hashlib.sha256(config.encode()).hexdigest(),
        "seed": recipe.seed,
        "imported": {"path": str(found.path.absolute()), "form": found.form, "files": dict(found.files)},
        "data": {"text": "", "vocab_size": found.tokenizer.vocab_size, "splits": {}},
        "runtime": {"device": "cpu", "precision": "float32", "threads": 1},
        "versions": versions(),
        "machine": machine(),
    }
