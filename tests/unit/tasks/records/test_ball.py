"""The bouncing ball: how it moves, and how likely its films are."""

from __future__ import annotations

import math

import numpy as np
import pytest

from octavo.tasks.records.ball import BouncingBallSource, World
from octavo.tasks.records.pixels import as_text

SMALL = World(rows=4, columns=5, frames=3, ball=2, speed=1, levels=3)


def test_the_ball_moves_by_its_velocity_and_bounces() -> None:
    film = World(rows=4, columns=6, frames=4, ball=1, speed=2, levels=2).film(1, 0, 4, 1, 2)
    places = [tuple(int(at) for at in np.argwhere(frame)[0]) for frame in film]
    assert places == [(0, 4), (1, 4), (2, 2), (3, 0)]  # off the right wall at 5: one pixel there, one back


def test_all_films_once_and_equally_likely() -> None:
    films = SMALL.films
    assert len(np.unique(films, axis=0)) == len(films)
    total = math.fsum(math.exp(SMALL.log_probability(as_text(film))) for film in films)
    assert total == pytest.approx(1)
    assert SMALL.log_probability("0 " * 59 + "0") == -math.inf
    by_hand = {as_text(SMALL.film(*start).ravel()) for start in SMALL._starts}
    assert by_hand == {as_text(film) for film in films}
    assert all((film.reshape(3, -1) > 0).sum(axis=1).tolist() == [4] * 3 for film in films)


def test_the_source_gives_each_film_once_in_an_order_of_the_seed() -> None:
    options = {"rows": 4, "columns": 5, "frames": 3, "speed": 1}
    texts = [
        ["".join(document.pieces) for document in BouncingBallSource(**options, **more).build().documents()]
        for more in ({}, {"seed": 1}, {"films": 5}, {})
    ]
    assert texts[0] == texts[3] and texts[0] != texts[1] and texts[0][:5] == texts[2]
    assert sorted(texts[0]) == sorted(texts[1]) and len(set(texts[0])) == len(texts[0]) == len(SMALL.films)
    assert BouncingBallSource(**options).nats(texts[0][:7]) == pytest.approx(7 * math.log(len(SMALL.films)))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rows": 3, "ball": 2}, "needs a box of 4 × 4 pixels; this one has 3 × 8"),
        ({"rows": 256, "columns": 256}, "take a smaller box"),
    ],
)
def test_worlds_that_cannot_be(options: dict[str, int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        BouncingBallSource(**options)
