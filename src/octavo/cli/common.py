"""What several verbs share: the meaning of common arguments, and printing for people or machines."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

Text = Annotated[
    list[str] | None,
    Parameter(
        help="Files or folders: text, PDF, DOCX, EPUB, HTML, tables, archives; corpus:NAME; - for standard input.",
        consume_multiple=True,
        negative="",
    ),
]
Overrides = Annotated[
    str, Parameter(help="Settings on top of the recipe: key=value, such as training.steps=500.")
]
Json = Annotated[bool, Parameter(help="Print one JSON document instead of text.", negative="")]
RunPath = Annotated[Path, Parameter(help="A run folder, or one of its checkpoint folders.")]
Which = Annotated[str, Parameter(help="The checkpoint: best, last, or a step.")]


def split_overrides(
    text: Sequence[str] | None, overrides: Sequence[str]
) -> tuple[list[str] | None, list[str]]:
    """Tell key=value words apart from paths that they followed: `--text a.txt training.steps=5`."""
    if text is None:
        return None, list(overrides)
    settings = [word for word in text if "=" in word and not Path(word).exists()]
    return [word for word in text if word not in settings], [*settings, *overrides]


def print_json(data: Mapping[str, Any] | Sequence[Any]) -> None:
    """One JSON document on standard output."""
    print(json.dumps(data, indent=1, ensure_ascii=False))


def print_table(rows: Sequence[Sequence[str]], *, head: Sequence[str] | None = None) -> None:
    """Columns, the first to the left and the others to the right."""
    lines = [list(head)] if head else []
    lines += [list(row) for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        cells = [
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())
