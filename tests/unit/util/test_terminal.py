"""Control characters become visible, lines are broken at spaces, and no stream fails for what it is to show. Plain
lines where nothing can be drawn in place; every sentence in the log, also those said before there was one."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import time
import unicodedata
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.errors import StorageError
from octavo.util import terminal as module
from octavo.util.html import templates
from octavo.util.terminal import (
    ERRORS,
    Console,
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


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_plain_lines_and_the_log(tmp_path: Path) -> None:
    stream = io.StringIO()
    console = Console(stream=stream)
    console.say("before the log")
    console.keep_log(tmp_path / "log.txt")
    with console.working("training", 10):
        console.say("[bold] is no markup é")
    assert stream.getvalue() == "before the log\n[bold] is no markup é\n"
    assert (tmp_path / "log.txt").read_text(encoding="utf-8") == stream.getvalue()


def test_what_a_text_says_of_itself_is_said_once_for_each_log(tmp_path: Path) -> None:
    stream = io.StringIO()
    console = Console(stream=stream)
    for name in (None, "one", "one", "other"):
        if name:
            console.keep_log(tmp_path / name)
        for text in ("every file is a document", "every file is a document", "another"):
            console.say_once(text)
    whole = "every file is a document\nanother\n"
    assert (tmp_path / "one").read_text() == whole * 2, "it was kept anew"
    assert (tmp_path / "other").read_text() == whole


def test_quiet_still_logs(tmp_path: Path) -> None:
    stream = io.StringIO()
    console = Console(quiet=True, stream=stream)
    console.keep_log(tmp_path / "log.txt")
    console.say("a sentence")
    console.advance(1, "a note", first=True)
    assert stream.getvalue() == ""
    assert (tmp_path / "log.txt").read_text() == "a sentence\n"


def test_progress_is_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    stream = io.StringIO()
    console = Console(stream=stream)
    console.advance(1, "step 1", first=True)
    for step in range(2, 22):
        clock[0] += 0.5
        console.advance(step, f"step {step}")
    assert stream.getvalue().splitlines() == ["step 1", "step 11", "step 21"]
    assert console.first_loss_after == 0.0


def test_a_terminal_draws_in_place_and_sentences_stay(tmp_path: Path) -> None:
    stream = Terminal()
    console = Console(stream=stream)
    assert console.live
    with console.working("training", 2):
        console.advance(1, "step 1/2", first=True)
        console.say("a sentence [1/2]")
    console.say("after")
    assert "a sentence [1/2]" in stream.getvalue()
    assert stream.getvalue().endswith("after\n")


def test_a_log_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    console = Console(quiet=True)
    (tmp_path / "file").write_text("")
    console.log = tmp_path / "file" / "log.txt"
    with pytest.raises(StorageError, match="cannot be written"):
        console.say("a sentence")


def test_reading_is_told_now_and_then_and_not_for_short_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("octavo.util.terminal.time.monotonic", lambda: now[0])
    stream = io.StringIO()
    console = Console(stream=stream)
    with console.working("reading the text", None):
        for megabytes, seconds in ((1, 0), (2, 1), (40, 5), (41, 1), (90, 5)):
            now[0] += seconds
            console.read(megabytes * 10**6, 10**8)
    assert stream.getvalue().splitlines() == [
        "reading the text: 40 MB  9 s left",
        "reading the text: 90 MB  1 s left",
    ]


def test_a_part_of_the_work_has_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    console = Console(quiet=True)
    now = 107.0
    with console.part(30.0):
        assert console.started == 107.0
        now = 109.0
        console.expect(10, ends=112.0)
        assert console._line.ends == 142.0, "when all is over, not this part"
        console.advance(1, "a loss", first=True)
    assert console.first_loss_after == 9.0, "from the start of the whole"
    assert console.started == 100.0
    console.expect(10, ends=112.0)
    assert console._line.ends == 112.0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_work_goes_on_where_the_console_is_a_file_on_a_full_disk(tmp_path: Path) -> None:
    with Path("/dev/full").open("w", encoding="utf-8", buffering=1) as full:
        console = Console(stream=full)
        console.keep_log(tmp_path / "log.txt")
        console.say("said")
        with console.working("training", 10):
            console.advance(1, "step 1", first=True)
        with suppress(OSError):  # what is buffered
            full.flush()
        full.buffer.raw.close()
    assert (tmp_path / "log.txt").read_text(encoding="utf-8") == "said\n"
