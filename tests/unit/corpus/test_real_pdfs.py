"""The PDFs of the test data: what a person reads on the rendered pages is what is expected here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from octavo.corpus.sources import FilesSource
from octavo.errors import CorpusError

# Whole paragraphs, from the first to the last word, as they stand on the pages.
EXPECTED = {
    "ar_habibi_rtl.pdf": ["حَبيبي habibi"],
    "en_google_doc.pdf": [
        "Example document",
        "Beautiful is better than ugly.",
        "There should be one-- and preferably only one --obvious way to do it.",
        "Namespaces are one honking great idea -- let's do more of those!",
        "Capital Jakarta Berlin Vienna Paris Vatican City",
    ],
    "en_two_column_latex.pdf": [
        "Two-Column Document with Lorem Ipsum",
        "This is a sample document with two columns filled with Lorem Ipsum text.",
        # from the foot of the left column to the head of the right one
        "Nulla malesuada porttitor diam. Donec felis erat, congue non, volutpat at, tincidunt tristique, libero. "
        "Vivamus viverra fermentum felis. Donec nonummy pellentesque ante. Phasellus adipiscing semper elit. Proin "
        "fermentum massa ac quam. Sed diam turpis, molestie vitae, placerat a, molestie nec, leo. Maecenas lacinia. "
        "Nam ipsum ligula, eleifend at, accumsan nec, suscipit a, ipsum. Morbi blandit ligula feugiat magna. Nunc "
        "eleifend consequat lorem. Sed lacinia nulla vitae enim. Pellentesque tincidunt purus vel magna. Integer non "
        "enim. Praesent euismod nunc eu purus. Donec bibendum quam in tellus. Nullam cursus pulvinar lectus. Donec et "
        "mi. Nam vulputate metus eu enim. Vestibulum pellentesque felis eu massa.",
        # an indented paragraph inside a column
        "Nam dui ligula, fringilla a, euismod sodales, sollicitudin vel, wisi. Morbi auctor lorem non justo. Nam lacus "
        "libero, pretium at, lobortis vitae, ultricies et, tellus. Donec aliquet, tortor sed accumsan bibendum, erat "
        "ligula aliquet magna, vitae ornare odio metus a mi. Morbi ac orci et nisl hendrerit mollis. Suspendisse ut "
        "massa. Cras nec ante. Pellentesque a nulla. Cum sociis natoque penatibus et magnis dis parturient montes, "
        "nascetur ridiculus mus. Aliquam tincidunt urna. Nulla ullamcorper vestibulum turpis. Pellentesque cursus "
        "luctus mauris.",
    ],
    "en_rescience_3162890.pdf": [
        "1 Introduction",
        # hyphens at line ends, ligatures
        "Partial differential equations (PDEs) are differential equations which contain a-priori unkown multivariable "
        "functions and their partial derivatives. They are used to model various physical phenomena, such as heat, "
        "fluid dynamics or quantum mechanics. There are several numerical methods to solve PDEs. A common one is the "
        "finite-difference method (FDM), which approaches the differential equation by discretizing the problem space "
        "and converting the PDE to a system of linear equations. The obtained linear system can be solved using an "
        "iterative procedure which updates the solution until convergence is reached.",
        # over the foot of the page, its notes and the next running head
        "The Poisson equation is a second order linear partial differential equation (PDE). In order to guarantee the "
        "existence and uniqueness of a solution, appropriate boundary conditions needs to be prescribed [[2]]. In this "
        "paper only Dirichlet boundary conditions were considered. The Poisson problem hence reads:",
    ],
    "en_rescience_3763416.pdf": [
        "This article provides a full report on the effort to reproduce the work described in the article “Parallel "
        "Functional Programming with Skeletons: the OCamlP3L experiment” [1], written in 1998. It presented OCamlP3l "
        "[2], a parallel programming system written in the OCaml programming language [3].",
        "1. recover the source code of the OCamlP3l system",
        "4. verify speedup might be challenging: many parameters may have changed in microprocessors and network.",
        "Saving version 2.03 Here we decided to make a pause, and properly deposit this version 2.03, with extended "
        "metadata, into Software Heritage [5] via the HAL national open access archive, the result being now availabe "
        "as [6].",
    ],
    "es_bases_de_datos.pdf": [
        "Esta obra está bajo una licencia Creative Commons «Atribución-CompartirIgual 4.0 Internacional».",
    ],
}
# Running heads and feet that stand on the pages and are no part of the text.
HEADS = {
    "en_rescience_3162890.pdf": [
        "ReScience C 5.2",
        "Challenge 2019\n\nditions",
    ],
    "en_rescience_3763416.pdf": ["ReScience C 6.1"],
}
AWKWARD = {
    "blank_page_no_contents.pdf": "holds no text: its pages are blank",
    "empty_0_bytes.pdf": "is empty",
    "invalid_header_only.pdf": "is no PDF that can be opened: it is damaged",
    "scan_linn_two_column.pdf": "is a scan: its pages are pictures without text.*ocrmypdf --skip-text",
    "font_without_unicode_map.pdf": "a font without Unicode map: only rubbish comes out.*ocrmypdf --force-ocr",
    "encrypted_user_password.pdf": "is encrypted.*OCTAVO_PASSWORD",
}


def read(path: Path) -> tuple[list[str], list[str]]:
    said: list[str] = []
    source = FilesSource(paths=(str(path),)).build(report=said.append)
    return ["".join(document.pieces) for document in source.documents()], said


@pytest.fixture(autouse=True)
def no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OCTAVO_PASSWORD", raising=False)


@pytest.mark.parametrize("name", EXPECTED)
def test_paragraphs_come_whole_and_in_order(name: str, test_data: Path) -> None:
    [text], _ = read(test_data / "pdfs" / "text" / name)
    paragraphs = text.split("\n\n")
    places = [
        paragraphs.index(paragraph) if paragraph in paragraphs else paragraph for paragraph in EXPECTED[name]
    ]
    assert not [place for place in places if isinstance(place, str)]
    for head in HEADS.get(name, []):
        assert head not in text
    assert not re.search("[ﬀ-ﬆ\x00-\x09\x0b-\x1f\u00ad]", text)


def test_the_order_of_columns_pages_and_paragraphs(test_data: Path) -> None:
    [text], _ = read(test_data / "pdfs" / "text" / "en_two_column_latex.pdf")
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


def test_a_paragraph_over_four_pages(test_data: Path) -> None:
    [text], _ = read(test_data / "pdfs" / "text" / "en_4pages.pdf")
    assert "\n" not in text and text.count("Hello, here is some text without a meaning.") > 10
    assert not re.search(r" [1-4] (?:Hello|This|If|Is|match|some)", text)


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_files_get_the_right_sentence(name: str, test_data: Path) -> None:
    with pytest.raises(CorpusError, match=f"(?s){re.escape(name)} .*{AWKWARD[name]}"):
        read(test_data / "pdfs" / "awkward" / name)


def test_awkward_files_that_can_be_read(test_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = test_data / "pdfs" / "awkward"
    texts, said = read(folder / "html_named_pdf.pdf")
    assert texts == ["404 not found"]
    assert any("is a web page (HTML) by its content; read as that" in sentence for sentence in said)
    assert read(folder / "qpdf_damaged_stream.pdf")[0] == ["Potato"]
    assert read(folder / "encrypted_r6_opens_with_empty_password.pdf")[0][0].startswith("pdf encryption test")
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
    assert said[-1] == "10 files read, 6 left out or cut short, with the reasons above"
