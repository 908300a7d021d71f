"""Plain text, Markdown and ABC notation as they are written, without what programs put around exported ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import BinaryIO, ClassVar, Literal

from octavo.config.parts import register
from octavo.corpus.documents import Document, Report
from octavo.corpus.formats import decoded
from octavo.corpus.readers.base import Reader, ReaderConfig, ReaderOptions

_HEADER = 1 << 17  # characters in which the first header has to end
_MARKER = 1000  # characters that a marker and the line breaks after it can have
_BEFORE = 400  # characters before an END marker that may still be the publisher's
_LICENCE = 1 << 16  # characters in which a licence and the header of the next book have to end

_OPENING = r"\*\*\*\s{{0,4}}(?i:{}\s+OF\s+(?:TH(?:E|IS)\s+)?PROJECT\s+GUTENBERG)"
_TO_CLOSING = r"(?:(?:(?!\n[^\S\n]*\n)[^*]){0,500}\*\*\*)?[^\n]{0,200}\n{0,20}"
_START = re.compile(_OPENING.format("START") + _TO_CLOSING)
_END = re.compile(_OPENING.format("END"))
_END_LINE = re.compile(_OPENING.format("END") + _TO_CLOSING)
_SMALL_PRINT = re.compile(r"\*END[ *]{1,2}THE SMALL PRINT![^\n]{0,200}\n{0,20}")
_LAST_LINE = re.compile(
    r"\s*(?:^End of (?:th(?:e|is) )?Project Gutenberg[^\n]*(?:\n[^\n]+)?)?\s*\Z", re.I | re.M
)
_LICENCE_CLOSING = re.compile(
    r"subscribe\s+to\s+our\s+email\s+newsletter\s+to\s+hear\s+about\s+new\s+eBooks\.\s*"
    # Books of 2003 to 2006 say after that where older ones lie.
    r"(?:EBooks\s+posted\s+prior\s+to\s+November\s+2003.{0,2000}?/GUTINDEX\.ALL\s*)?",
    re.S,
)


def without_gutenberg(pieces: Iterable[str], said: Callable[[int, int], None]) -> Iterator[str]:
    """A text without Project Gutenberg's header and licence; any other text as it is.

    Args:
        said: called at the end, when something was cut off, with the characters of headers and of licences.
    """
    pieces = iter(pieces)
    held, headers, licences = "", 0, 0
    for piece in pieces:
        held += piece
        if len(held) >= _HEADER:
            break
    start = _START.search(held, 0, _HEADER) or _SMALL_PRINT.search(held, 0, _HEADER)
    if start:
        headers = start.end()
        held = held[headers:]

    in_book = True
    for piece in chain(pieces, [None]):
        held += piece or ""
        while True:
            if in_book:
                # A marker that begins after `sure` may not be here to its end yet.
                sure = len(held) if piece is None else len(held) - _MARKER
                found = _END.search(held)
                if found is None or found.start() > sure:
                    break
                edge = max(0, found.start() - _BEFORE)
                yield held[:edge] + _LAST_LINE.sub("", held[edge : found.start()], count=1) + "\n"
                held = held[found.start() :]
            else:
                if piece is not None and len(held) < _LICENCE + _MARKER:
                    break
                cut = _licence_end(held)
                licences += cut
                held = held[cut:]
            in_book = not in_book
            if not held:
                break
        if in_book:
            done = len(held) if piece is None else max(0, len(held) - _MARKER - _BEFORE)
            if done:
                yield held[:done]
            held = held[done:]
    if headers or licences:
        said(headers, licences)


def _licence_end(held: str) -> int:
    """Characters from an END marker to the next text: a book, or what was pasted after the licence. What is too long
    for a licence is none: the marker alone goes."""
    if (start := _START.search(held)) and start.start() <= _LICENCE:
        return start.end()
    if closing := _LICENCE_CLOSING.search(held, 0, _LICENCE):
        return closing.end()
    if len(held) <= _LICENCE:
        return len(held)
    marker = _END_LINE.match(held)
    assert marker is not None  # `held` begins with one
    return marker.end()


# What programs put around the text that people wrote: the times of exported chats, and front matter of
# Markdown.

_HEAD = 1 << 16  # characters by which a chat, or front matter, is told
_LEAST = 3  # messages of a chat
_SHARE = 0.3  # of its lines that begin one at least; the others go on with a message

_TIME = re.compile(
    r"[\u200e\u200f\ufeff]*"
    r"(?:\[(?=[^\]\n]{8,40}\]))?"
    r"\d{1,4}[./-]\s?\d{1,2}[./-]\s?\d{1,4}\.?,?\s(?:um |à |at |a las )?"
    r"\d{1,2}[:.h]\d{2}(?:[:.]\d{2})?"
    r"(?:\s?(?:[AaPp]\.?\s?[Mm]\.?|Uhr))?"
    r"(?:\]\s|\s[-–]\s)[\u200e\u200f]*"
)
"""Before each message of WhatsApp's export: "31/12/2023, 9:15 PM - " on Android, "[31.12.23, 21:15:03] " on iPhones."""
_AUTHOR = re.compile(r"[^:\n]{1,60}: ")
_MEDIA = re.compile(
    r"[^:\n]{1,60}: [\u200e\u200f]*(?:<[^<>\n]{3,60}>|[^\n]{1,80} \((?:file attached|Datei angehängt)\))\s*$"
)
_FRONT = re.compile(r"\ufeff?(---|\+\+\+)[^\S\n]*\n(?:[^\n]*\n)*?(?:\1|\.\.\.)[^\S\n]*(?:\n|\Z)")
_KEY = re.compile(r"(?:---|\+\+\+)[^\S\n]*\n(?:[^\S\n]*(?:#[^\n]*)?\n)*[\w\"'][\w .\"'\t-]*[:=]")


