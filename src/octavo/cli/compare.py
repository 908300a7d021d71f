"""octavo compare: runs side by side."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter, validators

from octavo.cli.common import Force, Json, Whole, print_json, print_table, show, show_text, the_run
from octavo.util.terminal import columns_of, shown

if TYPE_CHECKING:
    from octavo.evaluation.compare_tokens import Where
    from octavo.run.compare import Comparison
    from octavo.util.output import Output

LEAST = 24  # columns of a sample that stands next to another


def compare_command(
    *runs: Annotated[Path, Parameter(help="Run folders, two or more.")],
    prompt: Annotated[
        str | None,
        Parameter(
            help="Let each continue this text; default: show each run's newest sample.",
            allow_leading_hyphen=True,
        ),
    ] = None,
    tokens: Annotated[
        Whole | None,
        Parameter(help="Maximum number of tokens after --prompt.", validator=validators.Number(gte=1)),
    ] = None,
    where: Annotated[
        bool,
        Parameter(
            help="Of two runs also: where is one better, token by token of the validation text.", negative=""
        ),
    ] = False,
    page: Annotated[Path | None, Parameter(help="Also write all of it into this HTML file.")] = None,
    force: Force = False,
    json: Json = False,
) -> int:
    """Put runs side by side: losses, the settings that differ, and what they write.

    For example:

    octavo compare runs/bard runs/bard-wide

    octavo compare runs/bard runs/bard-wide --prompt "ROMEO:" --page bards.html

    octavo compare runs/bard runs/bard-wide --where
    """
    from octavo.run.compare import compare
    from octavo.run.compare import where as token_by_token
    from octavo.util.output import Output
    from octavo.util.terminal import Console

    runs = tuple(the_run(run) for run in runs)
    output = Output(page, inputs=runs, force=force) if page else None
    comparison = compare(runs, prompt=prompt, tokens=tokens)
    places = token_by_token(comparison, Console(quiet=json)) if where else None
    if output:
        write_page(output, comparison, places)
    if json:
        facts = {**comparison.describe(), "where": places}
        print_json({**facts, "page": str(page) if page else None})
        return 0
    print_table(
        [(what, *values) for what, values in comparison.figures], head=("", *comparison.names), folded=True
    )
    for note in comparison.notes:
        show(f"\n{note}")
    show("\nsettings that differ")
    differing = [(key, *values) for key, values in comparison.differences]
    print_table(differing, head=("", *comparison.names), folded=True) if differing else show("none")
    if places:
        print_places(places)
    show()
    print_samples(comparison)
    if page:
        show_text(f"\npage: {page}")
    return 0


def print_samples(comparison: Comparison) -> None:
    """The samples side by side on a wide terminal, else one after the other."""
    pairs = [(name, text) for name, text in zip(comparison.names, comparison.samples, strict=True) if text]
    beside = sys.stdout.isatty() and columns_of(sys.stdout) // max(len(pairs), 1) >= LEAST
    if not beside or len(pairs) < 2:
        for name, text in pairs:
            show_text(f"--- {name}\n{text}")
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), expand=True)
    for name, _ in pairs:
        table.add_column(Text(shown(name)), ratio=1, overflow="fold")
    table.add_row(*(Text(shown(text)) for _, text in pairs))
    Console(highlight=False, markup=False).print(table)


def print_places(places: Where) -> None:
    """Where one is better, as tables."""
    from octavo.evaluation.compare_tokens import HEAD, cells

    show("\nwhere: nats per token; the difference is second less first, ± two standard errors")
    for title, parts in places.tables():
        if parts:
            show(f"\n{title}")
            print_table([cells(part) for part in parts], head=HEAD, folded=True)


def write_page(output: Output, comparison: Comparison, places: Where | None) -> None:
    """The page into a file."""
    from octavo.run.compare import render

    page = render(comparison, places)
    with output.writing() as file:
        file.write(page)
