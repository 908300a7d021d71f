"""What readers once lost or glued together: records, rows, names, pages, notes."""

from __future__ import annotations

import bz2
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from octavo.corpus.documents import Document
from octavo.corpus.sources import Leaf
from octavo.errors import CorpusError
from octavo.run.corpus import written_pieces
from unit.corpus.making import docx, pdf, zipped
from unit.corpus.test_sources import Read


def test_a_data_set_beside_one_file_is_read_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def leaves(self: Any, path: str) -> Iterator[Leaf]:
        yield Leaf(path, True, True, iter([Document("row 1", iter(["from the hub"]))]))

    monkeypatch.setattr("octavo.corpus.sources.Library.hub_leaves", leaves)
    (tmp_path / "s.txt").write_text("local story")
    read = Read(tmp_path / "s.txt", "hf:a/b", documents="whole")
    assert read.texts == ["local story\n\nfrom the hub"]


def test_lines_of_two_records_are_never_one(tmp_path: Path) -> None:
    rows = [{"text": "one\ntwo"}, {"text": "three\nfour\n"}, {"text": "five"}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert Read(tmp_path / "a.jsonl", documents="lines").texts == ["one", "two", "three", "four", "five"]


def test_tables_with_tabs_are_told_by_their_name(tmp_path: Path) -> None:
    (tmp_path / "b.tsv").write_text("text\nOnce, upon a time; there\nHello\n")
    assert Read(tmp_path / "b.tsv").texts == ["Once, upon a time; there", "Hello"]
    (tmp_path / "c.TAB").write_text("id,number\ttext\n1\tHello, you\n")
    assert Read(tmp_path / "c.TAB").texts == ["Hello, you"]


def test_a_row_with_more_cells_than_columns_is_no_text_cut_short(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,text\n1,fine,\n2,Once, upon a time\n")
    with pytest.raises(CorpusError, match=r"line 3 has 3 cells, and the first row has 2") as error:
        Read(tmp_path / "a.csv")
    assert "quotation marks" in str(error.value.remedy)


def test_files_of_one_name_in_two_folders_are_two(tmp_path: Path) -> None:
    for name in ("de", "en"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "book.txt").write_text(name)
        (tmp_path / name / "bad.docx").write_bytes(b"PK\x03\x04 cut")
    read = Read(tmp_path / "de", tmp_path / "en")
    assert [name for name, _ in read.named] == ["book.txt", f"{tmp_path}/en/book.txt"]
    assert sum("damaged" in said for said in read.said) == 2 and len(read.source.left_out) == 2
    assert [name for name, _ in Read(tmp_path / "de").named] == ["book.txt"]


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        ("iso-8859-1", b"\x93It\x92s caf\xe9\x94 \x96 5 \x80", "“It’s café” – 5 €"),
        ("Shift_JIS", "① 髙橋".encode("cp932"), "① 髙橋"),
        ("gb2312", "朱镕基".encode("gb18030"), "朱镕基"),
    ],
)
def test_pages_mean_what_browsers_read(name: str, data: bytes, text: str, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_bytes(f'<meta charset="{name}"><p>'.encode() + data + b"</p>")
    assert Read(tmp_path / "a.html").texts == [text]


def test_a_page_within_a_form_is_a_page(tmp_path: Path) -> None:
    page = '<form id="all"><h1>News</h1><p>All of it.</p><select><option>no</option></select><input value="no"></form>'
    (tmp_path / "a.html").write_text(f"<html><body>{page}</body></html>")
    assert Read(tmp_path / "a.html").texts == ["News\n\nAll of it."]


def test_a_text_that_speaks_of_formats_is_a_text(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("A file that begins with %PDF-1.4 is a PDF.")
    (tmp_path / "b.txt").write_text("BZhang wrote this.")
    assert len(Read(tmp_path).texts) == 2
    (tmp_path / "c.txt.bz2").write_bytes(bz2.compress(b"packed"))
    (tmp_path / "d.bz2").write_bytes(bz2.compress(b""))
    assert Read(tmp_path / "c.txt.bz2").texts == ["packed"]
    (tmp_path / "e.pdf").write_bytes(b"junk\n" + b"\xe2\xe3\n" + pdf([[(10, 700, "Seen")]]))
    pytest.importorskip("pypdfium2")
    assert "Seen" in Read(tmp_path / "e.pdf").texts[0]


def test_notes_at_the_end_are_text(tmp_path: Path) -> None:
    from zipfile import ZipFile

    body = "<w:p><w:r><w:t>{}</w:t></w:r></w:p>"
    (tmp_path / "a.docx").write_bytes(docx(body.format("text")))
    with ZipFile(tmp_path / "a.docx") as package:
        parts = {name: package.read(name).decode() for name in package.namelist()}
    notes = parts["word/document.xml"].replace("text</w:t>", "a note</w:t>")
    (tmp_path / "a.docx").write_bytes(zipped(parts | {"word/endnotes.xml": notes}))
    assert Read(tmp_path / "a.docx").texts == ["text\n\na note"]


def test_a_file_with_a_name_that_is_no_text_is_written_all_the_same() -> None:
    document = SimpleNamespace(file="bad\udcff.txt", pieces=["a"])
    line = "".join(written_pieces(document, lines=False, records=True))  # type: ignore[arg-type]
    assert json.loads(line.encode()) == {"file": "bad?.txt", "text": "a"}
