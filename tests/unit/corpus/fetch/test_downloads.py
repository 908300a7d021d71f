"""Fetching by name against a server that cuts, lies, leads astray and fills the disk."""

from __future__ import annotations

import hashlib
import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from octavo.corpus.fetch import addresses, downloads
from octavo.corpus.fetch.addresses import UnknownHost, check_address
from octavo.corpus.fetch.catalogue import (
    Entry,
    Mirrors,
    catalogue,
    entry,
    named_path,
    settings_path,
    user_mirrors,
)
from octavo.corpus.fetch.downloads import Fetched, fetch, fetch_entry
from octavo.corpus.sources import FilesSource
from octavo.errors import ConfigError, CorpusError, StorageError
from unit.corpus.web import redirect, send, serving

TEXT = b"".join(b"line %d of the text\n" % number for number in range(20_000))
SHA256 = hashlib.sha256(TEXT).hexdigest()


class Fetcher:
    """Fetches one entry into a folder, with what was said and how long was waited."""

    def __init__(self, cache: Path, address: str, **facts: Any) -> None:
        pinned = {"bytes": len(TEXT), "sha256": SHA256}
        self.entry = Entry(
            name="text",
            title="a text",
            address=address,
            file="text.txt",
            licence="none",
            about=1,
            **{**pinned, **facts},
        )
        self.cache = cache
        self.said: list[str] = []
        self.waited: list[float] = []
        self.pause: Callable[[float], object] = self.waited.append

    def __call__(self, *mirrors: str, private: bool = True, accept_change: bool = False) -> Fetched:
        return fetch_entry(
            self.entry,
            self.cache,
            Mirrors(mirrors, private),
            accept_change,
            self.said.append,
            lambda done, total: None,
            self.pause,
        )

    def refused(self, *mirrors: str, private: bool = True) -> str:
        with pytest.raises(CorpusError) as caught:
            self(*mirrors, private=private)
        assert not self.entry.path(self.cache).exists(), "nothing that was not verified gets the name"
        return str(caught.value)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def test_a_text_is_fetched_once_and_verified(tmp_path: Path) -> None:
    with serving(lambda request, _: send(request, TEXT)) as server:
        get = Fetcher(tmp_path, f"{server.base}/text")
        got = get()
        assert (got.new, got.pinned, got.sha256, got.bytes) == (True, True, SHA256, len(TEXT))
        assert got.path.read_bytes() == TEXT
        assert not get().new and len(server.asked) == 1
        left = sorted(path.name for path in got.path.parent.iterdir())
        assert left == [".text.txt.lock", "text.txt", "text.txt.json"]


@pytest.mark.parametrize("length", [True, False], ids=["length told", "length unknown"])
def test_a_cut_download_goes_on_where_it_was_cut(tmp_path: Path, length: bool) -> None:
    def answer(request: BaseHTTPRequestHandler, number: int) -> None:
        if length:
            send(request, TEXT, cut=100_000 if number < 4 else None)
        else:
            send(request, TEXT[:100_000] if number == 1 else TEXT, length=number > 1)

    with serving(answer) as server:
        get = Fetcher(tmp_path, f"{server.base}/text")
        if length:
            assert get().path.read_bytes() == TEXT
            assert [wanted for _, wanted in server.asked] == [
                "",
                *(f"bytes={at}-" for at in (100_000, 200_000, 300_000)),
            ]
            assert get.waited == [1.0, 2.0, 4.0]
        else:  # nothing says that it was cut, but its size does
            assert f"has 100,000 bytes, not {len(TEXT):,}" in get.refused()
            assert get().path.read_bytes() == TEXT


def test_a_later_command_goes_on_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "ATTEMPTS", 1)
    with serving(lambda request, number: send(request, TEXT, cut=50_000 if number == 1 else None)) as server:
        get = Fetcher(tmp_path, f"{server.base}/text")
        assert "continues where it was cut" in get.refused()
        assert get().path.read_bytes() == TEXT
        assert server.asked[1][1] == "bytes=50000-"


