"""Encoding on several cores: processes that are sent segments of a text and answer with their ids.

A request is a line of JSON, the segment's spans; the answer is a line of JSON, what follows it, and the bytes of the
ids and of the documents' starts. Segment n goes to process n mod N, so answers are read in the text's order without
a queue. Such a process is `python -m octavo.data.encode_worker_child TEXT TOKENIZER`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np

from octavo.data.text import PIECE, Text, read_range
from octavo.errors import OctavoError, TokenizerError
from octavo.tokenizers import Tokenizer, UnknownTextError, encode_pieces
from octavo.util.processes import plain_environment

# A text in segments that are encoded each by itself, whoever does it and in whatever order: put together,
# their ids are those of the whole.

SEGMENT = 1 << 20  # bytes of text in a segment, at least, but for the last
_WINDOW = 1 << 12  # bytes in which a place to cut is looked for at a time
_INSIDE = bytes(range(0x80, 0xC0))  # every byte of a character but its first
_CUT = re.compile(r"\S(?=[ \n])")  # see `octavo.tokenizers.base`


class Span(NamedTuple):
    """Bytes of a text that are one document or lie in one, and whether special tokens stand before and after them."""

    start: int
    stop: int
    opens: bool
    closes: bool


@dataclass(frozen=True)
class Encoded:
    """A segment's ids as they are stored, and where in them the documents begin that begin in it, uint64."""

    ids: np.ndarray
    starts: np.ndarray


def token_dtype(vocab_size: int) -> np.dtype:
    """The type that token ids are stored in. Raises TokenizerError when none is wide enough."""
    for name in ("<u1", "<u2", "<u4"):
        if vocab_size <= 1 << 8 * np.dtype(name).itemsize:
            return np.dtype(name)
    raise TokenizerError(
        f"A vocabulary of {vocab_size:,} tokens is too large: an id has 32 bits, enough for {1 << 32:,}.",
        remedy="Choose a smaller vocabulary.",
    )


def segments_of(text: Text, tokenizer: Tokenizer) -> Iterator[list[Span]]:
    """The segments of a text. They depend on nothing but the text and the tokenizer's kind.

    Of several documents each stands between the tokenizer's special tokens. One without these sees the text as
    one.
    """
    marked = text.several and tokenizer.end is not None
    documents = zip(text.starts.tolist(), text.stops.tolist(), strict=True) if marked else [(0, text.bytes)]
    held: list[Span] = []
    size = 0
    with text.path.open("rb") as file:
        for start, stop in documents:
            at = start
            while at < stop:
                cut = stop
                if stop - at > SEGMENT and (tokenizer.cuts_anywhere or tokenizer.cuts_at_words):
                    cut = _cut(file, at + SEGMENT, stop, anywhere=tokenizer.cuts_anywhere)
                held.append(Span(at, cut, marked and at == start, marked and cut == stop))
                size += cut - at
                at = cut
                if size >= SEGMENT:
                    yield held
                    held, size = [], 0
    if held:
        yield held


def _cut(file: BinaryIO, at: int, stop: int, *, anywhere: bool) -> int:
    """The first place from byte `at` on where a document that ends at `stop` can be cut with the same ids, in
    sight of a window.
    """
    while at < stop:
        file.seek(at)
        window = file.read(min(_WINDOW, stop - at))
        text = window.decode("utf-8", "ignore")  # half a character at either end is passed over
        skipped = len(window) - len(window.lstrip(_INSIDE))
        if anywhere:
            return at + skipped
        if match := _CUT.search(text):
            return at + skipped + len(text[: match.end()].encode())
        at += len(window)
    return stop


