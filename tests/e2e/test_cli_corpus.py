"""`octavo corpus get, clean, stats, vocab, leaks` as a user meets them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from e2e.asking import refused
from e2e.forked import Octavo
from unit.corpus.cleaning.test_form import LINE, RAW

STORIES = [f"bird number {number} ed fly over hill {number % 7}. the end." for number in range(40)]


@pytest.fixture(scope="module")
def folder(octavo: Octavo) -> Path:
    replies = octavo.folder / "replies"
    replies.mkdir()
    (replies / "a.txt").write_text(RAW)
    (replies / "b.txt").write_text("*Cat*\nCat will jump!")
    (replies / "c.txt").write_text(RAW)
    (octavo.folder / "stories.txt").write_text("\n<|endoftext|>\n".join([*STORIES, STORIES[3]]))
    return octavo.folder


def test_clean_to_report_as_lines(octavo: Octavo, folder: Path) -> None:
    done = octavo("corpus", "clean", "--text", "replies", "--steps", "pidgin", "--mark", "--out", "lines.txt")
    assert done.code == 0, done.err
    assert (folder / "lines.txt").read_text() == f"{LINE}\n<sos> cat will jump <eos>\n"
    assert re.search(r"^7 exact_duplicates +3 +0 +1 +2$", done.out, re.MULTILINE)
    assert "document 3 (c.txt): repeats an earlier document: document 1" in done.out


def test_clean_to_records_that_can_be_read_again(octavo: Octavo, folder: Path) -> None:
    done = octavo(
        "corpus", "clean", "--text", "stories.txt", "--steps", "plain", "--out", "clean.jsonl", "--json"
    )
    assert json.loads(done.out)["documents"] == 40
    again = octavo(
        "corpus", "clean", "--text", "clean.jsonl", "--out", "again.txt", "cleaning=[case]", "--json"
    )
    assert json.loads(again.out)["documents"] == 40
    assert (folder / "again.txt").read_text() == "\n<|endoftext|>\n".join(STORIES)


def test_vocab_and_the_step_that_uses_it(octavo: Octavo, folder: Path) -> None:
    vocab = ("corpus", "vocab", "--text", "stories.txt", "--size", "14", "--out", "words.txt")
    done = octavo(*vocab, "--picture", "curve.svg", patch="drawn")
    assert done.code == 0, done.err
    assert "← chosen" in done.out
    assert len((folder / "words.txt").read_text().split()) == 14
    assert (folder / "curve.svg").read_text().startswith("<?xml")
    facts = json.loads(octavo("corpus", "vocab", "--text", "stories.txt", "--size", "14", "--json").out)
    kept = next(row["documents"] for row in facts["curve"] if row["size"] == 14)
    clean = (
        "corpus",
        "clean",
        "--text",
        "stories.txt",
        "--out",
        "kept.txt",
        "--words",
        "words.txt",
        "--json",
    )
    assert json.loads(octavo(*clean).out)["documents"] == kept


def test_stats_and_their_page(octavo: Octavo, folder: Path) -> None:
    done = octavo("corpus", "stats", "--text", "stories.txt", "--steps", "unicode.yaml", "--out", "page")
    refused(done, "Cleaning steps 'unicode.yaml' not found")
    stats = ("corpus", "stats", "--text", "stories.txt", "--out", "page", "cleaning=[case]")
    done = octavo(*stats, patch="drawn")
    assert done.code == 0, done.err
    assert re.search(r"^documents +41$", done.out, re.MULTILINE)
    assert re.search(r"^exact duplicates +1$", done.out, re.MULTILINE)
    page = (folder / "page" / "index.html").read_text()
    assert page.count("<svg") == 3 and "1 case" in page
    assert not re.search(r"(?:src|href)=\"(?!#)|<script|url\((?!#)", page), "self-contained"
    facts = json.loads(
        octavo("corpus", "stats", "--recipe", "pidgin-demo", "corpus.stories=30", "--json").out
    )
    assert facts["documents"] == 30


def test_leaks(octavo: Octavo) -> None:
    done = octavo(
        "corpus", "leaks", "--text", "stories.txt", "--words", "4", "--least", "1", "validation=0.05"
    )
    assert done.code == 0, done.err
    assert "stories.txt, document 4" in done.out and "repeated whole" in done.out
    facts = octavo(
        "corpus", "leaks", "--text", "stories.txt", "--words", "9", "--json", "split=documents"
    ).out
    assert json.loads(facts)["leaks"] == []
    facts = octavo("corpus", "leaks", "--text", "stories.txt", "--against", "replies", "--json").out
    assert json.loads(facts)["documents"] == 3


def test_a_training_run_cleans_and_says_so(octavo: Octavo, folder: Path) -> None:
    done = octavo("train", "recipe.yaml", "--text", "stories.txt", "--out", "cleaned", "cleaning=plain",
                  "training.steps=2", "batches=documents")  # fmt: skip
    assert done.code == 0, done.err
    manifest = json.loads((folder / "cleaned" / "manifest.json").read_text())
    assert manifest["data"]["cleaning"]["6 exact_duplicates"]["dropped"] == 1
    assert "cleaning 6 exact_duplicates: 41 in" in (folder / "cleaned" / "log.txt").read_text()


def test_get_lists_and_refuses(octavo: Octavo) -> None:
    done = octavo("corpus", "get")
    assert done.code == 0 and "tinyshakespeare" in done.out and "CDLA-Sharing-1.0" in done.out
    assert {each["name"] for each in json.loads(octavo("corpus", "get", "--json").out)} >= {"robinson-crusoe"}
    refused(octavo("corpus", "get", "tinyshakespear"), "Did you mean 'tinyshakespeare'?")
    refused(octavo("corpus", "stats", "--text", "corpus:alice"), "octavo corpus get alice")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("stats",), "Which text?"),
        (("stats", "--text", "nowhere.txt"), "nowhere.txt"),
        (("stats", "--text", "stories.txt", "--near", "-1"), "--near"),
        (("clean", "--text", "stories.txt", "--out", "x.txt"), "no steps to clean with"),
        (("clean", "--text", "stories.txt", "--out", "x.txt", "cleaning=[cas]"), "did you mean case?"),
        (
            ("clean", "--text", "stories.txt", "--out", "x.txt", "--words", "none.txt"),
            "none.txt cannot be read",
        ),
        (("vocab", "--text", "stories.txt", "--size", "3", "--coverage", "0.5"), "not both"),
        (("vocab", "--text", "stories.txt", "--picture", "x.png"), "does not end in .svg"),
        (("leaks", "--text", "stories.txt", "--words", "0"), "--words"),
    ],
)
def test_wrong_input(octavo: Octavo, folder: Path, words: tuple[str, ...], said: str) -> None:
    refused(octavo("corpus", *words), said)
    assert not (folder / "x.txt").exists()


def test_a_folder_of_files_is_listed_and_split_by_file(octavo: Octavo, folder: Path) -> None:
    mixed = folder / "mixed"
    mixed.mkdir()
    english = "The old man walked down to the river and looked at the water for a long time. " * 20
    (mixed / "english.txt").write_text(english)
    (mixed / "german.txt").write_text(
        "Der alte Mann ging hinunter zum Fluss und schaute auf das Wasser. " * 20
    )
    done = octavo("corpus", "stats", "--text", "mixed")
    assert re.search(r"^german\.txt +1\.3 kB +1 +German$", done.out, re.MULTILINE), done.out
    assert "most is English, 46% of it is German" in done.out
    octavo("corpus", "clean", "--text", "mixed", "--steps", "plain", "--out", "mixed.jsonl")
    facts = json.loads(octavo("corpus", "stats", "--text", "mixed.jsonl", "--json").out)
    assert [file["name"] for file in facts["files"]] == ["english.txt", "german.txt"]
    short = ("training.steps=2", "model.context=16")
    done = octavo("train", "recipe.yaml", "--text", "mixed.jsonl", "--out", "by-end", *short)
    assert "46% of it is German" in done.err and "split=files" in done.err
    done = octavo("train", "recipe.yaml", "--text", "mixed.jsonl", "--out", "by-file", "split=files", *short)
    assert done.code == 0 and "split=files" not in done.err
    splits = json.loads((folder / "by-file" / "manifest.json").read_text())["data"]["splits"]
    assert splits["validation"]["documents"] == 2
