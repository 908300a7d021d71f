"""octavo open as a person starts it: the address that is printed, a second time, a port that is taken, and its end."""

from __future__ import annotations

import json
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from e2e.forked import Command, Octavo, until

pytest.importorskip("uvicorn")


@contextmanager
def opened(octavo: Octavo, folder: Path, *arguments: object, ends: int = signal.SIGINT) -> Iterator[Command]:
    """The page's server; it is ended by Ctrl-C, and says so."""
    command = octavo.start("open", folder, "--no-browser", *arguments)
    until(lambda: "Ctrl-C" in read(command, 2))
    try:
        yield command
    finally:
        command.signal(ends)
        done = command.wait()
        assert done.code == 0 and done.err.endswith("stopped\n"), done.err


def read(command: Command, stream: int) -> str:
    file = command.files[stream]
    return file.read_text() if file.exists() else ""


def address(command: Command) -> str:
    (found,) = re.findall(r"^open at (http://127\.0\.0\.1:\d+/\?token=\S{40,})$", read(command, 1), re.M)
    return found


def test_the_address_that_is_printed_opens_the_page_and_comes_again(octavo: Octavo, tmp_path: Path) -> None:
    with opened(octavo, tmp_path) as command:
        first = address(command)
        page = httpx2.get(first, timeout=60, trust_env=False)
        assert page.status_code == 200 and page.text.lower().startswith("<!doctype html>")
        assert httpx2.get(first.partition("?")[0], timeout=60, trust_env=False).status_code == 401
        again = octavo("open", tmp_path, "--no-browser")
        assert again.code == 0 and again.out == f"open already at {first}\n"
        other = tmp_path / "other"
        other.mkdir()
        port = int(first.split(":")[2].partition("/")[0])
        taken = octavo("open", other, "--no-browser", "--port", port)
        assert taken.code == 2 and str(port) in taken.err and "Traceback" not in taken.err
        with opened(octavo, other) as beside:
            assert address(beside).partition("?")[0] != first.partition("?")[0]
    with opened(octavo, tmp_path, ends=signal.SIGTERM) as command:
        assert address(command) == first


def test_a_port_that_somebody_has_taken_since_gets_another_token(octavo: Octavo, tmp_path: Path) -> None:
    with opened(octavo, tmp_path) as command:
        first = address(command)
    port, token = int(first.split(":")[2].partition("/")[0]), first.partition("token=")[2]
    with socket.create_server(("127.0.0.1", port)) as taken, opened(octavo, tmp_path) as command:
        assert str(port) not in address(command) and token not in address(command)
        taken.settimeout(0.2)
        with pytest.raises(TimeoutError):
            taken.accept()


def test_where_there_is_no_browser_the_address_is_enough(octavo: Octavo, tmp_path: Path) -> None:
    command = octavo.start("open", tmp_path, program=WITHOUT_A_SCREEN.format(folder=str(tmp_path)))
    until(lambda: "no browser was found here" in read(command, 2))
    assert httpx2.get(address(command), timeout=60, trust_env=False).status_code == 200
    command.signal(signal.SIGINT)
    assert command.wait().code == 0


WITHOUT_A_SCREEN = """
import os, sys
from octavo.cli import main
for name in ("DISPLAY", "WAYLAND_DISPLAY"):
    os.environ.pop(name, None)
main(["open", {folder!r}])
"""


def test_what_cannot_be_opened_is_a_sentence(octavo: Octavo, finished: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text(json.dumps({}))
    for arguments, named in (
        ((tmp_path / "none",), "does not exist"),
        ((tmp_path / "file",), "is not a folder"),
        ((finished,), f"octavo open {finished.parent}"),
        ((tmp_path, "--port", "70000"), "70000"),
        ((tmp_path, "--memory", "0"), "memory"),
    ):
        done = octavo("open", "--no-browser", *arguments)
        assert done.code == 2 and named in done.err and "Traceback" not in done.err, done.err


def test_without_the_extra_its_name_is_said(octavo: Octavo, tmp_path: Path) -> None:
    done = octavo("open", tmp_path, patch="without_a_server")
    assert done.code == 1 and "octavo[serve]" in done.err and "Traceback" not in done.err
