"""Files as documents: readers, folders, stdin, links, what `auto` chooses and what is said."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from octavo.config.parts import parts
from octavo.corpus.readers import json_list
from octavo.corpus.readers.base import ReaderConfig
from octavo.corpus.sources import FilesSource
from octavo.errors import CorpusError


class Read:
    """A source read through: its documents, and what was said."""

    def __init__(self, *paths: Path | str, **options: Any) -> None:
        self.said: list[str] = []
        self.source = FilesSource(paths=[str(path) for path in paths], **options).build(
            report=self.said.append
        )
        self.named = [(document.name, "".join(document.pieces)) for document in self.source.documents()]
        self.texts = [text for _, text in self.named]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """b.md before sub/a.txt by path; things to pass over beside them."""
    root = tmp_path / "texts"
    (root / "sub").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / "b.md").write_text("# Two\n\ntext\n")
    (root / "a.txt").write_text("one\n")
    (root / "sub" / "a.TXT").write_text("three\n")
    (root / "sub" / "picture.png").write_bytes(b"\x89PNG")
    (root / ".hidden.txt").write_text("no")
    (root / ".git" / "config.txt").write_text("no")
    return root


def test_one_file_is_one_text_to_the_last_character(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbf  one\r\n\r\ntwo\r\n")
    read = Read(path)
    assert read.texts == ["  one\n\ntwo\n"]
    assert read.said == [f"{path}: the whole text is one document"]


def test_a_folder_is_read_in_the_order_of_its_paths(folder: Path) -> None:
    read = Read(folder)
    assert read.named == [("a.txt", "one"), ("b.md", "# Two\n\ntext"), ("sub/a.TXT", "three")]
    assert read.said == ["skipped, of unknown kinds: 1 × .png (picture.png)", "every file is a document"]


def test_every_pass_gives_the_same_and_says_it_once(folder: Path) -> None:
    read = Read(folder)
    again = [(document.name, "".join(document.pieces)) for document in read.source.documents()]
    assert again == read.named
    assert len(read.said) == len(set(read.said)) == 2


def test_whole_joins_files_with_a_blank_line(folder: Path) -> None:
    assert Read(folder, documents="whole").texts == ["one\n\n# Two\n\ntext\n\nthree"]


def test_paths_keep_their_order(folder: Path) -> None:
    assert Read(folder / "sub", folder / "a.txt").texts == ["three", "one"]


@pytest.mark.parametrize("documents", ["separator", "auto"])
def test_separator_lines(documents: str, tmp_path: Path) -> None:
    path = tmp_path / "stories.txt"
    path.write_text("one\n<|endoftext|>\ntwo\n\n<|endoftext|>\n")
    read = Read(path, documents=documents)
    assert read.texts == ["one", "two"]
    assert any("cut into documents at the lines <|endoftext|>" in said for said in read.said) == (
        documents == "auto"
    )


def test_another_separator(tmp_path: Path) -> None:
    path = tmp_path / "stories.txt"
    path.write_text("one\n%%\ntwo\n")
    assert Read(path, documents="separator", separator=" %%\n").texts == ["one", "two"]
    for wrong in ("", "  ", "a\nb"):
        with pytest.raises(ValidationError, match="separator"):
            FilesSource(separator=wrong)


def test_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "stories.txt"
    path.write_text("one\nmore\n\ntwo\n")
    assert Read(path, documents="blank_lines").texts == ["one\nmore", "two"]


def test_lines_are_named_by_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "games.txt").write_text("e4 e5\n\n  \n d4 d5 \r\nc4", encoding="utf-8")
    (tmp_path / "more.txt").write_text("Nf3\n", encoding="utf-8")
    source = FilesSource(paths=(str(tmp_path),), documents="lines").build()
    found = [(document.name, "".join(document.pieces)) for document in source.documents()]
    assert [text for _, text in found] == ["e4 e5", "d4 d5", "c4", "Nf3"]
    assert [name.rpartition("/")[2] for name, _ in found] == [
        "games.txt, line 1",
        "games.txt, line 4",
        "games.txt, line 5",
        "more.txt, line 1",
    ]


def test_auto_looks_only_near_the_beginning(tmp_path: Path) -> None:
    path = tmp_path / "stories.txt"
    path.write_text("word\n" * 400_000 + "<|endoftext|>\n")
    assert len(Read(path).texts) == 1


def test_records(tmp_path: Path) -> None:
    path = tmp_path / "stories.jsonl"
    path.write_text('{"text": "one\\r\\nmore"}\n\n{"text": " "}\n{"text": "zw\\u00f6lf"}')
    read = Read(path)
    assert read.named == [(f"{path}, line 1", "one\nmore"), (f"{path}, line 4", "zwölf")]
    assert read.said == [f"{path}: every record is a document"]
    assert Read(path, documents="file").texts == ["one\nmore\n\nzwölf"]
    assert Read(path, documents="whole").texts == ["one\nmore\n\nzwölf"]
    path.write_text('{"story": "a\\n<|endoftext|>\\nb", "text": 1}\n')
    assert Read(path, field="story").texts == ["a\n<|endoftext|>\nb"]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("{", r"line 2 is not JSON"),
        ("[1]", r"line 2 is not a JSON object but list"),
        ('{"story": "a", "id": 1}', r"line 2 has no field 'text'; it has 'story', 'id'"),
        ('{"text": 3}', r"line 2: the field 'text' holds no text but int"),
        ('{"text": "\\ud800"}', r"line 2: the text holds half a character \(U\+D800 alone\)"),
        ("[" * 100_000, r"line 2 is not JSON"),
    ],
)
def test_bad_records_are_named_by_line(line: str, what: str, tmp_path: Path) -> None:
    path = tmp_path / "stories.jsonl"
    path.write_text('{"text": "fine"}\n' + line + "\n")
    with pytest.raises(CorpusError, match=what) as caught:
        Read(path)
    assert caught.value.remedy


def test_long_records_come_whole(tmp_path: Path) -> None:
    path = tmp_path / "stories.jsonl"
    text = "é word " * 500_000
    path.write_text(json.dumps({"text": text}) + "\n" + json.dumps({"text": "next"}))
    assert Read(path).texts == [text.strip(), "next"]


def test_an_unknown_suffix_is_read_when_named_and_said(folder: Path) -> None:
    (folder / "play.fountain").write_text("INT. ROOM")
    read = Read(folder / "play.fountain")
    assert read.texts == ["INT. ROOM"]
    assert any("files named .fountain are not known; read as plain text" in said for said in read.said)
    assert "INT. ROOM" not in Read(folder).texts


def test_tunes_are_text_in_a_folder_too(tmp_path: Path) -> None:
    (tmp_path / "jigs.abc").write_text("X:1\nK:C\nCDE|\n\nX:2\nK:G\nGAB|\n")
    read = Read(tmp_path, documents="blank_lines")
    assert read.texts == ["X:1\nK:C\nCDE|", "X:2\nK:G\nGAB|"]
    assert not any("not known" in said for said in read.said)


def test_a_converted_file_is_said(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes("Un café, très bon à Orléans.".encode("cp1252"))
    read = Read(path)
    assert read.texts == ["Un café, très bon à Orléans."]
    assert f"{path} is windows-1252, not UTF-8; converted" in read.said


def test_the_same_file_is_read_once(folder: Path) -> None:
    try:
        (folder / "z.txt").symlink_to(folder / "a.txt")
        (folder / "sub" / "up").symlink_to(folder, target_is_directory=True)
    except OSError:
        pytest.skip("no links here")
    read = Read(folder, folder / "a.txt", folder / "b.md")
    assert read.texts == ["one", "# Two\n\ntext", "three"]
    assert "z.txt is the same file as a.txt; read once" in read.said
    assert f"{folder / 'b.md'} is the same file as b.md; read once" in read.said
    assert "a.txt is named twice; read once" in " ".join(Read(folder / "a.txt", folder / "a.txt").said)


def test_bad_files_in_a_folder_are_left_out_and_said(folder: Path) -> None:
    (folder / "empty.txt").write_bytes(b"")
    (folder / "fake.txt").write_bytes(b"%PDF-1.4")
    read = Read(folder)
    assert len(read.texts) == 3
    assert "left out: empty.txt is empty." in read.said
    assert any(said.startswith("left out: fake.txt cannot be opened as a PDF") for said in read.said)
    assert read.said[-1] == "3 files read, 2 left out or cut short, with the reasons above"
    (folder / "damaged.txt").write_bytes(b"%PDF-1.4")
    remedies = [said for said in Read(folder).said if said.startswith("  → ")]
    assert len(remedies) == len(set(remedies)) >= 1, "said once for all files that it helps"
    for name in ("empty.txt", "fake.txt"):
        with pytest.raises(CorpusError, match=name):
            Read(folder / name)


def test_paths_that_give_nothing(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="No text was given"):
        FilesSource().build()
    with pytest.raises(CorpusError, match=r"There is no file or folder nowhere\.txt"):
        Read("nowhere.txt")
    with pytest.raises(CorpusError, match="no file in it is of a kind that is known"):
        Read(tmp_path)
    (tmp_path / "a.txt").write_bytes(b"")
    with pytest.raises(CorpusError, match="none of its files can be read"):
        Read(tmp_path)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(folder: Path) -> None:
    (folder / "a.txt").chmod(0)
    with pytest.raises(CorpusError, match="cannot be read"):
        Read(folder / "a.txt")


def test_stdin_is_kept_for_further_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"typed\r\n")))
    read = Read("-")
    assert read.named == [("stdin", "typed\n")]
    assert ["".join(document.pieces) for document in read.source.documents()] == ["typed\n"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_is_kept_too(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    if os.fork() == 0:
        path.write_text("piped")
        os._exit(0)
    read = Read(path)
    os.wait()
    assert read.texts == ["piped"]
    assert ["".join(document.pieces) for document in read.source.documents()] == ["piped"]


def test_a_folder_with_one_file_is_one_whole_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(" one\n")
    assert Read(tmp_path).texts == [" one\n"]
    assert Read(tmp_path, documents="file").texts == ["one"]


def test_the_description_is_json(folder: Path) -> None:
    read = Read(folder)
    described = json.loads(json.dumps(read.source.describe()))
    assert [file["name"] for file in described["files"]] == ["a.txt", "b.md", "sub/a.TXT"]
    assert described["bytes"] == read.source.total_bytes == 22


def test_no_two_readers_claim_a_suffix() -> None:
    suffixes = [
        suffix
        for kind in parts("reader").values()
        if issubclass(kind, ReaderConfig)
        for suffix in kind.suffixes
    ]
    assert len(suffixes) == len(set(suffixes)) and {".txt", ".md", ".jsonl"} <= set(suffixes)


def test_nothing_is_left_unsaid(tmp_path: Path) -> None:
    for number in range(230):
        (tmp_path / f"{number:03}.txt").write_bytes(b"")
    (tmp_path / "good.txt").write_text("good")
    read = Read(tmp_path)
    assert read.texts == ["good"]
    assert len(read.source.left_out) == 230
    assert read.said[-2] == f"and {232 - 200} more sentences about single files, which are not shown"
    assert read.said[-1] == "1 files read, 230 left out or cut short, with the reasons above"
    described = read.source.describe()
    assert (len(described["left_out"]), described["more_left_out"]) == (100, 130)


def test_shakespeare(test_data: Path) -> None:
    """One document of 1,115,394 characters, 65 distinct; every word of it counted."""
    [text] = Read(test_data / "tinyshakespeare.txt").texts
    assert text == (test_data / "tinyshakespeare.txt").read_text(encoding="utf-8")
    assert (len(text), len(set(text))) == (1_115_394, 65)
    assert len(text.split()) == 202_651 and len(set(text.split())) == 25_670
    by_blank_lines = Read(test_data / "tinyshakespeare.txt", documents="blank_lines").texts
    assert len(by_blank_lines) == 7222 and by_blank_lines[0].startswith("First Citizen:\nBefore we proceed")


def test_stories_by_marker(test_data: Path) -> None:
    path = test_data / "tinystories" / "train_2MiB.txt"
    stories = Read(path).texts
    expected = [story.strip() for story in path.read_bytes().decode(errors="ignore").split("<|endoftext|>")]
    assert stories == expected and len(stories) == 2317
    assert stories[0].startswith("One day, a little girl named Lily found a needle")
    assert stories[-1].endswith("She said it was")  # the last one is cut
    assert sum(map(len, stories)) == sum(map(len, expected))


def test_stories_by_blank_line(test_data: Path) -> None:
    path = test_data / "tinystories" / "valid.txt"
    stories = Read(path, documents="blank_lines").texts
    parts_of = re.split(r"\n[^\S\n]*(?=\n)", path.read_text(encoding="utf-8"))
    assert stories == [part.strip() for part in parts_of if part.strip()]
    assert len(stories) == 4302 and stories[0].startswith("Spot. Spot saw the shiny car and said")
    [whole] = Read(path).texts
    assert whole == path.read_text(encoding="utf-8")


def test_the_play(test_data: Path) -> None:
    """UTF-8 with its mark, line breaks of another system, and a publisher's header and licence."""
    read = Read(test_data / "plays" / "an_ideal_husband.txt")
    [text] = read.texts
    assert text.startswith("Transcribed from the 1912 Methuen") and "AN IDEAL HUSBAND" in text[:1000]
    assert "\r" not in text and "\ufeff" not in text
    assert "Gutenberg" not in text and text.endswith("THE NORTHUMBERLAND PRESS, NEWCASTLE-UPON-TYNE\n")
    assert (len(text), len(set(text)), text.count("LORD GORING")) == (178_741, 86, 394)
    assert any("Project Gutenberg header" in said for said in read.said)


