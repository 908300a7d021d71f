"""Texts by themselves, without a run: opened, cleaned into a file, checked for leaks between their parts."""

from __future__ import annotations

import hashlib
import time
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import octavo
import octavo.report
from octavo.config import Recipe, check, cleaning_steps, recipe_tree
from octavo.corpus import Document, Source
from octavo.corpus.cleaning.duplicates import bare
from octavo.corpus.documents import Wrapper, separator_line, trimmed
from octavo.corpus.inspection import Statistics
from octavo.corpus.languages import name_of
from octavo.corpus.leaks import LeakCheck, find_leaks
from octavo.data.splits import split_text
from octavo.data.store import aside
from octavo.data.text import Text, ingest, read_range
from octavo.errors import InputError
from octavo.run.data import Paths, build_source, fill
from octavo.util.files import default_cache
from octavo.util.html import templates
from octavo.util.output import Output
from octavo.util.records import json_text
from octavo.util.terminal import Console

SEPARATOR = "<|endoftext|>"
_LINE = 1 << 12  # characters of a line that are looked at for it


def corpus_recipe(
    text: Paths | None, recipe: str | Path | None, steps: str | Path | None, overrides: Sequence[str] = ()
) -> Recipe:
    """A recipe of which only the corpus, its cleaning and split matter: files or folders, or the corpus of a recipe;
    cleaned by the recipe's steps, or by those named (a shipped list or a file).

    Raises InputError without a text.
    """
    tree: dict[str, Any] = {}
    if recipe is not None:
        found = recipe_tree(recipe)
        wanted = ("seed", "corpus", "cleaning", "split", "validation", "test")
        tree = {key: found[key] for key in wanted if key in found}
    if steps is not None:
        tree["cleaning"] = cleaning_steps(steps)
    fill(tree, text, overrides)
    checked = check(tree)
    if checked.lacks_text:
        raise InputError(
            "Which text?",
            remedy="give files or folders: --text PATH (or - for standard input, or corpus:NAME)",
        )
    return checked


@dataclass(frozen=True)
class CleanedFile:
    """What cleaning wrote.

    Attributes:
        documents, characters: in the file.
        cut: documents that hold a line which is that between documents, and so will be read as several.
        seconds: what it took.
        cleaning: what every step did.
    """

    path: Path
    documents: int
    cut: int
    characters: int
    seconds: float
    cleaning: dict[str, Any]


def read_by(recipe: Recipe, *more: str | Path | None) -> list[str | Path]:
    """The files and folders that a recipe names, and `more`: files that no output may overwrite."""

    def paths(value: Any) -> Iterator[str | Path]:
        if isinstance(value, str | Path):  # a word that is no path names no file
            yield value
        elif isinstance(value, Mapping):
            yield from paths(list(value.values()))
        elif isinstance(value, Sequence):
            for each in value:
                yield from paths(each)

    return [*paths(recipe.model_dump()), *filter(None, more)]


def write_cleaned(recipe: Recipe, out: Output, console: Console, *, lines: bool = False) -> CleanedFile:
    """Write a recipe's cleaned documents: `.jsonl` as one object on a line, with the `file` and the `text`, else as
    text with a line `<|endoftext|>` between documents, or with `lines` each document on a line of its own. A text
    cannot say of such a line in a document that it is none between documents: the console does.

    Raises StorageError if the file cannot be written; it is whole or not there.
    """
    started = time.monotonic()
    source = build_source(recipe, console)
    records = out.path.suffix.lower() == ".jsonl"
    documents = characters = 0
    separators = _Separators()
    with out.writing() as file, console.working("cleaning", None):
        for document in source.documents():
            pieces = written_pieces(document, lines=lines, records=records)
            if not records and not lines:
                file.write(f"\n{SEPARATOR}\n" if documents else "")
                pieces = separators.noticed(pieces)
            for text in pieces:
                file.write(text)
                characters += len(text)
                console.read(characters, source.total_bytes)
            documents += 1
    if separators.documents:
        console.say(
            f"documents that hold a line {SEPARATOR}, as it stands between documents of {out.path.name}, and so will "
            f"be read as several: {separators.documents:,}"
        )
        console.say("  → --out FILE.jsonl keeps each document whole")
    seconds = time.monotonic() - started
    return CleanedFile(out.path, documents, separators.documents, characters, seconds, source.cleaning())


class _Separators:
    """Counts documents that hold a line which is read as the end of one."""

    def __init__(self) -> None:
        self.documents = 0
        self._pattern = separator_line(SEPARATOR)

    def noticed(self, pieces: Iterable[str]) -> Iterator[str]:
        """A document's pieces as they are."""
        line, seen = "\n", False  # the last line so far, behind its line break
        for piece in pieces:
            yield piece
            text = line + piece
            end = text.rfind("\n")
            seen = seen or self._pattern.search(text[: end + 1]) is not None
            line = text[end : end + _LINE]
        self.documents += seen or self._pattern.search(line) is not None


