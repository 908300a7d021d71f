"""What several verbs share: the meaning of common arguments, and printing for people or machines."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter, validators

from octavo.errors import InputError, OctavoError, StorageError
from octavo.util.files import exists, is_file
from octavo.util.terminal import columns_of, put, shown, shown_in_json

if TYPE_CHECKING:
    from cyclopts import Token

Text = Annotated[
    list[str] | None,
    Parameter(
        help="Files or folders: text, PDF, DOCX, EPUB, HTML, tables, archives; corpus:NAME; - for standard input.",
        consume_multiple=True,
        negative="",
    ),
]
RecipeName = Annotated[
    str | None,
    Parameter(
        help="A shipped recipe's name, or a YAML file. Without one: minute. For any text there are quick (seconds), "
        "minute and ten-minutes; octavo recipes lists all."
    ),
]
Overrides = Annotated[
    str, Parameter(help="Settings on top of the recipe: key=value, such as training.batch=8.")
]
Json = Annotated[bool, Parameter(help="Print one JSON document instead of text.", negative="")]
Force = Annotated[bool, Parameter(help="Write over a file that exists.", negative="")]
NARROWEST = 14
"""Columns that a column of a folded table keeps."""


def whole_number(_: object, words: Sequence[Token]) -> int:
    """The one word of an option. Raises ValueError if it is no whole number; left alone, the parser takes 1.5 for 2."""
    try:
        return int(words[0].value)
    except ValueError as error:
        raise ValueError(f"'{words[0].value}' is no whole number.") from error


def count(_: object, words: Sequence[Token]) -> int:
    """Read a whole number that counts something. Raises ValueError for one that 32 bits do not hold."""
    from octavo.config.limits import MOST

    number = whole_number(_, words)
    if abs(number) > MOST:
        raise ValueError(f"{number} is beyond {MOST:,}.")
    return number


Whole = Annotated[int, Parameter(converter=count)]
"""What an option takes that counts, in place of `int`."""
WholeSeed = Annotated[
    int,
    Parameter(
        help="The same one draws the same: a whole number below 2^64.",
        converter=whole_number,
        validator=validators.Number(gte=0, lt=2**64),
    ),
]
RunPath = Annotated[
    Path | None,
    Parameter(
        help="A run folder, the name of one in runs, or one of its checkpoint folders; default: the newest run in runs."
    ),
]
Which = Annotated[str, Parameter(help="The checkpoint: best, last, or a step.")]


def the_run(run: Path | None, *, writes: str | None = None, prompt: bool = False, text: bool = False) -> Path:
    """The run that is meant: the one that is named, by its path or its name in `runs`, else the newest, which is said.

    `writes` names an option by which the verb writes into the run, which must then be named. `prompt` and `text`:
    whether the verb has these options, for a word that is one of them and stands in the run's place. Raises InputError.
    """
    from octavo.util.runs import RUNS, found

    if run is not None:
        where = found(run)
        if text and is_file(where):
            raise InputError(f"{run} is a file, not a run.", remedy=f"--text {shlex.quote(str(run))}")
        if prompt and not exists(where) and len(str(run).split()) > 1:
            raise InputError(
                f"There is no run '{run}'.", remedy=f"a prompt: --prompt {shlex.quote(str(run))}"
            )
        return where
    from octavo.run.list import newest_run

    if writes is not None:
        raise InputError(f"{writes} writes into a run: name it.", remedy="octavo runs lists the runs here")
    newest = newest_run(RUNS)
    if newest is None:
        raise InputError(
            f"Which run? There is none in {RUNS}.",
            remedy="octavo train --text PATH makes one; name one that is elsewhere by its path",
        )
    complain(f"run: {newest}, the newest")
    return newest


def split_recipe(recipe: str | None, overrides: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """A key=value word that stands in the recipe's place is a setting: no recipe was named."""
    if recipe is not None and "=" in recipe and not exists(recipe):
        return None, (recipe, *overrides)
    return recipe, overrides


def split_overrides(
    text: Sequence[str] | None, overrides: Sequence[str]
) -> tuple[list[str] | None, list[str]]:
    """Tell key=value words apart from paths that they followed: `--text a.txt training.steps=5`.

    Raises InputError for a file among the settings, and for a key that stands in both places: which of the two was
    meant last, nobody can tell here.
    """
    for word in overrides:
        if "=" not in word and exists(word):
            raise InputError(
                f"{word} stands where settings do (key=value).",
                remedy=f"a text goes after --text: --text {shlex.quote(word)}",
            )
    if text is None:
        return None, list(overrides)
    settings = [word for word in text if "=" in word and not exists(word)]
    if any(_names_paths(word) for word in (*settings, *overrides)):
        raise InputError("--text and corpus.paths both say what to read.", remedy="leave one of them out")
    keys, others = ({word.partition("=")[0] for word in words} for words in (settings, overrides))
    if twice := sorted(keys & others):
        raise InputError(
            f"{twice[0]} is given twice, after --text and elsewhere.", remedy="give each setting once"
        )
    return [word for word in text if word not in settings], [*settings, *overrides]


