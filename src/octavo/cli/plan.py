"""octavo plan: what a training will cost, before it starts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from octavo.cli.common import (
    Json,
    Overrides,
    RecipeName,
    Text,
    Whole,
    print_json,
    print_table,
    show,
    split_overrides,
    split_recipe,
    starting_from,
)

TimeStep = Annotated[
    bool | None,
    Parameter(
        help="Time a real step here, however long it takes, or predict it; default: time it with a text, or where "
        "that is short.",
        negative="--no-time",
    ),
]


Base = Annotated[
    Path | None, Parameter(help="The run that the training would start from, for the recipes of octavo tune.")
]


Ship = Annotated[
    bool, Parameter(help="Say instead what other libraries can say of the model, and how.", negative="")
]
Price = Annotated[float | None, Parameter(help="Price of one device for an hour, for the predicted costs.")]


Minutes = Annotated[
    str | None,
    Parameter(help="Predict instead what the best model of the text reaches in each of these times: 1,5,30."),
]
On = Annotated[
    list[str] | None,
    Parameter(help="Machines to predict for instead of timing a step here: h100,4x8xh100; list shows all."),
]


def plan_command(
    recipe: RecipeName = None,
    *overrides: Overrides,
    text: Text = None,
    base: Base = None,
    vocabulary: Annotated[
        Whole | None, Parameter(help="Vocabulary size to count with when there is no text.")
    ] = None,
    on: On = None,
    price: Price = None,
    time: TimeStep = None,
    ship: Ship = False,
    minutes: Minutes = None,
    json: Json = False,
) -> int:
    """Parameters, memory, one step timed or predicted, time to finish, and whether the text is enough for the model.

    With --on, what other machines would take: speed, memory, hours, money.

    For example:

    octavo plan --text book.txt

    octavo plan tinystories-gpt2 --text stories.txt --on rtx4090,8xh100

    octavo plan tune-sft --base runs/minute --text chats.jsonl

    octavo plan shakespeare-char-modern --ship

    octavo plan --text book.txt --minutes 1,5,30
    """
    from octavo.planning.plan import plan
    from octavo.run.settings import default_recipe

    names = [name for word in on or () for name in word.split(",") if name]
    if "list" in names:
        return show_machines(json=json)
    recipe, overrides = split_recipe(recipe, overrides)
    named = (starting_from(base),) if base else ()
    text, settings = split_overrides(text, (*named, *overrides))
    if minutes is not None:
        from octavo.cli.minutes import show_promises

        return show_promises(recipe, text, settings, minutes, on=names, json=json)
    wanted, source = (recipe, None) if recipe is not None else default_recipe(settings)
    if ship:
        return show_targets(wanted, settings, json=json)
    given = {"vocab_size": vocabulary, "on": names, "price": price, "time_step": time}
    facts = plan(wanted, text, overrides=settings, **given)
    if json:
        print_json(facts)
        return 0
    if source is not None:
        show(f"{source}\n")
    print_table(plan_rows(facts))
    show_predictions(facts.get("predictions"))
    for warning in facts["warnings"]:
        show(f"\nwarning: {warning}")
    return 0


def show_targets(recipe: str | dict[str, Any], settings: list[str], *, json: bool) -> int:
    """What each target can say of a recipe."""
    from octavo.export.table import as_rows, lines, support
    from octavo.run.settings import resolve

    by_target = support(resolve(recipe, overrides=settings, needs_text=False))
    if json:
        print_json(as_rows(by_target))
        return 0
    for line in lines(by_target):
        show(line)
    return 0


def show_predictions(predictions: list[dict[str, Any]] | None) -> None:
    """The table of machines, if there is one."""
    if predictions:
        show()
        print_table([prediction_row(one) for one in predictions], head=PREDICTED)
        show("\nPredicted, not measured; docs/design/planning.md says what is assumed.")


def plan_rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """The plan's figures, in words."""
    memory, unit = facts["memory"], facts["counted"]
    one = unit.removesuffix("s")
    rows = [
        ("parameters", f"{facts['parameters']:,}"),
        ("  without the head", f"{facts['parameters_without_head']:,}"),
        ("vocabulary" if unit == "tokens" else "columns", f"{facts['vocabulary']:,}"),
        ("memory while training", f"{memory['total'] / 2**20:,.0f} MiB"),
        ("  weights and gradients", f"{(memory['weights'] + memory['gradients']) / 2**20:,.0f} MiB"),
        ("  optimizer", f"{memory['optimizer'] / 2**20:,.0f} MiB"),
        ("  activations", f"{(memory['activations'] + memory['allocator']) / 2**20:,.0f} MiB"),
        ("key/value cache, one text", f"{facts['cache_bytes'] / 2**20:,.2f} MiB"),
        ("one checkpoint on disk", f"{facts['checkpoint_bytes'] / 2**20:,.0f} MiB"),
        (f"FLOPs of one {one}", f"{facts['training_flops_per_token'] / 1e6:,.1f} million"),
        ("steps", counted(facts["steps"])),
        (f"{unit} seen", counted(facts["tokens_seen"])),
    ]
    if facts["table_bytes"]:
        rows.insert(7, ("  and tables of n-grams", f"{facts['table_bytes'] / 2**20:,.0f} MiB"))
    if memory["reference"]:
        rows.insert(4, ("  the model it starts from", f"{memory['reference'] / 2**20:,.0f} MiB"))
    if facts["trained_parameters"] != facts["parameters"]:
        rows.insert(2, ("  that are trained", f"{facts['trained_parameters']:,}"))
    if "step_seconds" in facts:
        step = f"{facts['step_seconds'] * 1000:,.1f} ms on {facts['device']}, {facts['precision']}"
        if facts["device"] == "cpu":
            step += f", {facts['threads']} thread{'s' * (facts['threads'] > 1)}"
        if facts["predicted"]:
            step += ", predicted (--time: timed)"
        rows.append(("one step here", step))
        rows.append((f"{unit} a second", f"{facts['tokens_per_second']:,.0f}"))
        rows.append(("time to train", facts["training_time"] or UNKNOWN))
    if facts["training_tokens"] is not None:
        rows.append((f"{unit} to learn from", f"{facts['training_tokens']:,}"))
        rows.append(("passes over them", f"{facts['passes']:,.1f}"))
    return rows


