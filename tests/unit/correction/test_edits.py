"""Applying changes: order, overlap, borders, and what is counted."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from octavo.correction.diff import listed, plain_diff, stretches, summary
from octavo.correction.edits import Change, Correction, corrected


def change(text: str, start: int, end: int, after: str | None, rule: str = "R") -> Change:
    return Change(start, end, text[start:end], after, rule, "because")


def test_changes_are_applied_from_first_to_last() -> None:
    text = "AThe captanch sat"
    done = corrected(text, [change(text, 5, 13, "captain"), change(text, 0, 4, "The")])
    assert done.corrected == "The captain sat"
    assert done.original == text
    assert (done.words, done.words_changed) == (3, 2)
    assert [one.after for one in done.changes] == ["The", "captain"]


def test_of_overlapping_changes_the_first_and_longest_is_made_and_the_others_are_kept_for_show() -> None:
    text = "he go to to school"
    found = [
        change(text, 3, 5, "goes", "A"),
        change(text, 3, 8, "goes to", "B"),
        change(text, 6, 11, "to", "C"),
    ]
    done = corrected(text, found)
    assert done.corrected == "he goes to to school"
    assert [one.rule for one in done.changes] == ["B"]
    assert [one.rule for one in done.left] == ["A", "C"]
    assert all("an earlier change covers it" in line for line in listed(done)[1:])


def test_a_change_without_a_remedy_is_left() -> None:
    text = "xyzzy here"
    done = corrected(text, [change(text, 0, 5, None)])
    assert done.corrected == text and not done.changes
    assert listed(done) == ["'xyzzy' left, no remedy is known  (R: because)"]


def test_insertions_and_deletions() -> None:
    text = "a  b c"
    done = corrected(text, [change(text, 1, 2, ""), change(text, 4, 4, ","), change(text, 4, 4, ";")])
    assert done.corrected == "a b, c"
    assert done.words_changed == 0
    assert [one.after for one in done.left] == [";"]


def test_what_stands_outside_the_part_stays() -> None:
    text = "bad bad bad"
    everywhere = [change(text, at, at + 3, "good") for at in (0, 4, 8)]
    done = corrected(text, everywhere, start=2, stop=8, vocabulary={"good": 1})
    assert done.corrected == "bad good bad"
    assert (done.words, done.words_changed, done.known_before, done.known_after) == (1, 1, 0.0, 1.0)
    assert not done.left


def test_the_diff_shows_both_texts() -> None:
    text = "AThe cat"
    done = corrected(text, [change(text, 0, 4, "The")], vocabulary={"the": 2, "cat": 1})
    assert plain_diff(done) == "[-AThe-]{+The+} cat"
    assert summary(done) == "1 of 2 words changed; words that the corpus has: 50.0% before, 100.0% after."
    assert summary(corrected("cat", [])) == "0 of 1 words changed."


spans = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 20), st.none() | st.text("xy ", max_size=3)), max_size=6
)


@given(st.text("ab 😀é", max_size=20), spans, st.integers(0, 20), st.integers(0, 20))
def test_a_diff_is_always_the_two_texts(
    text: str, found: list[tuple[int, int, str | None]], one: int, two: int
) -> None:
    start, stop = sorted((min(one, len(text)), min(two, len(text))))
    changes = [change(text, min(a, b), max(a, b), after) for a, b, after in found if max(a, b) <= len(text)]
    done: Correction = corrected(text, changes, start=start, stop=stop)
    parts = list(stretches(done))
    assert "".join(part for kind, part in parts if kind != "new") == text
    assert "".join(part for kind, part in parts if kind != "gone") == done.corrected
    assert done.corrected.startswith(text[:start]) and done.corrected.endswith(text[stop:])
    assert all(one.end <= two.start for one, two in pairwise(done.changes))
