"""octavo info: what a run is and how far it came."""

from __future__ import annotations

from octavo.cli.common import Json, RunPath, print_json, print_table, show


def info_command(run: RunPath, *, json: Json = False) -> int:
    """Say what a run is: text, model, how far it came, its checkpoints, and whether they are whole.

    For example:

    octavo info runs/bard

    octavo info runs/bard --json
    """
    from octavo.runs.info import run_info

    facts = run_info(run)
    if json:
        print_json(facts)
        return 0
    for name, value in facts.items():
        if isinstance(value, dict):
            continue
        value = ", ".join(value) if isinstance(value, list) else value
        show(f"{name.replace('_', ' '):<22} {value}")
    show("\ncheckpoints")
    print_table([(name, state) for name, state in facts["checkpoints"].items()] or [("none", "")])
    return 0
