"""Steps that bring text into one form; report A's line, byte for byte."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.config import cleaning_steps
from unit.corpus.cleaning.common import Result, one

RAW = (
    "**The Little Bird and the Big Tree**\n\nOne day, small bird fly ing sky. Bird see big tree. Tree stand ing east. "
    'Bird think, "I will move ing at tree." \n\nTree say, "Ha bird ing come at me?" '
    'Bird say, "Yes, I ing come at you." \n\nThe end.'
)
LINE = (
    "<sos> one day, small bird fly ing sky. bird see big tree. tree stand ing east. bird think, i will move ing at "
    "tree. tree say, ha bird ing come at me? bird say, yes, i ing come at you. the end. <eos>"
)


def test_report_a_golden_pair() -> None:
    words = (
        LINE.replace("<sos>", "")
        .replace("<eos>", "")
        .replace(".", " . ")
        .replace(",", " , ")
        .replace("?", " ? ")
    )
    closed = {"kind": "closed_vocabulary", "words": sorted(set(words.split()))}
    result = Result([*cleaning_steps("pidgin"), closed, "marks"], RAW)
    assert result.texts == [LINE]
    assert [tally["dropped"] for tally in result.source.cleaning().values()] == [0] * 9


@pytest.mark.parametrize(
    ("step", "before", "after"),
    [
        ("unicode", "cafe\u0301 ﬁn", "café ﬁn"),
        ({"kind": "unicode", "form": "NFKC"}, "ﬁn Ａ x²", "fin A x2"),
        ("whitespace", "  a \t b  \r\n\r\n\n\n c\u00a0d \n", "a b\n\nc d"),
        ({"kind": "whitespace", "lines": "fold"}, "a\n\n b\tc\u2028d", "a b c d"),
        ({"kind": "whitespace", "lines": "paragraphs"}, "a\nb\n\n\nc\nd", "a b\n\nc d"),
        ("control", "a\x00b\u00adc\ufeffd\x1b[1m\te\nf\u200dg\u200eh", "abcd[1m\te\nf\u200dg\u200eh"),
        ("control", "one\vtwo\fthree\x85four\x1ffive", "one\ntwo\nthree\nfour five"),
        ("punctuation", "वह है—और cafe\u0301—bar (one).", "वह है और cafe\u0301 bar one."),
        ("punctuation", 'He said: "Don\'t—stop!" (well-known) 3.5€', "He said Dont stop well known 3.5"),
        ({"kind": "punctuation", "keep": "'-"}, "Don't, well-known; so.", "Don't well-known so"),
        ("case", "Ägypten IST", "ägypten ist"),
        ("marks", " a b \n", "<sos> a b <eos>"),
        ({"kind": "marks", "start": "", "end": "|"}, "a", "a |"),
    ],
)  # fmt: skip
def test_a_step(step: object, before: str, after: str) -> None:
    assert one(step, before) == after


@given(st.text(max_size=200))
def test_forms_hold_what_they_promise(text: str) -> None:
    steps = ["unicode", "control", "punctuation", {"kind": "whitespace", "lines": "fold"}, "case"]
    for line in Result(steps, text).texts:
        assert line == " ".join(line.split())
        assert all(mark in ".,?" for mark in line if unicodedata.category(mark)[0] in "PS")


@pytest.mark.parametrize(
    ("step", "before", "after"),
    [
        ("dot_leaders", "1 Preface . . . . . 9\nOne day.", "One day."),
        ("dot_leaders", "One\n 2.1 Structure........12 \nii Index ……… xiv\nTwo", "One\nTwo"),
        ("dot_leaders", "A number that was lost . . . . . .\nTwo", "Two"),
        ("dot_leaders", "Well...\n. . . . . . . .\nThen.... 12 men", "Well...\n. . . . . . . .\nThen.... 12 men"),
        ("titles", "*The Bird*\nOne day.", "One day."),
        ("titles", "  **The Bird** One day.", "One day."),
        ("titles", "One day.\n\n**Part two**\nMore *words* here.", "One day.\n\nMore *words* here."),
        ("titles", "*** * 2 * 3\n2 ** 3 ** 4", "*** * 2 * 3\n2 ** 3 ** 4"),
        ("titles", "# The Bird\nOne day.", "# The Bird\nOne day."),
        ({"kind": "titles", "forms": ["hashes", "label"]}, "Title: The Bird\n## Part\nOne day.", "One day."),
        ({"kind": "titles", "forms": [], "patterns": ["^CHAPTER [0-9]+\n"]}, "CHAPTER 1\nOne\nCHAPTER 2\nB", "One\nB"),
        ({"kind": "boilerplate", "lines": ["^Page [0-9]+$"]}, "One\nPage 3\nTwo", "One\nTwo"),
        (
            "boilerplate",
            "*** START OF THE PROJECT GUTENBERG EBOOK X ***\nOne.\n*** END OF THE PROJECT GUTENBERG EBOOK X ***\nend",
            "One.\n",
        ),
    ],
)  # fmt: skip
def test_what_is_no_part_of_the_text_goes(step: object, before: str, after: str) -> None:
    assert one(step, before) == after
