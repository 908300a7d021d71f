"""The figures of a written corpus: yield, rejects by reason, cost, pace, variety, coverage, and ten stories drawn
from it."""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from octavo.corpus.minhash import near_duplicate_share
from octavo.llm_corpus.money import PICO
from octavo.llm_corpus.store import reading, storage, write_aside
from octavo.synthetic.grammar import TOKEN
from octavo.synthetic.vocabulary import MARKS
from octavo.util.html import templates
from octavo.util.records import json_text

SHOWN = 10
"""Stories on the page."""

_IDLE = 600.0  # seconds without a call that are no work: between sessions, or outside the cheap hours


def figures(store: Path, vocabulary: Collection[str] | None, *, seed: int = 0) -> dict[str, Any]:
    """Everything that the report shows, as plain data. `vocabulary`: the closed list of words, or None."""
    with reading(store) as con:
        stories = con.execute(
            "SELECT number, id, text, words, repairs, signature FROM stories ORDER BY number"
        ).fetchall()
        calls = _calls(con)
        found = {
            "stories": len(stories),
            "given_up": con.execute("SELECT count(*) FROM given_up").fetchone()[0],
            **calls,
            "cost_per_story_usd": calls["cost_usd"] / len(stories) if stories else None,
            "writers": _writers(con),
            "repairs": dict(
                sorted(Counter(name for row in stories for name in json.loads(row["repairs"])).items())
            ),
        }
    texts = [row["text"] for row in stories]
    chosen = sorted(Random(seed).sample(range(len(texts)), min(SHOWN, len(texts))))  # indices
    return {
        **found,
        "words": _lengths([row["words"] for row in stories]),
        "distinct": {str(n): distinct(texts, n) for n in (1, 2, 3)},
        "near_duplicates": near_duplicate_share([row["signature"] for row in stories if row["signature"]]),
        "vocabulary": coverage(texts, vocabulary),
        "examples": [{"id": stories[i]["id"], "text": texts[i]} for i in chosen],
    }


def _calls(con: sqlite3.Connection) -> dict[str, Any]:
    rows = con.execute(
        "SELECT outcome, problems, coalesce(cost, reserved) AS cost, sent, seconds FROM calls"
    ).fetchall()
    outcomes = Counter(row["outcome"] for row in rows)
    reasons = Counter(
        reason
        for row in rows
        if row["outcome"] == "rejected"
        for reason in {*map(reason_of, json.loads(row["problems"]))}
    )
    replies = outcomes["accepted"] + outcomes["rejected"]
    ends = sorted((row["sent"], row["sent"] + (row["seconds"] or 0.0)) for row in rows)
    hours = _busy(ends) / 3600
    return {
        "calls": len(rows),
        "replies": replies,
        "yield": outcomes["accepted"] / replies if replies else None,
        "rejects": dict(reasons.most_common()),
        "failures": {name: n for name, n in sorted(outcomes.items()) if name not in ("accepted", "rejected")},
        "cost_usd": sum(row["cost"] for row in rows) / PICO,
        "hours": hours,
        "stories_per_hour": outcomes["accepted"] / hours if hours else None,
    }


def _busy(spans: Sequence[tuple[float, float]]) -> float:
    """Seconds of work: from the first call to the last, less long gaps without any."""
    busy, until = 0.0, None
    for start, end in spans:
        if until is None or start - until > _IDLE:
            busy += end - start
        elif end > until:
            busy += end - until
        until = end if until is None else max(until, end)
    return busy


def _writers(con: sqlite3.Connection) -> list[dict[str, Any]]:
    rows = con.execute(
        "SELECT writer, model, count(*) AS calls, sum(outcome='accepted') AS stories,"
        " sum(outcome IN ('accepted', 'rejected')) AS replies, sum(coalesce(cost, reserved)) AS cost,"
        " sum(input_tokens) AS input, sum(cached_tokens) AS cached, sum(output_tokens) AS output,"
        " avg(CASE WHEN outcome IN ('accepted', 'rejected') THEN seconds END) AS seconds"
        " FROM calls GROUP BY writer, model ORDER BY writer, model"
    )
    return [{**row, "cost_usd": row.pop("cost") / PICO} for row in map(dict, rows)]


def reason_of(problem: str) -> str:
    """The kind of a problem: its sentence without the words and numbers of this one story."""
    head = re.split(r": |, not |; it (?:should|belongs|must)", problem, maxsplit=1)[0]
    head = re.sub(r"'[^']*'", "…", head)
    return re.sub(r"\d+", "n", head).rstrip(".")


def distinct(texts: Sequence[str], n: int) -> float | None:
    """Distinct word sequences of length n, as a share of all: 1 means that none comes twice (distinct-n)."""
    seen: set[tuple[str, ...]] = set()
    total = 0
    for text in texts:
        words = [token for token in TOKEN.findall(text) if token not in MARKS]
        grams = list(zip(*(words[i:] for i in range(n)), strict=False))
        seen.update(grams)
        total += len(grams)
    return len(seen) / total if total else None


def coverage(texts: Sequence[str], vocabulary: Collection[str] | None) -> dict[str, Any]:
    """How many words there are, how many of the closed list are used, and which are never."""
    counts = Counter(token for text in texts for token in TOKEN.findall(text) if token not in MARKS)
    found: dict[str, Any] = {"used": len(counts), "most_frequent": counts.most_common(20)}
    if vocabulary is not None:
        unused = sorted(set(vocabulary) - counts.keys())
        size = len(set(vocabulary))
        found |= {"size": size, "coverage": 1 - len(unused) / size if size else None, "unused": unused}
    return found


def _lengths(words: Sequence[int]) -> dict[str, float] | None:
    if not words:
        return None
    ordered = sorted(words)
    return {
        "mean": sum(ordered) / len(ordered),
        "median": ordered[len(ordered) // 2],
        "least": ordered[0],
        "most": ordered[-1],
    }


# The corpus report: one HTML file without scripts or requests, and the same figures as JSON.


def write_page(folder: Path, found: Mapping[str, Any]) -> Path:
    """Write `index.html` and `report.json` into a folder; returns the page's path."""
    with storage(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_aside(
        folder / "report.json",
        lambda file: file.write(json_text(found, ensure_ascii=False, indent=1) + "\n"),
    )
    write_aside(folder / "index.html", lambda file: file.write(render(found)))
    return folder / "index.html"


def render(found: Mapping[str, Any]) -> str:
    """report/index.html."""
    pages = templates(Path(__file__).parent, percent=percent, number=number, money=money)
    most = max([*found["rejects"].values(), *found["failures"].values()], default=1)
    return pages.get_template("report.html").render(found=found, most=most)


def percent(share: float | None) -> str:
    """A share as people read it."""
    return "–" if share is None else f"{share:.1%}".replace("%", " %")


def number(value: float | None, digits: int = 0) -> str:
    """A number with its thousands apart."""
    return "–" if value is None else f"{value:,.{digits}f}"


def money(value: float | None) -> str:
    """Dollars; small amounts with the digits that matter."""
    if value is None:
        return "–"
    return f"${value:,.2f}" if value >= 1 or value == 0 else f"${value:.5f}"
