"""The beginning of a corpus: whatever fails there, the same command works again."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from unittest import mock

import pytest

from failing import trials
from octavo.errors import InputError, StorageError
from octavo.llm_corpus import writer
from octavo.llm_corpus.session import WritingJob
from octavo.llm_corpus.spec import load_spec
from octavo.llm_corpus.store import TABLES, locked, prompts_in, reading, spent_in

HERE = "unit.llm_corpus.test_begun:three_stories"


def three_stories(folder: Path) -> None:
    """What `octavo corpus write pidgin-storyteller --stories 3` does."""
    job = WritingJob(load_spec("pidgin-storyteller", ["rules.near_duplicates=0"]), folder, stories=3)
    job.estimate()
    with mock.patch.object(writer, "LOST_WAIT", 0.0):
        assert job.run()["report"]["stories"] == 3
    assert (folder / "corpus.txt").read_text(encoding="utf-8").count("<|endoftext|>") == 3
    assert not [path for path in folder.rglob("*") if path.name.startswith(".tmp-")]


@pytest.mark.parametrize("every", [29, pytest.param(13, marks=pytest.mark.slow)])
def test_wherever_a_write_fails_the_same_command_works_again(tmp_path: Path, every: int) -> None:
    found = trials(HERE, tmp_path, every=every)
    assert not [trial for trial in found if trial.again != 0]
    ends = Counter((trial.way, trial.code) for trial in found)
    assert set(ends) <= {("killed", -9), ("full", 2), ("bad", 2)} | {("full", 0), ("bad", 0)}, ends
    assert len(found) > 100 / every


STATEMENTS = [part for part in TABLES.split(";\n") if part.strip()]


@pytest.mark.parametrize("tables", [0, 1, 2, 4, len(STATEMENTS)])
def test_a_database_with_some_of_its_tables_is_begun_again(tmp_path: Path, tables: int) -> None:
    place = tmp_path / "stories.sqlite"
    place.touch()
    with closing(sqlite3.connect(place)) as con:
        con.executescript(";\n".join(STATEMENTS[:tables]))
    assert spent_in(place) == 0 and prompts_in(place) == set()
    if not tables:
        with pytest.raises(InputError, match="nothing was written"), reading(place):
            pass
    three_stories(tmp_path)


def test_a_lock_that_cannot_be_read_is_no_other_process(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_bytes(b"this is no database" * 100)
    with pytest.raises(StorageError, match="damaged"), locked(tmp_path):
        pass
