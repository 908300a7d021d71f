"""octavo corpus stats: what a text is like."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from octavo.cli.common import Json, Overrides, Text, print_json, print_table, split_overrides
from octavo.cli.corpus_common import RecipeOption, Steps


def stats_command(
    *overrides: Overrides,
    text: Text = None,
    recipe: RecipeOption = None,
    steps: Steps = None,
    near: Annotated[
        int | None,
        Parameter(
            help="Documents, from the first on, compared for near duplicates [default: 2000; 0: none]."
        ),
    ] = None,
    out: Annotated[Path | None, Parameter(help="A folder to write a page with pictures into.")] = None,
    json: Json = False,
) -> int:
    """Count a text: documents, words, characters, how its vocabulary grows and covers it, lengths, duplicates,
    readability. Memory stays bounded; what is counted on a part only is said.

    For example:

    octavo corpus stats --text novels/ --out about-novels

    octavo corpus stats --text stories.txt --steps pidgin --json

    octavo corpus stats --recipe pidgin-demo
    """
    text, settings = split_overrides(text, overrides)
    from octavo.corpus.inspection import NEAR, inspect
    from octavo.errors import InputError
    from octavo.runs.console import Console
    from octavo.runs.corpus import corpus_recipe
    from octavo.runs.corpus_page import rows, write_page
    from octavo.runs.data import build_source

    if near is not None and near < 0:
        raise InputError(f"--near is {near}; it is a number of documents, 0 or more.")
    wanted = corpus_recipe(text, recipe, steps, settings)
    console = Console(quiet=json)
    source = build_source(wanted, console)
    with console.working("counting", None):
        found = inspect(source, near=NEAR if near is None else near, progress=console.read)
    title = ", ".join(Path(each).name for each in text or []) or str(recipe)
    page = write_page(out, found, title, source.cleaning()) if out else None
    if json:
        print_json({**found.describe(), "cleaning": source.cleaning(), "page": str(page) if page else None})
        return 0
    width = max(len(name) for name, _ in rows(found))
    for name, value in rows(found):
        print(f"{name.ljust(width)}  {value}")
    print()
    top = [[word, f"{count:,}", f"{count / found.words:.2%}"] for word, count in found.frequent[:10]]
    print_table(top, head=["most frequent", "times", "share"]) if top else None
    for note in found.notes:
        print(f"\nnote: {note}")
    if page:
        print(f"\npage: {page}")
    return 0
