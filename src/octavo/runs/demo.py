"""The demo: recipe `pidgin-demo` from nothing to an evaluated model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from octavo.ground.console import Console
from octavo.runs.folder import free_name
from octavo.runs.run import Run
from octavo.runs.train import train

RECIPE = "pidgin-demo"


def demo(
    out: Path | None = None,
    *,
    overrides: Sequence[str] = (),
    resume: bool = False,
    console: Console | None = None,
) -> Run:
    """Train the demo's model and report on it; raises what `train` raises."""
    return train(RECIPE, out=out or free_name(RECIPE), overrides=overrides, resume=resume, console=console)
