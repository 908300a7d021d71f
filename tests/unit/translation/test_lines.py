"""Lines in, translations out, in order and as they come; checkpoints averaged by hand."""

from __future__ import annotations

import io
from collections.abc import Iterator
from queue import Queue
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from octavo.errors import InputError
from octavo.generation.beam import Search
from octavo.translation.lines import Arriving, lines_of, translated


class Echo:
    """Says each source backwards; notes how many it was given at once."""

    def __init__(self) -> None:
        self.together: list[int] = []

    def ids(self, source: str, place: str) -> np.ndarray:
        if "!" in source:
            raise InputError(f"{place} is wrong.")
        return np.array([ord(letter) for letter in source])

    def translate(self, sources: list[np.ndarray], search: Search) -> list[list[Any]]:
        self.together.append(len(sources))
        return [[SimpleNamespace(text="".join(map(chr, one[::-1])))] for one in sources]


def texts(found: Iterator[tuple[str, list[Any]]]) -> list[str]:
    return [ones[0].text if ones else "" for _, ones in found]


def test_lines_keep_their_order_and_the_first_waits_for_none() -> None:
    echo: Any = Echo()
    lines = [f"a{i}" for i in range(10)] + ["", "zz"]
    found = translated(echo, iter(lines), Search(), name="x", most=4)
    assert next(found)[1][0].text == "0a" and echo.together == [1]
    assert texts(found) == [f"{i}a" for i in range(1, 10)] + ["", "zz"]
    assert echo.together == [1, 2, 4, 3, 1]  # a blank line is not translated


def test_a_wrong_line_is_named_after_those_before_it() -> None:
    echo: Any = Echo()
    found = translated(echo, ["a", "b", "c", "d!", "e"], Search(), name="x")
    assert [next(found)[0] for _ in range(3)] == ["a", "b", "c"]
    with pytest.raises(InputError, match="x, line 4 is wrong"):
        next(found)


def test_bytes_that_are_no_text_are_named() -> None:
    lines = lines_of(io.BytesIO("\ufeffä\r\nb\n".encode() + b"\xff\n"), "x")
    assert [next(lines), next(lines)] == ["ä", "b"]
    with pytest.raises(InputError, match="x, line 3 is not UTF-8"):
        next(lines)


def test_a_program_that_waits_for_each_answer_gets_it() -> None:
    """It sends a line only after the answer to the one before: whoever waits for more waits for ever."""
    echo: Any = Echo()
    sent: Queue[str | None] = Queue()
    found = translated(echo, Arriving(iter(sent.get, None)), Search(), name="x")
    for number in range(5):
        sent.put(f"a{number}")
        assert next(found)[1][0].text == f"{number}a"
    sent.put(None)
    assert list(found) == []


def test_lines_that_are_there_are_taken_together() -> None:
    echo: Any = Echo()
    arriving = Arriving([f"a{number}" for number in range(20)])
    assert texts(translated(echo, arriving, Search(), name="x")) == [
        f"a{number}"[::-1] for number in range(20)
    ]
    assert sum(echo.together) == 20


def test_what_reading_raises_comes_after_the_lines_before_it() -> None:
    echo: Any = Echo()
    found = translated(echo, Arriving(lines_of(io.BytesIO(b"a\nb\n\xff\n"), "x")), Search(), name="x")
    assert [next(found)[0], next(found)[0]] == ["a", "b"]
    with pytest.raises(InputError, match="x, line 3 is not UTF-8"):
        next(found)
