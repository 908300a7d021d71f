"""Steps that take out what is around a text and no part of it: titles, publishers' headers, unwanted lines."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import field_validator

from octavo.config.parts import register
from octavo.corpus.cleaning.base import Step, StepConfig
from octavo.corpus.readers.text import without_gutenberg

# A title stands at the beginning of the text, or fills a line.
_FULL_LINE = re.compile(r"^[^\S\n]*(\*{1,2})(?=\S)[^*\n]{1,200}(?<=\S)\1[^\S\n]*$\n?", re.M)
_AT_START = re.compile(r"\A\s*(\*{1,2})(?=\S)[^*\n]{1,200}(?<=\S)\1[^\S\n]*\n?")
_FORMS = {
    "stars": (_AT_START, _FULL_LINE),
    "hashes": (re.compile(r"^ {0,3}#{1,6}[^\S\n]+[^\n]*$\n?", re.M),),
    "label": (re.compile(r"\A\s*Title:[^\n]*\n?", re.I),),
}


_LEADER = " \t\xa0.…"
_PAGE = re.compile(r"(?:\d{1,4}|[ivxlc]{1,7}|[IVXLC]{1,7})\Z")


def compiled(patterns: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    """Regular expressions that a user wrote, over lines. Raises ValueError that names a wrong one."""
    found = []
    for pattern in patterns:
        try:
            found.append(re.compile(pattern, re.M))
        except re.error as error:
            raise ValueError(f"'{pattern}' is not a regular expression: {error}") from error
    return tuple(found)


class _Removal(Step):
    """Removes every match."""

    def __init__(self, patterns: tuple[re.Pattern[str], ...], what: str) -> None:
        super().__init__()
        self._patterns, self._what = patterns, what

    def clean(self, text: str, number: int) -> str:
        for pattern in self._patterns:
            text, count = pattern.subn("", text)
            if count:
                self.found[self._what] += count
        return text


def leads_to_page(line: str) -> bool:
    """Whether a line is one of a table of contents: words, at least four dots, a page number; without a number, six."""
    line = line.rstrip()
    page = _PAGE.search(line[-8:])
    before = line[: len(line) - len(page[0])] if page else line
    words = before.rstrip(_LEADER)
    leader = before[len(words) :]
    dots = leader.count(".") + 3 * leader.count("…")
    return bool(words.strip()) and dots >= (4 if page else 6)


class _DotLeaders(Step):
    def clean(self, text: str, number: int) -> str:
        lines = text.split("\n")
        kept = [line for line in lines if not leads_to_page(line)]
        if len(kept) < len(lines):
            self.found["lines of contents removed"] += len(lines) - len(kept)
        return "\n".join(kept)


@register("cleaning")
class DotLeaders(StepConfig):
    """Lines of tables of contents, whose dots lead to a page number, are removed: "Preface . . . . . . 7"."""

    kind: Literal["dot_leaders"] = "dot_leaders"

    def build(self) -> Step:
        return _DotLeaders()


@register("cleaning")
class Titles(StepConfig):
    """Titles are removed: at the beginning of the text, or on lines of their own."""

    kind: Literal["titles"] = "titles"
    forms: tuple[Literal["stars", "hashes", "label"], ...] = ("stars",)
    """stars: *The Bird* or **The Bird**; hashes: # The Bird, as in Markdown; label: Title: The Bird."""
    patterns: tuple[str, ...] = ()
    """Regular expressions of further titles; what they match is removed."""

    @field_validator("patterns")
    @classmethod
    def _check(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        compiled(value)
        return value

    def build(self) -> Step:
        patterns = [pattern for form in self.forms for pattern in _FORMS[form]]
        return _Removal((*patterns, *compiled(self.patterns)), "titles")


class _Boilerplate(Step):
    def __init__(self, gutenberg: bool, lines: tuple[re.Pattern[str], ...]) -> None:
        super().__init__()
        self._gutenberg, self._lines = gutenberg, lines

    def clean(self, text: str, number: int) -> str:
        if self._gutenberg:
            text = "".join(without_gutenberg(iter([text]), self._cut_off))
        if self._lines:
            kept = [
                line for line in text.split("\n") if not any(pattern.search(line) for pattern in self._lines)
            ]
            self.found["lines"] += text.count("\n") + 1 - len(kept)
            text = "\n".join(kept)
        return text

    def _cut_off(self, headers: int, licences: int) -> None:
        self.found["characters of headers and licences"] += headers + licences


@register("cleaning")
class Boilerplate(StepConfig):
    """Publishers' headers and licences, and lines that are no part of the text, are cut off."""

    kind: Literal["boilerplate"] = "boilerplate"
    gutenberg: bool = True
    """Project Gutenberg's header and licence (from text files they are cut off when reading already; records, such
    as those of a .jsonl, still have them)."""
    lines: tuple[str, ...] = ()
    """Regular expressions; a line in which one of them is found is removed, for example ^Page [0-9]+$."""

    @field_validator("lines")
    @classmethod
    def _check(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        compiled(value)
        return value

    def build(self) -> Step:
        return _Boilerplate(self.gutenberg, compiled(self.lines))
