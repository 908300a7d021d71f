"""The page about a corpus, and its figures for a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import octavo
import octavo.report
from octavo.corpus.inspection import Statistics
from octavo.corpus.languages import name_of
from octavo.ground.output import Output
from octavo.ground.pages import templates

PAGE = "index.html"


def rows(found: Statistics) -> list[tuple[str, str]]:
    """The figures of a corpus, by name, as they are printed."""
    lengths, speed = found.lengths, found.bytes / 1e6 / max(found.seconds, 1e-9)
    lines = [
        ("documents", f"{found.documents:,}"),
        ("characters", f"{found.characters:,}"),
        ("bytes (UTF-8)", f"{found.bytes:,}"),
        ("words", f"{found.words:,}"),
        ("sentences", f"{found.sentences:,}"),
        ("distinct words", f"{found.distinct_words:,}"),
        ("distinct characters", f"{found.distinct_characters:,}"),
        (
            "words of a document",
            f"{lengths['least']:,.0f} to {lengths['most']:,.0f}, half of them "
            f"{lengths['lower_quartile']:,.0f} to {lengths['upper_quartile']:,.0f}, median {lengths['median']:,.0f}",
        ),
    ]
    lines += [
        (f"vocabulary for {share * 100:g} % of the words", f"{size:,}")
        for share, size in found.needed.items()
    ]
    if found.heaps:
        lines.append(("growth (Heaps)", f"{found.heaps[0]:.2f} · words^{found.heaps[1]:.3f}"))
    lines.append(("exact duplicates", f"{found.duplicates:,}"))
    if found.near:
        lines.append(("near duplicates", f"{found.near['found']:,} of {found.near['compared']:,} compared"))
    if easy := found.readability:
        lines += [
            ("words per sentence", f"{easy['words_per_sentence']:.1f}"),
            ("syllables per word", f"{easy['syllables_per_word']:.2f}"),
            (
                "Flesch reading ease",
                f"{easy['flesch_reading_ease']:.1f}  (60–70 plain English, higher is easier)",
            ),
            ("Flesch–Kincaid grade", f"{easy['flesch_kincaid_grade']:.1f}  (years at school)"),
        ]
    if len(found.languages) > 1:
        shares = [f"{name_of(code)} {share:.0%}" for code, share in list(found.languages.items())[:6]]
        lines.append(("languages, by samples", ", ".join(shares)))
    return [*lines, ("read in", f"{found.seconds:.1f} s, {speed:.1f} MB/s")]


def file_rows(found: Statistics, most: int) -> list[list[str]]:
    """The largest files, `most` of them: name, size, documents, words for their language."""
    if len(found.files) < 2:
        return []
    shown = [
        [file.name or "(no file)", size_of(file.bytes), f"{file.documents:,}", name_of(file.language)]
        for file in found.files[:most]
    ]
    if rest := found.files[most:]:
        documents = sum(file.documents for file in rest)
        shown.append([f"{len(rest):,} more", size_of(sum(file.bytes for file in rest)), f"{documents:,}", ""])
    return shown


def size_of(count: int) -> str:
    """Bytes for a reader."""
    return f"{count / 1e6:,.1f} MB" if count >= 1e6 else f"{count / 1e3:,.1f} kB"


def write_page(page: Output, found: Statistics, title: str, cleaning: Mapping[str, Any]) -> None:
    """Write the page. Raises StorageError when that cannot be written."""
    text = _render(found, title, cleaning)
    with page.writing() as file:
        file.write(text)


def _render(found: Statistics, title: str, cleaning: Mapping[str, Any]) -> str:
    top = found.frequent[0][1] if found.frequent else 1
    listed = len(found.alphabet)
    more = f"; the {listed} most frequent are shown" if listed < found.distinct_characters else ""
    pages = templates(Path(octavo.report.__file__).parent)
    return pages.get_template("corpus.html").render(
        title=title,
        lead=_lead(found),
        headlines=_headlines(found),
        pictures=_pictures(found),
        frequent=[
            (word, f"{count:,}", f"{count / found.words:.2%}", round(100 * count / top, 1))
            for word, count in found.frequent
        ],
        facts=rows(found),
        files=file_rows(found, 200),
        notes=found.notes,
        alphabet_note=f"{found.distinct_characters:,} distinct characters, and how often each stands there{more}.",
        alphabet=[(_shown(letter), f"{count:,}") for letter, count in found.alphabet],
        cleaning=cleaning,
        version=octavo.__version__,
    )


def _lead(found: Statistics) -> str:
    plural = "" if found.documents == 1 else "s"
    return f"{found.documents:,} document{plural} with {found.words:,} words, {found.bytes / 1e6:,.1f} MB."


def _headlines(found: Statistics) -> list[tuple[str, str, str]]:
    half = found.needed.get(0.5, 0)
    almost = found.needed.get(0.99, 0)
    repeated = found.duplicates / found.documents
    return [
        ("documents", f"{found.documents:,}", f"median {found.lengths['median']:,.0f} words"),
        ("distinct words", f"{found.distinct_words:,}", f"{half:,} of them make half of the text"),
        ("for 99 % of the text", f"{almost:,}", "words are enough"),
        ("repeated documents", f"{repeated:.1%}", f"{found.duplicates:,} repeat an earlier one"),
    ]


def _pictures(found: Statistics) -> list[tuple[str, str, Any]]:
    from markupsafe import Markup

    from octavo.report import corpus_plots
    from octavo.report.plots import inline

    drawn = []
    if found.growth:
        drawn.append(
            (
                "growth",
                "New words",
                "How many distinct words there are up to each place of the text. A line that flattens means that it "
                "has shown most of its words.",
                corpus_plots.growth_plot(found.growth, found.heaps),
            )
        )
    if found.coverage:
        drawn.append(
            (
                "coverage",
                "Coverage",
                "How much of the text the most frequent words make up.",
                corpus_plots.coverage_plot(found.coverage),
            )
        )
    if found.documents > 1:
        drawn.append(
            (
                "lengths",
                "Length of the documents",
                "Bars grow wider to the right: each begins at the number of words below it.",
                corpus_plots.length_plot(found.histogram),
            )
        )
    return [
        (heading, note, Markup(inline(svg, name, title=heading)))  # noqa: S704 — our own
        for name, heading, note, svg in drawn
    ]


def _shown(letter: str) -> str:
    """A character as one can see it: spaces and control characters by name."""
    if letter == "\n":
        return "line break"
    if letter == " ":
        return "space"
    if unicodedata.category(letter)[0] in "CZM":
        return unicodedata.name(letter, f"U+{ord(letter):04X}").lower()
    return letter