def test_a_server_without_ranges_starts_anew(tmp_path: Path) -> None:
    with serving(
        lambda request, number: send(request, TEXT, ranges=False, cut=9 if number == 1 else None)
    ) as server:
        assert Fetcher(tmp_path, f"{server.base}/text")().path.read_bytes() == TEXT


def test_a_file_that_changed_meanwhile_comes_whole(tmp_path: Path) -> None:
    old = b"x" * len(TEXT)

    def answer(request: BaseHTTPRequestHandler, number: int) -> None:
        send(request, old, cut=70_000, tag='"old"') if number == 1 else send(request, TEXT, tag='"new"')

    with serving(answer) as server:
        assert Fetcher(tmp_path, f"{server.base}/text", sha256=None)().path.read_bytes() == TEXT


def test_without_a_tag_an_unpinned_text_is_never_patched_together(tmp_path: Path) -> None:
    with serving(
        lambda request, number: send(request, TEXT, tag="", cut=9 if number == 1 else None)
    ) as server:
        assert Fetcher(tmp_path, f"{server.base}/text", sha256=None)().path.read_bytes() == TEXT
        assert [wanted for _, wanted in server.asked] == ["", ""]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (TEXT[:-1] + b"!", "has the SHA-256"),
        (TEXT[:-1], f"bytes, not {len(TEXT):,}"),
        (b"", "is empty"),
        (TEXT + b"more", f"gives more than {len(TEXT):,} bytes"),
    ],
    ids=["altered", "short", "empty", "long"],
)
def test_wrong_bytes_are_refused_and_thrown_away(tmp_path: Path, content: bytes, words: str) -> None:
    with serving(lambda request, _: send(request, content)) as server:
        assert words in Fetcher(tmp_path, f"{server.base}/text").refused()
        assert not list((tmp_path / "corpora").glob(".*.part"))


def test_an_endless_answer_is_cut_off(tmp_path: Path) -> None:
    def answer(request: BaseHTTPRequestHandler, _: int) -> None:
        request.send_response(200)
        request.end_headers()
        try:
            while True:
                request.wfile.write(bytes(1 << 16))
        except OSError:
            pass

    with serving(answer) as server:
        get = Fetcher(tmp_path, f"{server.base}/text", bytes=None, sha256=None)
        assert "gives more than" in get.refused()


@pytest.mark.parametrize("status", [404, 403, 410])
def test_a_refusal_is_said_at_once(tmp_path: Path, status: int) -> None:
    with serving(lambda request, _: send(request, b"no", status=status)) as server:
        get = Fetcher(tmp_path, f"{server.base}/text")
        assert f"answered {status}" in get.refused() and get.waited == []


def test_a_busy_server_is_asked_again(tmp_path: Path) -> None:
    def answer(request: BaseHTTPRequestHandler, number: int) -> None:
        send(request, b"busy", status=503) if number < 3 else send(request, TEXT)

    with serving(answer) as server:
        get = Fetcher(tmp_path, f"{server.base}/text")
        assert get().new and len(get.waited) == 2


def test_a_server_that_has_no_such_part(tmp_path: Path) -> None:
    def answer(request: BaseHTTPRequestHandler, number: int) -> None:
        if number == 1:
            send(request, TEXT, cut=9)
        elif request.headers.get("Range"):
            send(request, b"", status=416, ranges=False)
        else:
            send(request, TEXT)

    with serving(answer) as server:
        assert Fetcher(tmp_path, f"{server.base}/text")().path.read_bytes() == TEXT


def test_mirrors_come_first_and_a_bad_one_is_passed_over(tmp_path: Path) -> None:
    with (
        serving(lambda request, _: send(request, b"lies")) as bad,
        serving(lambda r, _: send(r, TEXT)) as good,
    ):
        get = Fetcher(tmp_path, f"{good.base}/origin")
        assert get(f"{bad.base}/octavo/").new
        assert [path for path, _ in bad.asked] == ["/octavo/text.txt"]
        assert [path for path, _ in good.asked] == ["/origin"]


