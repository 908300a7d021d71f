"""octavo explain: a run inside one HTML page, to type into, look inside and take apart."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from octavo.cli.common import Force, RunPath, Text, Which, show, the_run


def explain_command(
    run: RunPath = None,
    *,
    out: Annotated[Path, Parameter(help="The page to write.")] = Path("explain.html"),
    text: Text = None,
    checkpoint: Which = "best",
    weights: Annotated[
        Literal["auto", "float32", "float16", "int8"],
        Parameter(help="How the weights travel; auto: float16, and int8 for models above 2M parameters."),
    ] = "auto",
    counts: Annotated[
        bool,
        Parameter(
            help="Of a model with counts beside its network: put them in, and with them the training text.",
            negative="",
        ),
    ] = False,
    force: Force = False,
) -> int:
    """Write a page that runs the model: type, and see every number from the tokens to the probabilities.

    The page opens from the disk, needs no network, and sends nothing. What each head and layer is worth is measured on
    the run's validation text, or on the one named by --text.

    For example:

    octavo explain runs/bard --out bard.html
    """
    from octavo.run.explain import explain_run
    from octavo.run.run import Run
    from octavo.util.output import Output
    from octavo.util.terminal import Console

    where = the_run(run)
    output = Output(out, inputs=[where, *(text or ())], force=force)
    found = explain_run(
        Run.open(where, checkpoint=checkpoint), Console(), text=text, weights=weights, counts=counts
    )
    page = found.page()
    with output.writing() as file:
        file.write(page)
    for line in found.sentences():
        show(line)
    show(f"page: {out} ({len(page.encode()) / 1e6:.1f} MB)")
    return 0
