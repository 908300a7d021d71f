"""The LanguageTool client against a server of our own that answers in LanguageTool's form, and against broken ones."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import pytest

from octavo.correction import LanguageTool, languagetool
from octavo.errors import InputError, OctavoError
from unit.corpus.web import drip_head, serving


def match(offset: int, length: int, *values: str, rule: str = "MORFOLOGIK_RULE_EN_US") -> dict[str, Any]:
    """A match as LanguageTool 6 writes it."""
    return {
        "message": "Possible spelling mistake found.",
        "shortMessage": "Spelling mistake",
        "replacements": [{"value": value} for value in values],
        "offset": offset,
        "length": length,
        "context": {"text": "…", "offset": 0, "length": length},
        "sentence": "…",
        "type": {"typeName": "UnknownWord"},
        "rule": {
            "id": rule,
            "description": "Possible spelling mistake",
            "issueType": "misspelling",
            "category": {"id": "TYPOS", "name": "Possible Typo"},
            "isPremium": False,
        },
        "ignoreForIncompleteSentence": False,
        "contextForSureMatch": 0,
    }


def body(*matches: Any) -> bytes:
    answer = {
        "software": {
            "name": "LanguageTool",
            "version": "6.6",
            "apiVersion": 1,
            "premium": False,
            "status": "",
        },
        "warnings": {"incompleteResults": False},
        "language": {"name": "English (US)", "code": "en-US", "detectedLanguage": {"code": "en-US"}},
        "matches": list(matches),
        "sentenceRanges": [[0, 10]],
    }
    return json.dumps(answer).encode()


@contextmanager
def server(
    content: bytes,
    status: int = 200,
    location: str = "",
    wait: threading.Event | None = None,
    each: float = 0.0,
) -> Iterator[Any]:
    """A server that always answers the same; `.asked` lists (path, form) of what it was sent. It waits for an event
    before it answers, or takes so many seconds for `each` byte until then."""
    asked: list[tuple[str, dict[str, list[str]]]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = self.rfile.read(int(self.headers["Content-Length"])).decode()
            asked.append((self.path, parse_qs(sent, keep_blank_values=True)))
            if wait is not None and not each:
                wait.wait(20)
            self.send_response(status)
            if location:
                self.send_header("Location", location)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            for byte in content if each else ():
                self.wfile.write(bytes([byte]))
                if wait is not None and wait.wait(each):
                    return
            if not each:
                self.wfile.write(content)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running.asked = asked
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        running.address = f"http://127.0.0.1:{running.server_port}"
        yield running
    finally:
        running.shutdown()
        running.server_close()


def test_the_text_is_sent_as_a_form_and_the_first_replacement_is_taken() -> None:
    with server(body(match(0, 4, "The", "Athe"), match(5, 8, "captain"))) as running:
        tool = LanguageTool(running.address, language="en-US", vocabulary={"the": 9, "captain": 1})
        done = tool.correct("AThe captanch")
    assert running.asked == [("/v2/check", {"text": ["AThe captanch"], "language": ["en-US"]})]
    assert done.corrected == "The captain"
    assert [change.rule for change in done.changes] == ["MORFOLOGIK_RULE_EN_US"] * 2
    assert (done.known_before, done.known_after, done.words_changed) == (0.0, 1.0, 2)


def test_offsets_count_utf16_code_units() -> None:
    text = "😀😀 teh cat 𝒳 adn"
    units = len(text[: text.index("adn")].encode("utf-16-le")) // 2
    with server(body(match(5, 3, "the"), match(units, 3, "and"))) as running:
        done = LanguageTool(running.address).correct(text)
    assert done.corrected == "😀😀 the cat 𝒳 and"
    assert done.known_before is None


def test_overlapping_matches_and_matches_without_replacements() -> None:
    with server(
        body(match(3, 8, "goes to", rule="B"), match(3, 2, "goes", rule="A"), match(12, 6, rule="C"))
    ) as running:
        done = LanguageTool(running.address).correct("he go to to school")
    assert done.corrected == "he goes to school"
    assert [change.rule for change in done.left] == ["A", "C"]


def test_only_the_asked_part_is_changed_but_all_of_it_is_sent() -> None:
    with server(body(match(0, 3, "the"), match(4, 3, "the"))) as running:
        done = LanguageTool(running.address).correct("teh teh", start=4)
    assert running.asked[0][1]["text"] == ["teh teh"]
    assert done.corrected == "teh the"


def test_white_space_alone_is_not_sent() -> None:
    with server(body()) as running:
        assert LanguageTool(running.address).correct(" \n").corrected == " \n"
    assert running.asked == []


@pytest.mark.parametrize(
    "content",
    [
        b"<html>hello</html>",
        b"",
        b"[]",
        b"null",
        b"{}",
        b'{"matches": 5}',
        b'{"matches": [7]}',
        b'{"matches": [{"offset": 0, "length": 3}]}',
        body(match(90, 3, "x")),
        body(match(-1, 3, "x")),
        body(match(1, 1, "x")),  # inside the pair of code units that make up the emoji
        body(match(3, -1, "x")),
        body({**match(0, 2, "x"), "offset": "0"}),
        body({**match(0, 2, "x"), "offset": None}),
        body({**match(0, 2), "replacements": [{}]}),
        body({**match(0, 2), "rule": "X"}),
        b"\xff\xfe",
        b"[" * 200_000,
        body({**match(0, 2), "replacements": [{"value": None}]}),
        body(match(0, 2, "\ud800")),
    ],
    ids=range(20),
)
def test_nonsense_is_said(content: bytes) -> None:
    with (
        server(content) as running,
        pytest.raises(OctavoError, match="does not seem to be a LanguageTool server"),
    ):
        LanguageTool(running.address).correct("😀 good text")


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, b"Error: 'xx' is not a language code known to LanguageTool."),
        (413, b"too long"),
        (500, b""),
        (503, b"<html>busy"),
    ],
)
def test_a_refusal_is_said_with_the_servers_words(status: int, said: bytes) -> None:
    with server(said, status) as running, pytest.raises(OctavoError, match=f"status {status}") as caught:
        LanguageTool(running.address).correct("text")
    assert said.decode() in str(caught.value)


def test_an_answer_that_comes_byte_by_byte_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(languagetool, "CONNECT_SECONDS", 0.3)
    release = threading.Event()
    with server(body(), wait=release, each=0.05) as slow:
        with pytest.raises(OctavoError, match="no answer in time"):
            LanguageTool(slow.address, seconds=0.2).correct("text")
        release.set()


def test_a_head_that_comes_byte_by_byte_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(languagetool, "CONNECT_SECONDS", 0.3)
    released = threading.Event()
    with serving(lambda request, _: drip_head(request, released)) as slow:
        with pytest.raises(OctavoError, match="no answer in time"):
            LanguageTool(slow.base, seconds=0.2).correct("text")
        released.set()


def test_an_answer_without_end_is_nonsense(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(languagetool, "LARGEST", 1 << 20)
    with server(b" " * (3 << 20)) as running, pytest.raises(OctavoError, match="with more than 1 MiB"):
        LanguageTool(running.address).correct("text")


def test_the_text_goes_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    with server(body()) as elsewhere, server(b"", 307, location=elsewhere.address + "/v2/check") as running:
        for variable in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(variable, elsewhere.address)
        with pytest.raises(OctavoError, match="status 307"):
            LanguageTool(running.address).correct("secret")
    assert len(running.asked) == 1 and elsewhere.asked == []


def test_a_server_that_is_not_there_or_slow() -> None:
    with server(body()) as running:
        address = running.address
    with pytest.raises(OctavoError, match="cannot be reached"):
        LanguageTool(address).correct("text")
    release = threading.Event()
    with server(body(), wait=release) as slow:
        with pytest.raises(OctavoError, match="no answer in time"):
            LanguageTool(slow.address, seconds=0.2).correct("text")
        release.set()


@pytest.mark.parametrize(
    "address",
    ["localhost:8081", "ftp://x", "http://", "http://x:port", "http://x:99999", "http://x?a=b", "http://[x"],
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(InputError, match="not the address of a server"):
        LanguageTool(address)


@pytest.mark.parametrize(
    "given", ["http://h:8081", "http://h:8081/", "http://h:8081/v2", "http://h:8081/v2/check/"]
)
def test_the_path_is_added_where_it_is_missing(given: str) -> None:
    assert LanguageTool(given).address == "http://h:8081/v2/check"
    assert LanguageTool("https://h/lt/").address == "https://h/lt/v2/check"
