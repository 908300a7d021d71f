"""Counting texts: known figures of real ones, small ones by hand, and what is only estimated."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.corpus import counting
from octavo.corpus.counting import CharacterCounts, WordCounts, coverage, heaps, round_sizes, size_for
from octavo.corpus.inspection import flesch, inspect, syllables
from octavo.corpus.sources import FilesSource
from octavo.errors import CorpusError
from unit.corpus.cleaning.common import Texts


def test_a_small_corpus_by_hand() -> None:
    found = inspect(Texts("The cat sat. The dog ran!", "a b c", "a  b\nc", "Ünder 3.14"), near=0)
    assert (found.documents, found.words, found.distinct_words, found.sentences) == (4, 14, 10, 2)
    assert (found.characters, found.bytes) == (46, 47)
    assert found.frequent[:3] == [("a", 2), ("b", 2), ("c", 2)]
    assert (found.duplicates, found.near) == (1, None)
    assert found.lengths["least"] == 2 and found.lengths["most"] == 6 and found.lengths["mean"] == 3.5
    assert sum(count for _, _, count in found.histogram) == 4
    assert found.coverage[-1] == (10, 1.0) and found.needed[0.5] == 4
    assert json.loads(json.dumps(found.describe()))["documents"] == 4


def test_long_documents_repeat_each_other_but_for_white_space() -> None:
    lines = "the same words again and again\n" * 150_000
    assert inspect(Texts(f"{lines} one", f"{lines} two", f"  {lines}  one"), near=0).duplicates == 1


def test_no_text() -> None:
    with pytest.raises(CorpusError, match="holds no text"):
        inspect(Texts())


def test_tinyshakespeare(test_data: Path) -> None:
    source = FilesSource(paths=(str(test_data / "tinyshakespeare.txt"),)).build()
    found = inspect(source, near=0)
    assert (found.documents, found.characters, found.distinct_characters) == (1, 1_115_394, 65)
    assert (found.words, found.distinct_words) == (202_859, 12_893)
    assert found.readability is not None and 70 < found.readability.flesch_reading_ease < 85
    assert found.heaps is not None and 0.5 < found.heaps[1] < 0.7


def test_tinystories_by_marker_and_by_blank_line(test_data: Path) -> None:
    stories = FilesSource(paths=(str(test_data / "tinystories" / "train_2MiB.txt"),)).build()
    assert inspect(stories, near=0).documents == 2317
    path = str(test_data / "tinystories" / "valid.txt")
    assert inspect(FilesSource(paths=(path,), documents="blank_lines").build(), near=0).documents == 4302


def test_the_play_is_counted_without_its_licence(test_data: Path) -> None:
    source = FilesSource(paths=(str(test_data / "plays" / "an_ideal_husband.txt"),)).build()
    found = inspect(source, near=0)
    assert found.documents == 1
    assert "gutenberg" not in dict(found.frequent) and "€" not in dict(found.alphabet)


def test_near_duplicates_are_counted_on_a_sample_and_that_is_said() -> None:
    pytest.importorskip("datasketch")
    story = "one day a small bird flew over the big green hill and saw a river with many fish in it"
    found = inspect(
        Texts(story, story.replace("river", "lake") + " and so on", story, *["x y z"] * 5), near=4
    )
    assert found.near == {"compared": 4, "found": 1}
    assert found.duplicates == 5
    assert any("first 4 documents only" in note for note in found.notes)


@given(st.lists(st.text(max_size=60), max_size=8), st.integers(1, 9))
def test_pieces_make_no_difference(texts: list[str], piece: int) -> None:
    texts = [text for text in texts if text]
    if not texts:
        return
    whole, cut = (
        inspect(Texts(*texts), near=0).describe(),
        inspect(Texts(*texts, piece=piece), near=0).describe(),
    )
    assert {**whole, "seconds": 0} == {**cut, "seconds": 0}


@given(st.text(max_size=300))
def test_characters_are_counted_right(text: str) -> None:
    counts = CharacterCounts()
    counts.add(text)
    assert dict(counts.ranked()) == {letter: text.count(letter) for letter in set(text)}


def test_when_there_are_too_many_words_rare_ones_go_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "MOST_DISTINCT", 50)
    monkeypatch.setattr(counting, "_BLOCK", 100)
    counts = WordCounts()
    counts.add("often often " * 20 + " ".join(f"rare{number}" for number in range(500)))
    assert not counts.exact and len(counts.counts) <= 150
    assert counts.ranked()[0] == ("often", 40) and counts.total == 540


def test_heaps_law_is_found_again() -> None:
    growth = [(words, round(4 * words**0.6)) for words in (100, 1000, 10_000, 100_000, 1_000_000)]
    found = heaps(growth)
    assert found is not None
    assert found == pytest.approx((4, 0.6), rel=0.02)
    assert heaps(growth[:2]) is None


def test_coverage() -> None:
    covered = coverage([6, 3, 1])
    assert covered.tolist() == pytest.approx([0.6, 0.9, 1.0])
    assert [size_for(share, covered) for share in (0.1, 0.6, 0.61, 0.9, 1.0)] == [1, 1, 2, 2, 3]
    assert list(round_sizes(30)) == [1, 2, 3, 5, 7, 10, 20, 30]
    assert list(round_sizes(1)) == [1] and list(round_sizes(0)) == []
    assert not len(coverage([]))


@pytest.mark.parametrize(
    ("word", "count"),
    [
        ("cat", 1),
        ("little", 2),
        ("make", 1),
        ("tree", 1),
        ("animal", 3),
        ("beautiful", 3),
        ("rhythm", 1),
        ("3.14", 1),
    ],
)
def test_syllables(word: str, count: int) -> None:
    assert syllables(word) == count


def test_flesch_by_hand() -> None:
    ranked = [("the", 2), ("cat", 1), ("sat", 1), ("on", 1), ("table", 1)]
    found = flesch(ranked, 6, 1)
    assert found is not None
    assert found.flesch_reading_ease == pytest.approx(206.835 - 1.015 * 6 - 84.6 * 7 / 6)
    assert flesch([("der", 5), ("hund", 5)], 10, 1) is None


def test_lengths_and_bins_agree() -> None:
    found = inspect(Texts(*["w " * count for count in (1, 3, 10, 10, 100)]), near=0)
    lengths = np.array([1, 3, 10, 10, 100])
    for low, high, count in found.histogram:
        assert count == ((lengths >= low) & (lengths <= high)).sum()
