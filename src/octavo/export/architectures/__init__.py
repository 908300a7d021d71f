"""What other libraries' architectures can say: one file for each, which lists itself here by being there."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from octavo.export.architectures.base import Architecture


@cache
def architectures(library: str) -> dict[str, Architecture]:
    """All of one library ("hf" or "gguf"), by their names, those first that are preferred where several fit."""
    found: list[Architecture] = []
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda info: info.name):
        place = importlib.import_module(f"{__name__}.{module.name}")
        found += [each for each in vars(place).values() if isinstance(each, Architecture)]
    own = [each for each in found if each.library == library]
    return {each.name: each for each in sorted(own, key=lambda each: (each.rank, each.name))}
