"""Pages: one frame for all of them."""

from __future__ import annotations

from guards.common import PACKAGE


def test_the_frame_of_a_page_is_written_once() -> None:
    pages = {path.name: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.html")}
    assert [name for name, page in pages.items() if "<!DOCTYPE" in page or "<footer" in page] == ["base.html"]
    framed = sorted(name for name, page in pages.items() if page.startswith('{% extends "base.html" %}'))
    assert framed == [
        "comparison.html",
        "corpus.html",
        "ladder.html",
        "page.html",
        "report.html",
        "study.html",
        "template.html",
        "tuning.html",
    ]
