"""Where runs are, and which one a name means."""

from __future__ import annotations

from pathlib import Path

from octavo.util.files import exists

RUNS = Path("runs")
"""Where runs are that were given no other place."""


def found(run: Path) -> Path:
    """The run that a path means: itself, or where there is nothing, the run of that name in `runs`."""
    inside = RUNS / run
    lone = len(run.parts) == 1 and not exists(run)
    return inside if lone and (inside / "config.yaml").is_file() else run


def free_name(name: str, under: Path = RUNS) -> Path:
    """`runs/name`, or the first free `runs/name-2`, `-3`, …"""
    path, number = under / name, 2
    while path.exists():
        path, number = under / f"{name}-{number}", number + 1
    return path