def encode_segment(path: Path, spans: list[Span], tokenizer: Tokenizer, dtype: np.dtype) -> Encoded:
    """Encode a segment of the text in a file. Raises UnknownTextError with everything in it that the vocabulary
    lacks.
    """
    starts = array("Q")
    parts: list[np.ndarray] = []
    tokens = 0
    missing: Counter[str] = Counter()
    unit = ""
    before, after = tokenizer.around_document()
    with path.open("rb", buffering=PIECE) as file:
        for start, stop, opens, closes in spans:
            if opens or start == 0:
                starts.append(tokens)
            if stop - start <= PIECE:
                file.seek(start)
                pieces: Iterator[str] = iter([file.read(stop - start).decode()])
            else:
                pieces = read_range(path, start, stop)
            try:
                encoded = [ids.astype(dtype) for ids in encode_pieces(tokenizer, pieces)]
            except UnknownTextError as error:
                missing += error.counts
                unit = error.unit
                continue
            parts += [before.astype(dtype)] * opens + encoded + [after.astype(dtype)] * closes
            tokens = tokens + sum(map(len, encoded)) + len(before) * opens + len(after) * closes
    if missing:
        raise UnknownTextError(missing, unit)
    return Encoded(np.concatenate(parts), np.array(starts, "<u8"))


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def encode_alone(
    path: Path, segments: Iterable[list[Span]], tokenizer: Tokenizer, dtype: np.dtype
) -> Iterator[Encoded | UnknownTextError]:
    """The segments of the text in a file, encoded here: the slow twin of `encode_together`."""
    for spans in segments:
        try:
            yield encode_segment(path, spans, tokenizer, dtype)
        except UnknownTextError as error:
            yield error


def encode_together(
    path: Path, segments: Iterable[list[Span]], tokenizer: Path, dtype: np.dtype, *, workers: int
) -> Iterator[Encoded | UnknownTextError]:
    """The same by so many processes, which load the tokenizer from its folder.

    Raises:
        OctavoError: a process ended before its answer.
    """
    with ExitStack() as stack:
        turns = cycle([stack.enter_context(_Worker(path, tokenizer, dtype)) for _ in range(workers)])
        for spans in segments:
            worker = next(turns)
            answer = worker.answer()
            worker.ask(spans)
            if answer is not None:
                yield answer
        for worker in (next(turns) for _ in range(workers)):
            if (answer := worker.answer()) is not None:
                yield answer


class _Worker:
    """One process, and its pipes; ends with the context."""

    def __init__(self, path: Path, tokenizer: Path, dtype: np.dtype) -> None:
        self._dtype = dtype
        self._asked = False
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "octavo.data.encode_worker_child", str(path), str(tokenizer)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # One core each; the libraries would take all.
            env=plain_environment(TOKENIZERS_PARALLELISM="false"),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                if pipe:
                    pipe.close()
            except OSError:  # what was not sent yet has nowhere to go
                pass

    def ask(self, spans: list[Span]) -> None:
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps(spans).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise self._ended() from error
        self._asked = True

    def answer(self) -> Encoded | UnknownTextError | None:
        """What it makes of the segment that it was sent; None if it was sent none."""
        if not self._asked:
            return None
        self._asked = False
        pipe = self._process.stdout
        assert pipe
        line = pipe.readline()
        if not line.endswith(b"\n"):
            raise self._ended()
        head: dict[str, Any] = json.loads(line)
        if "failed" in head:
            raise TokenizerError(f"The text cannot be encoded: {head['failed']}")
        if "missing" in head:
            return UnknownTextError(head["missing"], head["unit"])
        ids, starts = pipe.read(head["ids"]), pipe.read(head["starts"])
        if (len(ids), len(starts)) != (head["ids"], head["starts"]):
            raise self._ended()
        return Encoded(np.frombuffer(ids, self._dtype), np.frombuffer(starts, "<u8"))

    def _ended(self) -> OctavoError:
        status = self._process.wait()
        return OctavoError(
            f"A process that encodes the text ended with status {status}, perhaps for want of memory.",
            remedy="Start it again with more memory free; it continues from what is done.",
        )
