"""Tunes in ABC notation: which bars add up, and what is said of those that do not."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import pytest

from octavo.tasks.records.abc_rules import AbcRules, lasting

HEAD = "X:1\nM:6/8\nK:G\n"


@pytest.mark.parametrize(
    ("length", "units"),
    [("", 1), ("2", 2), ("/", "1/2"), ("/2", "1/2"), ("3/2", "3/2"), ("//", "1/4"), ("3/4", "3/4")],
)
def test_lengths(length: str, units: str) -> None:
    assert lasting(length) == Fraction(units)


@pytest.mark.parametrize(
    "music",
    [
        "ABc def|",
        "f|ABc def|g3 a2:|",  # halves at the beginning and beside a repeat
        "ABc def|A/2B/2c f3 f|",
        "ABc def|[1A3 B2:|[2A6|]",
        '"G"ABc "D7"def|"G"[GBd]6|',
        "ABc def||A2|",
        "A>B c d<e f|A6|",
    ],
)
def test_bars_that_add_up(music: str) -> None:
    found = AbcRules().check(HEAD + music)
    assert found.valid, found


@pytest.mark.parametrize(
    ("music", "at", "why"),
    [
        ("ABc def|ABc de|ABc def|", "ABc def|ABc de|A", "the bar before is too short (5 of 6 unit lengths)"),
        ("ABc def|ABc deff|", "ABc def|ABc deff", "the bar is full (6 of 6 unit lengths)"),
        ("ABc def|ABc d4|", "ABc def|ABc d4|", "the bar is too long (7 of 6 unit lengths)"),
        (
            "ABc def|ABc d13|",
            "ABc def|ABc d13",
            "a note of length 13 does not fit in the rest of the bar (3 of 6",
        ),
        ("ABc d2e3/2|", "ABc d2e3/2|", "the bar is too long (13/2 of 6 unit lengths)"),
        ('"G ABc\n', '"G ABc\n', '" was opened and not closed in its line'),
        ("(3ABc def|", "(3", "tuplets are not known here"),
        ("[A2c2]2|", "[A2", "a chord holds notes"),
        ("ABc def", "ABc def?", "the tune has no bar line"),
        ("ABc @", "ABc @", "'@' has no meaning there"),
    ],
)
def test_where_and_why_a_tune_is_wrong(music: str, at: str, why: str) -> None:
    found = AbcRules().check(HEAD + music)
    assert not found.valid and found.why.startswith(why), found
    assert found.wrong == len(HEAD + at)


@pytest.mark.parametrize(
    ("tune", "why"),
    [
        ("ABc|", "a tune begins with its number (X:)"),
        ("M:6/8\n", "a tune begins with its number (X:)"),
        ("X:1\nK:D\nABc|", "no metre (M:) stands before the first note"),
        ("X:1\nM:6/8\nABc|", "no key (K:) stands before the first note"),
        ("X:1\nM:6/7\n", "6/7 begins no metre"),
        ("X:1\nM:6\nA|", "'6' is no metre"),
        ("X:1\nL:1/3\n", "1/3 begins no unit length"),
        ("X:1\nM:6/8\nK:D\n|", "the tune has no note"),
    ],
)
def test_fields(tune: str, why: str) -> None:
    assert AbcRules().check(tune).why == why


def test_the_unit_length_is_given_or_goes_with_the_metre() -> None:
    rules = AbcRules()
    assert rules.check("X:1\nM:2/4\nK:D\nABcd|ABcd ABcd|").valid  # below three quarters it is a sixteenth
    assert rules.check("% a comment\nX:1\nM:C|\nL:1/4\nK:D\nABcd|z4|").valid


def test_real_tunes(test_data: Path) -> None:
    path = test_data / "abc" / "jigs.abc"
    if not path.is_file():
        pytest.skip(f"{path} is absent")
    tunes = [tune.strip() for tune in re.split(r"\n\s*\n+", path.read_text(encoding="utf-8")) if tune.strip()]
    found = [AbcRules().check(tune) for tune in tunes]
    assert len(found) == 340 and sum(one.valid for one in found) == 305
