"""Archives: their members one after another, never written to disk under their names.

A member is copied, within limits, into memory or an anonymous temporary file, read, and forgotten. Names that
lead out of the archive, links, devices and locked members are passed over with a sentence. What an archive may
unpack to is limited by its own size, so a bomb ends early; archives in archives share that limit.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import posixpath
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, BinaryIO, cast

from octavo.corpus.packages import open_zip
from octavo.errors import CorpusError

RATIO = 200  # times its size that an archive may unpack to
ALWAYS = 64 << 20  # bytes that it may in any case
DEEPEST = 4  # archives in archives
_MEMBERS = 1_000_000
_IN_MEMORY = 8 << 20  # bytes of a member that are held in memory before a temporary file is made
_PIECE = 1 << 18
_HEADER = 1 << 20  # largest piece that a tar's own headers may ask for
_LZMA_MEMORY = 256 << 20
_DAMAGE = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError),
    *(ValueError, NotImplementedError, OverflowError, IndexError, KeyError),
)

Skip = Callable[[str, str], None]
"""Hears a member's name and why it is passed over."""


class Budget:
    """Bytes that an archive, with all archives in it, may still unpack to."""

    def __init__(self, size: int) -> None:
        self.limit = max(ALWAYS, RATIO * size)
        self.left = self.limit

    def take(self, size: int) -> None:
        """Count what was unpacked. Raises CorpusError when it is too much."""
        self.left -= size
        if self.left < 0:
            raise CorpusError(
                f"unpacks to more than {self.limit >> 20:,} MB, {RATIO} times its size: an archive made to do harm.",
                remedy="If you trust it, unpack it yourself and give the folder.",
            )


def shown(name: str) -> str:
    """A member's name, safe to print."""
    clean = "".join(c if c.isprintable() else "�" for c in name)
    return clean if len(clean) <= 120 else f"{clean[:117]}…"


def _leads_out(name: str) -> bool:
    name = name.replace("\\", "/")
    return name.startswith("/") or name[1:2] == ":" or ".." in name.split("/") or "\0" in name


def members(
    file: BinaryIO, kind: str, name: str, budget: Budget, skip: Skip
) -> Iterator[tuple[str, BinaryIO]]:
    """The regular files in an archive, each open for reading until the next is asked for.

    Args:
        kind: see `octavo.corpus.formats.ARCHIVES`.
        name: the archive's; a file that was compressed alone is called by it without its last ending.

    Raises:
        CorpusError: the archive is damaged, or unpacks to too much; the sentence continues after its name.
    """
    file.seek(0)
    if kind == "zip":
        yield from _zip(file, budget, skip)
    elif kind == "tar":
        yield from _tar(_Counted(file, None), skip)
    else:
        yield from _compressed(file, kind, name, budget, skip)


def _zip(file: BinaryIO, budget: Budget, skip: Skip) -> Iterator[tuple[str, BinaryIO]]:
    with open_zip(file) as archive:
        for number, entry in enumerate(archive.infolist()):
            if number >= _MEMBERS:
                raise CorpusError(f"has more than {_MEMBERS:,} members.", remedy="Split it.")
            name = entry.filename
            if entry.is_dir() or _hidden(name):
                continue
            if _leads_out(name):
                skip(name, "its name leads out of the archive")
                continue
            if (entry.external_attr >> 16) & 0o170000 not in (0, 0o100000):
                skip(name, "it is a link or a device, not a file")
                continue
            if entry.flag_bits & 1:
                skip(name, "it is encrypted; unpack it yourself")
                continue
            try:
                with archive.open(entry) as source, _copied(source, budget, entry.compress_size) as copy:
                    yield name, copy
            except _Bomb:
                skip(name, f"it unpacks to more than {RATIO} times its size")
            except _DAMAGE as error:
                skip(name, f"it is damaged ({reason(error)})")


def _tar(source: _Counted, skip: Skip) -> Iterator[tuple[str, BinaryIO]]:
    try:
        archive = tarfile.open(fileobj=cast("IO[bytes]", source), mode="r:")  # noqa: SIM115
        for number in range(_MEMBERS + 1):
            entry = archive.next()
            vars(archive)["members"].clear()  # it would remember all of them
            if entry is None:
                return
            if number == _MEMBERS:
                raise CorpusError(f"has more than {_MEMBERS:,} members.", remedy="Split it.")
            if entry.isdir() or _hidden(entry.name):
                continue
            if _leads_out(entry.name):
                skip(entry.name, "its name leads out of the archive")
            elif not entry.isfile() or entry.issparse():
                skip(entry.name, "it is a link or a device, not a file")
            else:
                member = archive.extractfile(entry)
                assert member is not None
                with _copied(member, None, 0) as copy:
                    yield entry.name, copy
    except CorpusError:
        raise
    except (*_DAMAGE, RecursionError) as error:
        raise CorpusError(f"is damaged ({reason(error)}).", remedy="Fetch it again.") from error


