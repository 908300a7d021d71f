"""Dropped texts: bounded, under clean names, in a folder of their own, and whole or not at all."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as some

from octavo.browser import dropped
from octavo.browser.dropped import LONGEST, Texts, clean
from octavo.serving.errors import Refusal
from unit.browser.conftest import TOKEN, Window, opened


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def take(found: Texts, id: str, name: str, *parts: bytes, length: int | None = None) -> int:
    return asyncio.run(found.take(id, name, length, pieces(*parts)))


@given(some.text())
def test_a_clean_name_is_one_name(name: str) -> None:
    found = clean(name)
    assert found and len(found.encode()) <= LONGEST and clean(found) == found
    assert not set(found) & set('/\\:*?"<>|=\0\n\x7f') and found.isprintable()
    assert found[0] not in " .-~" and found[-1] not in " ." and found not in (".", "..")


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("book.txt", "book.txt"),
        ("../../etc/passwd", "etc-passwd"),
        ("C:\\Users\\x.txt", "C-Users-x.txt"),
        ("--text", "text"),
        (".bashrc", "bashrc"),
        ("con.txt", "con-.txt"),
        ("Ma\u0308rchen.txt", "Märchen.txt"),
        ("a\u202egpj.exe", "a-gpj.exe"),
        ("x" * 300 + ".pdf", "x" * 96 + ".pdf"),
        ("a=b.txt", "a-b.txt"),
        ("", "text"),
    ],
)
def test_names(name: str, wanted: str) -> None:
    assert clean(name) == wanted


def test_a_text_of_one_file_and_one_of_a_folder(tmp_path: Path) -> None:
    found = Texts(tmp_path / "texts")
    one = found.new("book.txt")
    assert take(found, one, "book.txt", b"abc", b"def") == 6
    several = found.new("book.txt")
    assert (one, several) == ("book", "book-2")
    for name in ("a.txt", "deep/er/b.txt", "../../../up.txt", "/abs.txt", "deep/er/b.txt"):
        take(found, several, name, name.encode())
    there = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())
    inside = ["abs.txt", "a.txt", "deep/er/b-2.txt", "deep/er/b.txt", "up.txt"]
    assert there == ["texts/book-2/" + name for name in sorted(inside)] + ["texts/book/book.txt"]
    cards = dict(found.cards())
    assert cards["text:book"].path == str(tmp_path / "texts/book/book.txt") and cards["text:book"].bytes == 6
    assert cards["text:book-2"].path == str(tmp_path / "texts/book-2") and cards["text:book-2"].files == 5


@pytest.mark.parametrize("id", ["..", "../x", "none", "", ".", "book/..", "\0"])
def test_a_text_that_is_not_there(tmp_path: Path, id: str) -> None:
    found = Texts(tmp_path / "texts")
    found.new("book")
    with pytest.raises(Refusal) as refused:
        take(found, id, "a.txt", b"a")
    assert refused.value.status == 404 and found.card(id) is None


def test_a_link_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "link").symlink_to(tmp_path / "elsewhere")
    found = Texts(tmp_path / "texts")
    assert found.card("link") is None
    with pytest.raises(Refusal):
        take(found, "link", "a.txt", b"a")


def test_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Texts(tmp_path / "texts")
    monkeypatch.setattr(dropped, "MOST_BYTES", 10)
    monkeypatch.setattr(dropped, "MOST_TOGETHER", 15)
    monkeypatch.setattr(dropped, "MOST_FILES", 3)
    id = found.new("book")
    for length in (11, None):  # said before, or found out on the way
        with pytest.raises(Refusal) as refused:
            take(found, id, "a.txt", b"x" * 6, b"x" * 5, length=length)
        assert refused.value.status == 413 and not (tmp_path / "texts" / "book").exists()
        id = found.new("book")
    take(found, id, "a.txt", b"x" * 10)
    with pytest.raises(Refusal):
        take(found, id, "b.txt", b"x" * 6)
    take(found, id, "b.txt", b"x" * 2)
    take(found, id, "c.txt", b"x")
    with pytest.raises(Refusal, match="3 files"):
        take(found, id, "d.txt", b"x")
    assert sorted(path.name for path in (tmp_path / "texts" / "book").iterdir()) == [
        "a.txt",
        "b.txt",
        "c.txt",
    ]


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Texts(tmp_path / "texts")
    id = found.new("book")
    usage = SimpleNamespace(free=100)
    monkeypatch.setattr("octavo.browser.dropped.shutil.disk_usage", lambda _: usage)
    with pytest.raises(Refusal) as refused:
        take(found, id, "a.txt", b"x")
    assert refused.value.status == 507 and "full" in refused.value.message
    usage.free = 2**40
    id = found.new("book")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(Refusal) as refused:
        take(found, id, "a.txt", b"x")
    assert refused.value.status == 507 and not (tmp_path / "texts" / "book").exists()


def test_who_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"x" * 100
        raise ConnectionError

    found = Texts(tmp_path / "texts")
    id = found.new("book")
    with pytest.raises((ConnectionError, Refusal)):
        asyncio.run(found.take(id, "a.txt", None, broken()))
    assert not (tmp_path / "texts" / "book").exists()


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Window]:
    with opened(tmp_path_factory.mktemp("work")) as window:
        yield window


def test_a_text_comes_in(window: Window) -> None:
    with window.client() as client:
        id = client.post("/api/text", json={"name": "Book.txt"}).json()["id"]
        sent = client.put(
            "/api/file", params={"text": id, "name": "Book.txt"}, content=iter([b"a" * 70_000] * 40)
        )
        assert sent.json() == {"bytes": 2_800_000}
        assert (window.folder / "texts" / "Book" / "Book.txt").stat().st_size == 2_800_000
        assert window.things(client)["text:Book"]["files"] == 1


def test_two_gigabytes_are_refused_before_they_come(window: Window) -> None:
    with window.client() as client:
        id = client.post("/api/text", json={"name": "Large.txt"}).json()["id"]
    head = (
        f"PUT /api/file?text={id}&name=a HTTP/1.1\r\nHost: 127.0.0.1:{window.port}\r\nOrigin: {window.origin}\r\n"
        f"Authorization: Bearer {TOKEN}\r\nContent-Length: {2 * 2**30}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", window.port), timeout=30) as plain:
        plain.sendall(head.encode() + b"x" * 1000)
        answer = b"".join(iter(lambda: plain.recv(65536), b"")).decode()
    assert " 413 " in answer.splitlines()[0] and "GiB" in answer
    assert not (window.folder / "texts" / "Large").exists()


def test_a_page_from_elsewhere_sends_nothing(window: Window) -> None:
    with window.client(origin="http://evil.example") as client:
        for method, path in (
            ("POST", "/api/text"),
            ("PUT", "/api/file"),
            ("POST", "/api/start"),
            ("POST", "/api/stop"),
        ):
            answer = client.request(method, path, json={"kind": "demo", "name": "x", "job": "1"})
            assert answer.status_code == 403
    told = {"authorization": f"Bearer {TOKEN}"}
    with httpx2.Client(base_url=window.origin, headers=told, trust_env=False) as client:
        assert client.post("/api/start", json={"kind": "demo"}).status_code == 403
    assert not (window.folder / ".octavo").exists()
