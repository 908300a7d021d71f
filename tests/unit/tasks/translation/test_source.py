"""Pairs from parallel files, tables and JSON lines; what is left out; what is refused, with file and line."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from octavo.errors import CorpusError
from octavo.tasks.translation.source import PairsSource


def read(*paths: Path, **options: Any) -> tuple[list[str], list[str]]:
    said: list[str] = []
    source = PairsSource(paths=tuple(map(str, paths)), **options).build(report=said.append)
    return ["".join(document.pieces) for document in source.documents()], said


def write(path: Path, text: str) -> Path:
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return path


EXPECTED = ["one dog\nein Hund", "two cats\nzwei Katzen"]


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_all_forms_say_the_same(tmp_path: Path, ending: str) -> None:
    english = write(tmp_path / f"a.en{ending}", "one  dog\r\n two cats")
    german = write(tmp_path / f"a.de{ending}", "ein Hund\nzwei\tKatzen\n")
    assert read(english, german)[0] == EXPECTED
    table = write(tmp_path / f"a.tsv{ending}", "one dog\tein Hund\tmore\n\ntwo cats\tzwei Katzen\n")
    assert read(table)[0] == EXPECTED
    turned = write(tmp_path / f"b.tsv{ending}", "ein Hund\tone dog\nzwei Katzen\ttwo cats\n")
    assert read(turned, fields=(2, 1))[0] == EXPECTED
    named = write(tmp_path / f"c.tsv{ending}", "id\tde\ten\n1\tein Hund\tone dog\n2\tzwei Katzen\ttwo cats\n")
    assert read(named, fields=("en", "de"))[0] == EXPECTED
    lines = '{"source": "one dog", "target": "ein Hund"}\n\n{"target": "zwei Katzen", "source": "two\\ncats"}'
    assert read(write(tmp_path / f"d.jsonl{ending}", lines))[0] == EXPECTED


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    rows = ["a\tb", "\tb", "a\t ", "a" * 30 + "\tb" * 1, "x" * 70 + "\t" + "y" * 70, "aa\tbbb"]
    found, said = read(write(tmp_path / "a.tsv", "\n".join(rows)), longest=60, ratio=9)
    assert found == ["a\nb", "aa\nbbb"]
    assert said == [
        "2 pairs read, 4 left out: 1 longer than 60 characters, 2 with an empty side, "
        "1 with one side more than 9 times as long"
    ]


def refused(tmp_path: Path, name: str, text: str, **options: Any) -> str:
    with pytest.raises(CorpusError) as error:
        read(write(tmp_path / name, text), **options)
    assert error.value.remedy
    return error.value.what


def test_wrong_files_are_named_with_their_line(tmp_path: Path) -> None:
    one, other = write(tmp_path / "a.en", "a\nb\nc\n"), write(tmp_path / "a.de", "a\nb\n")
    with pytest.raises(CorpusError, match=r"a\.en has 3 lines and .*a\.de has 2: line 3 of .*a\.en has no"):
        read(one, other)
    with pytest.raises(CorpusError, match="3 files were given"):
        read(one, other, write(tmp_path / "a.fr", "a"))
    what = refused(tmp_path, "a.tsv", "a\tb\na,b\n")
    assert what.endswith("a.tsv, line 2 has 1 column, and column 2 is needed.")
    assert "names no columns 'en' and 'de'" in refused(tmp_path, "b.tsv", "a\tb\n", fields=("en", "de"))
    assert "line 2 is not JSON" in refused(tmp_path, "a.jsonl", '{"source": "a", "target": "b"}\n{"source"\n')
    assert "has no field 'target'" in refused(tmp_path, "b.jsonl", '{"source": "a", "goal": "b"}\n')
    assert "holds no text but int" in refused(tmp_path, "c.jsonl", '{"source": "a", "target": 1}\n')
    assert "d.tsv can be taken: 2 with an empty side." in refused(tmp_path, "d.tsv", "\ta\nb\t \n")
    assert "neither a table nor JSON lines" in refused(tmp_path, "a.csv", "a;b\n")
    with pytest.raises(CorpusError, match="No pairs were given"):
        read()
    with pytest.raises(CorpusError, match="There is no file"):
        read(tmp_path / "none.tsv")


@pytest.mark.parametrize(
    ("first", "names"),
    [("en\tes", True), ("English\tGerman", True), ("en-GB\tpt_BR", True), ("a dog\tein Hund", False)],
)
def test_a_first_line_that_may_name_the_columns_is_said(tmp_path: Path, first: str, names: bool) -> None:
    path = write(tmp_path / "a.tsv", f"{first}\none dog\tun perro\n")
    found, said = read(path)
    assert len(found) == 2 and len(said) == names
    if names:
        a, b = first.split("\t")
        assert f"a.tsv, line 1 is read as a pair, '{a}' and '{b}'" in said[0]
        assert f"'corpus.fields=[{a},{b}]'" in said[0]
        assert len(read(path, fields=(a, b))[0]) == 1