def test_an_unpinned_text_is_trusted_once(tmp_path: Path) -> None:
    contents = {"now": TEXT}
    with serving(lambda request, _: send(request, contents["now"], tag="")) as server:
        get = Fetcher(tmp_path, f"{server.base}/text", bytes=None, sha256=None)
        first = get()
        assert not first.pinned and first.sha256 == SHA256
        first.path.unlink()
        contents["now"] = TEXT + b"a new edition\n"
        assert "accept_change=" in get.refused()
        assert get(accept_change=True).path.read_bytes() == contents["now"]
        assert not get().new


def test_a_text_that_was_altered_here_is_fetched_again(tmp_path: Path) -> None:
    with serving(lambda request, _: send(request, TEXT)) as server:
        get = Fetcher(tmp_path, f"{server.base}/text")
        get().path.write_bytes(b"altered")
        assert get().path.read_bytes() == TEXT
        assert any("was altered" in sentence for sentence in get.said)


def test_two_at_once_fetch_once_and_spoil_nothing(tmp_path: Path) -> None:
    """The second comes while the first is under way, of a text that is not pinned; files lock the same between threads
    as between processes."""
    second: list[Fetched] = []
    begun, sent = threading.Event(), threading.Event()

    def slowly(request: BaseHTTPRequestHandler, _: int) -> None:
        begun.set()
        assert sent.wait(20)
        send(request, TEXT)

    with serving(slowly) as server:
        get = Fetcher(tmp_path, f"{server.base}/text", bytes=None, sha256=None)
        late = Fetcher(tmp_path, f"{server.base}/text", bytes=None, sha256=None)
        late.pause = lambda seconds: (sent.set(), time.sleep(0.01))
        first = threading.Thread(target=lambda: second.append(get()))
        first.start()
        assert begun.wait(20)
        second.append(late())
        first.join(20)
    assert sorted(found.new for found in second) == [False, True]
    assert len(server.asked) == 1 and late.said == ["another process is fetching text; waiting for it"]
    assert second[0].path.read_bytes() == TEXT
    assert sorted(file.name for file in second[0].path.parent.iterdir()) == [
        ".text.txt.lock",
        "text.txt",
        "text.txt.json",
    ]


# Where downloads may go


def test_private_addresses_are_refused_unless_allowed(tmp_path: Path) -> None:
    with serving(lambda request, _: send(request, TEXT)) as server:
        get = Fetcher(tmp_path, f"{server.base}/text")
        assert "private network" in get.refused(private=False)
        assert server.asked == []


@pytest.mark.parametrize(
    "to",
    [
        "file:///etc/passwd",
        "ftp://127.0.0.1/x",
        "http://user:word@127.0.0.1/",
        "http://[::1",
        "gopher://x",
        "",
    ],
)
def test_redirects_are_looked_at_too(tmp_path: Path, to: str) -> None:
    with serving(lambda request, _: redirect(request, to)) as server:
        words = Fetcher(tmp_path, f"{server.base}/text").refused()
        assert any(each in words for each in ("is not used", "is not an address", "redirects more than")), (
            words
        )


