"""octavo eval: how good a model is, next to baselines on the same text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from octavo.cli.common import Json, RunPath, Text, Which, print_json, print_table, show, show_skipped, the_run
from octavo.errors import InputError

if TYPE_CHECKING:
    from octavo.evaluation.canaries import Times
    from octavo.run.run import Run


def eval_command(
    run: RunPath = None,
    *,
    text: Text = None,
    test: Annotated[
        bool,
        Parameter(
            help="Read the test split, which was kept out of everything. Looks are counted.", negative=""
        ),
    ] = False,
    planted: Annotated[
        Path | None,
        Parameter(help="What it remembers of passages that octavo corpus plant put into its text: the plan."),
    ] = None,
    prove: Annotated[
        Path | None,
        Parameter(
            help="Write the judged text as this file, which only the run's own predictions can decode."
        ),
    ] = None,
    as_saved: Annotated[
        bool,
        Parameter(
            help="Prove the model as it was saved: a context mixer then learns nothing from that text.",
            negative="",
        ),
    ] = False,
    decode: Annotated[
        Path | None,
        Parameter(help="Write the text that such a file holds next to it, as FILE.txt."),
    ] = None,
    checkpoint: Which = "best",
    json: Json = False,
) -> int:
    """Evaluate a run's model on its whole validation split, or on another text.

    The baselines place the number: a model above "unigram" has learned nothing from order, one below the best n-gram
    uses context that counting cannot. On its own split the run gets its diagnostics too: how it learned, whether it
    recites or repeats itself, and what to do (docs/guide/evaluate.md).

    The checkpoint was chosen on the validation split. The result is what --test gives, at best once, when everything
    is chosen.

    For example:

    octavo eval runs/bard

    octavo eval runs/bard --test

    octavo eval runs/bard --text other-play.txt --json

    octavo eval runs/planted --planted planted.json

    octavo eval runs/bard --prove bard.proof

    octavo eval runs/bard --decode bard.proof
    """
    from octavo.run.run import Run

    writes = "--test" if test else "--planted" if planted is not None else None
    loaded = Run.open(the_run(run, writes=writes, text=True), checkpoint=checkpoint)
    if as_saved and prove is None:
        raise InputError("--as-saved says how --prove proves a model; add --prove FILE.")
    if planted is not None:
        if text is not None or test:
            raise InputError("--planted asks about the run's own training text; leave out --text and --test.")
        return show_memory(loaded, planted, json=json)
    if prove is not None or decode is not None:
        if test or (text is not None and decode is not None) or (prove is not None and decode is not None):
            raise InputError("--prove takes --text at most, and --decode nothing beside it.")
        return show_proof(loaded, prove, decode, text, as_saved=as_saved, json=json)
    result = loaded.evaluate(text, test=test)
    if json:
        print_json(result)
    else:
        show_evaluation(loaded, result, test=test)
    return show_skipped(result)


def show_proof(
    run: Run, prove: Path | None, decode: Path | None, text: Text, *, as_saved: bool, json: bool
) -> int:
    """Write a text as a file that the run's predictions decode, or decode one, and say so."""
    from octavo.run import prove as proofs
    from octavo.util.terminal import Console

    console = Console(quiet=json)
    if prove is not None:
        said, out = proofs.prove(run, prove, text, console, as_saved=as_saved), prove
    else:
        assert decode is not None
        out = decode.with_name(f"{decode.name}.txt")
        said = proofs.decode(run, decode, out, console)
    if json:
        print_json({"file": str(out), **said.as_dict()})
    elif prove is not None:
        how = "; each token was learned after it was predicted" if said.reads_on else ""
        show(
            f"{out}: {said.bytes:,} bytes of text in {said.written:,} bytes, {said.bits_per_byte:.3f} bits per "
            f"byte{how}"
        )
    else:
        show(f"{out}: {said.bytes:,} bytes, the text that was judged, decoded from {said.written:,} bytes")
    return 0


def show_evaluation(run: Run, result: Mapping[str, Any], *, test: bool) -> None:
    """Print an evaluation: the model among its baselines, and the diagnostics."""
    from octavo.report.test_looks import looked_at
    from octavo.run.folder import next_lines
    from octavo.task import task_of

    objective, task = run.config.objective.build(), task_of(run.config)
    text_units = "bits_per_byte" in result
    own = {"loss": result["loss" if test else "val_loss"], "bits_per_byte": result.get("bits_per_byte")}
    predictors = {"this model": own, **result["baselines"]}
    order = "bits_per_byte" if text_units else "loss"
    head = ("", f"{objective.unit.name}/{objective.unit.per}", "bits/byte")
    shown = slice(None) if text_units else slice(2)
    print_table([row[shown] for row in ranked(predictors, order)], head=head[shown])
    show()
    figures = [f"perplexity {result['perplexity']:.3f}"] if text_units else []
    figures += [f"{one.label} {one.written(result[one.name])}" for one in objective.metrics]
    show(", ".join([*figures, f"step {result['step']:,}"]))
    size = f" ({result['bytes']:,} bytes)" if task.in_bytes else ""
    show(f"on {result['tokens']:,} {objective.unit.counted}{size}; {result['parameters']:,} parameters")
    for sentence in task.remarks(result):
        show(sentence)
    if test:
        show(f"the test split, kept out of everything: {looked_at(result['looks'])}")
    for number, diagnostic in enumerate(result.get("diagnostics", ())):
        show()
        show(diagnostic["sentence"] if number == 0 else f"evidence: {diagnostic['sentence']}")
        for line in next_lines(result["next"]) if number == 0 else ():
            show(line)


def ranked(predictors: Mapping[str, Mapping[str, float | None]], order: str) -> list[tuple[str, str, str]]:
    """The predictors as rows of a table, the worst first."""
    return [
        (name.replace("_", " "), written(one["loss"], 4), written(one["bits_per_byte"], 3))
        for name, one in sorted(predictors.items(), key=lambda item: -(item[1][order] or 0.0))
        if one[order] is not None
    ]


def written(number: float | None, digits: int) -> str:
    """A number in a table, or nothing."""
    return "" if number is None else f"{number:.{digits}f}"


def show_memory(run: Run, plan: Path, *, json: bool) -> int:
    """Measure and print what a run remembers of planted passages."""
    from octavo.run.canaries import remembered
    from octavo.util.terminal import Console

    memory = remembered(run, plan, Console(quiet=json))
    if json:
        print_json(memory.as_dict())
        return 0
    head = ("planted", "recited", "95 % interval", "p (recited)", "of the rest", "nats/token", "p (nats)")
    print_table([memory_cells(row) for row in memory.rows], head=head)
    show()
    for sentence in memory.sentences():
        show(sentence)
    return 0


def memory_cells(row: Times) -> list[str]:
    """A row of the table."""
    low, high = row.interval
    p, known = ("" if each is None else f"{each:.3g}" for each in (row.p_recited, row.p_known))
    times = {0: "never", 1: "once"}.get(row.times, f"{row.times} times")
    recited = f"{row.recited} of {row.passages}"
    return [times, recited, f"{low:.0%} to {high:.0%}", p, f"{row.matched:.0%}", f"{row.nats:.3f}", known]
