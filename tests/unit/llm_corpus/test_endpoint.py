"""The client of an OpenAI-compatible address: whole answers, every failure by its kind, and a key that stays
inside."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from octavo.errors import InputError
from octavo.llm_corpus.backends.endpoint import EndpointWriter
from octavo.llm_corpus.calls import CallFailed, Reply, Request

KEY = "sk-canary-90ab"
REQUEST = Request([{"role": "user", "content": "a story, please"}], max_tokens=50, temperature=0.5, seed=11)
GOOD = {
    "choices": [{"message": {"content": "the end."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 4, "completion_tokens": 3},
}

Answer = Callable[[httpx2.Request], httpx2.Response]


def ask(answer: Answer, monkeypatch: pytest.MonkeyPatch, **config: Any) -> Reply:
    monkeypatch.setenv("TEST_KEY", KEY)
    settings = {"base_url": "https://api.example/v1/", "model": "m", "key_env": "TEST_KEY", **config}
    backend = EndpointWriter.model_validate(settings).build(seed=0, transport=httpx2.MockTransport(answer))

    async def once() -> Reply:
        try:
            return await backend.write(REQUEST)
        finally:
            await backend.close()

    return asyncio.run(once())


def failure(answer: Answer, monkeypatch: pytest.MonkeyPatch, **config: Any) -> CallFailed:
    with pytest.raises(CallFailed) as failed:
        ask(answer, monkeypatch, **config)
    assert KEY not in str(failed.value) and KEY not in repr(failed.value.__cause__)
    return failed.value


def test_what_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(200, json=GOOD)

    reply = ask(answer, monkeypatch, extra={"top_p": 0.9}, limit_name="max_completion_tokens")
    assert reply.text == "the end." and reply.tokens is not None and reply.tokens.prompt == 4
    assert str(seen[0].url) == "https://api.example/v1/chat/completions"
    assert seen[0].headers["authorization"] == f"Bearer {KEY}"
    body = json.loads(seen[0].content)
    assert body["model"] == "m" and body["seed"] == 11 and body["top_p"] == 0.9
    assert body["max_completion_tokens"] == 50 and "max_tokens" not in body and "stream" not in body


def test_no_key_no_header(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200 if "authorization" not in request.headers else 401, json=GOOD)

    assert ask(answer, monkeypatch, key_env=None).text == "the end."


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *((status, "refused") for status in (400, 401, 402, 404, 302)),
        *((status, "throttled") for status in (429, 503)),
        *((status, "server") for status in (500, 502)),
    ],
)
def test_each_status_has_its_kind(status: int, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"error": {"message": f"no, {KEY}, not so"}}
    headers = {"retry-after": "3", "location": "https://elsewhere.example/"}
    failed = failure(lambda _: httpx2.Response(status, json=said, headers=headers), monkeypatch)
    assert failed.kind == kind and not failed.billed
    assert failed.wait == (None if kind == "refused" else 3)
    if kind == "refused":
        assert "no, [key], not so" in str(failed)


def test_a_redirect_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url.host)
        return httpx2.Response(307, headers={"location": "https://thief.example/"})

    failure(answer, monkeypatch)
    assert asked == ["api.example"]


def test_no_money_is_no_throttling(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}
    assert failure(lambda _: httpx2.Response(429, json=said), monkeypatch).kind == "refused"


@pytest.mark.parametrize(
    ("error", "kind", "billed"),
    [
        (httpx2.ConnectError("refused"), "unreachable", False),
        (httpx2.ConnectTimeout("slow"), "timeout", False),
        (httpx2.ReadTimeout("slow"), "timeout", True),
        (httpx2.ReadError("reset"), "cut", True),
        (httpx2.RemoteProtocolError("peer closed"), "cut", True),
    ],
)
def test_each_broken_connection_has_its_kind(
    error: Exception, kind: str, billed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(_: httpx2.Request) -> httpx2.Response:
        raise error

    failed = failure(answer, monkeypatch)
    assert (failed.kind, failed.billed) == (kind, billed)


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"{", b"[]", b"{}", b'{"choices": [{"message": {}}]}', b"\xff\xfe"]
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_is_no_answer_is_malformed(body: bytes, stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = failure(lambda _: httpx2.Response(200, content=body), monkeypatch, stream=stream)
    assert failed.kind == "malformed" and failed.billed


def test_too_much_is_refused_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    body = b" " * (5 << 20)
    assert "too large" in str(failure(lambda _: httpx2.Response(200, content=body), monkeypatch))


def test_a_key_in_a_reply_is_cut_out(monkeypatch: pytest.MonkeyPatch) -> None:
    said = json.loads(json.dumps(GOOD).replace("the end.", f"your key is {KEY}."))
    assert ask(lambda _: httpx2.Response(200, json=said), monkeypatch).text == "your key is [key]."


def test_a_server_that_does_not_answer_is_left(fake: Any) -> None:
    with fake(faults={"timeout": 1.0}) as server:
        backend = EndpointWriter(base_url=server.url, model="m", timeout=0.3).build(seed=0)

        async def once() -> None:
            begin = time.monotonic()
            with pytest.raises(CallFailed, match="No whole answer"):
                await backend.write(REQUEST)
            assert time.monotonic() - begin < 20
            await backend.close()

        asyncio.run(once())


@pytest.mark.parametrize("stream", [False, True])
def test_cut_answers_are_never_replies(fake: Any, stream: bool) -> None:
    with fake(faults={"cut": 1.0}) as server:
        backend = EndpointWriter(base_url=server.url, model="m", timeout=5, stream=stream).build(seed=0)

        async def many() -> list[Any]:
            try:
                calls = [backend.write(REQUEST) for _ in range(40)]
                return await asyncio.gather(*calls, return_exceptions=True)
            finally:
                await backend.close()

        found = asyncio.run(many())
    assert all(isinstance(one, CallFailed) and one.kind in ("cut", "malformed") for one in found)


def test_a_missing_key_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEST_KEY", raising=False)
    writer = EndpointWriter(base_url="https://api.example/v1", model="m", key_env="TEST_KEY")
    with pytest.raises(InputError, match="TEST_KEY"):
        writer.build(seed=0)
    monkeypatch.setenv("TEST_KEY", f"{KEY} with blanks")
    with pytest.raises(InputError) as refused:
        writer.build(seed=0)
    assert KEY not in str(refused.value)
    assert KEY not in repr(writer)


@pytest.mark.parametrize("stream", [False, True])
def test_a_list_of_parts_is_an_answer(stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "the "},
        {"type": "text", "text": "end."},
    ]
    if stream:
        events = [
            {"choices": [{"delta": {"content": parts[:2]}}]},
            {"choices": [{"delta": {"content": parts[2:]}, "finish_reason": "stop"}]},
        ]
        body = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        kind = "text/event-stream"
    else:
        body = json.dumps({"choices": [{"message": {"content": parts}, "finish_reason": "stop"}]})
        kind = "application/json"
    response = httpx2.Response(200, content=body, headers={"content-type": kind})
    assert ask(lambda _: response, monkeypatch, stream=stream).text == "the end."


@pytest.mark.parametrize("content", [[], [7], [{"type": "image"}], {"text": "the end."}, [{"text": 7}]])
def test_no_text_among_the_parts_is_no_answer(content: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"choices": [{"message": {"content": content}, "finish_reason": "stop"}]}
    assert failure(lambda _: httpx2.Response(200, json=said), monkeypatch).kind == "malformed"


def test_a_line_without_end_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = 0

    async def forever() -> Any:
        nonlocal sent
        while sent < 200 << 20:
            sent += 1 << 20
            yield b"data: " + b"x" * (1 << 20)

    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, content=forever(), headers={"content-type": "text/event-stream"})

    assert "too long" in str(failure(answer, monkeypatch, stream=True))
    assert sent < 8 << 20


def test_a_key_is_not_sent_in_clear_text_to_another_machine() -> None:
    there = {"base_url": "http://api.example/v1", "model": "m"}
    with pytest.raises(
        ValueError, match=r"TEST_KEY would go to api\.example without encryption.*clear_text: true"
    ):
        EndpointWriter.model_validate({**there, "key_env": "TEST_KEY"})
    EndpointWriter.model_validate({**there, "key_env": "TEST_KEY", "clear_text": True})
    EndpointWriter.model_validate(there)  # no key
    for here in (
        "http://localhost:8000/v1",
        "http://127.0.0.1:8000/v1",
        "http://[::1]/v1",
        "https://api.example/v1",
    ):
        EndpointWriter.model_validate({"base_url": here, "model": "m", "key_env": "TEST_KEY"})


def test_what_is_meant_for_this_machine_goes_through_no_proxy(
    fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "all_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with fake(key=KEY) as server:
        monkeypatch.setenv("TEST_KEY", KEY)
        backend = EndpointWriter(base_url=server.url, model="m", key_env="TEST_KEY").build(seed=0)

        async def once() -> Reply:
            try:
                return await backend.write(REQUEST)
            finally:
                await backend.close()

        assert asyncio.run(once()).finish == "stop"
