"""Context mixing beside a compressor: bits per byte of the last twentieth of texts, after reading the first eighteen.

    python benchmarks/mixing.py TEXT...

The twentieth between is skipped, as a run chooses on it. What stands in the last one is predicted, then learned, as the
compressor does it. Where `zpaq` is installed (`apt-get install zpaq`), it reads the same with `-m5`: the size of both
parts together less that of the first. Its tables grow by powers of two of what it reads, so a text is cut where one of
the two sizes would cross one. Seconds are of a processor.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

import compressors
from common import finish, load, machine, print_table
from octavo.ngram.codes import Codes
from octavo.ngram.mixing import ContextMixing

PARTS = 20


def cut(text: bytes) -> bytes:
    """A text, or its beginning, of which neither part that is compressed has a power of two of bytes between."""
    learned, both = (len(text) * parts // PARTS for parts in (PARTS - 2, PARTS - 1))
    power = 1 << learned.bit_length()
    return text if both < power else text[: power * PARTS // (PARTS - 1) - PARTS]


def halves(text: bytes) -> tuple[bytes, bytes]:
    """What is read first, and what is judged."""
    return text[: len(text) * (PARTS - 2) // PARTS], text[len(text) * (PARTS - 1) // PARTS :]


def mixed(learned: bytes, judged: bytes) -> dict[str, float]:
    """Bits per byte, and megabytes a second."""
    whole = np.frombuffer(learned + judged, np.uint8)
    began = time.process_time()
    model = ContextMixing(Codes.of_bytes(), capacity=len(whole))
    nats = model.read(whole)
    seconds = time.process_time() - began
    bits = float(nats[len(learned) :].astype(np.float64).mean() / np.log(2))
    return {"bits": bits, "speed": len(whole) / seconds / 1e6, "memory": len(model.memory) / 1e6}


def measure(path: Path) -> dict[str, Any]:
    """A row of the table."""
    text = cut(path.read_bytes())
    parts = halves(text)
    own, packed = mixed(*parts), compressors.zpaq()
    other = None if packed is None else compressors.bits_per_byte(*parts, packed)
    return {
        "text": path.stem,
        "bytes": len(text),
        "context mixing": round(own["bits"], 4),
        "zpaq -m5": None if other is None else round(other, 4),
        "difference": None if other is None else round(own["bits"] - other, 4),
        "MB/s": round(own["speed"], 2),
        "MB": round(own["memory"]),
    }


def main() -> None:
    """Measure each text."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("texts", type=Path, nargs="+")
    given = parser.parse_args()
    rows = [measure(path) for path in given.texts]
    print_table(rows)
    behind = [row["difference"] for row in rows if row["difference"] is not None]
    median = round(statistics.median(behind), 4) if behind else None
    finish({"machine": machine(), "load": load(), "rows": rows, "median difference": median})


if __name__ == "__main__":
    main()
