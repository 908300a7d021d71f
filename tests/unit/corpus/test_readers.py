"""Every reader on a small document of its format, chosen by name and by content."""

from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path

import pytest

from octavo.corpus.sources import FilesSource
from octavo.errors import CorpusError, MissingExtra
from unit.corpus.making import docx, epub, odt, pdf, tarred, zipped

PARAGRAPHS = "One fox.\n\nTwo foxes."
HTML = (
    "<!DOCTYPE html><html><head><title>no</title></head><body><nav>menu</nav><p>One <b>fox</b>.</p>"
    "<script>no()</script><p>Two\n   foxes.</p></body></html>"
)
RTF = rb"{\rtf1\ansi{\fonttbl\f0 Arial;}\f0 One fox.\par Two foxes.\par}"


class Read:
    def __init__(self, path: Path, **options: object) -> None:
        self.said: list[str] = []
        source = FilesSource.model_validate({"paths": (str(path),), **options}).build(report=self.said.append)
        self.named = [(document.name, "".join(document.pieces)) for document in source.documents()]
        self.texts = [text for _, text in self.named]


def documents() -> dict[str, bytes]:
    return {
        "a.pdf": pdf([[(50, 700, "One fox."), (50, 660, "Two foxes.")]]),
        "a.docx": docx(
            "<w:p><w:r><w:t>One fox.</w:t></w:r></w:p><w:p><w:r><w:t>Two foxes.</w:t></w:r></w:p>"
        ),
        "a.odt": odt(
            "<office:text><text:h>One fox.</text:h><text:p>Two<text:s/>foxes.</text:p></office:text>"
        ),
        "a.epub": epub({"2.html": "<p>Two foxes.</p>", "1.html": "<p>One fox.</p>"}, ["1.html", "2.html"]),
        "a.html": HTML.encode(),
        "a.rtf": RTF,
        "a.txt": PARAGRAPHS.encode(),
        "a.md": PARAGRAPHS.encode(),
    }


