"""Plain lines where nothing can be drawn in place; every sentence in the log, also those said before there was one."""

from __future__ import annotations

import io
from contextlib import suppress
from pathlib import Path

import pytest

from octavo.errors import StorageError
from octavo.util import console as module
from octavo.util.console import Console


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
    monkeypatch.setattr("octavo.util.console.time.monotonic", lambda: now[0])
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
