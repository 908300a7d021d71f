"""Datasets on disk: a folder that is built aside, its manifest last, and renamed, so it is whole or not there
at all.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from octavo.corpus.locking import take
from octavo.dataset.shards import JOURNAL, starts_path, tokens_path
from octavo.errors import CorpusError, InputError, StorageError, TokenizerError
from octavo.tokenizers import Tokenizer, load_tokenizer

FORMAT = 1
MANIFEST = "manifest.json"
TOKENIZER = "tokenizer"
_BUILDING = ".building-"
_PURPOSE, _LOCK = "purpose.json", "lock"  # what a folder that is being built will be; held while it is built
_STALE = 24 * 3600  # seconds after which a folder that is still being built was left by a killed process


@dataclass(frozen=True)
class Split:
    """One part of a dataset.

    Attributes:
        tokens: the ids, (N,), uint8, uint16 or uint32, mapped from disk.
        starts: where each document begins in them, (documents,), uint64.
        bytes: size of the part's text in UTF-8; what bits per byte divide by.
        characters: of that text.
        documents: how many.
        text_path: the text, UTF-8; of several documents each is ended by a line break.
    """

    tokens: np.ndarray
    starts: np.ndarray
    bytes: int
    characters: int
    documents: int
    text_path: Path


@dataclass(frozen=True)
class Dataset:
    """A corpus as token ids.

    Attributes:
        folder: where it stands.
        manifest: what it is made of: text, split, tokenizer, sizes and hashes.
        splits: its parts by name.
    """

    folder: Path
    manifest: dict[str, Any]
    splits: dict[str, Split]

    @property
    def train(self) -> Split:
        """What the model learns from."""
        return self.splits["train"]

    @property
    def validation(self) -> Split:
        """What it is judged on."""
        return self.splits["validation"]

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that made it."""
        return load_tokenizer(self.folder / TOKENIZER)


