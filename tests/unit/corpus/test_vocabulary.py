"""A vocabulary made from data, and how many documents it keeps."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.corpus.sources import FilesSource
from octavo.corpus.vocabulary import chosen_size, count_vocabulary
from octavo.errors import ConfigError, CorpusError
from octavo.tokenizers.config import Word
from unit.corpus.cleaning.common import Result, Texts

WORDS = st.lists(st.sampled_from("one two three four five six".split()), min_size=1, max_size=6).map(" ".join)


def test_words_and_marks_by_frequency() -> None:
    found = count_vocabulary(Texts("The cat. The dog!", "the cat"))
    assert list(zip(found.words, found.counts, strict=True)) == [
        ("the", 3),
        ("cat", 2),
        ("!", 1),
        (".", 1),
        ("dog", 1),
    ]
    assert found.needed.tolist() == [2, 5]
    assert [found.kept(size) for size in (1, 2, 4, 5)] == [0, 1, 1, 2]
    assert count_vocabulary(Texts("The the"), lowercase=False).words == ["The", "the"]
    with pytest.raises(CorpusError, match="no words"):
        count_vocabulary(Texts("  "))


@settings(max_examples=15)
@given(st.lists(WORDS, min_size=1, max_size=12), st.integers(1, 6))
def test_the_curve_says_what_the_cleaning_step_then_does(texts: list[str], size: int) -> None:
    found = count_vocabulary(Texts(*texts))
    kept = Result([{"kind": "closed_vocabulary", "words": found.words[:size]}], *texts).texts
    assert len(kept) == found.kept(size)


@given(st.lists(WORDS, min_size=1, max_size=12))
def test_the_curve_rises_to_everything(texts: list[str]) -> None:
    found = count_vocabulary(Texts(*texts))
    curve = found.curve()
    assert [row["documents"] for row in curve] == sorted(row["documents"] for row in curve)
    assert curve[-1] == {
        "size": len(found.words),
        "coverage": pytest.approx(1),
        "documents": len(texts),
        "share": 1,
    }


def test_the_knee() -> None:
    """Nine stories of ten common words, one of ten rare ones."""
    common = " ".join(f"c{number}" for number in range(10))
    rare = " ".join(f"r{number}" for number in range(90))
    assert count_vocabulary(Texts(*[common] * 9, rare)).knee == 10
    assert count_vocabulary(Texts(rare)).knee is None


def test_which_size_is_chosen() -> None:
    found = count_vocabulary(Texts("a a a a a a b b b c"))
    assert chosen_size(found, 2, None) == 2
    assert chosen_size(found, 99, None) == 3
    assert chosen_size(found, None, 0.9) == 2
    assert chosen_size(found, None, None) == 3
    for wrong in ((0, None), (None, 0.0), (None, 1.5), (3, 0.5)):
        with pytest.raises(ConfigError):
            chosen_size(found, *wrong)


def test_report_a_on_real_stories(test_data: Path, tmp_path: Path) -> None:
    """Vocabulary from the stories; what passes under it is what a word tokenizer closed to it can read."""
    source = FilesSource(
        paths=(str(test_data / "tinystories" / "valid.txt"),), documents="blank_lines"
    ).build()
    texts = ["".join(document.pieces) for document in source.documents()][:600]
    found = count_vocabulary(Texts(*texts))
    size = chosen_size(found, None, 0.95)
    path = tmp_path / "vocabulary.txt"
    path.write_text("".join(f"{word}\n" for word in found.words[:size]))
    kept = Result([{"kind": "closed_vocabulary", "words": str(path)}], *texts).texts
    assert len(kept) == found.kept(size) > 0
    tokenizer = Word(words=path, lowercase=True).build(lambda: iter(()), documents=True)
    for text in kept:
        tokenizer.encode(text)
