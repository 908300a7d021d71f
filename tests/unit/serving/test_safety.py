"""Who may ask, how much, how slowly; and that nobody's fault is another one's."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest

from octavo.run.run import Run
from octavo.serving import call, http
from octavo.serving.schemas import ErrorAnswer
from octavo.serving.service import Limits
from unit.serving.conftest import connected, running, tokenizer_of

Opened = Callable[[str], Run]
END = tokenizer_of("char").end
LONG: dict[str, Any] = {
    "model": "char",
    "prompt": "the",
    "max_tokens": 100_000,
    "logit_bias": {str(END): -100},
}
"""Goes on for a long time: the document's end is never chosen."""
JSON = {"content-type": "application/json"}


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)


def figure(client: httpx2.Client, name: str) -> float:
    """A line of /metrics."""
    lines = [line.split() for line in client.get("/metrics").text.splitlines()]
    (value,) = [line[1] for line in lines if line[0] == f"octavo_{name}"]
    return float(value)


def request(fields: dict[str, Any], *, host: str = "127.0.0.1", path: str = "/v1/completions") -> bytes:
    body = json.dumps(fields).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


# Names and origins


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:1234", 200),
        ("127.0.0.1", 200),
        ("[::1]:80", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost.evil.example:8000", 403),
        ("192.168.0.7", 403),
        ("localhost:80:80", 403),
        ("", 403),
    ],
)
def test_only_own_names_are_answered(client: httpx2.Client, host: str, status: int) -> None:
    """By another one a page of the network reaches a server of this machine (DNS rebinding)."""
    for path in ("/v1/models", "/health", "/nothing"):
        answer = client.get(path, headers={"host": host})
        assert answer.status_code == (404 if path == "/nothing" and status == 200 else status)


def test_a_request_without_a_name_or_with_two(address: str) -> None:
    for hosts in (b"", b"Host: localhost\r\nHost: localhost\r\n"):
        with connected(address) as plain:
            plain.sendall(b"GET /v1/models HTTP/1.0\r\n" + hosts + b"\r\n")
            status = plain.recv(65536).split()[1]
            assert status in (b"400", b"403")


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:{port}", 200),
        ("http://evil.example", 403),
        ("http://127.0.0.1", 403),
        ("http://localhost:{port}", 403),
        ("null", 403),
        ("", 403),
    ],
)
def test_pages_of_other_origins_are_refused(
    client: httpx2.Client, address: str, origin: str, status: int
) -> None:
    told = {"origin": origin.format(port=address.rpartition(":")[2])}
    answer = client.post("/tokenize", json={"model": "char", "content": "the"}, headers=told)
    assert answer.status_code == status
    assert not [name for name in answer.headers if name.startswith("access-control")]
    asked = client.options("/v1/completions", headers={**told, "access-control-request-method": "POST"})
    assert asked.status_code in (403, 405)
    assert not [name for name in asked.headers if name.startswith("access-control")]


def test_a_key_is_asked_for_everywhere_but_at_health(runs: Path) -> None:
    with running(runs / "char", key="secret-1", hosts=["models.example"]) as (address, _):
        client = httpx2.Client(base_url=address, trust_env=False)
        for path in (
            "/v1/models",
            "/metrics",
            "/openapi.json",
            "/tokenize",
            "/nothing",
            "/health/../v1/models",
        ):
            answer = client.get(path)
            assert answer.status_code == 401 and "secret" not in answer.text
            assert answer.headers["www-authenticate"] == "Bearer"
        for wrong in (
            "Bearer secret-2",
            "Bearer",
            "Basic secret-1",
            "secret-1",
            "Bearer secret-1x",
            "Bearer sécret",
        ):
            assert client.get("/v1/models", headers={"authorization": wrong.encode()}).status_code == 401
        assert client.get("/health").status_code == 200
        told = {"authorization": "Bearer secret-1", "host": "models.example"}
        assert client.get("/v1/models", headers=told).status_code == 200


# How much


def test_a_body_has_a_bound(client: httpx2.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call, "MOST_BODY", 1000)
    good = json.dumps({"model": "char", "content": "t" * 100}).encode()
    assert client.post("/tokenize", content=good, headers=JSON).status_code == 200
    for body in (b"x" * 1001, b"x" * 3_000_000):
        answer = client.post("/tokenize", content=body, headers=JSON)
        assert answer.status_code == 413
    chunks = client.post("/tokenize", content=iter([b"x" * 600] * 2), headers=JSON)
    assert chunks.status_code == 413


