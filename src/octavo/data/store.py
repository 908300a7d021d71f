"""Datasets on disk: a folder that is built aside, its manifest last, and renamed, so it is whole or not there
at all.
"""

from __future__ import annotations

import errno
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from octavo.data.shards import JOURNAL, starts_path, tokens_path
from octavo.errors import CorpusError, InputError, StorageError, TokenizerError
from octavo.tokenizers import Tokenizer, load_tokenizer
from octavo.util.files import FULL, publish_folder, remove, take
from octavo.util.records import Count, FileRecord, Record, json_text, parse_json

FORMAT = 1
MANIFEST = "manifest.json"
TOKENIZER = "tokenizer"
_BUILDING = ".building-"
_PURPOSE = "purpose.json"  # what a folder that is being built will be
# All that Octavo writes into such a folder.
FILES = ("*.txt", "*.bin", f"*{JOURNAL}", MANIFEST, f"{TOKENIZER}/*", _PURPOSE, "baselines.json")
PARTS = ({"train", "validation"}, {"train", "validation", "test"}, {"text"})
"""What a dataset is made of: a corpus that is split, or a text as a whole."""
_STALE = 24 * 3600  # seconds after which a folder that is still being built was left by a killed process


class ListedSplit(Record):
    """A part as the manifest lists it."""

    tokens: Count
    bytes: Count
    characters: Count
    documents: Count


class Listing(Record):
    """The manifest of this format."""

    text: str
    dtype: Literal["|u1", "<u2", "<u4", "<f4"]
    files: dict[Annotated[str, Field(pattern=r"^\w[\w.-]*(/\w[\w.-]*)?$", max_length=200)], FileRecord]
    splits: dict[str, ListedSplit]


@dataclass(frozen=True)
class Split:
    """One part of a dataset.

    Attributes:
        tokens: the ids, (N,), uint8, uint16 or uint32, mapped from disk; of series of numbers their rows, (N, D),
            float32.
        starts: where each document begins in them, (documents,), uint64.
        bytes: size of the part's text in UTF-8; what bits per byte divide by.
        characters: of that text.
        documents: how many.
        text_file: the text, UTF-8; of several documents each is ended by a line break.
    """

    tokens: np.ndarray
    starts: np.ndarray
    bytes: int
    characters: int
    documents: int
    text_file: Path

    @property
    def text_path(self) -> Path:
        """The text's file, which is still there. Raises StorageError if the cache was emptied meanwhile."""
        if not self.text_file.is_file():
            raise StorageError(
                f"The dataset's text {self.text_file} was deleted while it was in use.",
                remedy="run the same command again, a training with --resume; the dataset is made again",
            )
        return self.text_file


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

    @property
    def test(self) -> Split | None:
        """What is kept out of everything, if anything is; only `octavo eval --test` reads it."""
        return self.splits.get("test")

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
        written = (folder / MANIFEST).read_bytes()
        version = parse_json(written).get("format")
        if version != FORMAT:
            raise _unusable(folder, f"its format version is {version!r}, this Octavo's is {FORMAT}")
        manifest = parse_json(written, Listing)
        for name, expected in manifest["files"].items():
            wrong = FileRecord.model_validate(expected).difference(folder / name, contents=verify)
            if wrong:
                raise _unusable(folder, f"{name} {wrong}")
        dtype = np.dtype(manifest["dtype"])
        listed = manifest["splits"]
        if set(listed) not in PARTS:
            raise _unusable(folder, f"its parts are called {', '.join(sorted(listed)) or 'nothing'}")
        columns = manifest["vocab_size"] if dtype.kind == "f" else None
        splits = {name: _open_split(folder, name, listed[name], dtype, columns) for name in sorted(listed)}
    except FileNotFoundError as error:
        raise _unusable(folder, f"{error.filename} is missing") from error
    except (OSError, ValueError) as error:
        raise _unusable(folder, f"its manifest cannot be read: {error}") from error
    return Dataset(folder, manifest, splits)


def _open_split(
    folder: Path, name: str, entry: dict[str, Any], dtype: np.dtype, columns: int | None
) -> Split:
    tokens = np.memmap(tokens_path(folder, name), dtype, mode="r")
    return Split(
        tokens=tokens if columns is None else tokens.reshape(-1, columns),
        starts=np.fromfile(starts_path(folder, name), "<u8"),
        bytes=entry["bytes"],
        characters=entry["characters"],
        documents=entry["documents"],
        text_file=folder / f"{name}.txt",
    )


def _unusable(folder: Path, why: str) -> CorpusError:
    return CorpusError(
        f"The dataset {folder} cannot be used: {why}.",
        remedy="Delete the folder; it is made again from the text.",
    )


