"""Archives and documents made to do harm: a sentence each, nothing written outside, good files untouched."""

from __future__ import annotations

import gzip
import subprocess
import sys
import tarfile
from contextlib import suppress
from io import BytesIO
from pathlib import Path

import pytest

from octavo.corpus import archives, limits, sandbox
from octavo.corpus.readers.html import HtmlConfig
from octavo.corpus.sources import FilesSource
from octavo.errors import CorpusError
from unit.corpus.making import docx, pdf, zipped


class Read:
    def __init__(self, path: Path, **options: object) -> None:
        self.said: list[str] = []
        source = FilesSource.model_validate({"paths": (str(path),), **options}).build(report=self.said.append)
        self.texts = ["".join(document.pieces) for document in source.documents()]


@pytest.mark.parametrize("name", ["../out.txt", "/out.txt", "a/../../out.txt", "..\\out.txt", "C:\\out.txt"])
def test_names_that_lead_out_are_passed_over(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    (folder / "a.zip").write_bytes(zipped({name: "escaped", "good.txt": "good"}))
    before = sorted(tmp_path.rglob("*"))
    read = Read(folder)
    assert read.texts == ["good"]
    assert any("its name leads out of the archive" in said for said in read.said)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_passed_over(kind: bytes, tmp_path: Path) -> None:
    out = BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        link = tarfile.TarInfo("a.txt")
        link.type, link.linkname = kind, "/etc/passwd"
        archive.addfile(link)
        good = tarfile.TarInfo("b.txt")
        good.size = 4
        archive.addfile(good, BytesIO(b"good"))
    (tmp_path / "a.tar").write_bytes(out.getvalue())
    read = Read(tmp_path / "a.tar")
    assert read.texts == ["good"]
    assert any("it is a link or a device" in said for said in read.said)


def test_a_bomb_in_an_archive_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "ALWAYS", 1 << 20)
    (tmp_path / "a.zip").write_bytes(zipped({"bomb.txt": b" " * (4 << 20), "good.txt": "good"}))
    read = Read(tmp_path / "a.zip")
    assert read.texts == ["good"]
    assert any("it unpacks to more than 200 times its size" in said for said in read.said)


def test_a_compressed_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "ALWAYS", 1 << 20)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b" " * (8 << 20)))
    with pytest.raises(CorpusError, match="an archive made to do harm"):
        Read(tmp_path / "a.txt.gz")


def test_archives_are_opened_only_so_deep(tmp_path: Path) -> None:
    data: str | bytes = "deep"
    for level in range(7):
        data = zipped({"a.zip" if level else "a.txt": data})
    (tmp_path / "a.zip").write_bytes(bytes(data))
    (tmp_path / "good.txt").write_text("good")
    read = Read(tmp_path)
    assert read.texts == ["good"]
    assert any("is an archive in 4 archives" in said for said in read.said)


def test_entities_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.docx").write_bytes(
        zipped({"word/document.xml": '<!DOCTYPE x [<!ENTITY a "ha">]><x>&a;</x>'})
    )
    with pytest.raises(CorpusError, match=r"a\.docx declares XML entities"):
        Read(tmp_path / "a.docx")


def test_every_cut_of_a_document_gives_text_or_a_sentence(tmp_path: Path) -> None:
    good = {"a.docx": docx("<w:p><w:r><w:t>fox</w:t></w:r></w:p>" * 50), "a.pdf": pdf([[(50, 700, "fox")]])}
    for name, data in good.items():
        for share in (0.1, 0.4, 0.7, 0.95):
            path = tmp_path / f"{share}{name}"
            path.write_bytes(data[: int(len(data) * share)])
    (tmp_path / "good.txt").write_text("good")
    read = Read(tmp_path)
    assert read.texts[-1] == "good" and set(read.texts) <= {"good", "fox"}


