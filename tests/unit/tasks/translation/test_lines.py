"""Lines in, translations out, in order and as they come; checkpoints averaged by hand."""

from __future__ import annotations

import io
from collections.abc import Iterable
from queue import Queue
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from octavo.errors import InputError
from octavo.tasks.translation.beam import Search
from octavo.tasks.translation.lines import Arriving, lines_of, translated
from octavo.tasks.translation.translator import Skipped


class Echo:
    """Says each source backwards; notes how many it was given at once."""

    def __init__(self) -> None:
        self.together: list[int] = []

    def read(self, source: str, place: str) -> np.ndarray | Skipped:
        if "!" in source:
            return Skipped(place, "wrong")
        return np.array([ord(letter) for letter in source])

    def translate(self, sources: list[np.ndarray], search: Search) -> list[list[Any]]:
        self.together.append(len(sources))
        return [[SimpleNamespace(text="".join(map(chr, one[::-1])))] for one in sources]


def texts(found: Iterable[tuple[str, Any]]) -> list[str]:
    return [ones[0].text if ones else "" for _, ones in found]


def test_lines_keep_their_order_and_the_first_waits_for_none() -> None:
    echo: Any = Echo()
    lines = [f"a{i}" for i in range(10)] + ["", "zz"]
    found = translated(echo, iter(lines), Search(), name="x", most=4)
    assert next(found)[1][0].text == "0a" and echo.together == [1]
    assert texts(found) == [f"{i}a" for i in range(1, 10)] + ["", "zz"]
    assert echo.together == [1, 2, 4, 3, 1]  # a blank line is not translated


@pytest.mark.parametrize("most", [1, 2, 64])
def test_a_line_that_cannot_be_read_is_skipped_in_its_place(most: int) -> None:
    echo: Any = Echo()
    lines = ["a!", "b", "", "c!", "d", "e", "f!"]
    rows = list(translated(echo, iter(lines), Search(), name="x", most=most))
    assert [line for line, _ in rows] == lines
    skipped = {number: str(one) for number, (_, one) in enumerate(rows) if isinstance(one, Skipped)}
    assert skipped == {0: "x, line 1: wrong", 3: "x, line 4: wrong", 6: "x, line 7: wrong"}
    assert texts((line, one) for line, one in rows if not isinstance(one, Skipped)) == ["b", "", "d", "e"]


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
