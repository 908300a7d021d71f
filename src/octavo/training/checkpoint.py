"""Checkpoints: whole immutable folders, written aside, synced, named last. Nothing half-written ever has a name.

    checkpoints/step-000500/
        model.safetensors   the weights                     state.json   step, best, patience, the run's own numbers
        state.safetensors   the optimizers' tensors         config.yaml, tokenizer/   the checkpoint stands alone
        MANIFEST.json       format version, sizes and SHA-256 of all of them, written last

A kill at any moment leaves either the complete folder or a `.tmp-…` one that the next start removes.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from octavo.errors import CheckpointError, StorageError
from octavo.training.sharding import part_of, whole

FORMAT = 1
MANIFEST = "MANIFEST.json"


@dataclass(frozen=True)
class Checkpoint:
    """One complete checkpoint on disk."""

    folder: Path

    @property
    def step(self) -> int:
        """Finished steps that it holds."""
        number = self.folder.name.removeprefix("step-")
        return int(number) if number.isdecimal() else read_json(self.folder / MANIFEST)["step"]

    def verify(self) -> None:
        """Raises CheckpointError unless the folder holds what the manifest lists: each file, its size, its hash."""
        manifest = read_json(self.folder / MANIFEST)
        version = manifest.get("format")
        if version != FORMAT:
            raise CheckpointError(
                f"{self.folder} has checkpoint format {version}; this Octavo reads format {FORMAT}.",
                remedy=f"use the version that wrote it (octavo {manifest.get('octavo', 'unknown')})",
            )
        if manifest.pop("sha256", None) != seal(manifest):
            raise CheckpointError(f"{self.folder / MANIFEST} has been altered; the checkpoint is damaged.")
        if self.step != manifest["step"]:
            raise CheckpointError(f"{self.folder} holds step {manifest['step']}; the checkpoint is misnamed.")
        files = manifest["files"]
        for path in sorted(self.folder.rglob("[!.]*")):  # systems leave hidden files of their own
            name = path.relative_to(self.folder).as_posix()
            if path.is_file() and name not in files and name != MANIFEST:
                raise CheckpointError(f"{path} does not belong there; the checkpoint is damaged.")
        for name, entry in files.items():
            path = self.folder / name
            if not path.is_file():
                raise CheckpointError(f"{path} is missing; the checkpoint is damaged.")
            if path.stat().st_size != entry["size"]:
                raise CheckpointError(
                    f"{path} has {path.stat().st_size:,} bytes instead of {entry['size']:,}; the checkpoint is damaged."
                )
            if file_hash(path) != entry["sha256"]:
                raise CheckpointError(
                    f"{path} has been altered (its SHA-256 differs); the checkpoint is damaged."
                )

    def state(self) -> dict[str, Any]:
        """The run's own numbers."""
        return read_json(self.folder / "state.json")

    def load_model(self, model: nn.Module) -> None:
        """Fill a model of the same shape with the weights."""
        weights = read_tensors(self.folder / "model.safetensors")
        try:
            missing, unexpected = model.load_state_dict(weights, strict=False)
        except RuntimeError as error:
            raise CheckpointError(f"{self.folder} does not fit this model: {error}") from error
        absent = [name for name in missing if not _shares_storage(model, name, weights)]
        if absent or unexpected:
            raise CheckpointError(
                f"{self.folder} does not fit this model: missing {absent}, unexpected {unexpected}."
            )

    def load_optimizers(self, optimizers: Sequence[Optimizer]) -> None:
        """Fill freshly built optimizers with their saved state."""
        tensors = read_tensors(self.folder / "state.safetensors")
        for index, optimizer in enumerate(optimizers):
            fresh = optimizer.state_dict()
            owners = [parameter for group in optimizer.param_groups for parameter in group["params"]]
            state: dict[int, dict[str, Tensor]] = {}
            for name, tensor in tensors.items():
                kind, which, parameter, key = name.split(".", 3)
                if kind == "optimizer" and int(which) == index:
                    owner = owners[int(parameter)]
                    whose = tensor if tensor.shape != owner.shape else part_of(tensor, owner)
                    state.setdefault(int(parameter), {})[key] = whose
            optimizer.load_state_dict({"state": state, "param_groups": fresh["param_groups"]})


