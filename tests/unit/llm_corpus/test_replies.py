"""Only a whole answer is a reply: everything that breaks off or does not fit raises."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.llm_corpus.calls import CallFailed, Reply
from octavo.llm_corpus.money import Tokens
from octavo.llm_corpus.replies import read_json, read_stream, read_usage

USAGE = {"prompt_tokens": 900, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 800}}
TEXT = "one day, bird ed fly home. the end."
WHOLE = json.dumps(
    {"choices": [{"message": {"content": TEXT}, "finish_reason": "stop"}], "usage": USAGE}
).encode()
EVENTS: list[Any] = [
    *({"choices": [{"delta": {"content": word}, "finish_reason": None}]} for word in TEXT.split(" ")),
    {"choices": [{"delta": {}, "finish_reason": "stop"}]},
    {"choices": [], "usage": USAGE},
]
STREAM = ": hello\n\n" + "".join(f"data: {json.dumps(event)}\n\n" for event in EVENTS) + "data: [DONE]\n\n"


def streamed(text: str) -> Reply:
    async def lines() -> AsyncIterator[str]:
        for line in text.splitlines():
            yield line

    return asyncio.run(read_stream(lines()))


def test_a_whole_answer_is_a_reply() -> None:
    assert read_json(WHOLE) == Reply(TEXT, "stop", Tokens(900, 800, 20))
    assert streamed(STREAM) == Reply(TEXT.replace(" ", ""), "stop", Tokens(900, 800, 20))


@given(st.integers(0, len(WHOLE) - 1))
def test_no_beginning_of_an_answer_is_one(at: int) -> None:
    with pytest.raises(CallFailed) as failed:
        read_json(WHOLE[:at])
    assert failed.value.billed


@given(st.integers(0, STREAM.index("[DONE]") + len("[DONE]") - 1))
def test_no_beginning_of_a_stream_is_a_reply(at: int) -> None:
    with pytest.raises(CallFailed) as failed:
        streamed(STREAM[:at])
    assert failed.value.kind in ("cut", "malformed") and failed.value.billed


KEYS = st.sampled_from(["choices", "message", "content", "usage", "delta", "finish_reason"])
TREES = st.recursive(
    st.none() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(KEYS, x), max_leaves=20
)


@given(st.binary(max_size=300) | TREES.map(lambda tree: json.dumps(tree).encode()))
def test_anything_else_is_refused(body: bytes) -> None:
    with pytest.raises(CallFailed):
        read_json(body)
    with pytest.raises(CallFailed):
        streamed("data: " + body.decode(errors="replace"))


def test_a_done_without_a_reason_is_cut() -> None:
    without = STREAM.replace(json.dumps(EVENTS[-2]), json.dumps({"choices": [{"delta": {}}]}))
    with pytest.raises(CallFailed, match="without a reason") as failed:
        streamed(without)
    assert failed.value.tokens == Tokens(900, 800, 20)  # known, so it costs what it cost


def test_a_story_cut_by_its_limit_says_so() -> None:
    assert read_json(WHOLE.replace(b'"stop"', b'"length"')).finish == "length"


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (USAGE, Tokens(900, 800, 20)),
        (
            {"prompt_tokens": 9, "completion_tokens": 2, "prompt_cache_hit_tokens": 4},
            Tokens(9, 4, 2),
        ),  # DeepSeek's
        ({"prompt_tokens": 9, "completion_tokens": 2}, Tokens(9, 0, 2)),
        ({"prompt_tokens": -9, "completion_tokens": 2}, None),
        ({"prompt_tokens": "9", "completion_tokens": 2}, None),
        ({"prompt_tokens": True, "completion_tokens": 2}, None),
        (None, None),
        ([], None),
    ],
)
def test_usage(usage: Any, expected: Tokens | None) -> None:
    assert read_usage(usage) == expected
