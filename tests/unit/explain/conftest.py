"""A real browser: Debian's Chromium, driven by Playwright. Where either is missing, its tests skip and say so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from octavo.explain.explainer import Explanation

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
READY = "#octavo-explain[data-ready]"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    driver = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.is_file():
        pytest.skip(f"there is no browser at {CHROMIUM}")
    with driver.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield opened
        opened.close()


class Opened:
    """A page with what it asked the network for and complained of."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.requests: list[str] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))


@pytest.fixture
def open_page(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    """Opens an explanation, or a text of HTML, from the disk; `query` follows the address."""
    contexts = []

    def opening(what: Explanation | str, *, query: str = "", before: str = "", **options: Any) -> Opened:
        file = tmp_path / "page.html"
        file.write_text(what if isinstance(what, str) else what.page(), encoding="utf-8")
        context = browser.new_context(**options)
        contexts.append(context)
        found = Opened(context.new_page())
        if before:
            found.page.add_init_script(before)
        found.page.goto(file.as_uri() + query)
        if options.get("java_script_enabled", True):
            found.page.wait_for_selector(READY, timeout=20_000)
        return found

    yield opening
    for context in contexts:
        context.close()
