"""Checkpoints on disk: whole immutable folders, written aside, synced, named last. Nothing half-written has a name.

    checkpoints/step-000500/
        model.safetensors   the weights                     state.json   step, best, patience, the run's own numbers
        state.safetensors   the optimizers' tensors         config.yaml, tokenizer/   the checkpoint stands alone
        MANIFEST.json       format version, sizes and SHA-256 of all of them, written last

A kill at any moment leaves either the complete folder or a `.tmp-…` one that the next start removes.
`checkpoint.py` turns a checkpoint into tensors; nothing here imports torch.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from octavo.errors import CheckpointError
from octavo.util.files import (
    file_hash,
    is_folder,
    publish_folder,
    put_away,
    remove,
    replace_text,
    storage_errors,
    strange,
    sync,
)
from octavo.util.records import AnyRecord, Count, FileRecord, Record, Shape, json_text, read_record

FORMAT = 1
MANIFEST = "MANIFEST.json"
DROPPING = ".DS_Store"  # a file manager's
PARTS = (
    *("config.yaml", "state.json", "model.safetensors", "state.safetensors", "tokenizer/*"),
    *(MANIFEST, DROPPING, ".tmp??????"),  # safetensors writes aside, too
)
_LEFT = re.compile(r"\.tmp-(prune-)?step-\d+")


class Listing(Record):
    """MANIFEST.json of this format."""

    step: Count
    files: dict[Annotated[str, Field(pattern=r"^\w[\w.-]*(/\w[\w.-]*)?$", max_length=200)], FileRecord]


@dataclass(frozen=True, eq=False)
class CheckpointFolder:
    """One complete checkpoint on disk; the same as any other of the same folder."""

    folder: Path

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CheckpointFolder) and self.folder == other.folder

    def __hash__(self) -> int:
        return hash(self.folder)

    @property
    def step(self) -> int:
        """Finished steps that it holds."""
        number = self.folder.name.removeprefix("step-")
        return int(number) if number.isdecimal() else read_record(self.folder / MANIFEST, Listing)["step"]

    def verify(self, *, contents: bool = True) -> None:
        """Raises CheckpointError unless the folder holds what the manifest lists: each file, its size, its hash.

        Without `contents` no file is read but the manifest, and hashes are not compared.
        """
        manifest = read_record(self.folder / MANIFEST)
        version = manifest.get("format")
        if version != FORMAT:
            raise CheckpointError(
                f"{self.folder} has checkpoint format {version}; this Octavo reads format {FORMAT}.",
                remedy=f"use the version that wrote it (octavo {manifest.get('octavo', 'unknown')})",
            )
        if manifest.pop("sha256", None) != seal(manifest):
            raise CheckpointError(f"{self.folder / MANIFEST} has been altered; the checkpoint is damaged.")
        read_record(self.folder / MANIFEST, Listing)
        if self.step != manifest["step"]:
            raise CheckpointError(f"{self.folder} holds step {manifest['step']}; the checkpoint is misnamed.")
        try:
            self._compare(manifest["files"], contents)
        except OSError as error:
            raise CheckpointError(f"{error.filename} cannot be read: {error.strerror}.") from error

    def _compare(self, files: Mapping[str, Mapping[str, Any]], contents: bool) -> None:
        for path in sorted(self.folder.rglob("[!.]*")):  # systems leave hidden files of their own
            name = path.relative_to(self.folder).as_posix()
            if path.is_file() and name not in files and name != MANIFEST:
                raise CheckpointError(f"{path} does not belong there; the checkpoint is damaged.")
        for name, entry in files.items():
            path = self.folder / name
            if wrong := FileRecord.model_validate(entry).difference(path, contents=contents):
                raise CheckpointError(f"{path} {wrong}; the checkpoint is damaged.")

    def as_saved(self, path: Path, *, version: str) -> bool:
        """Whether a file outside is, to the byte, the one of its name here, and `version` of Octavo wrote it."""
        try:
            manifest = read_record(self.folder / MANIFEST, Listing)
            return (
                manifest.get("octavo") == version
                and manifest["files"][path.name]["sha256"] == file_hash(path)
                and manifest.pop("sha256", None) == seal(manifest)
            )
        except (CheckpointError, OSError, KeyError):
            return False

    def parts(self) -> list[str]:
        """The files that belong to it, as its manifest lists them; patterns of them where that is not to be read."""
        try:
            return [MANIFEST, DROPPING, *read_record(self.folder / MANIFEST, Listing)["files"]]
        except CheckpointError:
            return list(PARTS)

    def state(self, shape: Shape = AnyRecord) -> dict[str, Any]:
        """The run's own numbers. Raises CheckpointError if they are not of a shape."""
        return read_record(self.folder / "state.json", shape)


