"""Bytes to text: which encoding a file has, and its text in pieces with one kind of line break.

A file is read through once to be sure of its encoding (a stray byte can stand gigabytes in), then streamed.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from octavo.errors import ConfigError, CorpusError

PIECE = 1 << 20  # bytes read at once
_SAMPLE = 1 << 16  # bytes that an unknown encoding is judged by

# What files begin with that are no plain text, though some of them look like it for a while.
_MAGIC = {
    b"%PDF-": "a PDF document",
    b"PK\x03\x04": "a zip archive (as are .docx, .epub and .odt files)",
    b"\x1f\x8b": "compressed with gzip",
    b"BZh9": "compressed with bzip2",
    b"\xfd7zXZ": "compressed with xz",
    b"\x28\xb5\x2f\xfd": "compressed with zstandard",
    b"7z\xbc\xaf": "a 7z archive",
    b"Rar!\x1a": "a RAR archive",
    b"\x89PNG": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"GIF8": "a GIF picture",
    b"\x7fELF": "a program",
    b"\xd0\xcf\x11\xe0": "an old Microsoft Office document",
    b"SQLite format 3": "a database",
    b"{\\rtf": "an RTF document",
}
_BOMS = {  # UTF-32 before UTF-16, whose mark begins the same
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_CONTROL = bytes(set(range(32)) - set(b"\t\n\v\f\r\b\x1b")) + b"\x7f"
_MOSTLY = 0.05  # share of control bytes from which on a file is no text

# Encodings that texts are really found in: without the rare ones the guess on a short text is better.
_CANDIDATES = [
    *("cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258", "cp874"),
    *("koi8_r", "koi8_u", "iso8859_2", "iso8859_5", "iso8859_7", "cp437", "cp850", "cp866", "mac_roman"),
    *("cp932", "euc_jp", "gb18030", "big5", "cp949"),
]
_NOT_TEXT_REMEDY = "Save or convert it as plain text (.txt, UTF-8), and give that file."


@dataclass(frozen=True)
class Encoding:
    """How a file's bytes become text.

    Attributes:
        codec: Python's name of it.
        guessed: whether it was judged by a sample and not told by the bytes.
    """

    codec: str
    guessed: bool = False

    @property
    def label(self) -> str:
        """Its usual name: windows-1252, UTF-16."""
        name = self.codec.removesuffix("-sig").replace("_", "-")
        return f"windows-{name[2:]}" if name.startswith("cp125") else name.upper()


def encoding_of(file: BinaryIO, name: str, wanted: str = "auto") -> Encoding:
    """The encoding of a text file; reads it through once.

    Args:
        file: open for reading bytes, and seekable; left anywhere.
        name: what messages call the file.
        wanted: an encoding to take without a look, or "auto".

    Raises:
        CorpusError: the file is empty, no text, or in no encoding that can be told.
        ConfigError: `wanted` is not the name of an encoding.
    """
    file.seek(0)
    head = file.read(_SAMPLE)
    if not head:
        raise CorpusError(f"{name} is empty.", remedy="Give a file with text in it.")
    for magic, what in _MAGIC.items():
        if head.startswith(magic):
            raise CorpusError(f"{name} is {what}, not plain text.", remedy=_NOT_TEXT_REMEDY)
    if wanted != "auto":
        return Encoding(_codec(wanted))
    for bom, codec in _BOMS.items():
        if head.startswith(bom):
            return Encoding(codec)
    bare = head.translate(None, _CONTROL)
    if len(head) - len(bare) > _MOSTLY * len(head):
        raise CorpusError(f"{name} is a binary file, not text.", remedy=_NOT_TEXT_REMEDY)
    file.seek(0)
    wrong = _first_not_utf8(file, name)
    if wrong is None:
        return Encoding("utf-8")
    file.seek(max(0, wrong - _SAMPLE // 2))
    return _guess(file.read(_SAMPLE), name, wrong)


def read_text(file: BinaryIO, name: str, encoding: Encoding) -> Iterator[str]:
    """A file's text from its beginning, in pieces of at most 1 MiB or so, every line break as \\n.

    Raises:
        CorpusError: bytes that the encoding does not have.
    """
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder(encoding.codec)(), translate=True)
    done = 0
    file.seek(0)
    while True:
        chunk = file.read(PIECE)
        try:
            text = decoder.decode(chunk, final=not chunk)
            if encoding.codec != "utf-8":  # others may give half a character, such as UTF-7
                text.encode("utf-8")
        except UnicodeError as error:
            raise CorpusError(
                f"{name} is not {encoding.label} all through: it has bytes that this encoding lacks, "
                f"near byte {done + getattr(error, 'start', 0):,}.",
                remedy="Name the right encoding (corpus.encoding=…), or save the file as UTF-8.",
            ) from error
        if text:
            yield text
        if not chunk:
            return
        done += len(chunk)


def _codec(wanted: str) -> str:
    try:
        name = codecs.lookup(wanted).name
        b"a".decode(name, errors="replace")  # some codecs, such as hex, give no text
    except (LookupError, ValueError) as error:
        raise ConfigError(
            f"There is no text encoding {wanted!r}.",
            remedy="Name one such as utf-8 or windows-1252, or say auto (corpus.encoding=auto).",
        ) from error
    return "utf-8-sig" if name == "utf-8" else name


def _first_not_utf8(file: BinaryIO, name: str) -> int | None:
    """Where the first byte stands that is not UTF-8; None when all is."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    done = 0
    while True:
        chunk = file.read(PIECE)
        if b"\0" in chunk:
            raise CorpusError(
                f"{name} is a binary file, not text: byte {done + chunk.index(0):,} is NUL.",
                remedy="If it is UTF-16 text, say corpus.encoding=utf-16-le; else convert it to plain text.",
            )
        pending = len(decoder.getstate()[0])
        if chunk and not pending and chunk.isascii():
            done += len(chunk)
            continue
        try:
            decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            return done - pending + error.start
        if not chunk:
            return None
        done += len(chunk)


def _guess(sample: bytes, name: str, wrong: int) -> Encoding:
    from charset_normalizer import from_bytes  # slow to import, and most texts are UTF-8

    # Bytes that are UTF-8 nearly all through are damaged UTF-8; another encoding would spoil all the rest.
    as_utf8 = sample.decode("utf-8", errors="replace")
    bad = as_utf8.count("\ufffd")
    if sum(not c.isascii() for c in as_utf8) - bad > 4 * bad:
        raise CorpusError(
            f"{name} is UTF-8 but for some damaged bytes, the first at byte {wrong:,}.",
            remedy="Save it again as UTF-8 with an editor, or name another encoding (corpus.encoding=…).",
        )
    best = from_bytes(sample, cp_isolation=_CANDIDATES).best()
    if best is None:
        raise CorpusError(
            f"{name} is not text in any encoding that Octavo knows (not UTF-8 from byte {wrong:,} on).",
            remedy="If it is text, name its encoding (corpus.encoding=…); else convert it to plain text.",
        )
    # Where windows-1252 fits as well, it is by far the more usual.
    usual = from_bytes(sample, cp_isolation=["cp1252"]).best()
    if usual and (usual.chaos, -usual.coherence) <= (best.chaos, -best.coherence):
        best = usual
    return Encoding(best.encoding, guessed=True)