def without_front_matter(pieces: Iterable[str], said: Callable[[int], None]) -> Iterator[str]:
    """Markdown without the keys and values between lines of hyphens that it begins with.

    `said` hears of how many characters.
    """
    pieces = iter(pieces)
    held = _begun(pieces)
    front = _FRONT.match(held, 0, _HEAD)
    if front and _KEY.match(held.removeprefix("\ufeff")):
        said(front.end())
        held = held[front.end() :].lstrip("\n")
    yield from chain([held] if held else [], pieces)


def without_times(pieces: Iterable[str], said: Callable[[int, int], None]) -> Iterator[str]:
    """An exported chat without times, notices of the program and what stands for media; any other text as it is.

    `said` hears at the end how many messages there were, and how many lines were left out.
    """
    pieces = iter(pieces)
    head = _begun(pieces)
    lines = [line for line in head[:_HEAD].split("\n") if line.strip()]
    count = sum(1 for line in lines if _TIME.match(line))
    rest = chain([head] if head else [], pieces)
    if count < _LEAST or count < _SHARE * len(lines) or not _TIME.match(lines[0]):
        yield from rest
        return
    messages = left_out = size = 0
    dropping, out = False, []
    for begins, line in _lines(rest):
        if begins and (time := _TIME.match(line)):
            line = line[time.end() :]
            dropping = not _AUTHOR.match(line) or bool(_MEDIA.match(line))
            messages, left_out = messages + (not dropping), left_out + dropping
        if not dropping:
            out.append(line)
            size += len(line)
        if size > _HEAD:
            yield "".join(out)
            out, size = [], 0
    if out:
        yield "".join(out)
    said(messages, left_out)


def _lines(pieces: Iterable[str]) -> Iterator[tuple[bool, str]]:
    """Lines with their breaks, and True; of a line that is too long to be held the further parts with False."""
    held, begins = "", True
    for piece in pieces:
        *whole, held = (held + piece).split("\n")
        for line in whole:
            yield begins, line + "\n"
            begins = True
        if len(held) > _HEAD:
            yield begins, held
            held, begins = "", False
    if held:
        yield begins, held


def _begun(pieces: Iterator[str]) -> str:
    """The first pieces, as many as are looked at."""
    held = ""
    for piece in pieces:
        held += piece
        if len(held) >= _HEAD:
            break
    return held


MARKDOWN = (".md", ".markdown")


class PlainText(Reader):
    """A file is one text."""

    gives_records = False

    def __init__(self, *, encoding: str, strip_gutenberg: bool, report: Report) -> None:
        self._encoding = encoding
        self._report = report
        self._strip_gutenberg = strip_gutenberg

    def read(self, file: BinaryIO, name: str) -> Iterator[Document]:
        pieces = decoded(file, name, self._encoding, self._report)
        if name.lower().endswith(MARKDOWN):
            pieces = without_front_matter(pieces, lambda size: self._front(name, size))
        else:
            pieces = without_times(pieces, lambda messages, left_out: self._chat(name, messages, left_out))
        if self._strip_gutenberg:
            pieces = without_gutenberg(pieces, lambda header, licence: self._say(name, header, licence))
        yield Document(name, pieces)

    def _front(self, name: str, characters: int) -> None:
        self._report(f"{name}: front matter ({characters:,} characters) cut off")

    def _chat(self, name: str, messages: int, left_out: int) -> None:
        without = f"; {left_out:,} notices and media left out" if left_out else ""
        self._report(f"{name}: a chat of {messages:,} messages, read without times{without}")

    def _say(self, name: str, header: int, licence: int) -> None:
        self._report(
            f"{name}: Project Gutenberg header ({header:,} characters) "
            f"and licence ({licence:,} characters) cut off"
        )


@register("reader")
class TextConfig(ReaderConfig):
    """Plain text, Markdown, and tunes in ABC notation."""

    kind: Literal["text"] = "text"
    suffixes: ClassVar[tuple[str, ...]] = (".txt", ".text", *MARKDOWN, ".abc")
    label: ClassVar[str] = "plain text"

    def build(self, options: ReaderOptions, report: Report) -> PlainText:
        return PlainText(encoding=options.encoding, strip_gutenberg=options.strip_gutenberg, report=report)
