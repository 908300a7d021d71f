"""Runs are followed: new lines alone, and whatever becomes of their files."""

from __future__ import annotations

import fcntl
import json
import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from octavo.browser import runs
from octavo.browser.runs import START, Cursor, Followed, lines_after
from octavo.run.folder import RunFolder
from unit.browser.conftest import Window, opened, write_run
from unit.serving.conftest import saved, tokenizer_of


def test_a_cursor_reads_each_line_once(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b"")
    rng, written, read, cursor = random.Random(0), b"", b"", START
    for _ in range(200):
        more = os.urandom(rng.randrange(40)).replace(b"\n", b"") + b"\n" * rng.randrange(2)
        with path.open("ab") as file:
            file.write(more)
        written += more
        for _ in range(rng.randrange(3)):
            lines, cursor, anew = lines_after(path, cursor, most=3000)
            assert not lines or lines.endswith(b"\n")
            assert not anew or not read
            read += lines
            cursor = Cursor.of(str(cursor))
    while True:
        lines, cursor, _ = lines_after(path, cursor, most=3000)
        read += lines
        if not lines:
            break
    assert read == written[: written.rfind(b"\n") + 1]


def test_another_file_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text("1\n2\n3\n")
    _, cursor, anew = lines_after(path, START)
    assert anew
    path.with_name("new").write_text("1\n2\n3\n4\n")
    path.with_name("new").replace(path)
    assert lines_after(path, cursor)[0::2] == (b"1\n2\n3\n4\n", True)
    _, cursor, _ = lines_after(path, cursor)
    path.write_text("1\n")
    assert lines_after(path, cursor)[0::2] == (b"1\n", True)
    path.unlink()
    assert lines_after(path, cursor) == (b"", START, True)
    assert lines_after(path, START) == (b"", START, False)


def test_a_line_without_an_end_holds_nothing_up(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b"x" * 1000 + b"\n1\n")
    cursor, read = START, b""
    for _ in range(20):
        lines, cursor, _ = lines_after(path, cursor, most=100)
        read += lines
    assert read.endswith(b"\n1\n")


@pytest.mark.parametrize("text", ["1", "-", "1-2-3", "a-1", "1--2", "9" * 60 + "-1", "1-\u0663"])
def test_a_cursor_from_elsewhere_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Cursor.of(text)


def test_a_card_follows_what_is_written(tmp_path: Path) -> None:
    run = write_run(tmp_path / "one")
    followed = Followed("one", run, "one")
    card = followed.look()
    assert (card.step, card.steps, card.bits, card.loss, card.state) == (20, 100, 3.5, 2.5, "stopped")
    assert card.tokens_per_second == 5.0 and card.ends is None
    with (run / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"event": "validation", "step": 30, "loss": 2.0, "bits_per_byte": 3.0}) + "\n")
        file.write(json.dumps({"event": "validation", "step": 40, "loss": 2.2, "bits_per_byte": 3.2}) + "\n{")
    again = followed.look()
    assert (again.step, again.bits) == (40, 3.0) and again.metrics != card.metrics
    write_run(tmp_path / "other", steps=5)
    (tmp_path / "other" / "metrics.jsonl").replace(run / "metrics.jsonl")
    assert followed.look().step == 5


def test_a_run_that_is_written_now_says_when_it_ends(tmp_path: Path) -> None:
    run = write_run(tmp_path / "one")
    followed = Followed("one", run, "one")
    with RunFolder(run).lock():
        card = followed.look()
        assert card.held and card.state == "training"
        assert card.ends is not None and card.ends - time.time() == pytest.approx(80 * 0.5, abs=5)
    assert not followed.look().held


def test_looking_stops_no_training(tmp_path: Path) -> None:
    """A look takes the lock for an instant; whoever wants to write the run tries once more."""
    run = write_run(tmp_path / "one")
    with RunFolder(run).lock():
        pass
    handle = os.open(run / ".lock", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_SH)
    threading.Timer(0.05, os.close, [handle]).start()
    with RunFolder(run).lock():
        pass


@pytest.mark.parametrize("name", ["config.yaml", "manifest.json", "evaluation.json", "metrics.jsonl"])
@pytest.mark.parametrize(
    "content", [b"\xff\x00\x01", b"[", b"[]", b"null", b"", b"{}", b'{"auto": 1, "counted": []}']
)
def test_a_damaged_file_is_said_of_its_run_alone(tmp_path: Path, name: str, content: bytes) -> None:
    run = write_run(tmp_path / "one")
    (run / name).write_bytes(content)
    card = Followed("one", run, "one").look()
    assert card.state in ("stopped", "damaged")
    assert (card.damage is not None) == (card.state == "damaged")


def test_a_finished_run_has_its_checkpoint(tmp_path: Path) -> None:
    card = Followed("one", saved(tmp_path / "one", tokenizer_of("char")), "one").look()
    assert card.state == "finished" and card.checkpoints == (3,) and card.task == "text"


def test_a_text_that_changed_is_named(tmp_path: Path) -> None:
    run, text = write_run(tmp_path / "one"), tmp_path / "text.txt"
    text.write_text("a")
    (run / "config.yaml").write_text(f"corpus:\n  kind: files\n  paths: ['{text}']\n", encoding="utf-8")
    (run / "manifest.json").write_text("{}")
    os.utime(run / "manifest.json", (time.time() - 100, time.time() - 100))
    assert Followed("one", run, "one").look().changed == (str(text),)
    os.utime(text, (time.time() - 200, time.time() - 200))
    assert Followed("one", run, "one").look().changed == ()
    text.unlink()
    assert Followed("one", run, "one").look().changed == (str(text),)


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Window]:
    folder = tmp_path_factory.mktemp("work")
    write_run(folder / "runs" / "one", steps=50)
    with opened(folder) as window:
        yield window


def test_metrics_come_by_a_cursor(window: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    path = window.folder / "runs" / "one" / "metrics.jsonl"
    monkeypatch.setattr(runs, "MOST_READ", 1000)
    monkeypatch.setattr(lines_after, "__defaults__", (1000,))
    with window.client() as client:
        read, cursor, anew = "", "", []
        while True:
            answer = client.get("/api/metrics", params={"run": "runs/one", "after": cursor})
            assert answer.status_code == 200
            if not answer.text:
                break
            assert len(answer.content) <= 1000
            read, cursor = read + answer.text, answer.headers["x-cursor"]
            anew.append(answer.headers["x-anew"])
        assert read == path.read_text() and anew == ["yes"] + ["no"] * (len(anew) - 1)
        assert client.get("/api/metrics", params={"run": "runs/one", "after": "x"}).status_code == 400
