"""Encoding on several cores: processes that are sent segments of a text and answer with their ids.

A request is a line of JSON, the segment's spans; the answer is a line of JSON, what follows it, and the bytes of the
ids and of the documents' starts. Segment n goes to process n mod N, so answers are read in the text's order without
a queue. Such a process is `python -m octavo.data.encode_worker_child TEXT TOKENIZER`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from octavo.data.text import Encoded, Span
from octavo.errors import OctavoError, TokenizerError
from octavo.tokenizers import UnknownTextError
from octavo.util.processes import plain_environment


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def encode_together(
    path: Path, segments: Iterable[list[Span]], tokenizer: Path, dtype: np.dtype, *, workers: int
) -> Iterator[Encoded | UnknownTextError]:
    """As `octavo.data.text.encode_alone`, by so many processes, which load the tokenizer from its folder.

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
