"""What the benchmark scripts share: the machine in words, a table for people, JSON as the last line."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

# Instruction sets that decide how fast matrix products are.
FLAGS = ("fma", "avx2", "avx512f", "avx512_bf16", "amx_tile", "amx_bf16", "asimd", "bf16", "sve")
T95 = dict(enumerate((12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201), start=2))
"""Student's t for 95 % intervals of a mean over so many seeds."""


def machine() -> dict[str, Any]:
    """Cores that this process may use, processor, its instruction sets of interest, accelerator, versions."""
    import torch

    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    facts = {
        key.strip(): value.strip() for key, colon, value in (line.partition(":") for line in lines) if colon
    }
    has = set((facts.get("flags") or facts.get("Features") or "").split())
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cores": cores,
        "processor": facts.get("model name") or platform.processor() or platform.machine(),
        "flags": [flag for flag in FLAGS if flag in has],
        "accelerator": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }


def is_override(word: str) -> bool:
    """Whether a word of a command line sets a key of a recipe; options that take several words would swallow it."""
    return re.match(r"[\w.]+=", word) is not None


def settle(device: str) -> None:
    """Wait until an accelerator has done what it was given."""
    import torch

    if device != "cpu":
        torch.cuda.synchronize()


def load() -> float | None:
    """The system's load over the last minute: above the number of cores, a time says little."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, smallest and largest of repeated figures."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "n": len(values)}


def mean(values: Sequence[float], digits: int = 2) -> str:
    """With its 95 % interval over seeds, where there are several."""
    said = f"{statistics.mean(values):.{digits}f}"
    if len(values) not in T95:
        return said
    return f"{said} ± {T95[len(values)] * statistics.stdev(values) / len(values) ** 0.5:.{digits}f}"


def rows_in(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of JSON lines; none where there is no such file yet."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [json.loads(line) for line in lines]


def keep_row(row: dict[str, Any], rows: list[dict[str, Any]], path: Path) -> None:
    """Add a row to those that are there and to their file, and say it."""
    rows.append(row)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    print(row, file=sys.stderr, flush=True)


def parser_of(doc: str | None, texts: str = "--text") -> argparse.ArgumentParser:
    """The options that `run_missing` asks for: a text, or a folder of `--texts`, `--out` and `--table`."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(texts, dest="text", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--table", type=Path, help="write the page of what is there")
    return parser


def above(title: str, doc: str | None, what: str) -> str:
    """What stands above the table of a page: its title, the script's description, the machine, and `what` was run."""
    here = machine()
    return f"# {title}\n\n{doc or ''}\nTaken on {here['processor']}, torch {here['torch']}, {what}."


def run_missing(
    given: argparse.Namespace,
    missing: Callable[[argparse.Namespace, list[dict[str, Any]]], None],
    table: Callable[[list[dict[str, Any]]], list[dict[str, Any]]],
    page: Callable[[list[dict[str, Any]]], str],
) -> None:
    """What a script with the options of `parser_of` does: the runs that are missing, their table, its page (what stands
    above the table, from all rows), a JSON line."""
    rows = rows_in(given.out)
    if given.text:
        missing(given, rows)
    found = table(rows)
    print_table(found)
    if given.table:
        given.table.write_text(f"{page(rows)}\n\n{in_markdown(found)}", encoding="utf-8")
    finish({"rows": found})


def print_table(rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows with the same keys as aligned columns; numbers to the right."""
    heads = list(rows[0])
    cells = [[shown(row[head]) for head in heads] for row in rows]
    widths = [max(len(line[i]) for line in [heads, *cells]) for i in range(len(heads))]
    right = [isinstance(rows[0][head], int | float) for head in heads]
    for line in [heads, ["-" * width for width in widths], *cells]:
        pairs = zip(line, widths, right, strict=True)
        print("  ".join(cell.rjust(width) if r else cell.ljust(width) for cell, width, r in pairs).rstrip())
    print(flush=True)


def in_markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows with the same keys as a table of a page."""
    heads = list(rows[0])
    body = "\n".join("| " + " | ".join(shown(row[head]) for head in heads) + " |" for row in rows)
    return f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}\n{body}\n"


def shown(value: Any) -> str:
    """A number as people read it: four digits that matter, thousands apart."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "–" if value is None else str(value)
    return (
        f"{value:,}" if isinstance(value, int) else f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    )


def finish(document: Mapping[str, Any]) -> None:
    """Print the document as the last line, complete and in one line, so that `tail -n 1` is JSON."""
    complete = {"command": " ".join(["python", *sys.argv]), "machine": machine(), **document}
    print(json.dumps(complete, ensure_ascii=False, allow_nan=False), flush=True)
