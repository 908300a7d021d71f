"""The leak check names what it should, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.corpus import leaks
from octavo.corpus.leaks import find_leaks
from octavo.errors import CorpusError
from unit.corpus.cleaning.common import Texts


def story(number: int, words: int = 40) -> str:
    return " ".join(f"w{number}x{word}" for word in range(words))


def test_exact_repetition_and_overlap_are_named() -> None:
    half = f"{story(3, 20)} {story(90, 20)}"
    training = Texts(*(story(number) for number in range(10)))
    judged = Texts(story(50), "  " + story(7).replace(" ", "\n"), half, story(51), "too short")
    found = find_leaks(training, judged, words=5, least=0.4)
    assert [(leak.document, leak.exact, leak.like) for leak in found.leaks] == [
        ("document 2 (texts)", True, "document 8 (texts)"),
        ("document 3 (texts)", False, "document 4 (texts)"),
    ]
    assert found.leaks[1].share == pytest.approx(16 / 36)
    assert found.leaks[1].example == "w3x0 w3x1 w3x2 w3x3 w3x4"
    assert (found.documents, found.training_documents, found.too_short, found.sampled) == (5, 10, 1, 1)
    assert found.share == pytest.approx((36 + 16) / (4 * 36))


def test_case_and_marks_hide_nothing() -> None:
    found = find_leaks(Texts("One two, three! Four five six."), Texts("one two three four FIVE six"), words=3)
    assert [leak.share for leak in found.leaks] == [1.0]


def test_overlap_is_summed_over_training_documents() -> None:
    judged = story(0, 30)
    words = judged.split()
    parts = [" ".join(words[:12]), " ".join(words[10:22]), " ".join(words[20:])]
    assert find_leaks(Texts(*parts), Texts(judged), words=3).leaks[0].share == 1.0


def test_long_documents_are_the_same_only_to_their_ends() -> None:
    head = "the same words again and again\n" * 150_000
    judged = Texts(f"{head} one end", f"{head} another end")
    found = find_leaks(Texts(f"{head} one  end"), judged, least=2.0)
    assert [(leak.document, leak.exact) for leak in found.leaks] == [("document 1 (texts)", True)]


def test_nothing_in_common() -> None:
    found = find_leaks(Texts(story(1)), Texts(story(2), story(3)))
    assert (found.leaks, found.share) == ([], 0.0)


def test_one_part_is_empty() -> None:
    for one, two in ((Texts(), Texts("a")), (Texts("a"), Texts())):
        with pytest.raises(CorpusError, match="no documents"):
            find_leaks(one, two)


def test_a_large_judged_part_is_sampled_and_the_shares_stay_right(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = [story(number, 400) for number in range(20)]
    training = [story(number, 200) for number in range(20)]
    monkeypatch.setattr(leaks, "MOST_RUNS", 2000)
    found = find_leaks(Texts(*training), Texts(*judged), words=5, least=0.2)
    assert found.sampled >= 4
    assert found.share == pytest.approx(0.5, abs=0.06)
    assert len(found.leaks) == 20


@given(
    st.lists(st.lists(st.sampled_from("abcd"), max_size=12).map(" ".join), min_size=1, max_size=6),
    st.integers(1, 4),
)
def test_shares_are_those_of_a_plain_count(texts: list[str], words: int) -> None:
    def runs(text: str) -> set[tuple[str, ...]]:
        split = text.split()
        return {tuple(split[at : at + words]) for at in range(len(split) - words + 1)}

    judged, training = texts[: len(texts) // 2 + 1], texts[len(texts) // 2 :]
    known = set().union(*map(runs, training))
    found = {
        leak.document: leak
        for leak in find_leaks(Texts(*training), Texts(*judged), words=words, least=1e-9).leaks
    }
    offered = [text for text in judged if text]
    for number, text in enumerate(judged, 1):
        own = runs(text)
        leak = found.get(f"document {number} (texts)")
        if text.strip() and text in training:
            assert leak is not None and leak.exact
        elif own & known:
            assert leak is not None and leak.share == pytest.approx(len(own & known) / len(own))
    assert offered or not [leak for leak in found.values() if not leak.exact]
