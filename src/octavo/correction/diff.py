"""A correction for reading: what went and what came, in colour on terminals, in brackets elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from octavo.correction.edits import Correction
from octavo.tokenizers.base import printable
from octavo.util.terminal import shown

if TYPE_CHECKING:
    from rich.text import Text


def stretches(correction: Correction) -> Iterator[tuple[str, str]]:
    """The text in order as (kind, text); kinds are same, gone and new."""
    at = 0
    for change in correction.changes:
        yield "same", correction.original[at : change.start]
        yield "gone", change.before
        yield "new", change.after or ""
        at = change.end
    yield "same", correction.original[at:]


def plain_diff(correction: Correction) -> str:
    """What went as [-old-], what came as {+new+}."""
    forms = {"same": "{}", "gone": "[-{}-]", "new": "{{+{}+}}"}
    return "".join(forms[kind].format(text) for kind, text in stretches(correction) if text)


def coloured_diff(correction: Correction) -> Text:
    """The same for `rich`: red and struck through, and green."""
    from rich.text import Text

    styles = {"same": "", "gone": "red strike", "new": "green bold"}
    return Text.assemble(*((shown(text), styles[kind]) for kind, text in stretches(correction) if text))


def listed(correction: Correction) -> list[str]:
    """Every change with its rule and reason, then what was found and left, one a line."""
    lines = [
        f"'{printable(change.before)}' → '{printable(change.after or '')}'  ({change.rule}: {change.message})"
        for change in correction.changes
    ]
    for change in correction.left:
        why = "no remedy is known" if change.after is None else "an earlier change covers it"
        lines.append(f"'{printable(change.before)}' left, {why}  ({change.rule}: {change.message})")
    return lines


def summary(correction: Correction) -> str:
    """How many words changed, and what that did to the share of words that the corpus has."""
    said = f"{correction.words_changed} of {correction.words} words changed"
    if correction.known_before is None or correction.known_after is None:
        return f"{said}."
    return (
        f"{said}; words that the corpus has: {correction.known_before:.1%} before, "
        f"{correction.known_after:.1%} after."
    )