@pytest.mark.parametrize("name", documents())
def test_paragraphs_of_every_format(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(documents()[name])
    assert Read(tmp_path / name).texts == [PARAGRAPHS]


def test_a_chapter_that_a_book_names_again_and_again_is_read_once(tmp_path: Path) -> None:
    """One of 1 KB that was named 200,000 times made 220 MB of text."""
    pages = {"1.html": "<p>One fox.</p>", "2.html": "<p>Two foxes.</p>"}
    (tmp_path / "a.epub").write_bytes(epub(pages, ["1.html", "2.html", "1.html"] * 1000))
    assert Read(tmp_path / "a.epub").texts == [PARAGRAPHS]


@pytest.mark.parametrize("name", [name for name in documents() if name not in ("a.txt", "a.md")])
def test_content_decides_where_the_name_is_wrong(name: str, tmp_path: Path) -> None:
    for wrong in ("a.xyz", "a.pdf", "a.docx", "a"):
        if wrong == name:
            continue
        (tmp_path / wrong).write_bytes(documents()[name])
        assert Read(tmp_path / wrong).texts == [PARAGRAPHS], wrong
    read = Read(tmp_path)
    assert set(read.texts) == {PARAGRAPHS} and len(read.texts) >= 3  # in a folder too
    assert any("by its content; read as that" in said for said in read.said)


def test_a_text_by_the_name_of_a_document(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_text("Only text.")
    read = Read(tmp_path / "a.pdf")
    assert read.texts == ["Only text."]
    assert any("is plain text by its content" in said for said in read.said)


def test_word_documents_in_detail(tmp_path: Path) -> None:
    body = (
        '<w:p><w:pPr><w:tabs><w:tab w:pos="9"/></w:tabs></w:pPr><w:r><w:t>a</w:t><w:tab/><w:t>b</w:t>'
        "<w:br/><w:t>c</w:t></w:r></w:p>"
        "<w:p><w:del><w:r><w:delText>gone</w:delText></w:r></w:del><w:ins><w:r><w:t>new</w:t></w:r></w:ins></w:p>"
        "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>1</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>2</w:t></w:r></w:p></w:tc></w:tr></w:tbl>"
    )
    (tmp_path / "a.docx").write_bytes(docx(body))
    assert Read(tmp_path / "a.docx").texts == ["a\tb\nc\n\nnew\n\n1\t2"]


def test_web_pages_in_detail(tmp_path: Path) -> None:
    page = (
        "<html><body><h1>T</h1>x<br>y<ul><li>a</li><li>b</li></ul><table><tr><td>1</td><td>2</td></tr></table>"
        "<pre>def f():\n\n    pass</pre><p>ma&ntilde;ana <i>f&uuml;r</i> <!-- no -->&#x0639;</p><footer>no</footer>"
    )
    (tmp_path / "a.html").write_text(page)
    assert Read(tmp_path / "a.html").texts == [
        "T\n\nx\ny\n\na\n\nb\n\n1\t2\n\ndef f():\n\n    pass\n\nmañana für ع"
    ]


def test_pages_say_their_encoding(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_bytes('<meta charset="windows-1251"><p>Мама мыла раму</p>'.encode("cp1251"))
    assert Read(tmp_path / "a.html").texts == ["Мама мыла раму"]


def test_very_deep_pages_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("<html><body>" + "<div>" * 5_000 + "deep")
    assert Read(tmp_path / "a.html").texts == ["deep"]


def test_locked_books(tmp_path: Path) -> None:
    lock = (
        '<encryption><EncryptedData><EncryptionMethod Algorithm="http://aes"/></EncryptedData></encryption>'
    )
    book = zipped({"mimetype": "application/epub+zip", "META-INF/encryption.xml": lock})
    (tmp_path / "a.epub").write_bytes(book)
    with pytest.raises(CorpusError, match=r"a\.epub is locked by its publisher \(DRM\)"):
        Read(tmp_path / "a.epub")


@pytest.mark.parametrize("sign", [",", ";", "\t"])
def test_tables(sign: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f'id{sign}text\r\n1{sign}"one\n\n""fox"""\r\n2{sign}\r\n3{sign}two')
    read = Read(tmp_path / "a.csv")
    assert read.texts == ['one\n\n"fox"', "two"]
    with pytest.raises(CorpusError, match=r"has no column 'story'; it has 'id', 'text'"):
        Read(tmp_path / "a.csv", field="story")


def test_a_quote_that_is_never_closed(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('text\nfine\n"open\nand on')
    with pytest.raises(CorpusError, match="is not CSV") as caught:
        Read(tmp_path / "a.csv")
    assert caught.value.remedy


def test_parquet(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = [f"story {number}" for number in range(1000)] + [None, ""]
    pq.write_table(pa.table({"id": range(1002), "text": rows}), tmp_path / "a.parquet", row_group_size=100)
    read = Read(tmp_path / "a.parquet")
    assert read.texts == rows[:1000]
    assert read.named[3][0] == f"{tmp_path / 'a.parquet'}, row 4"
    with pytest.raises(CorpusError, match=r"has no column 'story'; it has 'id', 'text'"):
        Read(tmp_path / "a.parquet", field="story")
    with pytest.raises(CorpusError, match="holds no text in the column 'id'"):
        Read(tmp_path / "a.parquet", field="id")


def test_archives_of_everything(tmp_path: Path) -> None:
    inner = documents()
    (tmp_path / "a.zip").write_bytes(zipped({**inner, "picture.png": b"\x89PNG", "__MACOSX/a.txt": "no"}))
    assert Read(tmp_path / "a.zip").texts == [PARAGRAPHS] * len(inner)
    for compress in (False, True):
        (tmp_path / "a.tar.gz").write_bytes(tarred(inner, compress=compress))
        assert Read(tmp_path / "a.tar.gz").texts == [PARAGRAPHS] * len(inner)
    for suffix, pack in ((".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)):
        path = tmp_path / f"a.pdf{suffix}"
        path.write_bytes(pack(inner["a.pdf"]))
        assert Read(path).named == [(str(path.with_suffix("")), PARAGRAPHS)]
    nested = zipped({"in/b.zip": zipped({"c.txt": "inside"}), "d.jsonl": '{"text": "record"}'})
    (tmp_path / "a.zip").write_bytes(nested)
    assert [text for name, text in Read(tmp_path / "a.zip").named] == ["inside", "record"]


@pytest.mark.parametrize("zeros", [0, 4, 64, 1 << 18, (1 << 19) + 4])
def test_xz_streams_are_read_to_the_end_whatever_fills_them_up(tmp_path: Path, zeros: int) -> None:
    parts = [lzma.compress(text) for text in (b"one ", b"two ", b"three")]
    whole = (b"\0" * zeros).join([*parts, b""])
    (tmp_path / "a.txt.xz").write_bytes(whole)
    assert Read(tmp_path / "a.txt.xz").texts == ["one two three"]
    (tmp_path / "a.txt.xz").write_bytes(whole + parts[0][:20])
    with pytest.raises(CorpusError, match="damaged"):
        Read(tmp_path / "a.txt.xz")


def test_a_missing_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from octavo.corpus.readers import base

    (tmp_path / "a.pdf").write_bytes(documents()["a.pdf"])
    (tmp_path / "b.pdf").write_bytes(documents()["a.pdf"])
    monkeypatch.setattr(base, "find_spec", lambda name: None)
    for path in (tmp_path / "a.pdf", tmp_path):  # by name, and where nothing else is there
        with pytest.raises(MissingExtra, match="Reading a PDF document needs the package 'pypdfium2'"):
            Read(path)
    (tmp_path / "c.txt").write_text("text")
    read = Read(tmp_path)
    assert read.texts == ["text"]
    [what] = [index for index, said in enumerate(read.said) if "pypdfium2" in said]
    assert "pip install 'octavo[documents]'" in read.said[what + 1]
