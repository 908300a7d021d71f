"""Fetching the texts of the catalogue: resumed where it was cut, verified before it is used."""

from __future__ import annotations

import hashlib
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from octavo.corpus.documents import Report
from octavo.corpus.fetch.addresses import UnknownHost, answered
from octavo.corpus.fetch.catalogue import Entry, Mirrors, entry, user_mirrors
from octavo.errors import CorpusError, StorageError
from octavo.util.files import default_cache, one_at_a_time, sync, written_aside
from octavo.util.records import FileRecord, json_text

if TYPE_CHECKING:
    from httpx2 import Client, Response

ATTEMPTS = 5  # at one address, each continues where the last was cut
_SECONDS = 30.0  # without a byte
_SLACK = 2.0  # a text that is not pinned may be so many times as large as the catalogue says

Progress = Callable[[int, int | None], None]
"""Called with the bytes that are here and, where that is known, how many there are."""


class Unusable(CorpusError):
    """What came is not what was asked for."""


class _Cut(Exception):
    """The connection failed or ended early; what came so far is kept."""


@dataclass(frozen=True)
class Fetched:
    """A text of the catalogue on this machine.

    Attributes:
        new: whether it was fetched now, and was not here already.
        pinned: whether the catalogue knows its hash; else the first download's is kept.
    """

    entry: Entry
    path: Path
    bytes: int
    sha256: str
    new: bool
    pinned: bool


def fetch(
    name: str,
    *,
    cache: Path | None = None,
    mirrors: Mirrors | None = None,
    accept_change: bool = False,
    report: Report = lambda sentence: None,
    progress: Progress = lambda done, total: None,
    pause: Callable[[float], object] = time.sleep,
) -> Fetched:
    """Have a text of the catalogue on this machine: verified if it is there, else fetched from the first address that
    gives it whole.

    Args:
        mirrors: tried first; None means the user's.
        accept_change: take a text that is not pinned though it differs from the one that was fetched before.
        pause: waits so many seconds before the next attempt.

    Raises:
        CorpusError: no such text; no address gives it; what comes differs from what is pinned or remembered.
        StorageError: the disk is full or the cache cannot be written.
    """
    return fetch_entry(
        entry(name),
        cache or default_cache(),
        mirrors or user_mirrors(),
        accept_change,
        report,
        progress,
        pause,
    )


