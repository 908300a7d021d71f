"""Where, token by token, the changes of a ladder are better or worse: tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from octavo.evaluation.where import Part, Where, cells, difference_text
from octavo.studies.ladder_verdict import LadderAnalysis, RungVerdict


class Table(NamedTuple):
    """A head and rows, under a title."""

    title: str
    rows: list[list[str]]


class WhereSection(NamedTuple):
    """What is said of a change."""

    change: str
    tables: list[Table]
    why_not: str


WORDS_HEAD = ["word", "tokens", "n-gram", "baseline", "change", "change − baseline", "of the whole"]


def where_sections(found: LadderAnalysis) -> list[WhereSection]:
    """For each change of which anything is known: by what counting predicts and by context on every rung, and the words
    of the last rung."""
    sections = []
    for change in (change.name for change in found.ladder.study.changes):
        there = [(one, one.where.found[change]) for one in found.rungs if change in one.where.found]
        reasons = dict.fromkeys(why for one in found.rungs if (why := one.where.why_not.get(change)))
        tables = _tables(there) if there else []
        if tables or reasons:
            sections.append(WhereSection(change, tables, " ".join(reasons)))
    return sections


def in_brief(found: LadderAnalysis) -> list[list[str]]:
    """Head and rows: on the longest rung of each size, each change's difference in each fifth of what counting
    predicts; no rows where nothing is known."""
    head: list[str] = []
    rows: list[list[str]] = []
    for change in (change.name for change in found.ladder.study.changes):
        longest = {one.rung.size: one for one in found.rungs if change in one.where.found}
        head, *mine = _by_rung([(one, one.where.found[change]) for one in longest.values()], _fifths)
        rows += [[change, *row] for row in mine]
    return [["change", *head], *rows] if rows else []


def _fifths(where: Where) -> list[Part]:
    return [*where.by_ngram, where.whole]


def _tables(there: Sequence[tuple[RungVerdict, Where]]) -> list[Table]:
    last, where = there[-1]
    order = where.order
    place = f"at {last.rung.size} after {last.rung.steps:,} steps"
    tables = [
        Table(
            f"By how well counting {order}-grams predicts a token",
            _by_rung(there, _fifths),
        ),
        Table(
            "By how many tokens stand before it in its window", _by_rung(there, lambda one: one.by_context)
        ),
    ]
    for word, parts in (("worse", where.first_better), ("better", where.second_better)):
        if parts:
            tables.append(Table(f"Words in which it is {word}, {place}", [WORDS_HEAD, *map(cells, parts)]))
    return tables


def _by_rung(
    there: Sequence[tuple[RungVerdict, Where]], parts_of: Callable[[Where], Sequence[Part]]
) -> list[list[str]]:
    names = list(dict.fromkeys(part.name for _, where in there for part in parts_of(where)))
    table = [["size", "steps", *names]]
    for one, where in there:
        by_name = {part.name: difference_text(part, 3) for part in parts_of(where)}
        table.append([one.rung.size, f"{one.rung.steps:,}", *(by_name.get(name, "–") for name in names)])
    return table
