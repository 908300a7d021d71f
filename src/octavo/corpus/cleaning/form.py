"""Steps that bring text into one form: Unicode, white space, control characters, punctuation, case, marks."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import Literal

from octavo.config.parts import register
from octavo.corpus.cleaning.base import Step, StepConfig

_APOSTROPHES = frozenset("'’‘`´ʼ")


class _Unicode(Step):
    def __init__(self, form: Literal["NFC", "NFKC"]) -> None:
        super().__init__()
        self._form = form

    def clean(self, text: str, number: int) -> str:
        return unicodedata.normalize(self._form, text)


@register("cleaning")
class Unicode(StepConfig):
    """One way to write each character."""

    kind: Literal["unicode"] = "unicode"
    form: Literal["NFC", "NFKC"] = "NFC"
    """NFC joins letters and accents that stand apart; NFKC also turns look-alikes (ligatures, wide letters,
    raised digits) into plain ones."""

    def build(self) -> Step:
        return _Unicode(self.form)


class _WhiteSpace(Step):
    def __init__(self, lines: str) -> None:
        super().__init__()
        self._lines = lines

    def clean(self, text: str, number: int) -> str:
        if self._lines == "fold":
            return " ".join(text.split())
        text = re.sub(r"[^\S\n]+", " ", re.sub(r"\r\n?|[\v\f\x85\u2028\u2029]", "\n", text))
        text = re.sub(r" *\n *", "\n", text)
        if self._lines == "paragraphs":  # a single line break is where a line was full, two are the author's
            text = re.sub(r"(?<!\n)\n(?!\n)", " ", text)
        return re.sub(r"\n{3,}", "\n\n", text).strip()


@register("cleaning")
class WhiteSpace(StepConfig):
    """Runs of spaces become one space, and nothing stays at the ends of lines and of the text."""

    kind: Literal["whitespace"] = "whitespace"
    lines: Literal["keep", "paragraphs", "fold"] = "keep"
    """keep: line breaks stay, at most one blank line in a row; paragraphs: only blank lines stay, other breaks
    become spaces; fold: all become spaces."""

    def build(self) -> Step:
        return _WhiteSpace(self.lines)


class _Control(Step):
    # What ends a line or a page without a line feed.
    _BREAKS = re.compile(r"[\v\f\x1c-\x1e\x85]")
    # What neither is seen nor spaces anything. Joiners (U+200C, U+200D) and direction marks stay: scripts need them.
    _UNSEEN = re.compile(
        r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u200b\u2060\ufeff\ufff9-\ufffd\ufffe\uffff]"
    )

    def clean(self, text: str, number: int) -> str:
        text, breaks = self._BREAKS.subn("\n", text)
        text, count = self._UNSEEN.subn("", text.replace("\x1f", " "))
        for what, found in (("characters removed", count), ("made line breaks", breaks)):
            if found:
                self.found[what] += found
        return text


@register("cleaning")
class Control(StepConfig):
    """Control characters, soft hyphens, zero-width spaces, byte order and replacement marks are removed; what ends a
    page or a record becomes a line break; tabs, line breaks, and what scripts need to join letters and set directions
    stay."""

    kind: Literal["control"] = "control"

    def build(self) -> Step:
        return _Control()


@cache
def _is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"


class _Punctuation(Step):
    def __init__(self, keep: str) -> None:
        super().__init__()
        self._keep = frozenset(keep)

    def clean(self, text: str, number: int) -> str:
        gone = {mark for mark in set(text) if mark not in self._keep and _is_mark(mark)}
        if not gone:
            return text
        joining = "".join(sorted(gone - _APOSTROPHES))
        if joining:  # between two words a mark may be all that parts them: one—two
            accents = "".join(sorted(one for one in set(text) if unicodedata.category(one)[0] == "M"))
            text = re.sub(rf"(?<=[\w{accents}])[{re.escape(joining)}]+(?=\w)", " ", text)
        return text.translate({ord(mark): None for mark in gone})


@register("cleaning")
class Punctuation(StepConfig):
    """Every punctuation mark and symbol that is not kept is removed; between two words it leaves a space, an
    apostrophe leaves nothing."""

    kind: Literal["punctuation"] = "punctuation"
    keep: str = ".,?"
    """The marks that stay, all in one word."""

    def build(self) -> Step:
        return _Punctuation(self.keep)


class _Case(Step):
    def clean(self, text: str, number: int) -> str:
        return text.lower()


@register("cleaning")
class Case(StepConfig):
    """Lower case."""

    kind: Literal["case"] = "case"

    def build(self) -> Step:
        return _Case()


class _Marks(Step):
    def __init__(self, start: str, end: str) -> None:
        super().__init__()
        self._start, self._end = start, end

    def clean(self, text: str, number: int) -> str:
        return " ".join(part for part in (self._start, text.strip(), self._end) if part)


@register("cleaning")
class Marks(StepConfig):
    """Words around each document, for text that other programs will read; the word tokenizer sets its own."""

    kind: Literal["marks"] = "marks"
    start: str = "<sos>"
    """Stands before the text, and a space after it."""
    end: str = "<eos>"
    """Stands after the text, and a space before it."""

    def build(self) -> Step:
        return _Marks(self.start, self.end)