def test_only_json_is_read(client: httpx2.Client) -> None:
    body = json.dumps({"model": "char", "content": "the"})
    for kind, status in (
        ("application/json; charset=utf-8", 200),
        ("text/plain", 415),
        ("multipart/form-data", 415),
    ):
        assert client.post("/tokenize", content=body, headers={"content-type": kind}).status_code == status


def test_too_many_texts_are_asked_to_come_again(runs: Path) -> None:
    with running(runs / "char", slots=1, limits=Limits(queue=2)) as (address, _), ExitStack() as stack:
        client = stack.enter_context(httpx2.Client(base_url=address, timeout=60, trust_env=False))
        assert client.post("/v1/completions", json={**LONG, "n": 4}).status_code == 429
        held = [stack.enter_context(connected(address)) for _ in range(3)]
        for one in held:
            one.sendall(request(LONG))
        until(lambda: figure(client, "queue") == 2)
        refused = client.post("/v1/completions", json=LONG)
        assert refused.status_code == 429 and int(refused.headers["retry-after"]) >= 1
        assert ErrorAnswer.model_validate_json(refused.content).error.code == "queue_full"
        for one in held:
            one.close()
        until(lambda: figure(client, "slots_in_use") + figure(client, "queue") == 0)
        for _ in range(3):  # as many as there is room for, each time
            several = {"prompt": "the", "max_tokens": 3, "n": 3}
            assert client.post("/v1/completions", json=several).status_code == 200


def test_a_request_has_a_deadline(runs: Path) -> None:
    with running(runs / "char", limits=Limits(seconds=0.3)) as (address, _):
        client = httpx2.Client(base_url=address, timeout=60, trust_env=False)
        assert client.post("/v1/completions", json=LONG).status_code == 504
        lines = client.post("/v1/completions", json={**LONG, "stream": True}).text.strip().split("\n\n")
        assert lines[-1] == "data: [DONE]"
        assert json.loads(lines[-2].removeprefix("data: "))["error"]["code"] == "deadline_exceeded"
        until(lambda: figure(client, "slots_in_use") == 0)


# How slowly


