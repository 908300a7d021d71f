"""Pages: HTML made from templates, in which no text from outside is taken for markup or holds control characters."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from octavo.util.terminal import shown

if TYPE_CHECKING:
    from jinja2 import Environment


@cache
def templates(*folders: Path, **filters: Callable[..., str]) -> Environment:
    """The templates in folders, with filters of their own; a name that a template lacks is an error.

    All of them extend `base.html`, which lies next to this file: head, header and footer of a page. Each is compiled
    once.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader([*folders, Path(__file__).parent]),
        autoescape=True,
        finalize=_for_pages,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= filters
    return environment


def _for_pages(value: Any) -> Any:
    return type(value)(shown(value)) if isinstance(value, str) else value  # Markup stays Markup
