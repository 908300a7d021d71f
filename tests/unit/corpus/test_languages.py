"""A corpus counted by file: sizes, languages by samples, and what is said of several languages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.corpus import Document, Source, languages
from octavo.corpus.inspection import inspect
from octavo.corpus.languages import NAMES, CountedByFile, FileCounts, name_of, spoken
from octavo.corpus.sources import FilesSource
from octavo.errors import MissingExtra

ENGLISH = "The old man walked down to the river and looked at the water for a long time. " * 5
GERMAN = "Der alte Mann ging hinunter zum Fluss und schaute lange Zeit auf das Wasser. " * 5


class Records(Source):
    """Documents of named files."""

    def __init__(self, *records: tuple[str, str], piece: int = 50) -> None:
        self._records, self._piece = records, piece

    def documents(self) -> Iterator[Document]:
        for file, text in self._records:
            pieces = (text[at : at + self._piece] for at in range(0, len(text), self._piece))
            yield Document("a record", pieces, file)

    def describe(self) -> dict[str, Any]:
        return {"kind": "records"}


def counted(*records: tuple[str, str], several: bool = False, most: int = 100_000) -> FileCounts:
    counts = FileCounts(several=several, most=most)
    for document in CountedByFile(Records(*records), counts).documents():
        for _ in document.pieces:
            pass
    return counts


@given(st.lists(st.tuples(st.sampled_from("abc"), st.text("xé😀", min_size=1, max_size=9)), min_size=1))
def test_bytes_and_documents_are_those_of_each_file(records: list[tuple[str, str]]) -> None:
    found = counted(*records).files
    assert list(found) == list(dict.fromkeys(name for name, _ in records))
    for name, figures in found.items():
        own = [text for of, text in records if of == name]
        assert (figures.documents, figures.bytes) == (len(own), sum(len(text.encode()) for text in own))


@pytest.mark.parametrize("several", [False, True])
def test_a_third_is_german_and_said(several: bool) -> None:
    pytest.importorskip("py3langid")
    counts = counted(("one", ENGLISH), ("two", ENGLISH), ("three", GERMAN), several=several)
    assert [figures.language for figures in counts.files.values()] == ["en", "en", "de"]
    assert counts.shares()["de"] == pytest.approx(1 / 3, abs=0.02)
    assert counts.sentence() == (
        "the text is in several languages: most is English, 33% of it is German (from samples)"
    )


def test_one_language_is_not_worth_a_sentence() -> None:
    pytest.importorskip("py3langid")
    assert counted(("one", ENGLISH), ("two", ENGLISH)).sentence() is None
    assert counted(("one", "12 345"), ("two", "??")).sentence() is None


def test_of_one_file_nothing_is_judged_where_several_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def load() -> Any:
        raise AssertionError("the model was loaded")

    monkeypatch.setattr(languages, "identifier", load)
    assert counted(("one", ENGLISH), ("one", GERMAN), several=True).sentence() is None


def test_a_long_file_is_judged_all_along_but_not_document_by_document(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = []

    class Counting:
        def classify(self, text: str) -> tuple[str, float]:
            calls.append(text)
            return ("de" if text.startswith("Der") else "en"), 1.0

    monkeypatch.setattr(languages, "identifier", Counting)
    half = 2_000
    counts = counted(*[("one", ENGLISH)] * half, *[("one", GERMAN)] * half)
    assert len(calls) < 200
    assert counts.shares()["de"] == pytest.approx(0.49, abs=0.05)


def test_without_the_extra_files_are_counted_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def load() -> Any:
        raise MissingExtra("py3langid", "data", "Telling languages apart")

    monkeypatch.setattr(languages, "identifier", load)
    found = inspect(Records(("one", ENGLISH), ("two", GERMAN)), near=0)
    assert [(file.name, file.language) for file in found.files] == [("one", None), ("two", None)]
    assert any("py3langid" in note for note in found.notes)


def test_files_beyond_the_limit_are_counted_not_kept() -> None:
    counts = counted(("one", "a"), ("two", "b"), ("three", "c"), most=2)
    assert (list(counts.files), counts.beyond) == (["one", "two"], 1)


def test_names() -> None:
    assert (name_of("de"), name_of("grc"), name_of("xx"), name_of(None)) == (
        "German",
        "Ancient Greek",
        "xx",
        "-",
    )
    assert all(code.islower() and 2 <= len(code) <= 3 for code in NAMES)
    assert not {str(code) for code in languages.identifier().nb_classes} - set(NAMES), "each has a name"


def test_every_document_of_a_folder_names_its_file_and_records_keep_theirs(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("first\n<|endoftext|>\nsecond")
    records = ['{"text": "third"}', '{"text": "fourth", "file": "c.pdf"}', '{"text": "x", "file": 3}']
    records = ['{"text": "third"}', '{"text": "fourth", "file": "c.pdf"}', '{"text": "x", "file": 3}']
    (tmp_path / "b.jsonl").write_text("\n".join(records))
    (tmp_path / "d.json").write_text('[{"text": "fifth", "file": "e.pdf"}, {"text": "sixth"}]')
    source = FilesSource(paths=(str(tmp_path),)).build()
    found = [(document.file, "".join(document.pieces)) for document in source.documents()]
    assert found == [
        ("a.txt", "first"),
        ("a.txt", "second"),
        ("b.jsonl", "third"),
        ("c.pdf", "fourth"),
        ("b.jsonl", "x"),
        ("e.pdf", "fifth"),
        ("d.json", "sixth"),
    ]


def test_what_is_spoken_in_a_file_is_told_from_samples(tmp_path: Path) -> None:
    pytest.importorskip("py3langid")
    path = tmp_path / "text.txt"
    path.write_text(ENGLISH * 30 + GERMAN * 10 + "0 1 2 3 4 5\n" * 200, encoding="utf-8")
    found = spoken(path)
    assert list(found) == ["en", "de"] and sum(found.values()) == pytest.approx(1)
    assert found["en"] == pytest.approx(0.75, abs=0.1)
    path.write_bytes("ä".encode() * 5000)
    assert sum(spoken(path).values()) == pytest.approx(1), "a sample may begin within a character"
    path.write_text("1 2 3")
    assert spoken(path) == {}
