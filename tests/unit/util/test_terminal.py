"""Control characters become visible, lines are broken at spaces, and no stream fails for what it is to show."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import time
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.util.console import Console
from octavo.util.html import templates
from octavo.util.terminal import (
    ERRORS,
    duration,
    exact_duration,
    fenced,
    heedless,
    put,
    shown,
    shown_in_json,
    wrapped,
)

ANY = st.text(st.characters(exclude_categories=()))


@given(ANY)
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    seen = shown(text)
    assert not [c for c in seen if unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t"]
    assert shown(seen) == seen
    seen.encode("utf-8")


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("a\nb\tc", "a\nb\tc"),
        ("naïve 漢字 👍🏽 שלום", "naïve 漢字 👍🏽 שלום"),
        ("\x1b[2J\x07", "\\x1b[2J\\x07"),
        ("\x9b2J \x7f", "\\x9b2J \\x7f"),
        ("done\rfail", "done\\rfail"),
        ("\u202eevil\u2066", "\\u202eevil\\u2066"),
        ("\ud800", "\\ud800"),
    ],
)
def test_shown(text: str, seen: str) -> None:
    assert shown(text) == seen


@given(ANY)
def test_json_means_the_same(text: str) -> None:
    document = shown_in_json(json.dumps({"text": text}, ensure_ascii=False))
    assert json.loads(document) == {"text": text}
    assert shown(document) == document
    document.encode("utf-8")


@given(st.text("abc de\nfg→ ", max_size=200), st.integers(10, 60))
def test_wrapping_moves_spaces_alone(text: str, columns: int) -> None:
    folded = wrapped(text, columns)
    assert folded.split() == text.split()
    assert all(len(line) <= columns or len(line.split()) <= 2 for line in folded.split("\n"))


def test_wrapped_lines_keep_their_indentation_and_commands_stay_whole() -> None:
    command = "  → octavo train a-recipe --text a-text.txt --out a-folder"
    assert wrapped(command, 20) == command
    assert (
        wrapped("  → free some space, then try it again", 20)
        == "  → free some space,\n    then try it\n    again"
    )


def test_streams_that_are_no_terminals_get_the_text_itself() -> None:
    stream = io.StringIO()
    put("\x1b" + "a word " * 30, stream)
    assert stream.getvalue() == "\x1b" + "a word " * 30 + "\n"


def test_a_terminal_gets_escapes() -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w", encoding="utf-8") as stream:
        put("\x1b]0;x\x07", stream)
        assert os.read(ours, 100) == b"\\x1b]0;x\\x07\r\n"
    os.close(ours)


def test_a_stream_with_our_errors_never_fails() -> None:
    assert "a\udcff".encode("utf-8", ERRORS) == b"a\xff"
    assert "\ud800é".encode("utf-8", ERRORS) == b"\\ud800\xc3\xa9"
    assert "→é".encode("latin-1", ERRORS) == b"\\u2192\xe9"


def test_pages_hold_no_control_characters() -> None:
    page = templates().from_string("<p>{{ text }}{{ number }}</p>").render(text="<\x1b\x9b>", number=3)
    assert page == "<p>&lt;\\x1b\\x9b&gt;3</p>"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "0 s"),
        (89, "89 s"),
        (90, "2 min"),
        (3600, "60 min"),
        (5400, "1.5 h"),
        (100_000, "27.8 h"),
        (864_000, "10.0 days"),
    ],
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.04, "0.0 s"), (99.9, "99.9 s"), (100, "1 min 40 s"), (3599.6, "1 h 0 min"), (90000, "25 h 0 min")],
)
def test_durations_that_were_measured(seconds: float, words: str) -> None:
    assert exact_duration(seconds) == words


def test_a_pipe_that_nobody_reads_falls_silent() -> None:
    reader, writer = os.pipe()
    plain = os.fdopen(writer, "w")
    stream = heedless(plain)
    put("heard", stream)
    assert os.read(reader, 100) == b"heard\n" and not stream.unread
    os.close(reader)
    with pytest.raises(BrokenPipeError):
        os.write(writer, b"x")
    for _ in range(3):
        put("unheard", stream)
    assert stream.unread and heedless(stream) is stream
    with contextlib.suppress(BrokenPipeError):
        plain.close()


def test_other_faults_of_a_stream_are_raised() -> None:
    full = Path("/dev/full").open("w")  # noqa: SIM115 - closing it fails too
    with pytest.raises(OSError, match="No space"):
        put("lost", heedless(full))
    with contextlib.suppress(OSError):
        full.close()


def test_a_stream_that_was_never_there_takes_everything() -> None:
    put("unheard", heedless(None))


def test_progress_on_a_terminal_that_is_gone_ends_nothing() -> None:
    ours, theirs = pty.openpty()
    plain = os.fdopen(theirs, "w")
    console = Console(stream=plain)
    with console.working("training", 100):
        assert console.live
        os.close(ours)
        for step in range(100):
            console.advance(step, f"step {step}")
            console.say("a sentence")
        time.sleep(0.6)  # the thread that draws has its turn
    console.say("over")
    assert console.stream.unread
    with contextlib.suppress(OSError):
        plain.close()


def test_a_block_of_code_holds_no_control_characters() -> None:
    assert fenced("a\x1b[31m\u202eb\n```\n") == "````text\na\\x1b[31m\\u202eb\n```\n````"
