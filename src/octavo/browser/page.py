"""The page as one answer: markup, script and style in one piece, under a policy that lets nothing else in."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path

from octavo.util.html import templates

ASSETS = Path(__file__).parent / "assets"
SECURE = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Headers of everything that a browser may take for a page."""


@cache
def asset(name: str) -> str:
    """A built file, as it stands in the page."""
    text = (ASSETS / name).read_text(encoding="utf-8").strip()
    assert "</script" not in text and "</style" not in text, f"{name} would end its own element"
    return text


@cache
def page() -> bytes:
    """The HTML."""
    from markupsafe import Markup

    parts = {"style": asset("open.css"), "script": asset("open.js")}
    marked = {name: Markup(text) for name, text in parts.items()}  # noqa: S704 — our own

    return templates(Path(__file__).parent).get_template("page.html").render(**marked).encode()


@cache
def policy() -> str:
    """The Content-Security-Policy of the page: its one script runs, and asks this server alone."""
    digest = base64.b64encode(hashlib.sha256(asset("open.js").encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; connect-src 'self'; "
        "img-src data: blob:; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
