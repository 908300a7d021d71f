"""The PDFs of the test data: what a person reads on the rendered pages is what is expected here."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from octavo.corpus.sources import FilesSource
from octavo.errors import CorpusError
from unit.corpus import passages

EXPECTED = {
    "ar_habibi_rtl.pdf": ["حَبيبي habibi"],
    "en_4pages.pdf": passages.FOUR_PAGES,
    "en_google_doc.pdf": passages.WORD_PROCESSOR,
    "en_two_column_latex.pdf": passages.TWO_COLUMNS,
    "en_rescience_3162890.pdf": passages.SOLVERS,
    "en_rescience_3763416.pdf": passages.OCAML,
    "es_bases_de_datos.pdf": [*passages.SPANISH, passages.SPANISH_END],
}
# The only lines of pdfium's own text that are not in ours, numbers as #, and how often: running heads and feet with
# page numbers (a number in a page of text is often found elsewhere), what has no Unicode value, and one line into which
# pdfium joins the two halves of a word over the notes that stand between them.
NOT_TEXT = {
    "ar_habibi_rtl.pdf": {"يبيبَح˴ ϲΒϴΒhabibi يبيبَح": 1},  # letters turned round, and numbers of glyphs
    "en_4pages.pdf": {"#": 4},
    "en_rescience_3162890.pdf": {
        "ReScience C #.# (##) – Bardi, Baussnern and Gjiriti # #": 9,
        "# # #\x04 #\x05 #\x06": 1,
        "The Poisson equation is a second order": 1,
    },
    "en_rescience_3763416.pdf": {"ReScience C #.# (##) – Di Cosmo and Danelutto # #": 6},
    "es_bases_de_datos.pdf": {"#": 9},
}
AWKWARD = {
    "blank_page_no_contents.pdf": "holds no text: its pages are blank",
    "empty_0_bytes.pdf": "is empty",
    "invalid_header_only.pdf": "cannot be opened as a PDF: it is damaged",
    "scan_linn_two_column.pdf": "is a scan: its pages are pictures without text.*ocrmypdf --skip-text",
    "font_without_unicode_map.pdf": "a font without Unicode map: only rubbish comes out.*ocrmypdf --force-ocr",
    "encrypted_user_password.pdf": "is encrypted.*OCTAVO_PASSWORD",
}


def read(path: Path) -> tuple[list[str], list[str]]:
    said: list[str] = []
    source = FilesSource(paths=(str(path),)).build(report=said.append)
    return ["".join(document.pieces) for document in source.documents()], said


@cache  # several tests look at the same books
def read_once(path: Path) -> tuple[list[str], list[str]]:
    return read(path)


def letters(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFKC", text) if c.isalnum())


@pytest.fixture(autouse=True)
def no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OCTAVO_PASSWORD", raising=False)


@pytest.mark.parametrize("name", EXPECTED)
def test_paragraphs_come_whole_and_in_order_and_none_is_lost(name: str, test_data: Path) -> None:
    pypdfium2 = pytest.importorskip("pypdfium2")
    [text], _ = read_once(test_data / "pdfs" / "text" / name)
    paragraphs = text.split("\n\n")
    assert [passage for passage in EXPECTED[name] if passage not in paragraphs] == []
    places = [paragraphs.index(passage) for passage in EXPECTED[name] if name != "en_google_doc.pdf"]
    assert places == sorted(places)
    assert not re.search("[ﬀ-ﬆ\x00-\x09\x0b-\x1f\u00ad\ufffe]", text)

    ours, missing = letters(text), Counter()
    document = pypdfium2.PdfDocument(test_data / "pdfs" / "text" / name)
    for page in document:
        for line in page.get_textpage().get_text_range().splitlines():
            if letters(line) not in ours:
                missing[re.sub(r"\d+", "#", line).strip()[:60].partition(" linear")[0]] += 1
    assert missing == NOT_TEXT.get(name, {})


def test_the_last_paragraph_is_the_last_one(test_data: Path) -> None:
    [text], _ = read_once(test_data / "pdfs" / "text" / "es_bases_de_datos.pdf")
    assert text.endswith("\n\n" + passages.SPANISH_END)
    assert not re.search(r"^\d+ Bases de datos no relacionales: NoSQL$", text, re.M)  # running head


def test_only_unreadable_lines_of_a_page_are_left_out(test_data: Path) -> None:
    """Captions on page 7 stand between pictures whose letters have no Unicode map."""
    [text], said = read_once(test_data / "pdfs" / "text" / "en_rescience_3162890.pdf")
    after = text.partition("layers K\n\n")[2]
    assert after.startswith(
        "Figure 3. Error evolution w.r.t. solver iterations for different number of layers K\n\n"
    )
    assert any(
        re.search(r": \d+ lines left out, written in a font without Unicode map", word) for word in said
    )
    assert not any("page" in word and "left out" in word for word in said)


def test_the_order_of_columns_pages_and_paragraphs(test_data: Path) -> None:
    [text], _ = read_once(test_data / "pdfs" / "text" / "en_two_column_latex.pdf")
    starts = ["Abstract", "Lorem ipsum dolor", "Nam dui ligula", "Nulla malesuada", "Quisque ullamcorper"]
    starts += [
        "Fusce mauris",
        "Suspendisse vel felis",
        "Sed commodo posuere",
        "malesuada fames ac turpis egestas. Donec odio",
    ]
    places = [text.index(start) for start in starts]
    assert places == sorted(places)
    assert not re.search(r"^\d+$", text, re.M)  # page numbers


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_files_get_the_right_sentence(name: str, test_data: Path) -> None:
    with pytest.raises(CorpusError, match=f"(?s){re.escape(name)} .*{AWKWARD[name]}"):
        read(test_data / "pdfs" / "awkward" / name)


def test_awkward_files_that_can_be_read(test_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = test_data / "pdfs" / "awkward"
    texts, said = read(folder / "html_named_pdf.pdf")
    assert texts == ["404 not found"]
    assert any("is a web page (HTML) by its content; read as that" in sentence for sentence in said)
    texts, said = read(folder / "qpdf_damaged_stream.pdf")
    assert texts == ["Potato"]
    assert any(
        "qpdf_damaged_stream.pdf: the file is damaged: one of its parts does not unpack; what can be read on the one "
        "page with text is taken" in sentence
        for sentence in said
    )
    texts, said = read(folder / "encrypted_r6_opens_with_empty_password.pdf")
    assert texts[0].startswith("pdf encryption test") and not any("damaged" in sentence for sentence in said)
    monkeypatch.setenv("OCTAVO_PASSWORD", "openpassword")
    assert read(folder / "encrypted_user_password.pdf")[0][0].startswith("Lorem ipsum dolor sit amet")
    monkeypatch.setenv("OCTAVO_PASSWORD", "wrong")
    with pytest.raises(CorpusError, match="the password in OCTAVO_PASSWORD does not open it"):
        read(folder / "encrypted_user_password.pdf")


def test_the_whole_folder_is_read_and_summed_up(test_data: Path) -> None:
    texts, said = read(test_data / "pdfs")
    assert len(texts) == 7 + 3
    left_out = [sentence for sentence in said if sentence.startswith("left out")]
    assert len(left_out) == len(AWKWARD)
    assert all(any(name in sentence for sentence in left_out) for name in AWKWARD)
    damaged = [sentence for sentence in said if "the file is damaged" in sentence]
    assert len(damaged) == 1 and "qpdf_damaged_stream" in damaged[0]
    assert said[-1] == "10 files read, 6 left out or cut short, with the reasons above"
