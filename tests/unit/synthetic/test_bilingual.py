"""Pairs with known probabilities: what they add up to, one reading each, alignments by hand."""

from __future__ import annotations

import math
import re
from collections import Counter
from pathlib import Path
from random import Random

import pytest

import octavo
from octavo.cli import translate
from octavo.errors import InputError
from octavo.synthetic.bilingual import (
    ENGLISH,
    PRONOUNS,
    VERBS,
    Bilingual,
    draw_source,
    explained,
    read,
    realizations,
    text_of,
    words_of,
)
from octavo.synthetic.source import BilingualSource


def most_probable(source: str) -> str:
    """The likeliest translation of a sentence in pidgin; of several, the first in the grammar's order."""
    counts: dict[tuple[str, ...], int] = {}
    for way in realizations(read(words_of(source))):
        texts = tuple(word.text for word in way)
        counts[texts] = counts.get(texts, 0) + 1
    return text_of(max(counts, key=lambda texts: counts[texts]))


def test_pairs_are_functions_of_seed_and_number() -> None:
    one, other = Bilingual(3), Bilingual(3)
    assert [one.pair(i) for i in range(5)] == [other.pair(i) for i in reversed(range(5))][::-1]
    assert one.pair(0) != Bilingual(4).pair(0)
    documents = list(BilingualSource(pairs=3, seed=3, to="pidgin").build().documents())
    target, source = "".join(documents[2].pieces).split("\n")
    assert explained(source, target) == one.pair(2)


def test_probabilities_add_up_to_one_and_are_how_often_it_comes() -> None:
    for i in range(40):
        source = Bilingual(0).pair(i).source
        ways = {tuple(word.text for word in way) for way in realizations(read(source))}
        known = [explained(text_of(source), text_of(way)) for way in ways]
        assert math.fsum(math.exp(one.log_probability) for one in known if one) == pytest.approx(1)
        best = explained(text_of(source), most_probable(text_of(source)))
        assert best and best.log_probability == max(one.log_probability for one in known if one)
    source = ("i", "no", "ing", "see", "ball", ".")
    drawn = Counter(Random(i).choice([*realizations(read(source))]) for i in range(3000))
    texts = Counter(text_of([word.text for word in way]) for way in drawn.elements())
    assert set(texts) == {"i am not seeing the ball.", "i am not seeing a ball."}  # there is no `amn't`
    assert all(abs(count - 1500) < 150 for count in texts.values())


def test_no_english_sentence_stands_for_two() -> None:
    words = [english for kind in ENGLISH.values() for ways in kind.values() for english in ways]
    words += [form for verb in VERBS.values() for form in verb] + list(PRONOUNS) + ["near", "by"]
    assert len(words) == len(set(words))
    sources = {draw_source(Random(i)) for i in range(400)}
    said = [
        text
        for source in sources
        for text in {tuple(w.text for w in way) for way in realizations(read(source))}
    ]
    assert len(said) == len(set(said))


def test_alignment_by_hand() -> None:
    pidgin = "today old owl no ed see red kite near house."
    found = explained(pidgin, "the old owl didn't see a red kite by the house today.")
    assert found is not None
    english = {word: at for at, word in enumerate(found.target)}
    sure = {found.target[b]: found.source[a] for a, b in found.sure}
    assert sure == {
        "old": "old",
        "owl": "owl",
        "didn't": "no",
        "see": "see",
        "red": "red",
        "kite": "kite",
        "by": "near",
        "house": "house",
        "today": "today",
        ".": ".",
    }
    assert found.possible - found.sure == {(2, 0), (7, english["a"]), (9, 9)}
    # articles 2³, `by` or `near`, not or n't, the time first or last
    assert found.log_probability == pytest.approx(-math.log(2**3 * 2 * 2 * 2 * 2))


def test_sentences_in_the_manual_are_pidgin() -> None:
    """One of them had a word that the demo does not know."""
    pages = [Path(octavo.__file__).parents[2] / "docs" / "guide" / "tasks.md", Path(translate.__file__)]
    found = [
        re.findall(r'translate-demo --prompt "(.*)"', page.read_text(encoding="utf-8")) for page in pages
    ]
    for sentence in (*found[0], *found[1]):
        assert explained(sentence, most_probable(sentence))
    assert all(found)


def test_what_is_no_translation() -> None:
    assert explained("i ed see ball.", "i see the ball.") is None
    assert words_of("ha i ed see ball?") == ("ha", "i", "ed", "see", "ball", "?")
    for wrong in ("", "i see ball.", "ha i ed see ball.", "i ed see ball near.", "i ed see ball. ball"):
        with pytest.raises(InputError, match="Not a sentence of the pidgin"):
            explained(wrong, "")
