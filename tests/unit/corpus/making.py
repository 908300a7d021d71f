"""Small documents and archives for tests: each made from what it is to hold."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
ODF = "urn:oasis:names:tc:opendocument:xmlns"


def zipped(members: Mapping[str, str | bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def tarred(members: Mapping[str, bytes], *, compress: bool = False) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return gzip.compress(out.getvalue()) if compress else out.getvalue()


def docx(body: str) -> bytes:
    """A Word document; `body` is what stands in w:body, tags with the prefix w."""
    xml = f'<?xml version="1.0"?><w:document xmlns:w="{W}"><w:body>{body}</w:body></w:document>'
    return zipped({"[Content_Types].xml": "<Types/>", "word/document.xml": xml})


def odt(body: str) -> bytes:
    spaces = " ".join(f'xmlns:{name}="{ODF}:{name}:1.0"' for name in ("office", "text", "table"))
    xml = f"<office:document-content {spaces}><office:body>{body}</office:body></office:document-content>"
    return zipped({"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": xml})


def epub(chapters: Mapping[str, str], spine: Sequence[str]) -> bytes:
    """A book; chapters by file name, of which `spine` are read, in that order."""
    items = "".join(
        f'<item id="{name}" href="{name}" media-type="application/xhtml+xml"/>' for name in chapters
    )
    order = "".join(f'<itemref idref="{name}"/>' for name in spine)
    container = '<container><rootfiles><rootfile full-path="OEBPS/book.opf"/></rootfiles></container>'
    return zipped(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": container,
            "OEBPS/book.opf": f"<package><manifest>{items}</manifest><spine>{order}</spine></package>",
            **{f"OEBPS/{name}": page for name, page in chapters.items()},
        }
    )


Placed = tuple[float, float, str]
"""A text and where it stands: x, y, text."""


def pdf(pages: Sequence[Sequence[Placed]], size: int = 10) -> bytes:
    """A PDF whose pages hold texts at places, in the order in which they are given."""
    font = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"
    return _pdf(pages, [font], lambda text: f"({_escaped(text)})", size)


def pdf_of_glyphs(
    pages: Sequence[Sequence[tuple[float, float, Sequence[str]]]], size: int = 10, *, mapped: bool = True
) -> bytes:
    """A PDF in a font of numbered glyphs, from left to right as they are seen, each with the letters it stands for.

    Args:
        mapped: whether the font tells what its glyphs stand for.
    """
    units = sorted({unit for page in pages for _, _, text in page for unit in text})
    lines = "".join(
        f"<{number:04X}> <{unit.encode('utf-16-be').hex()}>\n" for number, unit in enumerate(units, start=1)
    )
    cmap = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /A def /CMapType 2 def\n"
        f"1 begincodespacerange <0000> <FFFF> endcodespacerange\n{len(units)} beginbfchar\n{lines}endbfchar\n"
        "endcmap end end"
    )
    fonts = [
        "<< /Type /Font /Subtype /Type0 /BaseFont /Made /Encoding /Identity-H /DescendantFonts [4 0 R] "
        + ("/ToUnicode 6 0 R >>" if mapped else ">>"),
        "<< /Type /Font /Subtype /CIDFontType2 /BaseFont /Made /CIDSystemInfo << /Registry (Adobe) "
        "/Ordering (Identity) /Supplement 0 >> /DW 500 /FontDescriptor 5 0 R >>",
        "<< /Type /FontDescriptor /FontName /Made /Flags 4 /FontBBox [0 -200 1000 800] /ItalicAngle 0 /Ascent 800 "
        "/Descent -200 /CapHeight 700 /StemV 80 >>",
        f"<< /Length {len(cmap)} >>\nstream\n{cmap}\nendstream",
    ]

    def coded(text: Sequence[str]) -> str:
        return "<" + "".join(f"{units.index(unit) + 1:04X}" for unit in text) + ">"

    return _pdf(pages, fonts, coded, size)


def _pdf(
    pages: Sequence[Sequence[tuple[float, float, Any]]],
    fonts: list[str],
    coded: Callable[[Any], str],
    size: int,
) -> bytes:
    """The fonts' objects begin with number 3."""
    first = 3 + len(fonts)
    kids = " ".join(f"{first + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        *fonts,
    ]
    for number, texts in enumerate(pages):
        lines = [f"BT /F1 {size} Tf {x} {y} Td {coded(text)} Tj ET" for x, y, text in texts]
        content = "\n".join(lines)
        objects += [
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Resources << /Font << /F1 3 0 R >> >> "
            f"/Contents {first + 1 + 2 * number} 0 R >>",
            f"<< /Length {len(content.encode('cp1252'))} >>\nstream\n{content}\nendstream",
        ]
    out = b"%PDF-1.4\n"
    places = []
    for number, body in enumerate(objects, start=1):
        places.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n".encode("cp1252")
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    end = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
    end += f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF\n"
    return out + end.encode()


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