def write_checkpoint(
    checkpoints: Path,
    step: int,
    *,
    put_tensors: Callable[[Path], None],
    state: Mapping[str, Any],
    config: str,
    tokenizer: Path,
    version: str,
) -> CheckpointFolder:
    """Write the checkpoint of `step` durably; returns it. Raises StorageError and leaves nothing when it cannot.

    `put_tensors` writes model.safetensors and state.safetensors into the folder that it gets, or raises OSError.
    """
    final = checkpoints / f"step-{step:06d}"
    aside = checkpoints / f".tmp-{final.name}"

    def listing(files: Mapping[str, Path]) -> str:
        listed = {name: FileRecord.of(file).model_dump() for name, file in files.items()}
        manifest = {"format": FORMAT, "octavo": version, "step": step, "files": listed}
        return json_text({**manifest, "sha256": seal(manifest)}, indent=1)

    with storage_errors(checkpoints):
        checkpoints.mkdir(parents=True, exist_ok=True)
        if final.exists():  # immutable: the same step of the same run is the same checkpoint
            return CheckpointFolder(final)
        remove(aside, PARTS)
        try:
            aside.mkdir()
            (aside / "tokenizer").mkdir()
            for file in sorted(tokenizer.iterdir()):
                (aside / "tokenizer" / file.name).write_bytes(file.read_bytes())
            (aside / "config.yaml").write_text(config, encoding="utf-8")
            (aside / "state.json").write_text(json_text(dict(state), indent=1), encoding="utf-8")
            put_tensors(aside)
            publish_folder(aside, final, manifest=MANIFEST, listing=listing)
        except OSError:
            remove(aside, PARTS)
            raise
    return CheckpointFolder(final)


def seal(manifest: Mapping[str, Any]) -> str:
    """SHA-256 over a manifest's content, which it carries itself."""
    return hashlib.sha256(json_text(manifest, sort_keys=True).encode()).hexdigest()


def point(link: Path, checkpoint: CheckpointFolder) -> None:
    """Make `link` (…/best, …/last) lead to the checkpoint, in one atomic step."""
    target = Path(os.path.relpath(checkpoint.folder, link.parent))
    aside = link.with_name(f".tmp-{link.name}")
    with storage_errors(link.parent):
        aside.unlink(missing_ok=True)
        if link.is_dir() and not link.is_symlink():  # the run was copied by something that follows links
            put_away(link, "copied")
        try:
            aside.symlink_to(target, target_is_directory=True)
        except (OSError, NotImplementedError):  # file systems and accounts without symbolic links
            replace_text(link, target.as_posix())
        else:
            aside.replace(link)
            sync(link.parent)


def follow(link: Path) -> CheckpointFolder | None:
    """The checkpoint that `link` leads to, or None."""
    try:
        if link.is_symlink() or link.is_dir():
            folder = link.resolve()
        elif link.is_file():
            folder = (link.parent / link.read_text(encoding="utf-8").strip()).resolve()
        else:
            return None
    except (OSError, ValueError, RuntimeError):  # damaged: it leads nowhere, or (RuntimeError) to itself
        return None
    return CheckpointFolder(folder) if is_folder(folder) else None


def list_checkpoints(checkpoints: Path) -> list[CheckpointFolder]:
    """All named checkpoints, oldest first."""
    return sorted(
        (CheckpointFolder(folder) for folder in checkpoints.glob("step-*") if folder.name[5:].isdecimal()),
        key=lambda checkpoint: checkpoint.step,
    )


def newest_whole(checkpoints: Path) -> tuple[CheckpointFolder | None, list[str]]:
    """The newest checkpoint that verifies, and a sentence on each newer one that does not."""
    complaints: list[str] = []
    for checkpoint in reversed(list_checkpoints(checkpoints)):
        try:
            checkpoint.verify()
            return checkpoint, complaints
        except CheckpointError as error:
            complaints.append(error.what)
    return None, complaints


def prune(
    checkpoints: Path,
    *,
    keep: int,
    always: Sequence[CheckpointFolder | None],
    passing: Callable[[CheckpointFolder], bool] = lambda checkpoint: False,
) -> None:
    """Remove all but the newest `keep` checkpoints, those in `always` and those into which somebody put files.

    Those that are only `passing` push no others out: they stay where there are fewer than `keep` others, and where one
    is the newest of all.
    """
    there = list_checkpoints(checkpoints)
    ranked = sorted(there, key=lambda checkpoint: (passing(checkpoint), -checkpoint.step))
    kept = {each.folder.resolve() for each in [*ranked[:keep], *there[-1:], *always] if each}
    with storage_errors(checkpoints):
        doomed = [
            checkpoint.folder
            for checkpoint in there
            if checkpoint.folder.resolve() not in kept and not strange(checkpoint.folder, checkpoint.parts())
        ]
        leaving = [folder.rename(checkpoints / f".tmp-prune-{folder.name}") for folder in doomed]
        if leaving:
            sync(checkpoints)  # so that nothing in between, a power cut either, leaves a named half
    for folder in leaving:
        remove(folder, PARTS)


def sweep(checkpoints: Path) -> None:
    """Remove what a kill left half-written or half-removed."""
    for leftover in checkpoints.glob(".tmp-*"):
        if _LEFT.fullmatch(leftover.name):
            remove(leftover, PARTS)
