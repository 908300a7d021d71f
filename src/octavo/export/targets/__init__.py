"""Where a model can go. Every file here is looked at; whatever subclass of `Target` it holds is known by its name."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache

from octavo.export.targets.base import Target


@cache
def targets() -> dict[str, Target]:
    """All of them, by the word that `octavo export --to` takes."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    kinds: list[Callable[[], Target]] = [
        kind for kind in Target.__subclasses__() if kind.__module__.startswith(__name__)
    ]
    found = [kind() for kind in kinds]
    return {each.name: each for each in sorted(found, key=lambda each: (each.rank, each.name))}
