"""Project Gutenberg's header and licence, in every form of their markers and wherever the text is cut into pieces."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.corpus.readers.text import without_gutenberg
from octavo.corpus.sources import FilesSource

HEADER = "The Project Gutenberg eBook of A Tale\n\nTitle: A Tale\n\n"
LICENCE = "\n\nSection 1. General Terms of Use\n\n*** START: FULL LICENSE ***\n\nand so on\n"
TALE = "A TALE\n\nOnce upon a time.\n\n* * *\n\n*** stars ***\n\nThe end.\n"
WRAPPED = "A VERY LONG TITLE THAT GOES ON AND ON\nAND ENDS HERE"
FORMS = {
    "the": (
        "*** START OF THE PROJECT GUTENBERG EBOOK A TALE ***",
        "*** END OF THE PROJECT GUTENBERG EBOOK A TALE ***",
    ),
    "this": (
        "*** START OF THIS PROJECT GUTENBERG EBOOK A TALE ***",
        "*** END OF THIS PROJECT GUTENBERG EBOOK A TALE ***",
    ),
    "tight": (
        "***START OF THE PROJECT GUTENBERG EBOOK A TALE***",
        "***END OF THE PROJECT GUTENBERG EBOOK A TALE***",
    ),
    "etext": (
        "*** START OF THE PROJECT GUTENBERG ETEXT A TALE ***",
        "*** END OF THE PROJECT GUTENBERG ETEXT A TALE ***",
    ),
    "wrapped": (
        f"*** START OF THE PROJECT GUTENBERG EBOOK {WRAPPED} ***",
        f"*** END OF THE PROJECT GUTENBERG EBOOK {WRAPPED} ***",
    ),
    "wrapped early": (
        "*** START OF THE PROJECT\nGUTENBERG EBOOK A TALE ***",
        "*** END OF THE PROJECT\nGUTENBERG EBOOK A TALE ***",
    ),
    "unclosed": (
        "*** START OF THE PROJECT GUTENBERG EBOOK A TALE",
        "*** END OF THE PROJECT GUTENBERG EBOOK A TALE",
    ),
    "with a last line": (
        "*** START OF THE PROJECT GUTENBERG EBOOK A TALE ***",
        "End of Project Gutenberg's A Tale, by Nobody\n\n*** END OF THE PROJECT GUTENBERG EBOOK A TALE ***",
    ),
    "small print": (
        "*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*",
        "*** END OF THE PROJECT GUTENBERG ETEXT A TALE ***",
    ),
}


def cleaned(text: str, size: int = 1 << 20) -> tuple[str, list[tuple[int, int]]]:
    said: list[tuple[int, int]] = []
    pieces = (text[at : at + size] for at in range(0, len(text), size))
    return "".join(without_gutenberg(pieces, lambda *counts: said.append(counts))), said


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [1, 7, 64, 1 << 20])
def test_every_form_is_cut_off(form: str, size: int) -> None:
    start, end = FORMS[form]
    text, said = cleaned(f"{HEADER}{start}\n\n\n{TALE}\n\n{end}{LICENCE}", size)
    assert text == TALE
    [(header, licence)] = said
    assert header == len(f"{HEADER}{start}\n\n\n") and licence >= len(LICENCE)


@given(
    padding=st.integers(0, 3000),
    size=st.integers(50, 5000),
    form=st.sampled_from(sorted(FORMS)),
    books=st.integers(1, 3),
)
def test_cuts_and_lengths_do_not_matter(padding: int, size: int, form: str, books: int) -> None:
    start, end = FORMS[form]
    tale = TALE + "word " * padding + "end.\n"
    book = f"{HEADER}{start}\n\n{tale}\n{end}{LICENCE}"
    if form == "small print":  # which later books are not looked for by
        books = 1
    assert cleaned(book * books, size)[0] == tale * books


CLOSING = "how to\nsubscribe to our email newsletter to hear about new eBooks.\n\n"
OF_2006 = (
    f"{CLOSING}EBooks posted prior to November 2003, with eBook numbers BELOW #10000,\nare elsewhere:\n\n"
    "     http://www.gutenberg.net/etext06\n\nAn alternative method of locating eBooks:\n"
    "     http://www.gutenberg.net/GUTINDEX.ALL\n\n\n"
)


@pytest.mark.parametrize("size", [7, 5000, 1 << 20])
@pytest.mark.parametrize("words", [3, 60_000])
@pytest.mark.parametrize("closing", ["", CLOSING, OF_2006], ids=["no last line", "last line", "of 2006"])
def test_what_was_pasted_after_a_licence_stays(size: int, words: int, closing: str) -> None:
    """`cat novel.txt notes.txt > all.txt`: notes are no licence, however long they are."""
    start, end = FORMS["the"]
    size = max(size, 997) if words > 3 else size
    notes = "MY NOTES\n\n" + "word " * words + "end.\n"
    book = f"{HEADER}{start}\n\n{TALE}\n{end}{LICENCE}{closing}"
    text, [(header, licence)] = cleaned(book + notes, size)
    if words > 3 and not closing:  # nothing tells where the licence ends: all of it stays
        assert text == TALE + LICENCE.lstrip("\n") + notes
    else:
        assert text == TALE + (notes if closing else "")
    assert header + licence + len(text) >= len(book + notes) - 3


@pytest.mark.parametrize("text", ["", "Just a text.\n", TALE, "*** START OF THE SHOW ***\n", TALE * 9000])
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert cleaned(text) == (text, [])


def test_a_quotation_late_in_a_text_is_no_header() -> None:
    text = "word " * 40_000 + FORMS["the"][0] + "\nmore\n"
    assert cleaned(text) == (text, [])


def test_a_real_play(test_data: Path) -> None:
    heard: list[str] = []
    source = FilesSource(paths=(str(test_data / "plays" / "an_ideal_husband.txt"),)).build(
        report=heard.append
    )
    [document] = source.documents()
    text = "".join(document.pieces)
    assert text.startswith("Transcribed from the 1912 Methuen")
    assert text.endswith("THE NORTHUMBERLAND PRESS, NEWCASTLE-UPON-TYNE\n")
    assert "GUTENBERG" not in text and "\r" not in text and "\ufeff" not in text
    assert any(
        "header (540 characters) and licence (18,690 characters) cut off" in sentence for sentence in heard
    )
