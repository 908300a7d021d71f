"""HTML to text: paragraphs with blank lines between, without scripts, styles and navigation."""

from __future__ import annotations

import codecs
import io
import re
from typing import TYPE_CHECKING

from octavo.corpus.formats import encoding_of
from octavo.errors import CorpusError

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

# What is no part of a page's text: programs, pictures, controls, and the way about the site.
_LEFT_OUT = {
    *("script", "style", "noscript", "template", "svg", "math", "head", "iframe", "object", "canvas"),
    *("nav", "footer", "aside", "button", "input", "select", "option", "textarea", "dialog", "-comment"),
}
_BLOCKS = {
    *("address", "article", "blockquote", "body", "center", "dd", "details", "div", "dl", "dt", "figcaption"),
    *("figure", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "html", "li", "main", "ol", "p", "pre"),
    *("section", "summary", "table", "tbody", "thead", "tfoot", "tr", "ul", "caption"),
}
_CLOSE = {"li", "tr", "dt", "dd"}  # ended by a line break only
_CHARSET = re.compile(
    rb"""<meta[^>]{1,200}charset\s*=\s*["']?\s*([\w-]{2,40})|encoding=["']([\w-]{2,40})["']""", re.I
)
MEANT = {
    **dict.fromkeys(("iso-8859-1", "latin1", "latin-1", "us-ascii", "ascii"), "cp1252"),
    "iso-8859-9": "cp1254",
    "shift_jis": "cp932",
    "shift-jis": "cp932",
    "sjis": "cp932",
    "euc-kr": "cp949",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "big5": "big5hkscs",
}
"""What browsers read where a page names an encoding (https://encoding.spec.whatwg.org)."""
_SPACES = re.compile(r"[^\S\xa0]+")
_MANY_BREAKS = re.compile(r"[^\S\n]*\n(?:[^\S\n]*\n)+\s*")


def decode_html(data: bytes) -> str:
    """A page's characters: by its mark, what it says of itself, or UTF-8 where that fits, else as detected."""
    head = data[:4096]
    for bom, codec in ((codecs.BOM_UTF8, "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if head.startswith(bom):
            return data.decode(codec, "replace")
    told = _CHARSET.search(head)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    try:
        if told:
            name = (told[1] or told[2]).decode("ascii").lower()
            return data.decode(MEANT.get(name, name), "replace")
        return data.decode(encoding_of(io.BytesIO(data), "the page").codec, "replace")
    except (LookupError, ValueError, CorpusError):
        return data.decode("utf-8", "replace")


def html_text(page: str) -> str:
    """The text of a page.

    Blocks become paragraphs, `br` a line break, list items and table rows lines, cells are parted by tabs;
    preformatted text keeps its spaces.
    """
    from selectolax.lexbor import LexborHTMLParser

    body = LexborHTMLParser(page).body
    if body is None:
        return ""
    out: list[str] = []
    _write(body, out)
    return _MANY_BREAKS.sub("\n\n", "".join(out)).replace("\ue000", "\n").strip()


def _write(body: LexborNode, out: list[str]) -> None:
    """Walk the tree without recursion, since a hostile page may be nested as deep as it likes."""
    node: LexborNode | None = body
    preformatted = 0
    while node is not None:
        tag = node.tag
        if tag == "-text":
            out.append(_preformatted(node.text_content) if preformatted else _inline(node.text_content, out))
        elif tag == "br":
            out.append("\n")
        elif tag in ("td", "th") and node.prev is not None and out and not out[-1].endswith("\n"):
            out.append("\t")
        elif tag in _BLOCKS:
            preformatted += tag == "pre"
            _break(out, "\n" if tag in _CLOSE else "\n\n")
        child = None if tag in _LEFT_OUT else node.first_child
        while child is None and node is not None:
            if node.tag in _BLOCKS:
                preformatted -= node.tag == "pre"
                _break(out, "\n" if node.tag in _CLOSE else "\n\n")
            if node.mem_id == body.mem_id:
                return
            child = node.next
            node = node.parent if child is None else node
        node = child


def _inline(text: str | None, out: list[str]) -> str:
    line = _SPACES.sub(" ", text or "")
    return line.lstrip(" ") if not out or out[-1].endswith(("\n", "\t", " ")) else line


def _preformatted(text: str | None) -> str:
    return (text or "").replace("\r\n", "\n").replace("\n\n", "\n\ue000").replace("\ue000\n", "\ue000\ue000")


def _break(out: list[str], end: str) -> None:
    if out:
        out.append(end)
