"""What the page starts is an ordinary command that outlives page and server, and that two windows see the same."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from octavo.browser import commands
from octavo.browser.commands import JobCard, Jobs, tail
from octavo.browser.errands import complaint
from octavo.serving.errors import Refusal
from unit.serving.conftest import saved, tokenizer_of


def until(true: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)


def ended(found: Jobs, id: str) -> JobCard:
    def card() -> JobCard:
        made = found.card(found.folder / id)
        assert made is not None
        return made

    until(lambda: not card().running)
    return card()


def test_a_command_ends_and_says_how(tmp_path: Path) -> None:
    found = Jobs(tmp_path / "jobs")
    job = found.start("train", ["recipes", "--json"], tmp_path / "a b")
    assert job.running and job.command == "octavo recipes --json"
    over = ended(found, job.id)
    assert over.code == 0 and over.error is None and over.said and over.ended
    wrong = ended(found, found.start("train", ["runs", "nowhere"], tmp_path / "c").id)
    assert (
        wrong.code == 2 and wrong.error and wrong.error.startswith("nowhere does not exist.\n→ octavo runs")
    )
    assert [card.id for _, card in found.cards()] == ["0001", "0002"]
    again = Jobs(tmp_path / "jobs")  # another server
    assert list(again.cards()) == list(found.cards())
    assert b"minute" in again.log("0001", 10_000)


@pytest.mark.slow
def test_a_command_is_stopped_and_outlives_who_started_it(tmp_path: Path) -> None:
    run = saved(tmp_path / "run", tokenizer_of("char"))
    program = (
        "import sys; from pathlib import Path; from octavo.browser.commands import Jobs; "
        "Jobs(Path(sys.argv[1])).start('more', ['serve', sys.argv[2], '--port', '0'], Path(sys.argv[2]))"
    )
    folder = tmp_path / "jobs"
    server = subprocess.Popen([sys.executable, "-c", program, folder, run], start_new_session=True)
    assert server.wait(60) == 0
    found = Jobs(folder)
    (card,) = (card for _, card in found.cards())
    until(lambda: b"serving at" in (folder / "0001" / "log.txt").read_bytes())
    for kind in ("more", "train"):
        with pytest.raises(Refusal) as refused:
            found.start(kind, ["recipes"], run)
        assert refused.value.status == 409
    found.start("export", ["recipes"], run)  # only reads it
    found.stop("0001")
    stopping = found.card(folder / "0001")
    assert stopping is not None and (stopping.stopping or not stopping.running)
    over = ended(found, card.id)
    assert over.code == 0 and "stopped" in over.said[-1]
    with pytest.raises(Refusal):
        found.stop("0001")


@pytest.mark.slow
def test_a_command_whose_processes_were_killed_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "STARTING", 0.0)
    found = Jobs(tmp_path / "jobs")
    run = saved(tmp_path / "run", tokenizer_of("char"))
    found.start("more", ["serve", str(run), "--port", "0"], run)
    until(lambda: b"serving at" in (tmp_path / "jobs" / "0001" / "log.txt").read_bytes())
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            if process.name.isdecimal() and str(tmp_path).encode() in (process / "cmdline").read_bytes():
                os.kill(int(process.name), signal.SIGKILL)
    over = ended(found, "0001")
    assert over.code is None and over.error == ""


@pytest.mark.parametrize("id", ["..", "0009", "", "1;ls", "\u0661"])
def test_a_job_that_is_not_there(tmp_path: Path, id: str) -> None:
    found = Jobs(tmp_path / "jobs")
    for ask in (lambda: found.stop(id), lambda: found.log(id, 10)):
        with pytest.raises(Refusal):
            ask()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"words": 5, "kind": 1}', "\xff"])
def test_a_damaged_job_hides_no_other(tmp_path: Path, content: str) -> None:
    found = Jobs(tmp_path / "jobs")
    found.start("train", ["recipes"], tmp_path / "a")
    (tmp_path / "jobs" / "0002").mkdir()
    (tmp_path / "jobs" / "0002" / "job.json").write_text(content)
    assert [card.id for _, card in found.cards()] == ["0001"]
    ended(found, "0001")


def test_so_many_run_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Jobs(tmp_path / "jobs")
    monkeypatch.setattr(commands, "MOST_RUNNING", 1)
    found.start("train", ["recipes"], tmp_path / "a")
    with pytest.raises(Refusal) as refused:
        found.start("train", ["recipes"], tmp_path / "b")
    assert refused.value.status == 429
    ended(found, "0001")


def test_a_log_is_clean_of_what_a_terminal_obeys(tmp_path: Path) -> None:
    found = Jobs(tmp_path / "jobs")
    folder = tmp_path / "jobs" / "0001"
    folder.mkdir(parents=True)
    told = {"kind": "train", "words": ["train"], "about": "a", "began": 1.0}
    (folder / "job.json").write_text(json.dumps(told))
    (folder / "ended.json").write_text('{"code": 2, "ended": 2.0}')
    (folder / "log.txt").write_bytes(b"\x1b[31mred\x00\nerror: no \x07good\n  \xe2\x86\x92 better\nrest\n")
    card = found.card(folder)
    assert card is not None and "\x1b" not in "".join(card.said) and card.error == "no \\x07good\n→ better"


def test_the_end_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\ntwo\nthree\n")
    assert tail(path, 100) == b"one\ntwo\nthree\n" and tail(path, 8) == b"three\n"


def test_complaints() -> None:
    assert complaint(["a", "error: x", "  → y", "    z", "b"]) == "x\n→ y\nz"
    assert complaint(["error: 1", "error: 2"]) == "2" and complaint(["a"]) is None
