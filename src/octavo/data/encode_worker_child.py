"""A process that encodes segments of a text for another: see `octavo.data.encode_workers`."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import IO, Any

import numpy as np

from octavo.config.parts import load_told_parts
from octavo.data.text import Span, encode_segment, token_dtype
from octavo.errors import OctavoError
from octavo.tokenizers import Tokenizer, UnknownTextError, load_tokenizer


def _serve(source: IO[bytes], out: IO[bytes], path: Path, tokenizer: Tokenizer) -> None:
    """Answer requests until there are no more."""
    dtype = token_dtype(tokenizer.vocab_size)

    def send(head: dict[str, Any], *bodies: np.ndarray) -> None:
        out.write(json.dumps(head).encode() + b"\n")
        for body in bodies:
            out.write(body.data)
        out.flush()

    while line := source.readline():
        try:
            segment = encode_segment(path, [Span(*span) for span in json.loads(line)], tokenizer, dtype)
        except UnknownTextError as error:
            send({"missing": error.counts, "unit": error.unit})
        except Exception as error:  # a sentence for the process that asked
            send({"failed": str(error) if isinstance(error, OctavoError) else repr(error)})
        else:
            send({"ids": segment.ids.nbytes, "starts": segment.starts.nbytes}, segment.ids, segment.starts)


def main() -> None:
    """Answer segments on standard input with their ids, until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks
    load_told_parts()
    try:
        _serve(sys.stdin.buffer, sys.stdout.buffer, Path(sys.argv[1]), load_tokenizer(Path(sys.argv[2])))
    except BrokenPipeError:  # it is gone
        os._exit(1)


if __name__ == "__main__":
    main()