def fetch_entry(
    wanted: Entry,
    cache: Path,
    mirrors: Mirrors,
    accept_change: bool,
    report: Report,
    progress: Progress,
    pause: Callable[[float], object],
) -> Fetched:
    """`fetch` for an entry that need not stand in the catalogue."""
    path = wanted.path(cache)
    if not accept_change and (found := _here(wanted, cache)):
        return found

    def waiting() -> None:
        report(f"another process is fetching {wanted.name}; waiting for it")

    with _storage(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with one_at_a_time(path.with_name(f".{path.name}.lock"), waiting, pause):
            if not accept_change and (found := _here(wanted, cache)):  # by the process that was waited for
                return found
            return _fetched(wanted, cache, mirrors, accept_change, report, progress, pause)


def _here(wanted: Entry, cache: Path) -> Fetched | None:
    """The text that was fetched before, if it is still the same."""
    path = wanted.path(cache)
    if not path.is_file():
        return None
    record = FileRecord.of(path)
    if _expected(wanted, cache) not in (None, record.sha256):
        return None
    return Fetched(wanted, path, record.bytes, record.sha256, new=False, pinned=wanted.sha256 is not None)


def _expected(wanted: Entry, cache: Path) -> str | None:
    """The hash that a text is pinned to, or that it had when it was fetched."""
    record = wanted.remembered(cache)
    return wanted.sha256 or (record.sha256 if record else None)


def _fetched(
    wanted: Entry,
    cache: Path,
    mirrors: Mirrors,
    accept_change: bool,
    report: Report,
    progress: Progress,
    pause: Callable[[float], object],
) -> Fetched:
    path = wanted.path(cache)
    if path.is_file() and not accept_change:
        report(f"{path.name} was altered since it was fetched; it is fetched again")
    expected = wanted.sha256 if accept_change else _expected(wanted, cache)
    problems: list[CorpusError] = []
    for address in mirrors.addresses(wanted):
        report(f"fetching {wanted.name} from {address} ({wanted.size}, {wanted.licence})")
        try:
            part = _Part(path, address, wanted, mirrors.allow_private, progress)
            size, sha256 = part.fetch(report, pause, expected)
            part.publish(path, {"address": address, "bytes": size, "sha256": sha256})
            return Fetched(wanted, path, size, sha256, new=True, pinned=wanted.sha256 is not None)
        except CorpusError as error:
            problems.append(error)
            report(f"{error.what}")
    raise _all_failed(wanted, problems)


def _all_failed(wanted: Entry, problems: list[CorpusError]) -> CorpusError:
    last = problems[-1]
    if all(isinstance(each, UnknownHost) for each in problems):
        return CorpusError(
            f"The text '{wanted.name}' cannot be fetched: no name can be resolved; this machine seems to be offline.",
            remedy=f"Connect it, or fetch {wanted.address} elsewhere and give the file with --text PATH.",
        )
    return CorpusError(f"The text '{wanted.name}' cannot be fetched: {last.what}", remedy=last.remedy)


class _Part:
    """A download under way: what came so far, next to where the whole file will be."""

    def __init__(
        self, path: Path, address: str, wanted: Entry, allow_private: bool, progress: Progress
    ) -> None:
        # By address, so that pieces of two never mix.
        key = hashlib.sha256(address.encode()).hexdigest()[:8]
        self._file = path.with_name(f".{path.name}.{key}.part")
        self._tag = path.with_name(f".{path.name}.{key}.tag")
        self._address, self._wanted, self._allow_private = address, wanted, allow_private
        self._progress = progress
        self._limit = wanted.bytes or int(wanted.about * 1e6 * _SLACK) + (1 << 20)

    def fetch(
        self, report: Report, pause: Callable[[float], object], expected: str | None
    ) -> tuple[int, str]:
        """All of it, verified: size and SHA-256."""
        import httpx2

        with httpx2.Client(timeout=_SECONDS, follow_redirects=False) as client:
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    self._attempt(client)
                    break
                except (_Cut, httpx2.HTTPError) as error:
                    if attempt == ATTEMPTS:
                        raise Unusable(
                            f"{self._address} was cut off {ATTEMPTS} times, the last time by: {_plain(error)}.",
                            remedy="Run the command again; it continues where it was cut.",
                        ) from error
                    report(f"cut off after {self._have:,} bytes ({_plain(error)}); continuing")
                    pause(min(30.0, 2.0 ** (attempt - 1)))
        return self._verified(expected)

    @property
    def _have(self) -> int:
        return self._file.stat().st_size if self._file.is_file() else 0

    def _attempt(self, client: Client) -> None:
        have = self._have
        headers = {"Accept-Encoding": "identity"}  # so that bytes and offsets are the file's own
        tag = self._tag.read_text(encoding="utf-8") if self._tag.is_file() else ""
        if have and (tag or self._wanted.sha256):
            headers["Range"] = f"bytes={have}-"
            if tag:
                headers["If-Range"] = tag  # a file that was changed meanwhile comes whole
        with answered(client, self._address, headers, allow_private=self._allow_private) as response:
            start = self._start(response, have)
            total = _length(response)
            total = None if total is None else start + total
            self._refuse_size(total)
            self._tag.write_text(_strong_tag(response), encoding="utf-8")
            with self._file.open("r+b" if start else "wb") as file:
                file.truncate(start)
                file.seek(start)
                for piece in response.iter_raw():
                    file.write(piece)
                    self._refuse_size(file.tell())
                    self._progress(file.tell(), total)
            if total is not None and self._have < total:
                raise _Cut(f"{total - self._have:,} bytes are missing")

    def _start(self, response: Response, have: int) -> int:
        """From which byte on the answer is; raises when there is none."""
        if response.status_code == 206:
            found = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
            if found and int(found[1]) <= have:
                return int(found[1])
            raise Unusable(f"{self._address} answered with the wrong part of the file.")
        if response.status_code == 200:
            return 0
        if response.status_code == 416:  # nothing after what is here: all of it, or another file
            self._file.unlink(missing_ok=True)
            raise _Cut("the server has no such part")
        if response.status_code in (408, 429) or response.status_code >= 500:
            raise _Cut(f"the server answered {response.status_code}")
        raise Unusable(f"{self._address} answered {response.status_code} {response.reason_phrase}.")

    def _refuse_size(self, size: int | None) -> None:
        if size is not None and size > self._limit:
            self._file.unlink(missing_ok=True)
            raise Unusable(
                f"{self._address} gives more than {self._limit:,} bytes; the catalogue says {self._wanted.size}."
            )
        if size is not None and size - self._have > shutil.disk_usage(self._file.parent).free:
            raise StorageError(
                f"There is no room for {size:,} bytes in {self._file.parent}.",
                remedy="Free some space, or choose another folder with the environment variable OCTAVO_CACHE.",
            )

    def _verified(self, expected: str | None) -> tuple[int, str]:
        record = FileRecord.of(self._file)
        size, sha256 = record.bytes, record.sha256
        wrong = None
        if size == 0:
            wrong = f"What came from {self._address} is empty."
        elif self._wanted.bytes not in (None, size):
            wrong = f"What came from {self._address} has {size:,} bytes, not {self._wanted.bytes:,}."
        elif expected not in (None, sha256):
            wrong = f"What came from {self._address} has the SHA-256 {sha256}, not {expected}."
        if wrong:
            self._file.unlink()
            changed = self._wanted.sha256 is None and size > 0
            raise Unusable(
                wrong,
                remedy="If the text was given a new edition, take it: --accept-change."
                if changed
                else "Try again later, or from a mirror.",
            )
        return size, sha256

    def publish(self, path: Path, facts: dict[str, Any]) -> None:
        """Give the verified file its name."""
        sync(self._file)
        with written_aside(path.with_name(path.name + ".json")) as aside:
            aside.write_text(json_text(facts, indent=1) + "\n", encoding="utf-8")
        self._file.replace(path)
        sync(path.parent)
        self._tag.unlink(missing_ok=True)


def _plain(error: Exception) -> str:
    return str(error).rstrip(".") or type(error).__name__


def _length(response: Response) -> int | None:
    given = response.headers.get("Content-Length", "")
    return int(given) if given.isdecimal() else None


def _strong_tag(response: Response) -> str:
    tag = response.headers.get("ETag", "")
    return tag if tag and not tag.startswith("W/") else response.headers.get("Last-Modified", "")


@contextmanager
def _storage(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"The text cannot be kept in {path.parent}: {error.strerror or error}.",
            remedy="Free some space, or choose another folder with the environment variable OCTAVO_CACHE.",
        ) from error
