"""The documentation builds as a site without a warning: no dead link, no page that the sidebar lacks, no network."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from guards.common import ROOT
from unit.explain.conftest import Opened, browser  # noqa: F401  (a fixture)

FETCHED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"(?:https?:)?//", re.IGNORECASE)
WRITTEN = sorted((ROOT / "docs").rglob("*.md"))

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, in a path as users have them."""
    pytest.importorskip("sphinx", reason="Sphinx is not installed: pip install -e '.[dev]'")
    folder = tmp_path_factory.mktemp("site")
    to = folder / "Übung mit Leerzeichen"
    strict = ("--quiet", "--fail-on-warning", "--keep-going", "-d", str(folder / "read"))
    command = [sys.executable, "-m", "sphinx", *strict, "-c", str(ROOT / "docs"), str(ROOT), str(to)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return to


class Page(HTMLParser):
    """What a page links to, and the places in it that can be linked to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = {""}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value is not None:
                self.links.add(value)
            elif name in ("id", "name") and value:
                self.anchors.add(value)


def test_it_builds_without_a_warning_and_fetches_nothing(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    written = {path.relative_to(ROOT).with_suffix(".html") for path in WRITTEN}
    assert written <= {page.relative_to(site) for page in pages}
    assert [page.name for page in pages if FETCHED.search(page.read_text(encoding="utf-8"))] == []
    assert "README.html" in (site / "index.html").read_text(encoding="utf-8")


def test_every_link_within_it_leads_somewhere(site: Path) -> None:
    pages = {path.resolve(): Page(path) for path in site.rglob("*.html")}
    dead, followed = [], 0
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or link == "#":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            followed += 1
            there = target.is_relative_to(site.resolve()) and target.is_file()
            if not there or (target in pages and unquote(parts.fragment) not in pages[target].anchors):
                dead.append(f"{path.relative_to(site.resolve())}: {link}")
    assert not dead and followed > 1000, dead


def test_it_is_read_and_searched_from_the_disk(site: Path, browser: Any) -> None:  # noqa: F811
    """By a browser without a network, that has every page opened and says what it asked for."""
    context = browser.new_context(offline=True)
    opened = Opened(context.new_page())
    opened.page.goto((site / "index.html").as_uri())
    opened.page.wait_for_url("**/README.html")  # where it leads
    for path in WRITTEN:
        page = site / path.relative_to(ROOT).with_suffix(".html")
        opened.page.goto(page.as_uri(), wait_until="load")
    title = opened.page.title()
    opened.page.goto((site / "search.html").as_uri() + "?q=OCTAVO_COMPILE")
    opened.page.wait_for_selector("#search-results li a", timeout=20_000)
    found = opened.page.locator("#search-results li a").first
    found.click()
    opened.page.wait_for_selector("article")
    assert "OCTAVO_COMPILE" in opened.page.inner_text("article") and title
    context.close()
    home = site.as_uri() + "/"
    assert len(opened.requests) > len(WRITTEN) and opened.complaints == []
    assert [url for url in opened.requests if not url.startswith((home, "data:"))] == []
