"""The client that everybody has: each field of both endpoints takes effect, is refused, or is said to have none."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from octavo.run.run import Run

openai = pytest.importorskip("openai")

Opened = Callable[[str], Run]
PROMPT = "the small b"
TURNS = [{"role": "user", "content": "the small"}]
TRANSPORT = {"extra_headers", "extra_query", "extra_body", "timeout"}
BASE: dict[str, dict[str, Any]] = {
    "completions": {"model": "char", "prompt": PROMPT, "seed": 7, "max_tokens": 20},
    "chat": {"model": "chat", "messages": TURNS, "seed": 7, "max_tokens": 20},
}
BANNED = {str(id): -100 for id in range(5, 12)}

TAKES_EFFECT: dict[str, dict[str, Any]] = {
    "completions": {
        "best_of": 6, "echo": True, "frequency_penalty": 2, "logit_bias": BANNED, "logprobs": 3, "max_tokens": 3,
        "model": "counts", "n": 3, "presence_penalty": 2, "prompt": ["a big", PROMPT], "seed": 8, "stop": ["e", " "],
        "temperature": 0, "top_p": 0.2,
    },
    "chat": {
        "frequency_penalty": 2, "logit_bias": BANNED, "logprobs": True, "max_completion_tokens": 3, "max_tokens": 3,
        "messages": [{"role": "system", "content": "a big"}, *TURNS], "model": "char", "n": 3, "presence_penalty": 2,
        "seed": 8, "stop": "e", "temperature": 0, "top_logprobs": 4, "top_p": 0.2,
    },
}  # fmt: skip
REFUSED: dict[str, dict[str, Any]] = {
    "completions": {"suffix": "the end"},
    "chat": {
        "audio": {"voice": "alloy", "format": "wav"}, "functions": [{"name": "f"}], "modalities": ["text", "audio"],
        "response_format": {"type": "json_object"}, "tools": [{"type": "function", "function": {"name": "f"}}],
        "web_search_options": {"search_context_size": "low"},
    },
}  # fmt: skip
NO_EFFECT: dict[str, dict[str, Any]] = {
    "completions": {"user": "me"},
    "chat": {
        "function_call": "none", "metadata": {"a": "b"}, "moderation": {"a": 1}, "parallel_tool_calls": False,
        "prediction": {"type": "content", "content": "the"}, "prompt_cache_key": "a", "prompt_cache_retention": "24h",
        "prompt_cache_options": {"a": 1}, "reasoning_effort": "low", "safety_identifier": "a", "service_tier": "auto",
        "store": False, "tool_choice": "none", "user": "me", "verbosity": "low",
    },
}  # fmt: skip
"""Of the answer; `user` is told to be so in the document, the others in the answer."""
STREAMS = {"stream", "stream_options"}
"""All of the fields are asked with them and without."""


@pytest.fixture(scope="module")
def asks(address: str) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0, timeout=60) as client:
        yield client


def endpoint(client: Any, name: str) -> Any:
    return client.completions.create if name == "completions" else client.chat.completions.create


def fields(kind: dict[str, dict[str, Any]]) -> list[tuple[str, str, Any]]:
    return [(name, field, value) for name, values in kind.items() for field, value in values.items()]


def texts(answer: Any) -> list[str]:
    return [choice.text if hasattr(choice, "text") else choice.message.content for choice in answer.choices]


def whole(chunks: list[Any]) -> tuple[dict[int, str], dict[int, list[float]]]:
    """Texts and log-probabilities of a stream, which is as clients expect."""
    found: dict[int, str] = {}
    told: dict[int, list[float]] = {}
    ended: set[int] = set()
    assert len({chunk.id for chunk in chunks}) == len({chunk.object for chunk in chunks}) == 1
    for chunk in chunks:
        for choice in chunk.choices:
            assert choice.index not in ended
            if hasattr(choice, "delta"):
                begins = choice.index not in found
                assert (choice.delta.role == "assistant") == begins and (
                    not begins or choice.delta.content is None
                )
                piece, logprobs = choice.delta.content or "", choice.logprobs and choice.logprobs.content
                values = [one.logprob for one in logprobs or ()]
            else:
                piece, values = choice.text, choice.logprobs.token_logprobs if choice.logprobs else []
            found[choice.index] = found.get(choice.index, "") + piece
            told.setdefault(choice.index, []).extend(values)
            if choice.finish_reason is not None:
                assert choice.finish_reason in ("stop", "length") and not piece
                ended.add(choice.index)
    assert ended == found.keys()
    return found, told


def test_every_field_is_known(asks: Any) -> None:
    for name in BASE:
        has = set(inspect.signature(endpoint(asks, name)).parameters) - TRANSPORT
        known = STREAMS.union(*(kind[name] for kind in (TAKES_EFFECT, REFUSED, NO_EFFECT)))
        assert not has - known, "what do they do?"


@pytest.mark.parametrize(("name", "field", "value"), fields(TAKES_EFFECT))
def test_a_field_takes_effect(asks: Any, opened: Opened, name: str, field: str, value: Any) -> None:
    create, more = endpoint(asks, name), {"logprobs": True} if field == "top_logprobs" else {}
    plain = create(**BASE[name])
    answer = create(**BASE[name] | more | {field: value})
    check(name, field, value, plain, answer, opened)
    how = BASE[name] | more | {field: value, "stream": True, "stream_options": {"include_usage": True}}
    if field == "best_of":
        with pytest.raises(openai.BadRequestError):
            create(**how)
        return
    *chunks, last = create(**how)
    assert last.choices == [] and last.usage.completion_tokens == answer.usage.completion_tokens
    found, logprobs = whole(chunks)
    assert [found[choice.index] for choice in answer.choices] == texts(answer)
    for choice in answer.choices:
        told = choice.logprobs
        given = (
            []
            if not told
            else told.token_logprobs
            if name == "completions"
            else [one.logprob for one in told.content]
        )
        assert logprobs[choice.index] == given


def check(name: str, field: str, value: Any, plain: Any, answer: Any, opened: Opened) -> None:
    """What a field does."""
    (before,), (after, *others) = texts(plain), texts(answer)
    choice = answer.choices[0]
    if name == "completions":
        samples = opened("char").samples(PROMPT, count=6, seed=7, tokens=20)
        mean = [math.fsum(one.log_probabilities) / len(one.ids) for one in samples]
        expected = {
            "best_of": samples[mean.index(max(mean))].text,
            "echo": PROMPT + before,
            "model": opened("counts").generate(PROMPT, seed=7, tokens=20),
            "prompt": opened("char").generate("a big", seed=7, tokens=20),
            "seed": opened("char").generate(PROMPT, seed=8, tokens=20),
            "temperature": opened("char").generate(PROMPT, seed=7, tokens=20, temperature=0),
            "top_p": opened("char").generate(PROMPT, seed=7, tokens=20, top_p=0.2),
            "max_tokens": samples[0].text[:3],
        }
        assert after == expected.get(field, after)
        if field == "n":
            assert [after, *others] == [one.text for one in samples[:3]]
        if field == "logprobs":
            assert "".join(choice.logprobs.tokens) == after == before
            assert {len(one) for one in choice.logprobs.top_logprobs} <= {3, 4}  # with that which came
    else:
        assert choice.message.role == "assistant" and choice.message.refusal is None
        if field in ("logprobs", "top_logprobs"):
            told = choice.logprobs.content
            assert "".join(one.token for one in told) == after == before
            assert bytes(byte for one in told for byte in one.bytes).decode() == after
            assert {len(one.top_logprobs) for one in told} == {4 if field == "top_logprobs" else 0}
    if field in ("max_tokens", "max_completion_tokens"):
        assert answer.usage.completion_tokens <= 3 and before.startswith(after)
    if field == "stop":
        assert before.startswith(after) and not set(value) & set(after) and choice.finish_reason == "stop"
    if field == "logit_bias":
        assert not set(map(int, value)) & set(choice.octavo["ids"])
    if field == "n":
        assert len({after, *others}) == 3
    if field not in ("logprobs", "top_logprobs", "n", "best_of"):
        assert after != before
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


@pytest.mark.parametrize(("name", "field", "value"), fields(REFUSED))
def test_a_field_is_refused_in_a_sentence(asks: Any, name: str, field: str, value: Any) -> None:
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError) as error:
            endpoint(asks, name)(**BASE[name] | {field: value, "stream": stream})
        assert error.value.param == field and error.value.body["message"]


@pytest.mark.parametrize(("name", "field", "value"), fields(NO_EFFECT))
def test_a_field_without_effect_is_named(asks: Any, name: str, field: str, value: Any) -> None:
    create = endpoint(asks, name)
    answer = create(**BASE[name], extra_body={field: value})
    assert texts(answer) == texts(create(**BASE[name]))
    assert answer.octavo.get("ignored") == (None if field == "user" else [field])


def test_what_clients_say_of_errors(asks: Any) -> None:
    for fields, kind in (
        ({"model": "none"}, openai.NotFoundError),
        ({"prompt": "x" * 9000}, openai.BadRequestError),
        ({"prompt": "\ud800"}, openai.BadRequestError),
        ({"n": 10_000}, openai.BadRequestError),
    ):
        try:
            asks.completions.create(**BASE["completions"] | fields)
        except UnicodeEncodeError:
            assert fields["prompt"] == "\ud800"  # the client cannot even write it
        except kind as error:
            assert error.body["message"] and error.body["type"]
        else:
            pytest.fail(f"{fields} was answered")


def test_models_are_listed(asks: Any) -> None:
    assert {model.id for model in asks.models.list()} == {"bytes", "char", "chat", "counts"}
    assert asks.models.retrieve("char@3").object == "model"


def test_many_at_once_by_the_other_client(address: str, opened: Opened) -> None:
    async def ask() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="none", timeout=60) as client:

            async def one(seed: int) -> str:
                how = BASE["completions"] | {"seed": seed, "stream": True}
                chunks = [chunk async for chunk in await client.completions.create(**how)]
                return whole(chunks)[0][0]

            return await asyncio.gather(*map(one, range(12)))

    expected = [opened("char").generate(PROMPT, seed=seed, tokens=20) for seed in range(12)]
    assert asyncio.run(ask()) == expected


def test_the_helper_that_gathers_a_stream(asks: Any) -> None:
    """It takes no text that is cut off."""
    how = BASE["chat"] | {"stop": ["e", " "]}
    with asks.chat.completions.stream(**how) as stream:
        kinds = {event.type for event in stream}
        gathered = stream.get_final_completion()
    assert {"content.delta", "content.done", "chunk"} <= kinds
    assert texts(gathered) == texts(asks.chat.completions.create(**how))