def test_a_document_that_hangs_is_given_up(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("<html>" + "<div>" * 200_000)
    with pytest.raises(CorpusError, match="was not read within") as caught:
        Read(tmp_path / "a.html", document_seconds=1)
    assert "document_seconds" in (caught.value.remedy or "")
    (tmp_path / "a.html").write_text("<html>fine")
    assert Read(tmp_path / "a.html").texts == ["fine"]  # by a new child


def test_memory_is_limited(tmp_path: Path) -> None:
    pytest.importorskip("resource")
    with (tmp_path / "a.html").open("wb") as file:
        file.write(b"<html>" + b"<p>word" * 20_000_000)
    with pytest.raises(CorpusError, match=r"needs more than 256 MB|was not read within"):
        Read(tmp_path / "a.html", document_megabytes=256)


def test_a_reader_that_breaks_is_a_sentence(tmp_path: Path) -> None:
    from octavo.corpus import sandbox_child

    class Broken:
        def read(self) -> bytes:
            raise ZeroDivisionError("strange")

    out = BytesIO()
    job = {"kind": HtmlConfig.model_fields["kind"].default, "options": {}, "megabytes": 256}
    sandbox_child.answer(job, Broken(), out)  # type: ignore[arg-type]
    assert b"is damaged: ZeroDivisionError: strange." in out.getvalue()


# One or two of each kind, of the two hundred of benchmarks/hostile_reading.py.
FEW = """out0.zip out1.tar out3.tar.gz link0.tar link0.zip bomb.txt.xz matryoshka.zip header.tar deep20.zip deep200.tar
deep.docx deep.jsonl deep.rtf entity0.docx entity1.odt entity1.epub directory.zip damaged000 damaged100
damaged130""".split()


def test_a_few_of_the_hostile_files_beside_good_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "ALWAYS", 1 << 19)
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    from hostile import hostile_files

    folder = tmp_path / "inside" / "texts"
    folder.mkdir(parents=True)
    (tmp_path / "real.pdf").write_bytes(
        pdf([[(50, 700 - 12 * n, f"Line {n} of a page.") for n in range(40)]])
    )
    made = [
        each
        for each in hostile_files([tmp_path / "real.pdf"], bomb=4 << 20)
        if each[0].startswith(tuple(FEW))
    ]
    assert len(made) == 22
    for name, data in made:
        (folder / name).write_bytes(data)
    good = {"aaa.txt": "first", "mmm.txt": "middle", "zzz.txt": "last"}
    for name, text in good.items():
        (folder / name).write_text(text)
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.chdir(folder)

    alone = [FilesSource(paths=(name,)).build() for name, _ in made]
    for source in alone:
        with suppress(CorpusError):  # a sentence; anything else is an error here
            for document in source.documents():
                for _ in document.pieces:
                    pass
    source = FilesSource(paths=(str(folder),)).build()
    texts = {document.name: "".join(document.pieces) for document in source.documents()}
    assert {name: texts.get(name) for name in good} == good
    assert not any("escaped" in text or "root:" in text for text in texts.values())
    assert sorted(tmp_path.rglob("*")) == before and not Path("/tmp/escaped.txt").exists()
    assert len(source.left_out) > 10


def test_a_document_in_an_archive_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "SENT_BYTES", 1_000_000)
    page = "<html><body>" + "".join(f"<p>{number}</p>" for number in range(120_000))
    (tmp_path / "a.zip").write_bytes(zipped({"big.html": page, "good.html": "<html><p>good"}))
    read = Read(tmp_path / "a.zip")
    assert read.texts == ["good"]
    assert any("a document inside an archive may have 1 MB" in said for said in read.said)


def test_a_document_that_gets_on_may_take_longer() -> None:
    pytest.importorskip("resource")
    code = """if True:
        import resource
        from octavo.corpus import limits
        def left():
            return resource.getrlimit(resource.RLIMIT_CPU)[0]
        limits._used = lambda: 0.5
        limits.hold(8, 4096, 1_000)
        print(left())
        for now in (5.0, 31.0):
            limits._used = lambda: now
            limits.got_on()
            print(left())
    """
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.split() == ["9", "13", "33"]  # 8 more each time, 32 in all


def test_time_grows_with_the_file_after_a_megabyte() -> None:
    assert limits.allowed(8, 10) == limits.allowed(8, 1_000_000) == 8
    assert limits.allowed(8, 3_000_000) == 24 and limits.in_all(8, 3_000_000) == 96


def test_the_child_that_reads_is_told_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPSEEK_API_KEY", "sk-canary-51")
    sandbox._keeper.drop()
    (tmp_path / "a.docx").write_bytes(docx("a cat sat"))
    try:
        assert Read(tmp_path / "a.docx").texts
        assert sandbox._keeper.child is not None
        told = Path(f"/proc/{sandbox._keeper.child.process.pid}/environ")
        if not told.exists():
            pytest.skip("needs /proc")
        assert b"PATH=" in told.read_bytes() and b"sk-canary-51" not in told.read_bytes()
    finally:
        sandbox._keeper.drop()
