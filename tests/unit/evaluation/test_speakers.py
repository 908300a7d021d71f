"""Speakers of plays, the company of a name, and the share of it that answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from octavo.errors import CorpusError, InputError
from octavo.evaluation.speakers import COLON, PERIOD, Play, who_answers


def play(*speeches: str) -> str:
    return "".join(f"{name}:\nwords of {name.lower()},\nand more:\n\n" for name in speeches)


PLAYS = [["ROMEO", "JULIET", "Servant"], ["ARIEL", "CALIBAN", "Servant"], ["LEONTES", "PAULINA", "Servant"]]
THREE = play(*[name for names in PLAYS for name in names * 70])


def test_speakers_in_both_notations() -> None:
    assert COLON.speakers("ROMEO:\nHere,\nlook:\n\nFirst  Citizen: \nNo.\n\nHe said: yes\n\nJULIET:") == [
        "ROMEO",
        "First Citizen",
        "JULIET",
    ]
    text = "ACT I.\n\nLORD GORING.  What?\n\nMRS. CHEVELEY.  [_Aside_.]  He.\n\nPHIPPS.\n\nIT. goes on\n"
    assert PERIOD.speakers(text.replace("\n", "\r\n")) == ["LORD GORING", "MRS. CHEVELEY", "PHIPPS"]


def test_the_company_is_who_speaks_mostly_near() -> None:
    three = Play.read(THREE)
    assert three.company("ROMEO") == {"JULIET"}  # the servant speaks in all plays
    assert three.company("ROMEO", 500) == set(three.speeches) - {"ROMEO"}
    assert three.company("CALIBAN") == {"ARIEL"}
    assert three.other_name("ROMEO") == "ARIEL"


def test_a_heading_stands_there_once_and_is_no_speaker() -> None:
    assert "PROLOGUE" not in Play.read("PROLOGUE:\n\n" + THREE).speeches


def test_wrong_texts_and_names() -> None:
    with pytest.raises(CorpusError, match="does not read as a play"):
        Play.read("Once upon a time: there was\n\na book.")
    with pytest.raises(InputError, match="'HAMLET' never speaks") as caught:
        Play.read(THREE).company("HAMLET")
    assert "ROMEO" in str(caught.value)
    with pytest.raises(CorpusError, match="cannot tell one play from another"):
        who_answers(Play.read(play(*["A", "B"] * 9)), "A", ["A:\n"], {})


def test_a_model_that_keeps_to_the_play_is_told_from_one_that_does_not() -> None:
    three, random = Play.read(THREE), np.random.default_rng(3)
    names = np.array(["JULIET", "Servant", "ARIEL", "CALIBAN"])

    def sample(*probabilities: float) -> str:
        return play("ROMEO", *random.choice(names, size=3, p=probabilities))

    keeps = [sample(0.7, 0.1, 0.1, 0.1) for _ in range(60)]
    draws = [sample(0.25, 0.25, 0.25, 0.25) for _ in range(60)]
    found = who_answers(three, "ROMEO", keeps, {"": draws, "ARIEL": keeps})
    assert found.company == ("JULIET",)
    assert found.in_text == pytest.approx(70 / 560)  # of the speeches that are not ROMEO's own
    counted = sum(one.count("JULIET:") for one in keeps)
    assert (found.asked.company, found.asked.others) == (counted, 180 - counted)
    low, high = found.asked.interval or (1, 0)
    assert low < found.asked.company / 180 < high
    assert found.controls[0].p == pytest.approx(1 / 10_001)
    assert (found.controls[1].p or 0) > 0.4  # the same samples do not differ
    assert found.answering["JULIET"] == counted and "ROMEO" not in found.answering
    assert who_answers(three, "ROMEO", keeps, {"": draws, "ARIEL": keeps}) == found


def test_samples_in_which_nobody_speaks() -> None:
    found = who_answers(Play.read(THREE), "ROMEO", ["ROMEO is here", "HAMLET:\nNo."], {"": [""]})
    assert (found.asked.share, found.asked.interval, found.controls[0].p) == (None, None, None)
    assert found.asked.share is None


def test_real_plays(test_data: Path) -> None:
    shakespeare = Play.read((test_data / "tinyshakespeare.txt").read_text(encoding="utf-8"))
    company = shakespeare.company("ROMEO")
    assert {
        "JULIET",
        "MERCUTIO",
        "Nurse",
        "BENVOLIO",
        "TYBALT",
        "FRIAR LAURENCE",
        "CAPULET",
        "PARIS",
    } <= company
    assert not {"GLOUCESTER", "COMINIUS", "MENENIUS", "PROSPERO", "WARWICK", "Messenger"} & company
    assert {"COMINIUS", "SICINIUS", "VOLUMNIA", "AUFIDIUS"} <= shakespeare.company("MENENIUS")
    husband = Play.read((test_data / "plays" / "an_ideal_husband.txt").read_text(encoding="utf-8-sig"))
    assert husband.notation is PERIOD
    assert {"LORD GORING", "MRS. CHEVELEY", "VICOMTE DE NANJAC", "PHIPPS"} <= set(husband.speeches)
    assert not any("ACT" in name or "GUTENBERG" in name for name in husband.speeches)


def test_a_company_is_half_of_the_speeches_or_more_up_to_the_last_place_beside_a_name() -> None:
    """B speaks once beside A, and once elsewhere."""
    speeches = ("A", "B", "C", "C", "C", "B")
    assert Play("colon", speeches).company("A", 1) == {"B"}
    assert Play("colon", (*speeches, "B")).company("A", 1) == frozenset()
    assert Play("colon", speeches).company("B", 2) == {"A", "C"}


def test_the_interval_of_a_share_is_that_of_95_of_100() -> None:
    samples = [play("ROMEO", "JULIET" if number % 2 else "ARIEL") for number in range(400)]
    low, high = who_answers(Play.read(THREE), "ROMEO", samples, {}).asked.interval or (1, 0)
    half = 1.96 * 0.5 / np.sqrt(400)
    assert (0.5 - low, high - 0.5) == pytest.approx((half, half), rel=0.1)
