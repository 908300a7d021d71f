"""A correction: the text as generated, the changes with their rules, and what they did to its words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from octavo.correction.words import WORD, share_known


@dataclass(frozen=True)
class Change:
    """One replacement.

    Attributes:
        start, end: characters of the text as generated.
        before, after: what stood there, and what stands there now; `after` is None if no remedy is known.
        rule: name of the rule that asked for it.
        message: why, for the reader.
    """

    start: int
    end: int
    before: str
    after: str | None
    rule: str
    message: str


@dataclass(frozen=True)
class Correction:
    """A text before and after.

    Attributes:
        original: as generated.
        corrected: with all changes.
        changes: from first to last; they do not overlap.
        left: what was found but not changed: no remedy is known, or an earlier change covers it.
        words: words in the part that was judged.
        words_changed: how many of them a change touches.
        known_before, known_after: share of the words that the corpus has, before and after; None if the
            corpus is not known or there are no words.
    """

    original: str
    corrected: str
    changes: tuple[Change, ...]
    left: tuple[Change, ...]
    words: int
    words_changed: int
    known_before: float | None
    known_after: float | None

    def as_dict(self) -> dict[str, Any]:
        return {
            "corrected": self.corrected,
            "changes": [asdict(change) for change in self.changes],
            "left": [asdict(change) for change in self.left],
            "words": self.words,
            "words_changed": self.words_changed,
            "known_before": self.known_before,
            "known_after": self.known_after,
        }


class Corrector(Protocol):
    """What finds changes."""

    def correct(self, text: str, *, start: int = 0, stop: int | None = None) -> Correction:
        """Judge `text[start:stop]`; what stands around it is context and stays as it is."""
        ...


def corrected(
    text: str,
    found: Iterable[Change],
    *,
    start: int = 0,
    stop: int | None = None,
    vocabulary: Mapping[str, int] | None = None,
) -> Correction:
    """Apply changes to `text[start:stop]`: of those that overlap the first, of those that begin together the
    longest. Those that reach outside the part are dropped.
    """
    stop = len(text) if stop is None else stop
    made: list[Change] = []
    left: list[Change] = []
    at = start
    # Python's sort is stable, so of equal stretches the one that was found first wins.
    for change in sorted(found, key=lambda change: (change.start, -change.end)):
        if change.start < start or change.end > stop or change.before == change.after:
            continue
        again = bool(made) and (change.start, change.end) == (made[-1].start, made[-1].end)
        if change.after is None or change.start < at or again:  # two insertions at one place are `again`
            left.append(change)
            continue
        made.append(change)
        at = change.end
    tail, at, parts = text[stop:], start, [text[:start]]
    for change in made:
        parts += [text[at : change.start], change.after or ""]
        at = change.end
    result = "".join([*parts, text[at:stop]])
    before = words_between(text, start, stop)
    after = words_between(result + tail, start, len(result))
    return Correction(
        original=text,
        corrected=result + tail,
        changes=tuple(made),
        left=tuple(left),
        words=len(before),
        words_changed=sum(any(c.start < end and begin < c.end for c in made) for begin, end, _ in before),
        known_before=share_known((word for *_, word in before), vocabulary),
        known_after=share_known((word for *_, word in after), vocabulary),
    )


def words_between(text: str, start: int, stop: int) -> list[tuple[int, int, str]]:
    """Start, end and form of each word of a text that lies wholly between two places."""
    return [
        (match.start(), match.end(), match[0])
        for match in WORD.finditer(text)
        if start <= match.start() and match.end() <= stop
    ]
