"""Reading documents in a child process with limits on time and memory.

A library for a complicated format may crash, hang or eat all memory on a damaged file. So the file is read by a
child: it is sent a job, answers with text or a sentence, and is reused for the next file; one that crashed or
hung is replaced. The child may write no file at all, and no key of the environment is handed on to it. A document's
text is kept aside until it is whole, so that a file is taken entirely or not at all.

On Windows there is no limit on memory, and time is the clock's.
"""

from __future__ import annotations

import atexit
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any, BinaryIO

from octavo.corpus.documents import Report
from octavo.corpus.limits import AVAILABLE, allowed, in_all
from octavo.errors import CorpusError
from octavo.util.processes import plain_environment

FRAME = struct.Struct("<cI")  # what follows: its kind and its bytes
DOCUMENT, TEXT, SAID, FAILED, DONE = b"D", b"T", b"S", b"F", b"."
SENT_BYTES = 256 << 20  # a member of an archive is sent to the child through a pipe, up to this size
_IN_MEMORY = 8 << 20  # bytes of text that are held in memory before they go to an anonymous temporary file
_BUSY = (
    2  # times the processor's time that a file may take by the clock, on a machine that does other work too
)
_JOBS = 500  # files after which a child is replaced anyway, for what its libraries may have leaked


@dataclass(frozen=True)
class Job:
    """What a child is asked: the reader's kind, its options, and the limits."""

    kind: str
    options: dict[str, Any]
    seconds: float
    megabytes: int


class NeedsPassword(Exception):
    """The document is encrypted and the password, if one was given, does not open it."""


class Crashed(Exception):
    """The child ended in the middle of a job."""


class _Child:
    """One child process, and its pipes."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "octavo.corpus.sandbox_child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=plain_environment(PYTHONDONTWRITEBYTECODE="1", PYTHONUTF8="1"),
        )
        self.jobs = 0
        self.timed_out = False

    @property
    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        assert self.process.stdin and self.process.stdout
        return self.process.stdin, self.process.stdout

    def send(self, job: Job, file: BinaryIO) -> None:
        """Hand over a job and the file: by its path where it has one, else its bytes."""
        request = {
            "kind": job.kind,
            "options": job.options,
            "seconds": job.seconds,
            "megabytes": job.megabytes,
        }
        path = getattr(file, "name", None)
        by_path = isinstance(path, str) and pathlib.Path(path).is_absolute()
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        request |= {"path": path} if by_path else {"size": size}
        stdin, _ = self._pipes
        stdin.write(json.dumps(request).encode() + b"\n")
        while not by_path and (chunk := file.read(1 << 20)):
            stdin.write(chunk)
        stdin.flush()

    def frames(self) -> Iterator[tuple[bytes, bytes]]:
        """What the child answers, to the end of the job. Raises Crashed."""
        _, stdout = self._pipes
        while True:
            kind, size = FRAME.unpack(self._exactly(stdout, FRAME.size))
            yield kind, self._exactly(stdout, size)
            if kind in (DONE, FAILED):
                return

    @staticmethod
    def _exactly(pipe: IO[bytes], size: int) -> bytes:
        data = pipe.read(size)
        if len(data) < size:
            raise Crashed
        return data

    def expire(self) -> None:
        """Kill the child: it took longer than it may."""
        self.timed_out = True
        self.process.kill()

    def close(self) -> int:
        """End it; its exit status."""
        self.process.kill()
        for pipe in self._pipes:
            with suppress(OSError):  # what was not sent yet has nowhere to go
                pipe.close()
        return self.process.wait()


class _Keeper:
    """Keeps the child between jobs; one job at a time."""

    def __init__(self) -> None:
        self.child: _Child | None = None
        self.lock = threading.Lock()
        self.owner = os.getpid()

    def get(self) -> _Child:
        if self.owner != os.getpid():  # after a fork the child belongs to the parent
            self.child, self.owner = None, os.getpid()
        if self.child is not None and (self.child.jobs >= _JOBS or self.child.process.poll() is not None):
            self.drop()
        if self.child is None:
            self.child = _Child()
            atexit.register(self.drop)
        self.child.jobs += 1
        return self.child

    def drop(self) -> int:
        child, self.child = self.child, None
        atexit.unregister(self.drop)
        return child.close() if child is not None and self.owner == os.getpid() else 0


_keeper = _Keeper()


def extract(file: BinaryIO, name: str, job: Job, report: Report) -> Iterator[tuple[str, Iterator[str]]]:
    """The texts of a document with their names, after all of them were read.

    Raises:
        CorpusError: it cannot be read, or not within the limits.
        NeedsPassword: see there.
    """
    size = file.seek(0, os.SEEK_END)
    if size > SENT_BYTES and not isinstance(getattr(file, "name", None), str):
        raise CorpusError(
            f"{name} has {size / 1e6:,.0f} MB; a document inside an archive may have {SENT_BYTES / 1e6:,.0f} MB.",
            remedy="Take it out of the archive and give it by itself.",
        )
    most = in_all(job.seconds, size) * (_BUSY if AVAILABLE else 1)
    kept = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115
    with _keeper.lock:
        child = _keeper.get()
        timer = threading.Timer(most, child.expire)
        timer.daemon = True
        timer.start()
        try:
            child.send(job, file)
            for kind, data in child.frames():
                if kind == SAID:
                    report(f"{name}: {data.decode()}")
                elif kind == FAILED:
                    _fail(name, json.loads(data))
                else:
                    kept.write(FRAME.pack(kind, len(data)) + data)
        except (CorpusError, NeedsPassword):  # a sentence: the child is well
            raise
        except (Crashed, OSError) as error:
            status = _keeper.drop()
            seconds = most if child.timed_out else allowed(job.seconds, size)
            raise _crash(name, child.timed_out, status, seconds, job) from error
        except BaseException:
            _keeper.drop()
            raise
        finally:
            timer.cancel()
    kept.seek(0)
    return _replayed(kept)


def _fail(name: str, problem: dict[str, str]) -> None:
    if problem.get("password"):
        raise NeedsPassword
    raise CorpusError(f"{name} {problem['what']}", remedy=problem.get("remedy"))


def _crash(name: str, timed_out: bool, status: int, seconds: float, job: Job) -> CorpusError:
    if timed_out or status == -getattr(signal, "SIGXCPU", 0):
        return CorpusError(
            f"{name} was not read within {seconds:,.0f} s; it may be damaged.",
            remedy="Allow more time with corpus.document_seconds=…, or leave the file out.",
        )
    return CorpusError(
        f"{name} ends the program that reads it: it is damaged, or needs more than {job.megabytes:,} MB.",
        remedy="Open and save it again with another program, or allow more with corpus.document_megabytes=…",
    )


def _replayed(kept: IO[bytes]) -> Iterator[tuple[str, Iterator[str]]]:
    """The texts of a job's answer. A text that is not read to its end is passed over when the next is asked for."""
    kind, data = _next(kept)

    def text() -> Iterator[str]:
        nonlocal kind, data
        while True:
            kind, data = _next(kept)
            if kind != TEXT:
                return
            yield data.decode()

    with kept:
        while kind == DOCUMENT:
            pieces = text()
            yield data.decode(), pieces
            for _ in pieces:
                pass


def _next(kept: IO[bytes]) -> tuple[bytes, bytes]:
    kind, size = FRAME.unpack(kept.read(FRAME.size))
    return kind, kept.read(size)
