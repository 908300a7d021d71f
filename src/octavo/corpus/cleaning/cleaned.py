"""A source whose documents went through cleaning steps, with what each step did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from octavo.corpus.cleaning.base import EXAMPLES, LONGEST, Dropped, Step, StepConfig
from octavo.corpus.documents import Document, Report, Source, Wrapper
from octavo.util.files import file_hash

_EXCERPT = 160  # characters of an example


@dataclass
class Tally:
    """What one step did in one pass. A document that is longer than 4 million characters counts once for each
    portion of it.

    Attributes:
        name: the step's place in the list and its kind.
        settings: its options.
        taken, changed, dropped: documents that came in, were altered, were left out.
        reasons: why documents were left out.
        examples: the first few of those, by name, with the detail.
        found: what the step counted besides.
    """

    name: str
    settings: dict[str, Any]
    taken: int = 0
    changed: int = 0
    dropped: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    found: Counter[str] = field(default_factory=Counter)

    def describe(self) -> dict[str, Any]:
        """As JSON values; empty ones are left out."""
        told = {
            "settings": self.settings,
            "in": self.taken,
            "out": self.taken - self.dropped,
            "changed": self.changed,
            "dropped": self.dropped,
            "reasons": dict(self.reasons.most_common()),
            "examples": list(self.examples),
            "found": dict(sorted(self.found.items())),
        }
        return {key: value for key, value in told.items() if isinstance(value, int) or value}

    def sentence(self) -> str:
        """What the step did, for the log."""
        parts = [f"{self.taken:,} in", f"{self.changed:,} changed", f"{self.dropped:,} dropped"]
        if self.found:
            parts.append(", ".join(f"{count:,} × {what}" for what, count in sorted(self.found.items())))
        shown = f"; for example {self.examples[0]}" if self.examples else ""
        return f"cleaning {self.name}: {', '.join(parts)}{shown}"


class Cleaned(Wrapper):
    """Documents of another source after cleaning steps; what is empty then is left out.

    Args:
        source: where the documents come from.
        steps: configs of the steps, in order.
        report: hears, at the end of the first pass, what every step did.
    """

    def __init__(self, source: Source, steps: Sequence[StepConfig], *, report: Report) -> None:
        super().__init__(source)
        self._steps = tuple(steps)
        self._report = report
        self._told = False
        self.tallies: list[Tally] = []

    def describe(self) -> dict[str, Any]:
        return {**self.source.describe(), "cleaning": [step.model_dump(mode="json") for step in self._steps]}

    def cleaning(self) -> dict[str, Any]:
        """What the last pass did, step by step, as JSON values."""
        return {tally.name: tally.describe() for tally in self.tallies}

    def fingerprint(self) -> list[Any] | None:
        inner = self.source.fingerprint()
        if inner is None:
            return None
        named = [value for step in self._steps for _, value in step if isinstance(value, Path)]
        steps = [step.model_dump(mode="json") for step in self._steps]
        return [inner, steps, [file_hash(path) for path in named if path.is_file()]]

    def documents(self) -> Iterator[Document]:
        steps = [step.build() for step in self._steps]
        self.tallies = [
            Tally(
                f"{number} {config.kind}", config.model_dump(mode="json", exclude={"kind"}), found=step.found
            )
            for number, (config, step) in enumerate(zip(self._steps, steps, strict=True), 1)
        ]
        for number, document in enumerate(self.source.documents(), 1):
            kept = self._kept(steps, document, number)
            first = next(kept, None)
            if first is not None:
                yield Document(document.name, chain([first], kept), document.file)
        if not self._told:
            self._told = True
            for tally in self.tallies:
                self._report(tally.sentence())

    def _kept(self, steps: list[Step], document: Document, number: int) -> Iterator[str]:
        border = ""
        for portion in in_portions(document.pieces):
            text = self._through(steps, portion, document.name, number)
            if text and not text.isspace():
                if border and not text[0].isspace():
                    yield border
                yield text
                border = _border(portion, text)

    def _through(self, steps: list[Step], text: str, name: str, number: int) -> str | None:
        for step, tally in zip(steps, self.tallies, strict=True):
            tally.taken += 1
            try:
                after = step.clean(text, number)
            except Dropped as why:
                tally.dropped += 1
                tally.reasons[why.reason] += 1
                if len(tally.examples) < EXAMPLES:
                    tally.examples.append(f"document {number:,} ({name}): {why}"[:_EXCERPT])
                return None
            tally.changed += after != text
            text = after
        return text


def _border(portion: str, cleaned: str) -> str:
    """What a step cut off the end of a portion with more to come: without it two words would become one."""
    gone = portion[len(portion.rstrip()) :]
    if not gone or cleaned[-1].isspace():
        return ""
    breaks = min(2, gone.count("\n")) if "\n" in cleaned else 0  # none where lines are folded
    return "\n" * breaks or " "


def in_portions(pieces: Iterable[str], longest: int = LONGEST) -> Iterator[str]:
    """A document's text in one, or in portions of about `longest` characters, cut after line breaks, or after
    white space, if there are any.
    """
    held: list[str] = []
    length = 0
    for piece in pieces:
        held.append(piece)
        length += len(piece)
        if length > longest:
            text, start = "".join(held), 0
            while len(text) - start > longest:
                cut = _cut(text, start, start + longest)
                yield text[start:cut]
                start = cut
            held, length = [text[start:]], len(text) - start
    if length:
        yield "".join(held)


def _cut(text: str, start: int, stop: int) -> int:
    for mark in ("\n", " "):
        found = text.rfind(mark, (start + stop) // 2, stop)
        if found >= 0:
            return found + 1
    return stop
