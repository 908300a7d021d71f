"""From what a window asks to the words of an ordinary command, and to what an errand answers."""

from __future__ import annotations

import asyncio
import io
import json
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from octavo.browser.commands import JobCard, Jobs
from octavo.browser.errands import Errands
from octavo.run.folder import RunFolder
from octavo.serving.errors import Refusal
from unit.browser.conftest import Window, opened
from unit.serving.conftest import saved, tokenizer_of

TEXT = "The cat sat on the mat. " * 200


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str], Path]]:
    """Commands that would have been started."""
    found: list[tuple[str, list[str], Path]] = []

    def start(self: Jobs, kind: str, words: list[str], about: Path) -> JobCard:
        found.append((kind, words, about))
        return JobCard("0001", kind, "", str(about), 0.0)

    monkeypatch.setattr(Jobs, "start", start)
    return found


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Window]:
    folder = tmp_path_factory.mktemp("work")
    saved(folder / "runs" / "bard", tokenizer_of("char"))
    (folder / "texts" / "book").mkdir(parents=True)
    (folder / "texts" / "book" / "book.txt").write_text(TEXT)
    (folder / "texts" / "picture").mkdir()
    (folder / "texts" / "picture" / "picture.txt").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\xff\xfe" * 90)
    with opened(folder) as window:
        yield window


def test_commands_are_those_of_a_terminal(window: Window, started: Any) -> None:
    folder = window.folder
    book, bard = str(folder / "texts" / "book" / "book.txt"), str(folder / "runs" / "bard")
    wishes: list[tuple[dict[str, Any], list[str]]] = [
        (
            {"kind": "train", "text": "book", "minutes": 5, "name": "My Book"},
            ["train", "--text", book, "--minutes", "5", "--out", str(folder / "runs" / "My-Book"),
             "sampling.every=0.1", "training.keep_for_story=12"],
        ),
        ({"kind": "demo"}, ["demo", "--out", str(folder / "runs" / "stories")]),
        ({"kind": "more", "run": "runs/bard"}, ["train", "--out", bard, "--resume"]),
        (
            {"kind": "more", "run": "runs/bard", "minutes": 0.5},
            ["train", "--out", bard, "--resume", "--minutes", "0.5"],
        ),
        ({"kind": "explain", "run": "runs/bard"}, ["explain", bard, "--out", f"{bard}/explain.html", "--force"]),
        (
            {"kind": "export", "run": "runs/bard", "to": "hf", "network_only": True},
            ["export", bard, "--to", "hf", "--out", str(folder / "exports" / "bard-hf"), "--network-only"],
        ),
    ]  # fmt: skip
    with window.client() as client:
        for wish, words in wishes:
            answer = client.post("/api/start", json=wish)
            assert answer.status_code == 200, answer.text
            assert started.pop()[1] == words


@pytest.mark.parametrize(
    ("wish", "status"),
    [
        ({"kind": "train", "text": "none", "minutes": 5}, 404),
        ({"kind": "train", "text": "../runs", "minutes": 5}, 404),
        ({"kind": "train", "text": "book"}, 400),
        ({"kind": "train", "text": "book", "minutes": "5"}, 400),
        ({"kind": "train", "text": "book", "minutes": 1e400}, 400),
        ({"kind": "train", "text": "book", "minutes": 5, "parts": "x.py"}, 400),
        ({"kind": "more", "run": "runs/none"}, 404),
        ({"kind": "export", "run": "runs/bard", "to": "--out"}, 400),
        ({"kind": "tune", "run": "runs/bard"}, 400),
        ({"kind": "shell"}, 400),
        ([], 400),
    ],
)
def test_what_is_no_command(window: Window, started: Any, wish: Any, status: int) -> None:
    body = json.dumps(wish).replace("Infinity", "1e400")
    with window.client() as client:
        answer = client.post("/api/start", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == status and not started
    assert str(window.folder) not in answer.text


def test_a_run_that_a_terminal_trains_is_left_alone(window: Window, started: Any) -> None:
    with RunFolder(window.folder / "runs" / "bard").lock(), window.client() as client:
        until = time.monotonic() + 20
        while not window.things(client)["run:runs/bard"]["held"]:
            assert time.monotonic() < until
        answer = client.post("/api/start", json={"kind": "more", "run": "runs/bard"})
        assert answer.status_code == 409 and "Another process" in answer.json()["error"]["message"]
    assert not started


def test_minutes_that_cannot_be_are_said_by_the_command(window: Window) -> None:
    with window.client() as client:
        job = client.post("/api/start", json={"kind": "train", "text": "book", "minutes": 0}).json()
        until = time.monotonic() + 60
        while (card := window.things(client)[f"job:{job['id']}"])["running"]:
            assert time.monotonic() < until
            time.sleep(0.2)
    assert (
        card["code"] == 2 and "--minutes must be 0.34 to 720 (20 seconds to 12 hours), not 0" in card["error"]
    )


def test_a_text_is_looked_at(window: Window) -> None:
    with window.client() as client:
        found = client.post("/api/look", json={"text": "book"}).json()
        assert (
            found["documents"] == 1
            and found["bytes"] == len(TEXT)
            and found["begins"].startswith("The cat sat")
        )
        began = time.monotonic()
        assert client.post("/api/look", json={"text": "book"}).json() == found
        assert time.monotonic() - began < 0.5, "it was kept"
        wrong = client.post("/api/look", json={"text": "picture"})
        assert wrong.status_code == 422 and "is a PNG picture" in wrong.json()["error"]["message"]
        assert client.post("/api/look", json={"text": "none"}).status_code == 404


def test_an_archive_is_read_and_never_extracted(window: Window) -> None:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("inside.txt", TEXT)
        archive.writestr("../evil.txt", "The dog sat on the log. " * 50)
    with window.client() as client:
        id = client.post("/api/text", json={"name": "box.zip"}).json()["id"]
        sent = client.put("/api/file", params={"text": id, "name": "../box.zip"}, content=held.getvalue())
        assert sent.status_code == 200
        found = client.post("/api/look", json={"text": id}).json()
    assert "The cat sat" in found["begins"] or "The dog sat" in found["begins"]
    (box,) = (window.folder / "texts" / "box").rglob("*")
    assert box.name == "box.zip" and box.read_bytes() == held.getvalue()
    assert not list(window.folder.parent.rglob("evil.txt"))


@pytest.mark.slow
def test_who_does_not_wait_ends_an_errand(tmp_path: Path) -> None:
    program = f"import time, pathlib; time.sleep(1.5); pathlib.Path({str(tmp_path / 'done')!r}).touch()"
    words = ("timeit", "-n1", "-r1", program)

    async def main() -> None:
        errands = Errands()
        for _ in range(5):  # none is left over
            asked = asyncio.create_task(errands.run(*words))
            await asyncio.sleep(0.4)
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
        await asyncio.sleep(2)
        several = [asyncio.create_task(errands.run(*words)) for _ in range(4)]
        await asyncio.sleep(0.2)
        with pytest.raises(Refusal):
            await several[3]
        for one in several[:3]:
            one.cancel()
        await asyncio.gather(*several, return_exceptions=True)

    asyncio.run(main())
    assert not (tmp_path / "done").exists()