def open_dataset(folder: Path, *, verify: bool = False) -> Dataset:
    """Open a dataset folder. The sizes of all files are checked; with `verify` their SHA-256 as well.

    Raises:
        CorpusError: there is none, or it is damaged, or of another format version.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        if manifest["format"] != FORMAT:
            raise _unusable(
                folder, f"its format version is {manifest['format']!r}, this Octavo's is {FORMAT}"
            )
        for name, expected in manifest["files"].items():
            size = (folder / name).stat().st_size
            if size != expected["bytes"]:
                raise _unusable(folder, f"{name} has {size:,} bytes where {expected['bytes']:,} were written")
            if verify and sha256_of(folder / name) != expected["sha256"]:
                raise _unusable(folder, f"the content of {name} was altered")
        dtype = np.dtype(manifest["dtype"])
        splits = {name: _open_split(folder, name, entry, dtype) for name, entry in manifest["splits"].items()}
    except FileNotFoundError as error:
        raise _unusable(folder, f"{error.filename} is missing") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _unusable(folder, f"its manifest cannot be read: {error!r}") from error
    return Dataset(folder, manifest, splits)


def _open_split(folder: Path, name: str, entry: dict[str, Any], dtype: np.dtype) -> Split:
    return Split(
        tokens=np.memmap(tokens_path(folder, name), dtype, mode="r"),
        starts=np.fromfile(starts_path(folder, name), "<u8"),
        bytes=entry["bytes"],
        characters=entry["characters"],
        documents=entry["documents"],
        text_path=folder / f"{name}.txt",
    )


def _unusable(folder: Path, why: str) -> CorpusError:
    return CorpusError(
        f"The dataset {folder} cannot be used: {why}.",
        remedy="Delete the folder; it is made again from the text.",
    )


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def aside(cache: Path) -> Iterator[Path]:
    """A fresh folder in the cache to build in, deleted afterwards unless it was published, or was left with
    tokens in it by what will not come again. OSErrors of storage are said.

    Raises:
        StorageError: the disk is full, or the cache cannot be written.
    """
    datasets = cache / "datasets"
    try:
        datasets.mkdir(parents=True, exist_ok=True)
        _sweep(datasets)
        folder = Path(tempfile.mkdtemp(prefix=_BUILDING, dir=datasets))
        left = False
        try:
            yield folder
        except (InputError, OSError):
            raise
        except BaseException:
            left = any(folder.glob(f"*{JOURNAL}"))
            raise
        finally:
            if not left:
                shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        causes = (
            errno.ENOSPC,
            errno.EDQUOT,
            errno.EACCES,
            errno.EPERM,
            errno.EROFS,
            errno.ENOTDIR,
            errno.EEXIST,
        )
        if error.errno not in causes:
            raise
        raise StorageError(
            f"The dataset cannot be written into {datasets}: {error.strerror}.",
            remedy="Free some space, or choose another folder with the environment variable OCTAVO_CACHE.",
        ) from error


def _sweep(datasets: Path) -> None:
    """Delete what killed processes left half built."""
    for left in datasets.glob(f"{_BUILDING}*"):
        try:
            newest = max(path.stat().st_mtime for path in [left, *left.iterdir()])
        except OSError:  # another process is just finishing or deleting it
            continue
        if time.time() - newest > _STALE:
            shutil.rmtree(left, ignore_errors=True)


@contextmanager
def gone_on_with(folder: Path, purpose: str) -> Iterator[Tokenizer | None]:
    """Within the context a folder that is built aside says what it will be. What an ended process left that built
    the same, its tokenizer and its tokens, is moved into it; the tokenizer, if there was one.
    """
    with (folder / _LOCK).open("ab") as lock:
        take(lock.fileno())
        (folder / _PURPOSE).write_text(purpose, encoding="utf-8")
        left = (path for path in folder.parent.glob(f"{_BUILDING}*") if path != folder)
        yield next(filter(None, (_taken_over(path, folder, purpose) for path in left)), None)
    for path in (folder / _LOCK, folder / _PURPOSE, *folder.glob(f"*{JOURNAL}")):
        path.unlink()


def _taken_over(left: Path, folder: Path, purpose: str) -> Tokenizer | None:
    try:
        if (left / _PURPOSE).read_text(encoding="utf-8") != purpose:
            return None
        with (left / _LOCK).open("ab") as lock:
            journals = list(left.glob(f"*{JOURNAL}"))
            if not take(lock.fileno()) or not journals:  # its process is at work, or it holds nothing
                return None
            tokenizer = load_tokenizer(left / TOKENIZER)
            parts = [journal.name.removesuffix(JOURNAL) for journal in journals]
            files = [path(left, part) for part in parts for path in (tokens_path, starts_path)]
            for path in (*files, left / TOKENIZER, *journals):
                path.replace(folder / path.name)
    except (FileNotFoundError, ValueError, TokenizerError):  # another is just finishing it, or it is damaged
        return None
    shutil.rmtree(left, ignore_errors=True)
    return tokenizer


def publish(folder: Path, manifest: dict[str, Any], final: Path, known: Mapping[str, str]) -> Dataset:
    """Write the manifest over all files in a folder built aside, force everything to disk, and give it its
    name.

    Args:
        known: SHA-256 of files that need not be read for it, by name.
    """
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    files = {
        (name := path.relative_to(folder).as_posix()): {
            "bytes": path.stat().st_size,
            "sha256": known.get(name) or sha256_of(path),
        }
        for path in paths
    }
    written = folder / MANIFEST
    written.write_text(
        json.dumps({"format": FORMAT, **manifest, "files": files}, indent=1) + "\n", encoding="utf-8"
    )
    for path in [*paths, written, folder / TOKENIZER, folder]:
        _sync(path)
    try:
        folder.rename(final)
    except OSError:
        if not final.exists():
            raise
        # Another process was first with the same dataset; ours is deleted by `aside`.
    _sync(final.parent)
    return open_dataset(final)


def _sync(path: Path) -> None:
    if path.is_dir() and os.name == "nt":  # Windows cannot open folders
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