def _shares_storage(model: nn.Module, name: str, weights: Mapping[str, Tensor]) -> bool:
    """Whether `name` is a second name of a weight that is there (a tied head)."""
    own = dict(model.named_parameters(remove_duplicate=False))
    return any(own.get(other) is own.get(name) for other in weights if other != name)


def optimizer_tensors(optimizers: Sequence[Optimizer], *, keep: bool = True) -> dict[str, Tensor]:
    """All optimizer state as named tensors; see `model_tensors`."""
    return _gathered(
        (
            (f"optimizer.{index}.{parameter}.{key}", value)
            for index, optimizer in enumerate(optimizers)
            for parameter, entries in optimizer.state_dict()["state"].items()
            for key, value in entries.items()
            if isinstance(value, Tensor)
        ),
        keep,
    )


def model_tensors(model: nn.Module, *, keep: bool = True) -> dict[str, Tensor]:
    """The weights by name, a shared one once.

    Of weights that are cut into parts every process must call it; one that does not `keep` them gives its parts, and
    gets nothing.
    """
    return _gathered(model.named_parameters(), keep)


def _gathered(tensors: Iterable[tuple[str, Tensor]], keep: bool) -> dict[str, Tensor]:
    found = {}
    for name, tensor in tensors:
        part = tensor.detach()
        full = whole(part)
        if keep:  # a device that holds a part of the model may not have room for all of it
            found[name] = (full if full is part else full.cpu()).contiguous()
    return found


def save_checkpoint(
    checkpoints: Path,
    step: int,
    *,
    weights: Mapping[str, Tensor],
    memory: Mapping[str, Tensor],
    state: Mapping[str, Any],
    config: str,
    tokenizer: Path,
    version: str,
) -> Checkpoint:
    """Write the checkpoint of `step` durably; returns it. Raises StorageError and leaves nothing when it cannot.

    `weights` are `model_tensors`, `memory` is `optimizer_tensors`.
    """
    final = checkpoints / f"step-{step:06d}"
    aside = checkpoints / f".tmp-{final.name}"
    with storage_errors(checkpoints):
        checkpoints.mkdir(parents=True, exist_ok=True)
        if final.exists():  # immutable: the same step of the same run is the same checkpoint
            return Checkpoint(final)
        shutil.rmtree(aside, ignore_errors=True)
        try:
            aside.mkdir()
            (aside / "tokenizer").mkdir()
            for file in sorted(tokenizer.iterdir()):
                (aside / "tokenizer" / file.name).write_bytes(file.read_bytes())
            (aside / "config.yaml").write_text(config, encoding="utf-8")
            (aside / "state.json").write_text(json.dumps(dict(state), indent=1), encoding="utf-8")
            save_file(dict(weights), aside / "model.safetensors")
            save_file(dict(memory), aside / "state.safetensors")
            folders = (aside, aside / "tokenizer")  # not rglob, which passes over what it cannot read
            files = sorted(path for folder in folders for path in folder.iterdir() if path.is_file())
            listing = {
                path.relative_to(aside).as_posix(): {"size": path.stat().st_size, "sha256": file_hash(path)}
                for path in files
            }
            for path in files:
                sync(path)
            manifest = {"format": FORMAT, "octavo": version, "step": step, "files": listing}
            sealed = {**manifest, "sha256": seal(manifest)}
            (aside / MANIFEST).write_text(json.dumps(sealed, indent=1), encoding="utf-8")
            sync(aside / MANIFEST)
            for folder in folders:
                sync(folder)
            aside.rename(final)
            sync(checkpoints)
        except (OSError, SafetensorError) as error:
            shutil.rmtree(aside, ignore_errors=True)
            raise _as_os_error(error) from error
    return Checkpoint(final)


