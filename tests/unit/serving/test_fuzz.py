"""Damaged requests: each is answered with an error object; see benchmarks/serve_fuzz.py."""

from __future__ import annotations

from types import ModuleType

import httpx2
import pytest

from unit.serving.conftest import fuzzer


@pytest.fixture
def serve_fuzz(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return fuzzer(monkeypatch)


@pytest.mark.parametrize("requests", [250, pytest.param(10_000, marks=pytest.mark.slow)])
def test_whatever_is_asked_is_answered(
    address: str, client: httpx2.Client, serve_fuzz: ModuleType, requests: int
) -> None:
    good = {
        path: [{"model": name, **fields} for name in ("char", "bytes", "chat", "counts", "none")]
        for path, fields in serve_fuzz.TASKS["text"].items()
    }
    counts, faults = serve_fuzz.fuzz(address, good, requests, seed=requests)
    assert not faults, "\n\n".join(faults[:5])
    assert sum(counts.values()) == requests and {status for _, status in counts} > {200, 400, 404, 405}
    assert client.post("/v1/completions", json={"model": "char", "prompt": "the"}).status_code == 200


PATH = "/" + "home/"


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"", "no answer"),
        (b'HTTP/1.1 500 X\r\n\r\n{"error": {}}', "500"),
        (b'HTTP/1.1 400 X\r\n\r\n{"detail": "x"}', "no error object"),
        (b'HTTP/1.1 400 X\r\n\r\n{"error": {"message": "in ' + PATH.encode() + b'x"}}', PATH),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {}\r\n\r\n", "without its end"),
        (None, "no answer within"),
    ],
)
def test_what_it_takes_for_a_fault(serve_fuzz: ModuleType, sent: bytes | None, why: str) -> None:
    found = serve_fuzz.fault(serve_fuzz.Case("fields", b""), sent)[1]
    assert found is not None and why in found
