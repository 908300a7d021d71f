"""octavo runs: what runs there are."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from octavo.cli.common import Json, print_json, print_table, show

if TYPE_CHECKING:
    from octavo.run.list import Seen


def runs_command(
    folder: Annotated[Path, Parameter(help="Where to look; runs in folders below it are found too.")] = Path(
        "runs"
    ),
    *,
    json: Json = False,
) -> int:
    """List runs, newest first: recipe, steps, best bits per byte, size, and whether they are finished.

    Only the sizes of checkpoints are checked here; octavo info RUN reads every byte.

    For example:

    octavo runs

    octavo runs studies/heads --json
    """
    from octavo.run.list import list_runs

    runs = list_runs(folder)
    if json:
        print_json([run.describe() for run in runs])
        return 0
    if not runs:
        show(f"There are no runs in {folder}.")
        return 0
    rows = [_row(run, folder) for run in runs]
    print_table(rows, head=("run", "recipe", "steps", "bits/byte", "written", "size", "state"))
    for run in runs:
        if run.damage:
            show(f"\n{run.path}: {run.damage}")
    return 0


def _row(run: Seen, top: Path) -> tuple[str, ...]:
    from octavo.run.list import last_written, size

    return (
        str(run.path if run.path == top else run.path.relative_to(top)),
        run.recipe or "–",
        f"{run.steps:,}",
        "–" if run.bits_per_byte is None else f"{run.bits_per_byte:.3f}",
        datetime.fromtimestamp(last_written(run.path)).strftime("%Y-%m-%d %H:%M"),
        f"{size(run.path) / 1e6:,.1f} MB",
        run.state,
    )