def seal(manifest: Mapping[str, Any]) -> str:
    """SHA-256 over a manifest's content, which it carries itself."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def replace_text(path: Path, text: str) -> None:
    """Write a text file in one atomic step: a kill leaves the old one or the new one, never a part."""
    aside = path.with_name(f".tmp-{path.name}")
    with storage_errors(path.parent):
        aside.write_text(text, encoding="utf-8")
        sync(aside)
        aside.replace(path)
        sync(path.parent)


def point(link: Path, checkpoint: Checkpoint) -> None:
    """Make `link` (…/best, …/last) lead to the checkpoint, in one atomic step."""
    target = Path(os.path.relpath(checkpoint.folder, link.parent))
    aside = link.with_name(f".tmp-{link.name}")
    with storage_errors(link.parent):
        aside.unlink(missing_ok=True)
        if link.is_dir() and not link.is_symlink():  # the run was copied by something that follows links
            shutil.rmtree(link)
        try:
            aside.symlink_to(target, target_is_directory=True)
        except (OSError, NotImplementedError):  # file systems and accounts without symbolic links
            replace_text(link, target.as_posix())
        else:
            aside.replace(link)
            sync(link.parent)


def follow(link: Path) -> Checkpoint | None:
    """The checkpoint that `link` leads to, or None."""
    if link.is_symlink() or link.is_dir():
        folder = link.resolve()
    elif link.is_file():
        folder = (link.parent / link.read_text(encoding="utf-8").strip()).resolve()
    else:
        return None
    return Checkpoint(folder) if folder.is_dir() else None


def list_checkpoints(checkpoints: Path) -> list[Checkpoint]:
    """All named checkpoints, oldest first."""
    return sorted(
        (Checkpoint(folder) for folder in checkpoints.glob("step-*") if folder.name[5:].isdigit()),
        key=lambda checkpoint: checkpoint.step,
    )


def newest_whole(checkpoints: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint that verifies, and a sentence on each newer one that does not."""
    complaints: list[str] = []
    for checkpoint in reversed(list_checkpoints(checkpoints)):
        try:
            checkpoint.verify()
            return checkpoint, complaints
        except CheckpointError as error:
            complaints.append(error.what)
    return None, complaints


def prune(checkpoints: Path, *, keep: int, always: Sequence[Checkpoint | None]) -> None:
    """Remove all but the newest `keep` checkpoints and those in `always`; also what a kill left half-written."""
    kept = {checkpoint.folder.resolve() for checkpoint in always if checkpoint}
    for checkpoint in list_checkpoints(checkpoints)[:-keep]:
        if checkpoint.folder.resolve() not in kept:
            doomed = checkpoints / f".tmp-prune-{checkpoint.folder.name}"
            with storage_errors(checkpoints):
                checkpoint.folder.rename(doomed)  # so a kill in between leaves no named half
            shutil.rmtree(doomed, ignore_errors=True)


def sweep(checkpoints: Path) -> None:
    """Remove what a kill left half-written or half-removed."""
    for leftover in checkpoints.glob(".tmp-*"):
        shutil.rmtree(leftover, ignore_errors=True)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file; CheckpointError when it is not one."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CheckpointError(f"{path} is missing; the checkpoint is incomplete.") from error
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read ({error}); the checkpoint is damaged.") from error
    if not isinstance(data, dict):
        raise CheckpointError(f"{path} does not hold a JSON object; the checkpoint is damaged.")
    return data


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Named tensors from a safetensors file; CheckpointError when it is damaged."""
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} cannot be read ({error}); the checkpoint is damaged.") from error


def file_hash(path: Path) -> str:
    """SHA-256 of a file, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Make a file's or folder's content survive a power cut, as far as the system can promise it."""
    if path.is_dir() and os.name == "nt":  # Windows cannot open folders
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _as_os_error(error: OSError | SafetensorError) -> OSError:
    """safetensors wraps the system's errors into text; a full disk must stay recognisable."""
    if isinstance(error, OSError):
        return error
    found = re.search(r"os error (\d+)", str(error))
    return OSError(int(found[1]) if found else errno.EIO, str(error))


@contextmanager
def storage_errors(folder: Path) -> Iterator[None]:
    """Turn the system's errors about a folder into sentences."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise StorageError(
                f"The disk is full: {folder} could not be written. Earlier checkpoints are whole.",
                remedy="free some space, then run the same command with --resume",
            ) from error
        if error.errno in (
            errno.EACCES,
            errno.EPERM,
            errno.EROFS,
            errno.ENOTDIR,
            errno.EEXIST,
            errno.ENAMETOOLONG,
        ):
            raise StorageError(
                f"{folder} cannot be written: {error.strerror}.", remedy="choose another folder with --out"
            ) from error
        raise StorageError(f"{folder} could not be written: {error}.") from error
