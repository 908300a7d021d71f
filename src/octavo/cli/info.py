"""octavo info: what a run is and how far it came."""

from __future__ import annotations

from typing import Any

from octavo.cli.common import Json, RunPath, print_json, print_table, show, the_run
from octavo.util.terminal import exact_duration


def info_command(run: RunPath = None, *, json: Json = False) -> int:
    """Say what a run is: text, model, how far it came, its checkpoints, and whether they are whole.

    For example:

    octavo info runs/bard

    octavo info runs/bard --json
    """
    from octavo.run.list import run_info

    facts = run_info(the_run(run))
    if json:
        print_json(facts)
        return 0
    for name, value in facts.items():
        if isinstance(value, dict):
            continue
        label = name.replace("_seconds", "_time").replace("_", " ")
        show(f"{label:<22} {in_words(value, seconds=name.endswith('_seconds'))}")
    show("\ncheckpoints")
    print_table([(name, state) for name, state in facts["checkpoints"].items()] or [("none", "")])
    return 0


def in_words(value: Any, *, seconds: bool) -> str:
    """A fact as it is shown; --json has every digit."""
    if isinstance(value, list):
        return ", ".join(value)
    if isinstance(value, float):
        return exact_duration(value) if seconds else f"{value:.4f}"
    return str(value)
