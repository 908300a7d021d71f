"""Octavo: a workbench for small language models.

    import octavo
    run = octavo.train(text="book.txt", out="runs/mine")
    print(run.generate("ROMEO:"))

Importing this does nothing else: torch is loaded when it is first needed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_WHERE = {
    "train": "octavo.auto.api",
    "replay": "octavo.run.replay",
    "Run": "octavo.run.run",
    "Hook": "octavo.run.trainer",
    "plan": "octavo.planning.plan",
    "study": "octavo.studies.run:run_study",
    "load_parts": "octavo.config",
    "load_recipe": "octavo.config",
    "OctavoError": "octavo.errors",
}

__all__ = [
    "Hook",
    "OctavoError",
    "Run",
    "__version__",
    "load_parts",
    "load_recipe",
    "plan",
    "replay",
    "study",
    "train",
]

if TYPE_CHECKING:
    from octavo.auto.api import train
    from octavo.config import load_parts, load_recipe
    from octavo.errors import OctavoError
    from octavo.planning.plan import plan
    from octavo.run.replay import replay
    from octavo.run.run import Run
    from octavo.run.trainer import Hook
    from octavo.studies.run import run_study as study


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'octavo' has no attribute '{name}'")
    module, _, attribute = _WHERE[name].partition(":")
    return getattr(importlib.import_module(module), attribute or name)