def test_json_files(test_data: Path, tmp_path: Path) -> None:
    path = test_data / "instructions" / "instruction_1100.json"
    records = json.loads(path.read_text(encoding="utf-8"))
    outputs = Read(path, field="output").texts
    assert outputs == [record["output"].strip() for record in records if record["output"].strip()]
    with pytest.raises(
        CorpusError, match=r"record 1 has no field 'text'; it has 'instruction', 'input', 'output'"
    ):
        Read(path)
    here = tmp_path / "a.json"
    for content, texts in {
        '["one", "two\\r\\n"]': ["one", "two"],
        '{"text": "one"}': ["one"],
        '{"text": "one"}\n{"text": "two"}\n': ["one", "two"],
        '[\n{"text": "one"},\n{"text": ""},\n{"text": "two"}]': ["one", "two"],
    }.items():
        here.write_text(content)
        assert Read(here).texts == texts, content


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("[1]", "record 1 is not a JSON object but int"),
        ('{"text": ["a"]}', "the field 'text' holds no text but list"),
        ('[{"text": "a"},', "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ('["\\ud800"]', "half a character"),
    ],
)
def test_json_files_that_hold_no_texts(content: str, what: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(CorpusError, match=what) as caught:
        Read(tmp_path / "a.json")
    assert caught.value.remedy


def test_a_json_file_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_list, "LARGEST", 10)
    (tmp_path / "a.json").write_text('["long enough"]')
    with pytest.raises(CorpusError, match="a JSON file of more than 0 MB is not read") as caught:
        Read(tmp_path / "a.json")
    assert "JSON lines" in (caught.value.remedy or "")
