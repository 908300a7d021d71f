"""octavo corpus plant: passages of known counts in a text, to see later what a model remembers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from octavo.cli.common import Force, Json, Whole, WholeSeed, print_json, show, show_text


def plant_command(
    *,
    text: Annotated[str, Parameter(help="One file of plain text, or corpus:NAME.")],
    out: Annotated[Path, Parameter(help="The text to write; the plan is the .json beside it.")],
    counts: Annotated[
        tuple[Whole, ...],
        Parameter(help="How often passages are planted.", consume_multiple=True, negative=""),
    ] = (1, 4, 16, 64),
    each: Annotated[Whole, Parameter(help="Passages for each count.")] = 8,
    controls: Annotated[Whole, Parameter(help="Passages that are taken out and never planted.")] = 32,
    beginning: Annotated[Whole, Parameter(help="Characters of a passage that a model will be given.")] = 50,
    rest: Annotated[Whole, Parameter(help="Characters that it is to go on with.")] = 50,
    seed: Annotated[
        WholeSeed, Parameter(help="Of the lots that decide which passage is planted how often.")
    ] = 0,
    force: Force = False,
    json: Json = False,
) -> int:
    """Cut passages out of a text, and put some of them back as often as you say.

    Train on what this writes, and `octavo eval RUN --planted PLAN` says from which count on the model recites. The
    last quarter of the text stays as it is, to be held out.

    For example:

    octavo corpus plant --text book.txt --out planted.txt

    octavo train minute --text planted.txt --out runs/planted

    octavo eval runs/planted --planted planted.json
    """
    from octavo.evaluation.canaries import Planting
    from octavo.run.canaries import plant
    from octavo.util.records import plain
    from octavo.util.terminal import Console

    how = Planting(counts, each, controls, beginning, rest, seed=seed)
    planted = plant(text, out, how, Console(quiet=json), force=force)
    if json:
        print_json(plain(planted))
        return 0
    times = ", ".join(map(str, counts))
    show(
        f"{planted.passages} passages planted, each {times} times; {planted.controls} taken out for comparison"
    )
    show(f"{planted.share:.1%} of the text is planted")
    show_text(f"text: {planted.text}")
    show_text(f"plan: {planted.plan}")
    return 0
