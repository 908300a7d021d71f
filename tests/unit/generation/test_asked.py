"""What a writer is asked for that it cannot give, and one stop string."""

from __future__ import annotations

import pytest

from octavo.errors import InputError
from octavo.generation import Engine
from unit.generation.test_engine import GREEDY, SAMPLED, engine_for


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"tokens": 0}, "0 tokens are no text"),
        ({"tokens": -3}, "-3 tokens are no text"),
        ({"seed": -1}, "-1 is no seed"),
        ({"seed": 2**64}, "is no seed"),
    ],
)
def test_what_cannot_be_written_is_refused(asked: dict[str, int], words: str) -> None:
    with pytest.raises(InputError, match=words):
        engine_for().samples("the", **({"tokens": 5} | asked), sampling=SAMPLED)


def test_a_precision_that_there_is_not() -> None:
    one = engine_for()
    with pytest.raises(InputError, match="no precision 'float16'"):
        Engine(one.model, one.tokenizer, precision="float16")


def test_one_stop_string_is_one() -> None:
    texts = [
        engine_for().samples("the", tokens=60, sampling=GREEDY, stop=stop)[0].text
        for stop in ("e t", ("e t",))
    ]
    assert texts[0] == texts[1]
