"""What the bytes of a file are: a format, told by its content, or text in an encoding, which is told or guessed, and
read in pieces with one kind of line break.

A text is read through once to be sure of its encoding (a stray byte can stand gigabytes in), then streamed.
"""

from __future__ import annotations

import codecs
import io
import re
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath
from typing import BinaryIO

from octavo.corpus.documents import Report
from octavo.corpus.packages import open_zip, part
from octavo.errors import ConfigError, CorpusError

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


PIECE = 1 << 20  # bytes read at once
_SAMPLE = 1 << 16  # bytes that an unknown encoding is judged by

# What files begin with that are no plain text, though some of them look like it for a while.
_NO_TEXT = {
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
# Those of Latin letters, the most usual first, and the letters beyond ASCII that languages write with, or borrow as
# English does. In the right encoding nearly all that stand in a text are letters of one, or signs where signs stand.
_LATIN = ("cp1252", "cp1250", "cp1254", "cp1257", "iso8859_2", "cp850", "cp852", "cp437", "mac_roman")
_ALPHABETS = (
    "äåö äöüß àâæçèéêëîïôœùûüÿ áéíñóúü áâãàçéêíóôõúü àèéìíòóùú áèéêëïóöüç áðéíóúýþæö äåæéòóôöø ąćęłńóśźż "
    "áčďéěíňóřšťúůýž áäčďéíľĺňóôŕšťúýž áéíóöőúüű ăâîșțşţ ćčđšž âçğıîöşüû ąčęėįšųūž äõöüšž āčēģīķļņšūž "
    "àáâäçèéêëîïñóôöùúûü"
).split()
_SIGNS = "«»„“”‘’‚‹›–—…§°£€¿¡·•ºª×½¼\xa0\xad´"
_BEYOND_ASCII = re.compile(r"(?:(?<=(.))|\A)([^\x00-\x7f])", re.DOTALL)
_LETTERS = 0.9  # share of characters beyond ASCII from which on an encoding is right

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
    for magic, what in _NO_TEXT.items():
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
    # Bytes that are UTF-8 nearly all through are damaged UTF-8; another encoding would spoil all the rest.
    as_utf8 = sample.decode("utf-8", errors="replace")
    bad = as_utf8.count("\ufffd")
    if sum(not c.isascii() for c in as_utf8) - bad > 4 * bad:
        raise CorpusError(
            f"{name} is UTF-8 but for some damaged bytes, the first at byte {wrong:,}.",
            remedy="Save it again as UTF-8 with an editor, or name another encoding (corpus.encoding=…).",
        )
    if (latin := _latin(sample)) is not None:
        return Encoding(latin, guessed=True)
    from charset_normalizer import from_bytes  # slow to import, and most texts are UTF-8

    best = from_bytes(sample, cp_isolation=_CANDIDATES).best()
    if best is None:
        raise CorpusError(
            f"{name} is not text in any encoding that Octavo knows (not UTF-8 from byte {wrong:,} on).",
            remedy="If it is text, name its encoding (corpus.encoding=…); else convert it to plain text.",
        )
    return Encoding(best.encoding, guessed=True)


def _latin(sample: bytes) -> str | None:
    """The encoding of a text in Latin letters, None where it is in others. What charset_normalizer takes a text in
    Finnish or Hungarian for is mostly wrong (`benchmarks/encodings.py`)."""
    shares = {}
    for codec in _LATIN:
        with suppress(UnicodeDecodeError):
            shares[codec] = _plausible(sample.decode(codec))
    best = max(shares, key=lambda codec: shares[codec], default=None)
    return best if best is not None and shares[best] >= _LETTERS else None


def _plausible(text: str) -> float:
    """Of the characters beyond ASCII, the share that are letters of one language, or signs that stand beside words; a
    capital after a small letter is neither."""
    letters: Counter[str] = Counter()
    signs = others = 0
    for found in _BEYOND_ASCII.finditer(text):
        before, here, after = found[1] or "", found[2], text[found.end() : found.end() + 1]
        if here in _SIGNS:
            misplaced = before.isalpha() and after.isalpha() and here not in "’·\xad"
            signs += not misplaced
        else:
            misplaced = not here.isalpha() or (here.isupper() and before.islower())
            letters[here.lower()] += not misplaced
        others += misplaced
    known = max(sum(letters[each] for each in alphabet) for alphabet in _ALPHABETS)
    return (known + signs) / max(1, letters.total() + signs + others)


def decoded(file: BinaryIO, name: str, wanted: str, report: Report) -> Iterator[str]:
    """A text file as text, with a word about an encoding that had to be guessed. Raises CorpusError."""
    encoding = encoding_of(file, name, wanted)
    if encoding.guessed:
        report(f"{name} is {encoding.label}, not UTF-8; converted")
    return read_text(file, name, encoding)
