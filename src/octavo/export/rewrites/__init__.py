"""Rewrites: the same function in other words. Every file here is looked at; whatever `Rewrite` it holds is known."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from octavo.export.rewrites.base import Rewrite


@cache
def rewrites() -> tuple[Rewrite, ...]:
    """All of them, in the order of their names."""
    found: dict[str, Rewrite] = {}
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda info: info.name):
        place = importlib.import_module(f"{__name__}.{module.name}")
        found |= {each.name: each for each in vars(place).values() if isinstance(each, Rewrite)}
    return tuple(found[name] for name in sorted(found))
