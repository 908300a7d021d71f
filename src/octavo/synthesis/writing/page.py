"""The corpus report: one HTML file without scripts or requests, and the same figures as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from octavo.ground.pages import templates
from octavo.ground.records import json_text
from octavo.synthesis.writing.store import storage, write_aside


def write_page(folder: Path, found: Mapping[str, Any]) -> Path:
    """Write `index.html` and `report.json` into a folder; returns the page's path."""
    with storage(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_aside(
        folder / "report.json",
        lambda file: file.write(json_text(found, ensure_ascii=False, indent=1) + "\n"),
    )
    write_aside(folder / "index.html", lambda file: file.write(render(found)))
    return folder / "index.html"


def render(found: Mapping[str, Any]) -> str:
    """The page as text."""
    pages = templates(Path(__file__).parent, percent=percent, number=number, money=money)
    most = max([*found["rejects"].values(), *found["failures"].values()], default=1)
    return pages.get_template("page.html").render(found=found, most=most)


def percent(share: float | None) -> str:
    """A share as people read it."""
    return "–" if share is None else f"{share:.1%}".replace("%", " %")


def number(value: float | None, digits: int = 0) -> str:
    """A number with its thousands apart."""
    return "–" if value is None else f"{value:,.{digits}f}"


def money(value: float | None) -> str:
    """Dollars; small amounts with the digits that matter."""
    if value is None:
        return "–"
    return f"${value:,.2f}" if value >= 1 or value == 0 else f"${value:.5f}"