@contextmanager
def aside(cache: Path) -> Iterator[Path]:
    """A fresh folder in the cache to build in, deleted afterwards unless it was published, or was left with
    tokens in it by what will not come again. OSErrors of storage are said.

    A lock next to it is held from before it exists until it is gone: no other process touches it meanwhile.

    Raises:
        StorageError: the disk is full, or the cache cannot be written.
    """
    datasets = cache / "datasets"
    try:
        datasets.mkdir(parents=True, exist_ok=True)
        _sweep(datasets)
        with _locked_name(datasets) as folder:
            folder.mkdir()
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
                    remove(folder, FILES)
    except OSError as error:
        causes = (
            *FULL,
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


@contextmanager
def _locked_name(datasets: Path) -> Iterator[Path]:
    """A name for a folder to build in whose lock is held; afterwards the lock goes, if the folder does not stand."""
    folder = datasets / f"{_BUILDING}{secrets.token_hex(8)}"
    try:
        with _lock_of(folder).open("xb") as lock:
            take(lock.fileno())
            yield folder
    finally:
        if not folder.exists():
            _lock_of(folder).unlink(missing_ok=True)


@contextmanager
def _abandoned(folder: Path) -> Iterator[bool]:
    """Whether the process that built in a folder has ended; within the context no other one can think so too."""
    try:
        lock = _lock_of(folder).open("r+b")
    except OSError:  # it is just finished, or none of ours
        yield False
        return
    with lock:
        yield take(lock.fileno())
    if not folder.exists():
        _lock_of(folder).unlink(missing_ok=True)


def _lock_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.lock")


def _left_behind(datasets: Path) -> Iterator[Path]:
    """Folders in which something is or was built."""
    for lock in datasets.glob(f"{_BUILDING}*.lock"):
        yield lock.with_suffix("")


def _sweep(datasets: Path) -> None:
    """Delete what killed processes left half built long ago."""
    for left in _left_behind(datasets):
        with suppress(OSError):  # another process is just finishing or deleting it
            places = [_lock_of(left), *([left, *left.iterdir()] if left.exists() else ())]
            if time.time() - max(path.stat().st_mtime for path in places) > _STALE:
                with _abandoned(left) as ended:
                    if ended:
                        remove(left, FILES)


@contextmanager
def gone_on_with(folder: Path, purpose: str) -> Iterator[Tokenizer | None]:
    """Within the context a folder that is built aside says what it will be. What an ended process left that built
    the same, its tokenizer and its tokens, is moved into it; the tokenizer, if there was one.
    """
    (folder / _PURPOSE).write_text(purpose, encoding="utf-8")
    left = (path for path in _left_behind(folder.parent) if path != folder)
    yield next(filter(None, (_taken_over(path, folder, purpose) for path in left)), None)
    for path in (folder / _PURPOSE, *folder.glob(f"*{JOURNAL}")):
        path.unlink()


def _taken_over(left: Path, folder: Path, purpose: str) -> Tokenizer | None:
    try:
        if (left / _PURPOSE).read_text(encoding="utf-8") != purpose:
            return None
        with _abandoned(left) as ended:
            journals = list(left.glob(f"*{JOURNAL}"))
            if not ended or not journals:  # its process is at work, or it holds nothing
                return None
            tokenizer = load_tokenizer(left / TOKENIZER)
            parts = [journal.name.removesuffix(JOURNAL) for journal in journals]
            files = [path(left, part) for part in parts for path in (tokens_path, starts_path)]
            for path in (*files, left / TOKENIZER, *journals):
                path.replace(folder / path.name)
            remove(left, FILES)
    except (FileNotFoundError, ValueError, TokenizerError):  # another is just finishing it, or it is damaged
        return None
    return tokenizer


PUBLISHED: set[Path] = set()
"""Datasets that this process made: that it finds them again is no news."""


def say_reused(final: Path, same: str, report: Callable[[str], None]) -> None:
    """Report that a dataset was there already, unless this process made it."""
    if final not in PUBLISHED:
        report(f"dataset: reused {final.name[:8]} (same {same})")


def publish(folder: Path, manifest: dict[str, Any], final: Path, known: Mapping[str, str]) -> Dataset:
    """Publish a folder that was built aside as a dataset.

    Args:
        known: SHA-256 of files that need not be read for the manifest, by name.
    """

    def listing(files: Mapping[str, Path]) -> str:
        listed = {name: FileRecord.of(file, known.get(name)).model_dump() for name, file in files.items()}
        return json_text({"format": FORMAT, **manifest, "files": listed}, indent=1) + "\n"

    PUBLISHED.add(final)
    try:
        publish_folder(folder, final, manifest=MANIFEST, listing=listing)
    except OSError:
        if not final.exists():
            raise
        # Another process was first with the same dataset; ours is deleted by `aside`.
    return open_dataset(final)