UNKNOWN = "–"


def counted(number: int | None) -> str:
    """A number, or a dash."""
    return UNKNOWN if number is None else f"{number:,}"


PREDICTED = (
    "on",
    "shared by",
    "fits",
    "memory of one",
    "at once",
    "a step",
    "tokens a second",
    "time",
    "price",
)


def prediction_row(prediction: dict[str, Any]) -> tuple[str, ...]:
    """A machine's prediction, in words."""
    from octavo.util.terminal import duration

    return (
        prediction["machine"],
        "–" if prediction["parallel"] == "none" else prediction["parallel"],
        "yes" if prediction["fits"] else "no",
        f"{prediction['memory']['total'] / 1e9:,.1f} GB",
        f"{prediction['micro_batch']}" + (", recomputed" if prediction["recompute"] else ""),
        f"{prediction['seconds']['step'] * 1000:,.1f} ms",
        f"{prediction['tokens_per_second']:,.0f}",
        UNKNOWN if prediction["hours"] is None else duration(prediction["hours"] * 3600),
        UNKNOWN if prediction["price"] is None else f"${prediction['price']:,.2f}",
    )


def show_machines(*, json: bool) -> int:
    """List the machines that `--on` takes."""
    from dataclasses import asdict

    from octavo.planning.machines import EXAMPLES, catalogue

    machines = catalogue()
    if json:
        print_json({name: asdict(machine) for name, machine in machines.items()})
        return 0
    rows = [
        (
            name,
            machine.what,
            f"{machine.flops.get('bfloat16', machine.flops['float32']) / 1e12:,g}",
            f"{machine.memory / 1e9:,.0f} GB",
            f"${machine.price:,.2f}",
        )
        for name, machine in machines.items()
    ]
    print_table(rows, head=("name", "what", "TFLOP/s at its peak", "memory", "an hour, for example"))
    show(f"\nhere is this machine's processor, measured. Several: {', '.join(EXAMPLES)}.")
    return 0
