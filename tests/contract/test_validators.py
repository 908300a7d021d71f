"""Every validator: judging a record and refereeing one are the same reading, and no dead end is reached."""

from __future__ import annotations

import random

import numpy as np
import pytest

from octavo.config.parts import PartConfig, parts
from octavo.corpus.sources import FilesSource
from octavo.corpus.validators.base import Validator
from octavo.tasks.records.ball import BouncingBallSource, World

BALL = BouncingBallSource(rows=4, columns=5, frames=3, speed=1, levels=2)
CASES: dict[str, tuple[PartConfig, list[str], list[str]]] = {
    "bouncing-ball": (
        BALL,
        ["0", "1", "2", "x", ""],
        [" ".join(map(str, film)) for film in BALL.world.films[:5]],
    ),
    "abc": (
        FilesSource(),
        [*"ABcd2/348|:[]+ \n\"^=,'-z(MLKX!x%C16"],
        [
            'X: 1\nT:A tune\nM:6/8\nK:D\nA|"D"def fed|B3 A2 G/2F//G/4|[1d3 d2:|[2 d6||\n',
            "X:2\nM:4/4\nL:1/4\nK:C\nABcd|[Ace]2 z2|\n+Ac+2_B2|A3:||:A|ABcd|]",
            "% first\nX:3\nM:C\nK:G\n(A2 B2) c,'4-|^A=B _c3|]",
        ],
    ),
}
"""Of each kind: a corpus, symbols (wrong ones among them), and valid records."""
KINDS = sorted(set(parts("validator")) - {"none"})


def test_every_kind_is_tried() -> None:
    assert sorted(CASES) == KINDS
    assert parts("validator")["none"]().build(BALL) is None


def validator_of(kind: str) -> Validator:
    return parts("validator")[kind]().build(CASES[kind][0])


def symbols_of(record: str) -> list[str]:
    return record.split() if " " in record and "\n" not in record else list(record)


@pytest.mark.parametrize("kind", KINDS)
def test_records_that_are_valid(kind: str) -> None:
    validator = validator_of(kind)
    for record in CASES[kind][2]:
        found = validator.check(symbols_of(record))
        assert found.valid, (record, found)
        assert (found.wrong, found.why) == (None, "")


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_wrong_symbol_is_the_one_that_no_referee_lets_through(kind: str) -> None:
    validator, (_, alphabet, records) = validator_of(kind), CASES[kind]
    chance = random.Random(7)
    for record in records * 4:
        symbols = symbols_of(record)
        place = chance.randrange(len(symbols))
        symbols[place] = chance.choice(alphabet)
        verdict = validator.check(symbols)
        state = validator.start()
        for number, symbol in enumerate(symbols, 1):
            allowed = validator.allowed(state, [symbol, *alphabet])
            if not allowed[0]:
                assert (verdict.valid, verdict.wrong) == (False, number) and verdict.why
                break
            twin = [validator.check([*symbols[: number - 1], one]) for one in alphabet]  # the slow way
            assert allowed[1:] == [one.valid or one.wrong != number for one in twin]
            state = validator.after(state, symbol)
        else:
            assert verdict.valid == validator.may_end(state)
            assert verdict.valid or verdict.wrong == len(symbols) + 1


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_referee_lets_through_is_valid_in_the_end(kind: str) -> None:
    validator, (_, alphabet, _) = validator_of(kind), CASES[kind]
    for seed in range(5):
        chance, state, written = random.Random(seed), validator.start(), []
        for _ in range(2000):
            open_ones = [
                s for s, may in zip(alphabet, validator.allowed(state, alphabet), strict=True) if may
            ]
            if validator.may_end(state) and (not open_ones or chance.random() < 0.3):
                break
            assert open_ones, f"a dead end after {written}"
            written.append(chance.choice(open_ones))
            state = validator.after(state, written[-1])
        verdict = validator.check(written)
        assert verdict.valid or not validator.may_end(state), (written, verdict)


def test_why_a_film_is_wrong() -> None:
    world = World(rows=4, columns=5, frames=3, ball=2, speed=1, levels=2)
    film = world.film(1, 0, 0, 1, 1).ravel()
    validator = validator_of("bouncing-ball")
    film[2 * 20 + 2 * 5 + 2] = 0  # in frame 3 the ball is at rows 3 and 4, columns 3 and 4
    found = validator.check(list(map(str, film)))
    assert found.wrong == 2 * 20 + 2 * 5 + 3
    assert found.why.startswith("in frame 3 the pixel at row 3, column 3 is 0, and by where the ball was")
    assert "ends after 59 of 60 pixels" in validator.check(list(map(str, world.films[0][:-1]))).why
    assert "goes on" in validator.check([*map(str, world.films[0]), "0"]).why
    assert np.array_equal(world.films, np.unique(world.films, axis=0))
