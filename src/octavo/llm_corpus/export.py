"""The stories as files that other programs read: `corpus.txt` for training, `corpus.jsonl` with where each comes
from."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import TextIO

from octavo.llm_corpus.money import PICO
from octavo.llm_corpus.store import reading, write_aside
from octavo.util.records import json_text

SEPARATOR = "<|endoftext|>"
"""The line between stories; the corpus reader cuts there by itself."""

_STORIES = """
SELECT s.*, c.writer, c.model, c.prompt, c.prompt_hash, c.seed, c.sent,
       (SELECT sum(cost) FROM calls WHERE number = s.number) AS cost,
       (SELECT count(*) FROM calls WHERE number = s.number) AS calls,
       c.input_tokens, c.cached_tokens, c.output_tokens
FROM stories s JOIN calls c ON c.call = s.call ORDER BY s.number
"""


def export(store: Path, folder: Path) -> int:
    """Write `corpus.txt` and `corpus.jsonl` into a folder, each aside and then renamed; returns the number of
    stories."""
    count = 0

    def text(file: TextIO) -> None:
        nonlocal count
        for row in con.execute("SELECT text FROM stories ORDER BY number"):
            count += 1
            file.write(f"{row['text']}\n{SEPARATOR}\n")

    def records(file: TextIO) -> None:
        for row in con.execute(_STORIES):
            file.write(json_text(record(row), ensure_ascii=False) + "\n")

    with reading(store) as con:
        con.execute("BEGIN")  # both files from one moment
        write_aside(folder / "corpus.txt", text)
        write_aside(folder / "corpus.jsonl", records)
    return count


def record(row: sqlite3.Row) -> dict[str, object]:
    """A story with everything that is known about it; `cost_usd` counts the tries that did not pass as well."""
    return {
        "id": row["id"],
        "text": row["text"],
        "words": row["words"],
        "seeds": json.loads(row["seeds"]),
        "checks": json.loads(row["checks"]),
        "repairs": json.loads(row["repairs"]),
        "writer": row["writer"],
        "model": row["model"],
        "prompt": row["prompt"],
        "prompt_hash": row["prompt_hash"],
        "seed": row["seed"],
        "calls": row["calls"],
        "cost_usd": row["cost"] / PICO,
        "tokens": {
            "input": row["input_tokens"],
            "cached": row["cached_tokens"],
            "output": row["output_tokens"],
        },
    }