def test_a_redirect_into_the_private_network_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first address passes for a public one; the second is looked at anew."""
    real = addresses._refuse_private
    looked: list[str] = []

    def refuse(numbers: Any, host: str, allow_private: bool) -> None:
        looked.append(host)
        real(numbers, host, allow_private or len(looked) == 1)

    monkeypatch.setattr(addresses, "_refuse_private", refuse)
    with (
        serving(lambda request, _: send(request, TEXT)) as inner,
        serving(lambda request, _: redirect(request, f"{inner.base}/secret")) as outer,
    ):
        assert "private network" in Fetcher(tmp_path, f"{outer.base}/text").refused(private=False)
        assert inner.asked == [] and len(outer.asked) == 1


def test_redirects_are_followed_but_not_for_ever(tmp_path: Path) -> None:
    def answer(request: BaseHTTPRequestHandler, number: int) -> None:
        redirect(request, "/next") if number < 4 else send(request, TEXT)

    with serving(answer) as server:
        assert Fetcher(tmp_path, f"{server.base}/text")().new
    with serving(lambda request, _: redirect(request, "/again")) as server:
        assert "redirects more than 5 times" in Fetcher(tmp_path / "b", f"{server.base}/text").refused()


def test_offline_is_said_clearly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*_: Any, **__: Any) -> None:
        raise socket.gaierror(-3, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    with pytest.raises(UnknownHost):
        check_address("https://example.org/", allow_private=False)
    with pytest.raises(CorpusError, match="seems to be offline") as caught:
        fetch("tinyshakespeare", cache=tmp_path, mirrors=Mirrors())
    assert caught.value.remedy and "raw.githubusercontent.com" in caught.value.remedy


def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 1000})())
    with (
        serving(lambda request, _: send(request, TEXT)) as server,
        pytest.raises(StorageError, match="no room"),
    ):
        Fetcher(tmp_path, f"{server.base}/text")()


# The catalogue, its names as paths, and mirrors by configuration


def test_the_catalogue_holds_what_it_says() -> None:
    assert {"tinyshakespeare", "robinson-crusoe", "tinystories", "tinystories-valid"} <= set(catalogue())
    assert all(each.address.startswith("https://") and each.licence for each in catalogue().values())
    assert all((each.bytes is None) == (each.sha256 is None) for each in catalogue().values())
    with pytest.raises(CorpusError, match="Did you mean 'tinystories'"):
        entry("tinystory")


def test_the_pinned_hash_is_the_texts(test_data: Path) -> None:
    content = (test_data / "tinyshakespeare.txt").read_bytes()
    pinned = entry("tinyshakespeare")
    assert (len(content), hashlib.sha256(content).hexdigest()) == (pinned.bytes, pinned.sha256)


def test_a_name_is_a_path_once_the_text_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path))
    with pytest.raises(CorpusError, match="not on this machine yet") as caught:
        named_path("corpus:alice")
    assert caught.value.remedy == "octavo corpus get alice"
    path = entry("alice").path()
    path.parent.mkdir()
    path.write_bytes(b"Alice was beginning to get very tired.\n")
    source = FilesSource(paths=("corpus:alice",)).build()
    assert ["".join(document.pieces) for document in source.documents()] == [
        "Alice was beginning to get very tired.\n"
    ]
    path.with_name("alice.txt.json").write_text('{"bytes": 5, "sha256": ""}')
    with pytest.raises(CorpusError, match="39 bytes where 5 were fetched"):
        named_path("corpus:alice")


def test_mirrors_by_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_CONFIG", str(tmp_path / "config.yaml"))
    monkeypatch.delenv("OCTAVO_MIRRORS", raising=False)
    monkeypatch.delenv("OCTAVO_ALLOW_PRIVATE", raising=False)
    assert user_mirrors() == Mirrors()
    (tmp_path / "config.yaml").write_text("mirrors: [https://one.example/octavo]\nallow_private: true\n")
    monkeypatch.setenv("OCTAVO_MIRRORS", "https://two.example  http://three.example/")
    found = user_mirrors()
    assert found.allow_private
    assert found.addresses(entry("alice"))[:3] == [
        "https://two.example/alice.txt",
        "http://three.example/alice.txt",
        "https://one.example/octavo/alice.txt",
    ]
    for wrong in ("mirrors: [ftp://x]", "mirrors: 5", "mirror: []", "[", "- a"):
        (tmp_path / "config.yaml").write_text(wrong)
        with pytest.raises(ConfigError):
            user_mirrors()
    monkeypatch.delenv("OCTAVO_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert settings_path() == tmp_path / "octavo" / "config.yaml"