def written_pieces(document: Document, *, lines: bool, records: bool) -> Iterator[str]:
    """A document as it goes into a file, in pieces too: one may be larger than memory. Records name its file."""
    pieces = document.pieces
    if lines:
        for piece in trimmed(pieces):  # none ends with white space
            yield (" " if piece[0].isspace() else "") + " ".join(piece.split())
        yield "\n"
    elif records:
        name = document.file.encode("utf-8", "replace").decode()  # a file's name may be no UTF-8
        file = f'"file": {json_text(name, ensure_ascii=False)}, ' if name else ""
        yield f'{{{file}"text": "'
        for piece in pieces:
            yield json_text(piece, ensure_ascii=False)[1:-1]
        yield '"}\n'
    else:
        yield from pieces


class _Named(Wrapper):
    """A source that remembers its documents' names by their content."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.names: dict[bytes, str] = {}

    def documents(self) -> Iterator[Document]:
        for number, document in enumerate(self.source.documents(), 1):
            yield Document(document.name, self._noting(document, number), document.file)

    def _noting(self, document: Document, number: int) -> Iterator[str]:
        content = hashlib.sha256()
        for piece in document.pieces:
            content.update(bare(piece))
            yield piece
        self.names.setdefault(content.digest(), f"{document.name}, document {number:,}")


class _Part(Source):
    """One part of a split text, its documents with the names that they had."""

    def __init__(self, text: Text, names: dict[bytes, str]) -> None:
        self._text, self._names = text, names

    @property
    def total_bytes(self) -> int:
        return self._text.bytes

    def describe(self) -> dict[str, Any]:
        return {"kind": "part"}

    def documents(self) -> Iterator[Document]:
        for start, stop in zip(self._text.starts.tolist(), self._text.stops.tolist(), strict=True):
            content = hashlib.sha256()
            for piece in read_range(self._text.path, start, stop):
                content.update(bare(piece))
            name = self._names.get(content.digest(), "a part of a document that the split cuts in two")
            yield Document(name, read_range(self._text.path, start, stop))


def leaks_between(
    training: Recipe, judged: Recipe | None, console: Console, *, words: int, least: float
) -> LeakCheck:
    """Look for evaluation text in training text: between two corpora, or with `judged` None between the two
    parts into which the recipe's split cuts its corpus.
    """
    source = build_source(training, console)
    if judged is not None:
        with console.working("comparing", None):
            return find_leaks(
                source, build_source(judged, console), words=words, least=least, progress=console.read
            )
    named = _Named(source)
    with aside(default_cache()) as folder, console.working("comparing", None):
        text = ingest(named, folder / "corpus.txt", console.read)
        parts, _ = split_text(
            text, training.split, training.validation, folder, console.say, test=training.test
        )
        if len(text.starts) == 1:
            console.say("the text is one document, so its two parts can share only runs of words")
        learned, kept = (_Part(parts[name], named.names) for name in ("train", "validation"))
        return find_leaks(learned, kept, words=words, least=least, progress=console.read)


# The page about a corpus, and its figures for a terminal.

PAGE = "index.html"


def rows(statistics: Statistics) -> list[tuple[str, str]]:
    """The figures of a corpus, by name, as they are printed."""
    lengths, speed = statistics.lengths, statistics.bytes / 1e6 / max(statistics.seconds, 1e-9)
    lines = [
        ("documents", f"{statistics.documents:,}"),
        ("characters", f"{statistics.characters:,}"),
        ("bytes (UTF-8)", f"{statistics.bytes:,}"),
        ("words", f"{statistics.words:,}"),
        ("sentences", f"{statistics.sentences:,}"),
        ("distinct words", f"{statistics.distinct_words:,}"),
        ("distinct characters", f"{statistics.distinct_characters:,}"),
        (
            "words of a document",
            f"{lengths['least']:,.0f} to {lengths['most']:,.0f}, half of them "
            f"{lengths['lower_quartile']:,.0f} to {lengths['upper_quartile']:,.0f}, median {lengths['median']:,.0f}",
        ),
    ]
    lines += [
        (f"vocabulary for {share * 100:g} % of the words", f"{size:,}")
        for share, size in statistics.needed.items()
    ]
    if statistics.heaps:
        lines.append(("growth (Heaps)", f"{statistics.heaps[0]:.2f} · words^{statistics.heaps[1]:.3f}"))
    lines.append(("exact duplicates", f"{statistics.duplicates:,}"))
    if statistics.near:
        lines.append(
            ("near duplicates", f"{statistics.near['found']:,} of {statistics.near['compared']:,} compared")
        )
    if easy := statistics.readability:
        lines += [
            ("words per sentence", f"{easy.words_per_sentence:.1f}"),
            ("syllables per word", f"{easy.syllables_per_word:.2f}"),
            (
                "Flesch reading ease",
                f"{easy.flesch_reading_ease:.1f}  (60–70 plain English, higher is easier)",
            ),
            ("Flesch–Kincaid grade", f"{easy.flesch_kincaid_grade:.1f}  (years at school)"),
        ]
    if len(statistics.languages) > 1:
        shares = [f"{name_of(code)} {share:.0%}" for code, share in list(statistics.languages.items())[:6]]
        lines.append(("languages, by samples", ", ".join(shares)))
    return [*lines, ("read in", f"{statistics.seconds:.1f} s, {speed:.1f} MB/s")]


def file_rows(statistics: Statistics, most: int) -> list[list[str]]:
    """The largest files, `most` of them: name, size, documents, words for their language."""
    if len(statistics.files) < 2:
        return []
    shown = [
        [file.name or "(no file)", size_of(file.bytes), f"{file.documents:,}", name_of(file.language)]
        for file in statistics.files[:most]
    ]
    if rest := statistics.files[most:]:
        documents = sum(file.documents for file in rest)
        shown.append([f"{len(rest):,} more", size_of(sum(file.bytes for file in rest)), f"{documents:,}", ""])
    return shown


def size_of(count: int) -> str:
    """A number of bytes such as `1.1 MB`."""
    return f"{count / 1e6:,.1f} MB" if count >= 1e6 else f"{count / 1e3:,.1f} kB"


def write_page(page: Output, statistics: Statistics, title: str, cleaning: Mapping[str, Any]) -> None:
    """Write the page. Raises StorageError when that cannot be written."""
    text = _render(statistics, title, cleaning)
    with page.writing() as file:
        file.write(text)


def _render(statistics: Statistics, title: str, cleaning: Mapping[str, Any]) -> str:
    top = statistics.frequent[0][1] if statistics.frequent else 1
    listed = len(statistics.alphabet)
    more = f"; the {listed} most frequent are shown" if listed < statistics.distinct_characters else ""
    pages = templates(Path(octavo.report.__file__).parent)
    return pages.get_template("corpus.html").render(
        title=title,
        lead=_lead(statistics),
        headlines=_headlines(statistics),
        pictures=_pictures(statistics),
        frequent=[
            (word, f"{count:,}", f"{count / statistics.words:.2%}", round(100 * count / top, 1))
            for word, count in statistics.frequent
        ],
        facts=rows(statistics),
        files=file_rows(statistics, 200),
        notes=statistics.notes,
        alphabet_note=f"{statistics.distinct_characters:,} distinct characters, and how often each stands there{more}.",
        alphabet=[(_shown(letter), f"{count:,}") for letter, count in statistics.alphabet],
        cleaning=cleaning,
        version=octavo.__version__,
    )


def _lead(statistics: Statistics) -> str:
    plural = "" if statistics.documents == 1 else "s"
    documents = f"{statistics.documents:,} document{plural}"
    return f"{documents} with {statistics.words:,} words, {statistics.bytes / 1e6:,.1f} MB."


def _headlines(statistics: Statistics) -> list[tuple[str, str, str]]:
    half = statistics.needed.get(0.5, 0)
    almost = statistics.needed.get(0.99, 0)
    repeated = statistics.duplicates / statistics.documents
    return [
        ("documents", f"{statistics.documents:,}", f"median {statistics.lengths['median']:,.0f} words"),
        ("distinct words", f"{statistics.distinct_words:,}", f"{half:,} of them make half of the text"),
        ("for 99 % of the text", f"{almost:,}", "words are enough"),
        ("repeated documents", f"{repeated:.1%}", f"{statistics.duplicates:,} repeat an earlier one"),
    ]


def _pictures(statistics: Statistics) -> list[tuple[str, str, Any]]:
    from markupsafe import Markup

    from octavo.report import plots
    from octavo.report.plots import inline

    drawn = []
    if statistics.growth:
        drawn.append(
            (
                "growth",
                "New words",
                "How many distinct words there are up to each place of the text. A line that flattens means that it "
                "has shown most of its words.",
                plots.growth_plot(statistics.growth, statistics.heaps),
            )
        )
    if statistics.coverage:
        drawn.append(
            (
                "coverage",
                "Coverage",
                "How much of the text the most frequent words make up.",
                plots.coverage_plot(statistics.coverage),
            )
        )
    if statistics.documents > 1:
        drawn.append(
            (
                "lengths",
                "Length of the documents",
                "Bars grow wider to the right: each begins at the number of words below it.",
                plots.length_plot(statistics.histogram),
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
