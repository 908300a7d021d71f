"""octavo eval: how good a model is, next to baselines on the same text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from cyclopts import Parameter

from octavo.cli.common import Json, RunPath, Text, Which, print_json, print_table, show


def eval_command(
    run: RunPath,
    *,
    text: Text = None,
    test: Annotated[
        bool,
        Parameter(
            help="Read the test split, which was kept out of everything. Looks are counted.", negative=""
        ),
    ] = False,
    checkpoint: Which = "best",
    json: Json = False,
) -> int:
    """Evaluate a run's model on its whole validation split, or on another text.

    The baselines place the number: a model above "unigram" has learned nothing from order, one below the best n-gram
    uses context that counting cannot. On its own split the run gets its diagnostics too: how it learned, whether it
    recites or repeats itself, and what to do (docs/reading-a-report.md).

    The checkpoint was chosen on the validation split. The result is what --test gives, at best once, when everything
    is chosen.

    For example:

    octavo eval runs/bard

    octavo eval runs/bard --test

    octavo eval runs/bard --text other-play.txt --json
    """
    from octavo.report.about import looked_at
    from octavo.runs.next_step import next_lines
    from octavo.runs.run import Run

    loaded = Run.open(run, checkpoint=checkpoint)
    result = loaded.evaluate(text, test=test)
    if json:
        print_json(result)
        return 0
    objective, text_units = loaded.config.objective.build(), "bits_per_byte" in result
    own = {"loss": result["loss" if test else "val_loss"], "bits_per_byte": result.get("bits_per_byte")}
    found = {"this model": own, **result["baselines"]}
    order = "bits_per_byte" if text_units else "loss"
    head = ("", f"{objective.unit.name}/{objective.unit.per}", "bits/byte")
    shown = slice(None) if text_units else slice(2)
    print_table([row[shown] for row in ranked(found, order)], head=head[shown])
    show()
    said = [f"perplexity {result['perplexity']:.3f}"] if text_units else []
    said += [f"{one.label} {one.form.format(result[one.name])}" for one in objective.metrics]
    show(", ".join([*said, f"step {result['step']:,}"]))
    what = f"{result['tokens']:,} {objective.unit.counted} ({result['bytes']:,} bytes)"
    show(f"on {what}; {result['parameters']:,} parameters")
    if test:
        show(f"the test split, kept out of everything: {looked_at(result['looks'])}")
    for number, diagnostic in enumerate(result.get("diagnostics", ())):
        show()
        show(diagnostic["sentence"] if number == 0 else f"evidence: {diagnostic['sentence']}")
        for line in next_lines(result["next"]) if number == 0 else ():
            show(line)
    return 0


def ranked(found: Mapping[str, Mapping[str, float | None]], order: str) -> list[tuple[str, str, str]]:
    """The predictors as rows of a table, the worst first."""
    return [
        (name.replace("_", " "), written(one["loss"], 4), written(one["bits_per_byte"], 3))
        for name, one in sorted(found.items(), key=lambda item: -(item[1][order] or 0.0))
        if one[order] is not None
    ]


def written(number: float | None, digits: int) -> str:
    """A number in a table, or nothing."""
    return "" if number is None else f"{number:.{digits}f}"
