"""octavo plan: what a training will cost, before it starts."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from octavo.cli.common import Json, Overrides, Text, print_json, print_table, split_overrides


def plan_command(
    recipe: Annotated[str, Parameter(help="A shipped recipe's name, or a YAML file.")],
    *overrides: Overrides,
    text: Text = None,
    vocabulary: Annotated[
        int | None, Parameter(help="Vocabulary size to count with where there is no text.")
    ] = None,
    json: Json = False,
) -> int:
    """Parameters, memory, one real step timed, time to finish, and whether the text is enough for the model.

    For example:

    octavo plan shakespeare-char --text shakespeare.txt

    octavo plan shakespeare-char model.layers=12 --json
    """
    from octavo.runs.plan import plan

    text, settings = split_overrides(text, overrides)
    facts = plan(recipe, text, overrides=settings, vocab_size=vocabulary)
    if json:
        print_json(facts)
        return 0
    print_table(plan_rows(facts))
    for warning in facts["warnings"]:
        print(f"\nwarning: {warning}")
    return 0


def plan_rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """The plan's figures, in words."""
    memory = facts["memory"]
    rows = [
        ("parameters", f"{facts['parameters']:,}"),
        ("  without the head", f"{facts['parameters_without_head']:,}"),
        ("vocabulary", f"{facts['vocabulary']:,}"),
        ("memory while training", f"{memory['total'] / 2**20:,.0f} MiB"),
        ("  weights and gradients", f"{(memory['weights'] + memory['gradients']) / 2**20:,.0f} MiB"),
        ("  optimizer", f"{memory['optimizer'] / 2**20:,.0f} MiB"),
        ("  activations", f"{memory['activations'] / 2**20:,.0f} MiB"),
        ("key/value cache, one text", f"{facts['cache_bytes'] / 2**20:,.2f} MiB"),
        ("one checkpoint on disk", f"{facts['checkpoint_bytes'] / 2**20:,.0f} MiB"),
        ("FLOPs of one token", f"{facts['training_flops_per_token'] / 1e6:,.1f} million"),
        ("steps", f"{facts['steps']:,}"),
        ("tokens seen", f"{facts['tokens_seen']:,}"),
        (
            "one step here",
            f"{facts['step_seconds'] * 1000:,.1f} ms on {facts['device']}, {facts['precision']}",
        ),
        ("tokens a second", f"{facts['tokens_per_second']:,.0f}"),
        ("time to train", facts["training_time"]),
    ]
    if facts["training_tokens"] is not None:
        rows.append(("tokens in the text", f"{facts['training_tokens']:,}"))
        rows.append(("passes over the text", f"{facts['passes']:,.1f}"))
    return rows
