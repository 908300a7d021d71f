"""Electronic books (.epub): the chapters in the order of the book's spine."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Any, BinaryIO, ClassVar, Literal
from urllib.parse import unquote
from zipfile import ZipFile

from octavo.config.parts import register
from octavo.corpus.documents import Report
from octavo.corpus.hypertext import decode_html, html_text
from octavo.corpus.packages import open_zip, parse_xml, part
from octavo.corpus.readers.base import DocumentConfig
from octavo.errors import CorpusError

_PAGES = {"application/xhtml+xml", "text/html"}
_FONTS = (
    "http://www.idpf.org/2008/embedding",
    "http://ns.adobe.com/pdf/enc#RC",
)  # scrambled fonts do no harm


def _elements(data: bytes) -> list[tuple[str, dict[str, str]]]:
    found: list[tuple[str, dict[str, str]]] = []
    parse_xml(data, lambda name, attributes: found.append((name, attributes)), lambda _: None, lambda _: None)
    return found


def _protected(package: ZipFile) -> bool:
    name = "META-INF/encryption.xml"
    if name not in package.namelist():
        return False
    methods = [
        a.get("Algorithm", "") for tag, a in _elements(part(package, name)) if tag == "EncryptionMethod"
    ]
    return any(method not in _FONTS for method in methods)


def _chapters(package: ZipFile) -> list[str]:
    """Names of the pages that the book is read in, each once, without its table of contents."""
    container = _elements(part(package, "META-INF/container.xml"))
    opf = next((a["full-path"] for tag, a in container if tag == "rootfile" and "full-path" in a), None)
    if opf is None:
        raise CorpusError("is damaged: it does not say where its contents are.")
    items: dict[str, str] = {}
    spine: list[str] = []
    for tag, attributes in _elements(part(package, opf)):
        kind = attributes.get("media-type")
        if tag == "item" and kind in _PAGES and "nav" not in attributes.get("properties", "").split():
            items[attributes.get("id", "")] = attributes.get("href", "")
        elif tag == "itemref" and attributes.get("linear") != "no":
            spine.append(attributes.get("idref", ""))
    folder = posixpath.dirname(opf)
    paths = (posixpath.join(folder, unquote(items[name])) for name in spine if name in items)
    return list(dict.fromkeys(map(posixpath.normpath, paths)))  # a spine may name one many times


@register("reader")
class EpubConfig(DocumentConfig):
    """Electronic books; needs selectolax."""

    kind: Literal["epub"] = "epub"
    suffixes: ClassVar[tuple[str, ...]] = (".epub",)
    label: ClassVar[str] = "an electronic book (.epub)"
    package: ClassVar[str | None] = "selectolax"

    @staticmethod
    def extract(file: BinaryIO, options: dict[str, Any], say: Report) -> Iterator[tuple[str, Iterator[str]]]:
        """The book as one text, chapters with blank lines between."""
        package = open_zip(file)
        if _protected(package):
            raise CorpusError("is locked by its publisher (DRM).", remedy="Give a copy without the lock.")

        def chapters() -> Iterator[str]:
            first = True
            for name in _chapters(package):
                try:
                    text = html_text(decode_html(part(package, name)))
                except CorpusError as error:
                    say(f"a chapter is left out: it {error.what}")
                    continue
                if text:
                    yield text if first else "\n\n" + text
                    first = False
            if first:
                raise CorpusError("holds no text.", remedy="If its pages are pictures, they need OCR.")

        yield "", chapters()
