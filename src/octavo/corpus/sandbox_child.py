"""The child that reads documents: jobs come through standard input, texts go back through standard output.

A job is a line of JSON, followed by the file's bytes where it names no path.
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import IO, Any, BinaryIO

from octavo.config.parts import load_told_parts, part
from octavo.corpus.limits import got_on, hold
from octavo.corpus.readers.base import DocumentConfig
from octavo.corpus.sandbox import DOCUMENT, DONE, FAILED, FRAME, SAID, TEXT, NeedsPassword
from octavo.errors import CorpusError

_PIECE = 1 << 18  # characters in one frame


def answer(job: dict[str, Any], file: BinaryIO, out: IO[bytes]) -> None:
    """Read one document and write its frames."""

    def send(kind: bytes, text: str = "") -> None:
        data = text.encode("utf-8", "replace")
        out.write(FRAME.pack(kind, len(data)) + data)

    try:
        config = part("reader", job["kind"])
        assert issubclass(config, DocumentConfig)
        for name, pieces in config.extract(file, job["options"], lambda sentence: send(SAID, sentence)):
            send(DOCUMENT, name)
            got_on()
            for piece in pieces:
                got_on()
                for start in range(0, len(piece), _PIECE):
                    send(TEXT, piece[start : start + _PIECE])
        send(DONE)
    except NeedsPassword:
        send(FAILED, json.dumps({"password": "needed"}))
    except CorpusError as error:
        send(FAILED, json.dumps({"what": error.what, "remedy": error.remedy}))
    except MemoryError:
        what = f"needs more than {job['megabytes']:,} MB of memory to be read."
        send(FAILED, json.dumps({"what": what, "remedy": "Allow more with corpus.document_megabytes=…"}))
    except Exception as error:  # whatever a library makes of a damaged file is a sentence about the file
        what = f"is damaged: {type(error).__name__}: {str(error)[:200]}."
        remedy = "Open and save it again with another program."
        send(FAILED, json.dumps({"what": what, "remedy": remedy}))
    out.flush()


def main() -> None:
    """Answer jobs until there are no more."""
    source, out = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = io.StringIO()  # what a library prints is no answer
    load_told_parts()
    while line := source.readline():
        job = json.loads(line)
        part("reader", job["kind"])  # before the limits: they are for the document alone
        if "path" in job:
            with Path(job["path"]).open("rb") as file:
                hold(job["seconds"], job["megabytes"], Path(job["path"]).stat().st_size)
                answer(job, file, out)
        else:
            hold(job["seconds"], job["megabytes"], job["size"])
            answer(job, io.BytesIO(source.read(job["size"])), out)


if __name__ == "__main__":
    main()