@pytest.fixture
def impatient(runs: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server that waits for nobody."""
    monkeypatch.setattr(http, "HEADER_SECONDS", 0.3)
    monkeypatch.setattr(call, "BODY_SECONDS", 0.3)
    monkeypatch.setattr(call, "SEND_SECONDS", 0.3)
    with running(runs / "char") as (address, _):
        yield address


def read_all(one: socket.socket) -> bytes:
    found = b""
    try:
        while piece := one.recv(65536):
            found += piece
    except ConnectionError:
        pass
    return found


def test_slow_requests_are_cut(impatient: str) -> None:
    head = request({"model": "char", "prompt": "the"})
    for sent in (b"", head[:20], head[:-5]):
        with connected(impatient) as one:
            one.sendall(sent)
            answer = read_all(one)
            assert answer.startswith(b"HTTP/1.1 408") if len(sent) > 20 else answer == b""
    with connected(impatient) as one:  # and after an answer
        one.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /hea")
        assert read_all(one).count(b"HTTP/1.1 200") == 1


def test_a_client_that_does_not_read_is_cut(impatient: str) -> None:
    client = httpx2.Client(base_url=impatient, timeout=60, trust_env=False)
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.connect(("127.0.0.1", int(impatient.rpartition(":")[2])))
        one.sendall(request({**LONG, "stream": True, "logprobs": 20}))
        until(lambda: figure(client, "cancelled_total") == 1)
        until(lambda: figure(client, "slots_in_use") == 0)  # it goes after the step that is being computed


def test_a_client_that_dies_is_cancelled(client: httpx2.Client, address: str, opened: Opened) -> None:
    """While it waits for an answer, in mid-stream, by a reset and by half a close; others have their texts."""
    expected = opened("char").generate("the", seed=5, tokens=200)

    def other() -> str:
        answer = client.post(
            "/v1/completions", json={"model": "char", "prompt": "the", "seed": 5, "max_tokens": 200}
        )
        return answer.json()["choices"][0]["text"]

    before = figure(client, "cancelled_total")
    for number, stream in enumerate((False, True, True, False), 1):
        with ThreadPoolExecutor(1) as pool:
            one = connected(address)
            one.sendall(request({**LONG, "stream": stream}))
            until(lambda: figure(client, "slots_in_use") > 0)
            if stream:
                assert one.recv(100)
            mine = pool.submit(other)
            if number % 2:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if number == 4:
                one.shutdown(socket.SHUT_WR)
            else:
                one.close()
            until(lambda number=number: figure(client, "cancelled_total") == before + number)
            assert mine.result() == expected
            one.close()
    until(lambda: figure(client, "slots_in_use") == 0)


def test_idle_connections_harm_nobody(client: httpx2.Client, address: str) -> None:
    with ExitStack() as stack:
        http.more_files(3000)  # the client's end of each is in this process, too
        for _ in range(1000):
            stack.enter_context(connected(address))
        assert client.post("/v1/completions", json={"model": "char", "prompt": "the"}).status_code == 200


def test_what_is_no_http_has_an_error_object(address: str) -> None:
    post = b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\n"
    for garbage in (b"\x00\xff\r\n\r\n", post + b"Content-Length: -1\r\n\r\n", post + b"x" * 100_000):
        with connected(address) as one:
            one.sendall(garbage)
            head, _, body = read_all(one).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 400")
            ErrorAnswer.model_validate_json(body)


def test_paths_and_methods_that_there_are_not(client: httpx2.Client) -> None:
    for method, path, status in (
        ("GET", "/", 404),
        ("POST", "/v1/embeddings", 404),
        ("GET", "/v1/completions", 405),
        ("DELETE", "/v1/models", 405),
        ("GET", "/v1/models/../../etc/passwd", 404),
        ("GET", "/v1/models/%2e%2e%2fchar", 404),
        ("GET", "/v1/models/char%00", 404),
    ):
        answer = client.request(method, path)
        assert answer.status_code == status
        ErrorAnswer.model_validate_json(answer.content)


def test_a_fault_of_ours_is_said_without_its_words(
    client: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from octavo.serving import status
    from octavo.serving.scheduler import Scheduler

    def fails(*_: object) -> None:
        raise RuntimeError("/secret/path at 0x7f00")

    with monkeypatch.context() as patch:
        patch.setattr(status, "document", fails)
        answer = client.get("/openapi.json")
        assert answer.status_code == 500 and "secret" not in answer.text
    with monkeypatch.context() as patch:
        patch.setattr(Scheduler, "step", fails)
        answer = client.post("/v1/completions", json={"model": "char", "prompt": "the"})
        assert answer.status_code == 500 and "secret" not in answer.text
        ErrorAnswer.model_validate_json(answer.content)
    assert client.post("/v1/completions", json={"model": "char", "prompt": "the"}).status_code == 200


def test_what_is_under_way_is_finished_at_the_end(runs: Path, opened: Opened) -> None:
    how = {"prompt": "the", "seed": 5, "max_tokens": 300}
    with ThreadPoolExecutor(1) as pool, running(runs / "char") as (address, server):
        client = httpx2.Client(base_url=address, timeout=60, trust_env=False)
        assert client.get("/v1/models").status_code == 200
        first = pool.submit(client.post, "/v1/completions", json=how)
        other = httpx2.Client(base_url=address, timeout=60, trust_env=False)
        until(lambda: figure(other, "slots_in_use") == 1 or first.done())
        server.stop()
        assert first.result().json()["choices"][0]["text"] == opened("char").generate(
            "the", seed=5, tokens=300
        )
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"{address}/health", trust_env=False)


def test_what_takes_longer_than_the_deadline_is_cut_with_a_sentence(runs: Path) -> None:
    with ExitStack() as stack:
        address, server = stack.enter_context(running(runs / "char", seconds=0.3))
        client = stack.enter_context(httpx2.Client(base_url=address, timeout=60, trust_env=False))
        pool = stack.enter_context(ThreadPoolExecutor(2))
        whole, stream = (
            pool.submit(client.post, "/v1/completions", json={**LONG, "n": 8, "stream": stream})
            for stream in (False, True)
        )
        until(lambda: figure(httpx2.Client(base_url=address, trust_env=False), "slots_in_use") == 16)
        server.stop()
        answer = whole.result()
        assert answer.status_code == 503
        assert ErrorAnswer.model_validate_json(answer.content).error.code == "unavailable"
        lines = stream.result().text.strip().split("\n\n")
        assert lines[-1] == "data: [DONE]" and "stopping" in lines[-2]
