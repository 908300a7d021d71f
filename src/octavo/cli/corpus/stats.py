"""octavo corpus stats: what a text is like."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from octavo.cli.common import (
    Force,
    Json,
    Overrides,
    Text,
    Whole,
    print_json,
    print_table,
    show,
    show_text,
    split_overrides,
)
from octavo.cli.corpus.common import RecipeOption, Steps
from octavo.errors import InputError

if TYPE_CHECKING:
    from octavo.corpus.inspection import Statistics


def stats_command(
    *overrides: Overrides,
    text: Text = None,
    recipe: RecipeOption = None,
    steps: Steps = None,
    near: Annotated[
        Whole | None,
        Parameter(
            help="Documents, from the first on, compared for near duplicates [default: 2000; 0: none]."
        ),
    ] = None,
    out: Annotated[Path | None, Parameter(help="A folder to write a page with pictures into.")] = None,
    force: Force = False,
    json: Json = False,
) -> int:
    """Count a text: documents, words, characters, how its vocabulary grows and covers it, lengths, duplicates,
    readability; of several files, each one's size and language (extra: data). Memory stays bounded; what is
    counted on a part only is said.

    For example:

    octavo corpus stats --text novels/ --out about-novels

    octavo corpus stats --text stories.txt --steps pidgin --json

    octavo corpus stats --recipe pidgin-demo
    """
    text, settings = split_overrides(text, overrides)
    from octavo.corpus.inspection import NEAR, inspect
    from octavo.run.corpus import PAGE, corpus_recipe, read_by, write_page
    from octavo.run.data import build_source
    from octavo.util.output import Output
    from octavo.util.terminal import Console

    if near is not None and near < 0:
        raise InputError(f"--near is {near}; it is a number of documents, 0 or more.")
    wanted = corpus_recipe(text, recipe, steps, settings)
    page = Output(out / PAGE, inputs=read_by(wanted, recipe, steps), force=force) if out else None
    console = Console(quiet=json)
    source = build_source(wanted, console)
    with console.working("counting", None):
        statistics = inspect(source, near=NEAR if near is None else near, progress=console.read)
    title = ", ".join(Path(each).name for each in text or []) or str(recipe)
    if page:
        write_page(page, statistics, title, source.cleaning())
    if json:
        more = {"cleaning": source.cleaning(), "page": str(page.path) if page else None}
        print_json({**statistics.describe(), **more})
        return 0
    _show(statistics)
    if page:
        show_text(f"\npage: {page.path}")
    return 0


def _show(statistics: Statistics) -> None:
    from octavo.run.corpus import file_rows, rows

    width = max(len(name) for name, _ in rows(statistics))
    for name, value in rows(statistics):
        show(f"{name.ljust(width)}  {value}")
    show()
    top = [
        [word, f"{count:,}", f"{count / statistics.words:.2%}"] for word, count in statistics.frequent[:10]
    ]
    print_table(top, head=["most frequent", "times", "share"]) if top else None
    if files := file_rows(statistics, 20):
        show()
        print_table(files, head=["file", "size", "documents", "language"])
    for note in statistics.notes:
        show(f"\nnote: {note}")
