"""Mail (.eml, .mbox): what people wrote, without headers and attachments."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from importlib.util import find_spec
from typing import Any, BinaryIO, ClassVar, Literal

from octavo.config.parts import register
from octavo.corpus.documents import Report
from octavo.corpus.formats import encoding_of
from octavo.corpus.hypertext import MEANT, decode_html, html_text
from octavo.corpus.readers.base import DocumentConfig
from octavo.errors import CorpusError

MOST = 64 << 20
"""Bytes of a message that are read; attachments stand after what was written."""
_LINE = 1 << 16  # bytes that are read as one line
_SOFT = re.compile(r"(?<!--) \n(?!>)")  # a soft line break, which joins two lines (RFC 3676)


def written(message: EmailMessage) -> str:
    """The text of a message: its plain body, or that of its HTML. CorpusError where a package is missing for it."""
    part = message.get_body(("plain", "html"))
    if part is None:
        return ""
    data = part.get_payload(decode=True)
    assert isinstance(data, bytes)
    charset = part.get_content_charset("").lower()
    try:
        text = data.decode(MEANT.get(charset, charset) or "utf-8", "replace" if charset else "strict")
    except (LookupError, ValueError):
        try:
            text = data.decode(encoding_of(io.BytesIO(data), "a message").codec, "replace")
        except CorpusError:
            text = data.decode("utf-8", "replace")
    if part.get_content_subtype() == "html":
        if find_spec("selectolax") is None:
            raise CorpusError("is HTML, which needs selectolax, the extra 'documents'")
        return html_text(text if charset else decode_html(data))
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _SOFT.sub(" ", text) if part.get_param("format") == "flowed" else text


def messages(file: BinaryIO) -> Iterator[bytes]:
    """The messages of an mbox, at most `MOST` bytes of each; they begin at lines "From …" after an empty one."""
    held: list[bytes] = []
    size, blank = 0, True
    while line := file.readline(_LINE):
        if blank and line.startswith(b"From "):
            if held:
                yield b"".join(held)
            held, size = [], 0
        elif size < MOST:
            held.append(line[1:] if re.match(rb">+From ", line) else line)
            size += len(line)
        blank = line in (b"\n", b"\r\n")
    if held:
        yield b"".join(held)


def _texts(found: Iterator[bytes], say: Report) -> Iterator[str]:
    parser = BytesParser(policy=policy.default)
    for number, data in enumerate(found, 1):
        try:
            message = parser.parsebytes(data)
            assert isinstance(message, EmailMessage)
            if not message.keys():
                raise CorpusError("has no headers, as every mail has")
            text = written(message).strip()
        except CorpusError as error:
            say(f"message {number:,} is left out: it {error.what}")
        except Exception as error:  # whatever a damaged message leads the library to
            say(f"message {number:,} is left out: it is damaged ({type(error).__name__})")
        else:
            yield text


@register("reader")
class EmlConfig(DocumentConfig):
    """A mail, without its headers and attachments; needs selectolax where it is written in HTML alone."""

    kind: Literal["eml"] = "eml"
    suffixes: ClassVar[tuple[str, ...]] = (".eml",)
    label: ClassVar[str] = "a mail (.eml)"

    @staticmethod
    def extract(file: BinaryIO, options: dict[str, Any], say: Report) -> Iterator[tuple[str, Iterator[str]]]:
        text = "".join(_texts(iter([file.read(MOST)]), say))
        if not text:
            raise CorpusError("holds no written text.")
        yield "", iter([text])


@register("reader")
class MboxConfig(DocumentConfig):
    """A mailbox of many mails, each a document, without headers and attachments."""

    kind: Literal["mbox"] = "mbox"
    suffixes: ClassVar[tuple[str, ...]] = (".mbox", ".mbx")
    label: ClassVar[str] = "a mailbox (.mbox)"
    records: ClassVar[bool] = True

    @staticmethod
    def extract(file: BinaryIO, options: dict[str, Any], say: Report) -> Iterator[tuple[str, Iterator[str]]]:
        """What was written in each mail that holds text."""
        empty = True
        for number, text in enumerate(_texts(messages(file), say), 1):
            if text:
                empty = False
                yield f"message {number:,}", iter([text])
        if empty:
            raise CorpusError("holds no written text.")
