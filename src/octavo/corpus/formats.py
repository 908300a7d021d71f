"""What a file is: told by its content, and by its name where the content could be several things."""

from __future__ import annotations

import codecs
import re
import zipfile
from pathlib import PurePath
from typing import BinaryIO

from octavo.corpus.packages import open_zip, part
from octavo.errors import CorpusError

HEAD = 4096  # bytes that a format is told by

ARCHIVES = {"zip": "a zip archive", "tar": "a tar archive", "gzip": "gzip", "bzip2": "bzip2", "xz": "xz"}
"""Formats that hold other files."""
ARCHIVE_SUFFIXES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".tbz2", ".xz", ".txz")

_MAGIC = {
    b"%PDF-": "pdf",
    b"{\\rtf": "rtf",
    b"PAR1": "parquet",
    b"PK\x03\x04": "zip",
    b"PK\x05\x06": "zip",
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\0": "xz",
}
_BZIP2 = (b"1AY&SY", b"\x17rE8P\x90")
"""What follows in it: a block, or the end."""
_HTML = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html)\b", re.I | re.S
)
_MBOX = re.compile(
    rb"From [^\n]{1,200}\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? [^\n]{1,20}\d\d:\d\d[^\n]{0,40}\r?\n"
    rb">?[A-Z][A-Za-z-]{1,40}: "
)
"""A line of its own before the headers of a mail."""
_TYPES = {
    b"application/epub+zip": "epub",
    b"application/vnd.oasis.opendocument.text": "odt",
    b"application/vnd.oasis.opendocument.text-template": "odt",
}
_OTHER_OFFICE = {"xl/workbook.xml": "a spreadsheet", "ppt/presentation.xml": "a presentation"}


def format_of(file: BinaryIO) -> str | None:
    """The format that a file's content shows; None if it could be any text, or nothing at all.

    Raises:
        CorpusError: a damaged zip, or an office document of another kind; the sentence continues after the file's name.
    """
    file.seek(0)
    head = file.read(HEAD)
    for magic, kind in _MAGIC.items():
        if head.startswith(magic):
            if kind == "bzip2" and head[4:10] not in _BZIP2:
                continue
            return _inside_zip(file) if kind == "zip" else kind
    if head[257:262] == b"ustar":
        return "tar"
    if b"%PDF-" in head[:1024] and not _is_plain(head):  # readers of PDF allow for something before it
        return "pdf"
    if _MBOX.match(head):
        return "mbox"
    return "html" if _HTML.match(head) else None


def _is_plain(head: bytes) -> bool:
    """Whether a file's beginning is text that everybody can read; a PDF has bytes that are none soon."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return not any(character < " " and character not in "\t\n\r\f" for character in text)


def _inside_zip(file: BinaryIO) -> str:
    with open_zip(file) as package:
        names = set(package.namelist())
        if "word/document.xml" in names:
            return "docx"
        for name, what in _OTHER_OFFICE.items():
            if name in names:
                raise CorpusError(f"is {what}, not a text.", remedy="Save its text as .txt, .docx or .csv.")
        if "mimetype" in names and _small(package, "mimetype"):
            return _TYPES.get(part(package, "mimetype").strip(), "zip")
        return "epub" if "META-INF/container.xml" in names else "zip"


def _small(package: zipfile.ZipFile, name: str) -> bool:
    return package.getinfo(name).file_size < 200


def suffix_of(name: str) -> str:
    """The ending of a file's name, lower case."""
    return PurePath(name).suffix.lower()
