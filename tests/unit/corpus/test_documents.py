"""Where texts are cut into documents; nothing may depend on how they come in pieces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.corpus.documents import (
    BLANK_LINE,
    Document,
    Source,
    Wrapper,
    cut_at,
    joined,
    separator_line,
    trimmed,
)

SEPARATOR = separator_line("<|endoftext|>")


def in_pieces(text: str, size: int) -> Iterator[str]:
    return (text[at : at + size] for at in range(0, len(text), size))


def documents(text: str, boundary: re.Pattern[str], size: int = 1 << 20) -> list[str]:
    return ["".join(pieces) for pieces in cut_at(in_pieces(text, size), boundary)]


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_separator_lines(size: int) -> None:
    text = (
        "<|endoftext|>\none\n\ntwo\n  <|endoftext|> \n<|endoftext|>\n three <|endoftext|> four\n<|endoftext|>"
    )
    assert documents(text, SEPARATOR, size) == ["one\n\ntwo", "three <|endoftext|> four"]


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_blank_lines(size: int) -> None:
    assert documents("\n\none\ntwo\n \t\n\nthree\n\n\n", BLANK_LINE, size) == ["one\ntwo", "three"]


def slow_twin(text: str, is_boundary: re.Pattern[str]) -> list[str]:
    found, lines = [], []
    for line in [*text.split("\n"), None]:
        if line is None or is_boundary.fullmatch(line):
            found.append("\n".join(lines).strip())
            lines = []
        else:
            lines.append(line)
    return [document for document in found if document]


@given(
    text=st.lists(st.sampled_from(["a", "b c", "\n", "\n", " ", "--", "\t", "é"])).map("".join),
    size=st.integers(1, 9),
)
def test_cutting_agrees_with_the_slow_twin(text: str, size: int) -> None:
    assert documents(text, separator_line("--"), size) == slow_twin(text, re.compile(r"\s*--\s*"))
    assert documents(text, BLANK_LINE, size) == slow_twin(text, re.compile(r"\s*"))


def test_a_line_without_end_is_passed_on() -> None:
    document = next(cut_at((("x" * 10_000) for _ in range(100)), SEPARATOR))
    first = next(document)
    assert len(first) < 100_000
    assert len(first) + sum(map(len, document)) == 1_000_000


def test_documents_left_unread_are_passed_over() -> None:
    texts = cut_at(in_pieces("one\n--\ntwo\ntwo\n--\nthree", 2), separator_line("--"))
    next(texts), next(texts)
    assert "".join(next(texts)) == "three"


@given(st.lists(st.text(st.sampled_from("ab \n"))))
def test_trimming_in_pieces_is_strip(pieces: list[str]) -> None:
    assert "".join(trimmed(pieces)) == "".join(pieces).strip()


def test_joining_leaves_one_blank_line() -> None:
    assert (
        "".join(joined(iter([text]) for text in ["one\n", "\n", "  two", "three\n\n"]))
        == "one\n\ntwo\n\nthree"
    )


class Known(Source):
    """Says each thing that a source may say."""

    total_bytes = 5

    def documents(self) -> Iterator[Document]:
        yield Document("one", iter(["text"]))

    def describe(self) -> dict[str, Any]:
        return {"kind": "known"}

    def cleaning(self) -> dict[str, Any]:
        return {"1 joined": 2}

    def fingerprint(self) -> list[Any]:
        return ["text", 5]


class Through(Wrapper):
    """Changes nothing."""

    def documents(self) -> Iterator[Document]:
        return self.source.documents()


def test_what_is_wrapped_says_what_its_source_says() -> None:
    inner, outer = Known(), Through(Known())
    assert outer.total_bytes == inner.total_bytes
    for said in ("describe", "cleaning", "fingerprint"):
        assert getattr(outer, said)() == getattr(inner, said)()