def _compressed(
    file: BinaryIO, kind: str, name: str, budget: Budget, skip: Skip
) -> Iterator[tuple[str, BinaryIO]]:
    source = _Counted(_decompressor(file, kind), budget)
    try:
        head = source.read(512)
        source.seek(0)
    except _DAMAGE as error:
        raise CorpusError(f"is damaged ({reason(error)}).", remedy="Fetch it again.") from error
    if head[257:262] == b"ustar":
        yield from _tar(source, skip)
        return
    stem, suffix = posixpath.splitext(name)
    inner = stem + (".tar" if suffix.lower() in (".tgz", ".tbz2", ".txz") else "")
    try:
        with _copied(cast("IO[bytes]", source), None, 0) as copy:
            yield inner, copy
    except CorpusError:
        raise
    except _DAMAGE as error:
        raise CorpusError(f"is damaged ({reason(error)}).", remedy="Fetch it again.") from error


def _decompressor(file: BinaryIO, kind: str) -> IO[bytes]:
    if kind == "gzip":
        return cast("IO[bytes]", gzip.GzipFile(fileobj=file, mode="rb"))
    if kind == "bzip2":
        return cast("IO[bytes]", bz2.BZ2File(file))
    return cast("IO[bytes]", _Xz(file))


class _Xz:
    """An xz file read forwards, in memory that its header cannot choose; one step back to the start is possible."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.seek(0)

    def seek(self, place: int) -> int:
        if place < getattr(self, "_at", 1):
            self._file.seek(0)
            self._xz = lzma.LZMADecompressor(memlimit=_LZMA_MEMORY)
            self._at = 0
        while self._at < place and self.read(min(_PIECE, place - self._at)):
            pass
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int) -> bytes:
        done = b""
        while len(done) < size:
            if self._xz.eof:
                rest = self._next_stream()
                if not rest:
                    break
                self._xz = lzma.LZMADecompressor(memlimit=_LZMA_MEMORY)
                done += self._xz.decompress(rest, size - len(done))
                continue
            chunk = self._file.read(_PIECE) if self._xz.needs_input else b""
            if self._xz.needs_input and not chunk:
                raise EOFError("it is cut off")
            done += self._xz.decompress(chunk, size - len(done))
        self._at += len(done)
        return done

    def _next_stream(self) -> bytes:
        """The beginning of what follows a stream and the zeros behind it; nothing at the end of the file."""
        rest = self._xz.unused_data.lstrip(b"\0")
        while not rest and (more := self._file.read(_PIECE)):
            rest = more.lstrip(b"\0")
        return rest


class _Counted:
    """A stream whose unpacked bytes are counted, and whose reader cannot ask for too many at once."""

    def __init__(self, source: IO[bytes], budget: Budget | None) -> None:
        self._source = source
        self._budget = budget
        self._furthest = 0

    def read(self, size: int = _PIECE) -> bytes:
        if size > _HEADER or size < 0:
            raise ValueError("a header of it is far too long")
        data = self._source.read(size)
        self._count()
        return data

    def seek(self, place: int, whence: int = 0) -> int:
        # Skipping unpacks too, so it goes in steps that are counted.
        while self._budget is not None and place - self._furthest > _PIECE:
            if not self.read(_PIECE) and self._source.tell() <= self._furthest:
                break
        self._source.seek(place)
        self._count()
        return self._source.tell()

    def tell(self) -> int:
        return self._source.tell()

    def seekable(self) -> bool:
        return True

    def _count(self) -> None:
        at = self._source.tell()
        if self._budget is not None and at > self._furthest:
            self._budget.take(at - self._furthest)
        self._furthest = max(at, self._furthest)


class _Bomb(Exception):
    """One member unpacks to too much; the others may be fine."""


@contextmanager
def _copied(source: IO[bytes], budget: Budget | None, compressed: int) -> Iterator[BinaryIO]:
    """A copy that can be read from any place.

    Args:
        budget: counts the copy; None if the source counts already.
        compressed: size of the member in the archive, 0 where it is not known.
    """
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as copy:
        most, size = max(ALWAYS // 4, RATIO * compressed), 0
        while chunk := source.read(_PIECE):
            size += len(chunk)
            if compressed and size > most:
                raise _Bomb
            if budget is not None:
                budget.take(len(chunk))
            copy.write(chunk)
        copy.seek(0)
        yield cast("BinaryIO", copy)


def _hidden(name: str) -> bool:
    """Whether a name is hidden, as files in folders are; also what macOS adds to every zip."""
    parts = name.replace("\\", "/").split("/")
    return "__MACOSX" in parts or any(p.startswith(".") and p not in (".", "..") for p in parts)


def reason(error: BaseException) -> str:
    """What a library says of damage, in one line."""
    return shown(" ".join(str(error).split()).rstrip(".")) or type(error).__name__