def _names_paths(word: str) -> bool:
    """Whether a `key=value` word says what files a corpus is of."""
    key, _, value = word.partition("=")
    return key.strip() == "corpus.paths" or (key.strip() == "corpus" and "paths" in value)


def show(text: str = "") -> None:
    """Sentences on standard output. Verbs print by this and what follows alone: no control character gets through."""
    put(text, sys.stdout)


def show_text(text: str, *, end: str = "\n") -> None:
    """What a model or a file holds: its lines stay as they are."""
    put(text, sys.stdout, end=end, wrap=False)


class Unread(Exception):
    """Nobody reads standard output any more, and the command is there for nothing else: it ends, quietly."""


def show_piece(text: str, *, end: str = "") -> None:
    """`show_text` for a verb that is there for its output alone, piece by piece. Raises Unread."""
    show_text(text, end=end)
    if getattr(sys.stdout, "unread", False):
        raise Unread


def complain(text: str) -> None:
    """Print sentences to standard error, clean of control codes."""
    put(text, sys.stderr)


def say_skipped(skipped: Sequence[Any], count: int, of: int, what: str = "pairs") -> int:
    """Say what was passed over: the first ones one by one, and how many there were. Returns the exit code, 1 if any."""
    for one in skipped:
        complain(f"skipped: {one}")
    if count:
        complain(f"{count:,} of {of:,} {what} {'was' if count == 1 else 'were'} skipped")
    return int(count > 0)


def show_skipped(result: Mapping[str, Any]) -> int:
    """Say what an evaluation, as plain data, lists as skipped. Returns the exit code."""
    skipped = result.get("skipped") or {"first": (), "count": 0, "of": 0}
    listed = [f"{one['place']}: {one['why']}" for one in skipped["first"]]
    return say_skipped(listed, skipped["count"], skipped["of"])


def print_json(data: Mapping[str, Any] | Sequence[Any]) -> None:
    """One JSON document on standard output."""
    from octavo.util.json_text import json_text

    show_text(shown_in_json(json_text(data, indent=1, ensure_ascii=False)))


def print_table(
    rows: Sequence[Sequence[str]], *, head: Sequence[str] | None = None, folded: bool = False
) -> None:
    """Columns, the first to the left and the others to the right; on a narrow terminal some columns, then the rest.
    `folded`: long cells are broken, so that the table fits a terminal (80 columns where there is none)."""
    lines = [list(head)] if head else []
    lines += [list(row) for row in rows]
    if sys.stdout.isatty():
        lines = [[shown(cell) for cell in line] for line in lines]
    if folded:
        lines = fold(lines, columns_of(sys.stdout))
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    room = columns_of(sys.stdout) if folded or sys.stdout.isatty() else None
    for number, block in enumerate(blocks(widths, room)):
        show() if number else None
        for line in lines:
            cells = [line[c].rjust(widths[c]) if c else line[c].ljust(widths[c]) for c in block]
            show_text("  ".join(cells).rstrip())


def fold(lines: Sequence[Sequence[str]], room: int) -> list[list[str]]:
    """Rows whose cells are broken over several lines where the columns together are wider than the room, the widest
    columns first; none below `NARROWEST`."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    while sum(widths) + 2 * (len(widths) - 1) > room and max(widths) > NARROWEST:
        widths[widths.index(max(widths))] -= 1
    rows: list[list[str]] = []
    for line in lines:
        cells = [
            wrap(cell, width, break_on_hyphens=False) or [""]
            for cell, width in zip(line, widths, strict=True)
        ]
        rows += map(list, zip_longest(*cells, fillvalue=""))
    return rows


def blocks(widths: Sequence[int], room: int | None) -> list[list[int]]:
    """The columns of a table in groups that fit; each has the first column too."""
    columns = [[0]]
    for column in range(1, len(widths)):
        wide = sum(widths[c] + 2 for c in columns[-1]) + widths[column]
        if room is not None and wide > room and len(columns[-1]) > 1:
            columns.append([0])
        columns[-1].append(column)
    return columns


def starting_from(base: str | Path) -> str:
    """The override by which a training starts from a run, whatever its name looks like."""
    from octavo.util.json_text import json_text
    from octavo.util.runs import found

    return f"training.start_from={json_text(str(found(Path(base))), ensure_ascii=False)}"


@contextmanager
def named_by_user(name: str) -> Iterator[Path]:
    """The file of a name that somebody typed into a session. Whatever keeps it from being written, such as ~nobody or a
    name with a NUL in it, is an InputError."""
    try:
        yield Path(name).expanduser()
    except (InputError, StorageError, OSError, RuntimeError, ValueError) as error:
        what = error.what if isinstance(error, OctavoError) else f"{name} cannot be written: {error}."
        raise InputError(what, remedy="choose another name") from error
