"""The store keeps every record whole, lets no story in twice, and knows after a death what was on its way."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from octavo.corpus.minhash import HASHES, Signatures, near_duplicate_share, similarity
from octavo.errors import InputError, StorageError
from octavo.llm_corpus.store import Call, Candidate, Outcome, Store, locked, reading, spent_in, write_aside
from octavo.synthetic.storyteller import Storyteller

STORIES = [story.text for story in Storyteller(8).stories(60)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    one = Store(tmp_path / "s.sqlite", near_duplicates=0.7)
    yield one
    one.close()


def call(number: int, attempt: int = 0, *, writer: str = "w", reserved: int = 100) -> Call:
    return Call(number, attempt, writer, "m", "pidgin", "h", 7, 1000.0, reserved)


def sent(store: Store, *calls: Call) -> list[int]:
    return store.apply([lambda one=one: store.send(one) for one in calls])


def settle(store: Store, row: int, number: int, text: str | None, **more: object) -> tuple[str, ...]:
    story = None if text is None else Candidate(text, 5, ("length",), (), {"place": "hill"})
    problems = () if text is not None else ("bad.",)
    outcome = Outcome(row, number, 1.0, 40, candidate=story, problems=problems, **more)  # type: ignore[arg-type]
    return store.apply([lambda: store.settle(outcome)])[0]


def test_a_story_goes_in_once(store: Store) -> None:
    one, two, three = sent(store, call(0), call(1), call(2))
    assert settle(store, one, 0, STORIES[0]) == ()
    assert settle(store, two, 1, STORIES[0]) == ("The story is word for word number 0.",)
    nearly = STORIES[0].replace(" the end.", " now. the end.")
    assert settle(store, three, 2, nearly) == ("The story is nearly number 0.",)
    assert store.accepted() == 1


def test_different_stories_are_no_duplicates(store: Store) -> None:
    for number, text in enumerate(STORIES):
        (row,) = sent(store, call(number))
        assert settle(store, row, number, text) == ()


def test_calls_cost_their_reservation_until_they_are_settled(store: Store) -> None:
    one, _ = sent(store, call(0), call(1, reserved=1000))
    assert store.spent() == 1100
    settle(store, one, 0, STORIES[0])
    assert store.spent() == 1040 and spent_in(store.path) == 1040


def test_after_a_death_what_was_on_its_way_is_paid_and_its_writer_rests(tmp_path: Path) -> None:
    first = Store(tmp_path / "s.sqlite", near_duplicates=0)
    rows = sent(first, call(0), call(1, writer="quiet"), call(2, writer="asked"), call(3, writer="asked"))
    settle(first, rows[2], 2, None, gate=("asked", 2000.0, 9.5))
    first.close()
    second = Store(tmp_path / "s.sqlite", near_duplicates=0)
    rests = second.recover(1990.0, 2.0)
    assert rests == {"w": 1992.0, "quiet": 1992.0, "asked": 2000.0}
    assert second.recover(1996.0, 2.0)["asked"] == 2000.0  # nothing was on its way any more
    sent(second, call(3, 1, writer="asked"))
    assert second.recover(1996.0, 2.0)["asked"] == 2005.5  # as long as it ever asked for
    assert second.spent() == 100 + 100 + 40 + 100 + 100
    assert second.open_numbers() == ([(0, 1, 1992.0), (1, 1, 1992.0), (2, 1, 2000.0), (3, 2, 2005.5)], 4)
    second.close()


def test_open_numbers_go_on_with_their_next_attempt(store: Store) -> None:
    rows = sent(store, call(0), call(1), call(2), call(3), call(3, 1))
    settle(store, rows[0], 0, STORIES[0])
    settle(store, rows[1], 1, None, give_up=True)
    settle(store, rows[2], 2, None)
    assert store.open_numbers() == ([(2, 1, 0.0), (3, 2, 0.0)], 4)


def test_a_group_is_written_whole_or_not_at_all(store: Store) -> None:
    def breaks() -> None:
        raise StorageError("full")

    with pytest.raises(StorageError):
        store.apply([lambda: store.send(call(0)), breaks])
    assert store.open_numbers() == ([], 0)


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(InputError, match="another process"), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


def test_one_may_look_while_another_writes(store: Store) -> None:
    (row,) = sent(store, call(0))
    with reading(store.path) as con:
        assert con.execute("SELECT count(*) FROM calls").fetchone()[0] == 1
        with pytest.raises(sqlite3.OperationalError):
            con.execute("DELETE FROM calls")
    assert settle(store, row, 0, STORIES[0]) == ()


def test_a_damaged_file_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    path.write_bytes(b"this is no database" * 100)
    with pytest.raises(StorageError, match="damaged or no database"):
        Store(path, near_duplicates=0)
    with pytest.raises(InputError, match="not there"), reading(tmp_path / "nothing.sqlite"):
        pass


def test_a_file_is_there_whole_or_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    write_aside(path, lambda file: file.write("old"))

    def breaks(file: object) -> None:
        file.write("new")  # type: ignore[attr-defined]
        raise OSError(28, "No space left on device")

    with pytest.raises(StorageError, match="No space left"):
        write_aside(path, breaks)
    assert path.read_text(encoding="utf-8") == "old"


def test_signatures_tell_how_much_is_in_common() -> None:
    signatures = Signatures(0.7)
    words = [f"word{i}" for i in range(200)]
    one = signatures.signature(" ".join(words))
    assert len(one) == 4 * HASHES and similarity(one, signatures.signature(" ".join(words))) == 1
    half = similarity(one, signatures.signature(" ".join(words[:100] + [f"other{i}" for i in range(100)])))
    assert 0.15 < half < 0.55  # a third of all sequences are in both
    assert near_duplicate_share([one, one, signatures.signature(" ".join(reversed(words)))]) == pytest.approx(
        1 / 3
    )
    assert near_duplicate_share([]) is None
