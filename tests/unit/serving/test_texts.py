"""Completions: the text of `octavo generate`, in every form that clients ask for."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
import torch

from octavo.generation import Decoder
from octavo.generation.engine import Engine
from octavo.run.run import Run
from octavo.serving.schemas import ChatChunk, ErrorAnswer
from unit.generation.guesses import Knowing, drafted_by
from unit.serving.conftest import CONTEXT, asked, refused, running, saved, streamed, tokenizer_of

Opened = Callable[[str], Run]
PROMPT = "the small b"


def test_a_text_is_that_of_generate(client: httpx2.Client, opened: Opened) -> None:
    for name in ("char", "bytes", "counts"):
        run = opened(name)
        for seed in range(3):
            (choice,) = asked(client, model=name, prompt=PROMPT, seed=seed)["choices"]
            assert choice["text"] == run.generate(PROMPT, seed=seed)
            options: dict[str, Any] = {"temperature": 1.2, "top_k": 9, "top_p": 0.9, "min_p": 0.01}
            options |= {"repetition_penalty": 1.1, "seed": seed}
            (choice,) = asked(client, model=name, prompt="", max_tokens=30, stop=["e"], **options)["choices"]
            assert choice["text"] == run.generate("", tokens=30, stop=["e"], **options)


def test_63_others_change_nothing(client: httpx2.Client, opened: Opened) -> None:
    samples = opened("char").samples(PROMPT, count=1, seed=5, tokens=60)
    prompts = [PROMPT, "", "a big", PROMPT * 3]

    def one(number: int) -> dict[str, Any]:
        mine = number == 17
        how = {"seed": 5, "prompt": PROMPT} if mine else {"seed": number, "prompt": prompts[number % 4]}
        return asked(client, max_tokens=60 if mine else 20 + number, logprobs=1, **how)["choices"][0]

    with ThreadPoolExecutor(64) as pool:
        found = list(pool.map(one, range(64)))
    assert found[17]["text"] == samples[0].text
    assert found[17]["logprobs"]["token_logprobs"] == samples[0].log_probabilities


def test_several_texts_are_the_samples_of_a_seed(client: httpx2.Client, opened: Opened) -> None:
    expected = [sample.text for sample in opened("char").samples(PROMPT, count=5, seed=2)]
    found = asked(client, prompt=PROMPT, n=5, seed=2)
    assert [choice["text"] for choice in found["choices"]] == expected
    assert [choice["index"] for choice in found["choices"]] == [0, 1, 2, 3, 4]


def test_several_prompts_each_have_their_texts(client: httpx2.Client, opened: Opened) -> None:
    run, prompts = opened("char"), [PROMPT, "a"]
    found = asked(client, prompt=prompts, n=2, seed=2)
    expected = [sample.text for one in prompts for sample in run.samples(one, count=2, seed=2)]
    assert [choice["text"] for choice in found["choices"]] == expected
    assert found["usage"]["prompt_tokens"] == sum(
        len(Engine(run.model, run.tokenizer).prompt_ids(p)) for p in prompts
    )
    ids = [run.tokenizer.encode(one).tolist() for one in prompts]
    by_ids = asked(client, prompt=ids, seed=2)
    assert [choice["text"] for choice in by_ids["choices"]] == [run.generate(one, seed=2) for one in ids]
    assert asked(client, prompt=ids[0], seed=2)["choices"][0]["text"] == by_ids["choices"][0]["text"]


def test_the_most_probable_of_several(client: httpx2.Client, opened: Opened) -> None:
    samples = opened("char").samples(PROMPT, count=8, seed=2)
    best = sorted(samples, key=lambda sample: -math.fsum(sample.log_probabilities) / len(sample.ids))
    found = asked(client, prompt=PROMPT, best_of=8, n=2, seed=2)
    assert [choice["text"] for choice in found["choices"]] == [sample.text for sample in best[:2]]
    assert found["usage"]["completion_tokens"] == sum(len(sample.ids) for sample in samples)


def test_a_seed_that_was_drawn_is_told(client: httpx2.Client, opened: Opened) -> None:
    one, other = (asked(client, prompt=PROMPT) for _ in range(2))
    assert one["octavo"]["seed"] != other["octavo"]["seed"]
    assert one["choices"][0]["text"] == opened("char").generate(PROMPT, seed=one["octavo"]["seed"])


@pytest.mark.parametrize("stop", [None, "e", ["ird", "s "]])
@pytest.mark.parametrize("name", ["char", "bytes", "counts"])
def test_a_stream_says_the_same(client: httpx2.Client, name: str, stop: Any) -> None:
    how = {"model": name, "prompt": PROMPT, "seed": 4, "n": 3, "logprobs": 2, "stop": stop, "max_tokens": 25}
    whole = asked(client, **how)
    chunks = streamed(client, **how, stream_options={"include_usage": True})
    assert {chunk["id"] for chunk in chunks} == {chunks[0]["id"]}
    told = [one["usage"] | {"prompt_tokens_details": None} for one in (chunks[-1], whole)]
    assert chunks[-1]["choices"] == [] and told[0] == told[1]
    assert chunks[0]["octavo"] == whole["octavo"]
    for choice in whole["choices"]:
        own = [one for chunk in chunks for one in chunk["choices"] if one["index"] == choice["index"]]
        assert "".join(one["text"] for one in own) == choice["text"]
        assert [one["finish_reason"] for one in own[:-1]] == [None] * (len(own) - 1)
        assert own[-1]["finish_reason"] == choice["finish_reason"]
        for key, value in choice["logprobs"].items():
            assert [each for one in own for each in one["logprobs"][key]] == value
        assert own[-1]["octavo"] == choice["octavo"]


def test_drafts_are_told_token_by_token(runs: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """Streamed, whole, and as without them."""
    run, made = opened("char"), []
    how: dict[str, Any] = {"prompt": PROMPT, "seed": 4, "temperature": 1.0, "max_tokens": 60}
    with drafted_by(lambda _: None):  # type: ignore[arg-type, return-value]
        (expected,) = run.samples(PROMPT, count=1, seed=4, tokens=60, temperature=1.0)

    def drafts(decoder: Decoder) -> Knowing:
        made.append(Knowing(decoder, lambda _: expected.ids))
        return made[-1]

    with (
        drafted_by(drafts),
        running(runs / "char") as (address, _),
        httpx2.Client(base_url=address, timeout=60, trust_env=False) as client,
    ):
        whole = asked(client, **how, logprobs=2)
        chunks = streamed(client, **how, logprobs=2)
    (choice,) = whole["choices"]
    assert choice["text"] == expected.text
    tokens_add_up(choice["text"], choice["logprobs"])
    own = [one for chunk in chunks for one in chunk["choices"]]
    for key, value in choice["logprobs"].items():
        assert [each for one in own for each in one["logprobs"][key]] == value
    assert own[-1]["octavo"]["ids"] == expected.ids == choice["octavo"]["ids"]
    assert made[0].right > 4


def tokens_add_up(text: str, logprobs: Mapping[str, Any]) -> None:
    assert "".join(logprobs["tokens"]) == text
    assert [
        text[at : at + len(one)] for at, one in zip(logprobs["text_offset"], logprobs["tokens"], strict=True)
    ] == logprobs["tokens"]
    for piece, value, best in zip(
        *(logprobs[key] for key in ("tokens", "token_logprobs", "top_logprobs")), strict=True
    ):
        assert best is None or best[piece] == value


@pytest.mark.parametrize("name", ["char", "bytes", "counts"])
def test_an_echo_has_the_log_probabilities_of_the_model(
    client: httpx2.Client, opened: Opened, name: str
) -> None:
    """Of the prompt, too, which is what lm-evaluation-harness scores."""
    run = opened(name)
    for prompt in (PROMPT, run.tokenizer.encode(PROMPT).tolist()):
        answer = asked(client, model=name, prompt=prompt, echo=True, logprobs=3, max_tokens=5, seed=1, n=2)
        for choice in answer["choices"]:
            logprobs = choice["logprobs"]
            tokens_add_up(choice["text"], logprobs)
            assert choice["text"].startswith(PROMPT)
            ids = Engine(run.model, run.tokenizer).prompt_ids(prompt)
            implicit = len(ids) - len(run.tokenizer.encode(PROMPT))
            ids += choice["octavo"]["ids"]
            logs = torch.log_softmax(run.logits(np.array(ids))[0], dim=-1).numpy()
            expected = [None, *(float(logs[at, id]) for at, id in enumerate(ids[1:]))][implicit:]
            given = logprobs["token_logprobs"]
            expected = expected[: len(given)]
            assert given[0] is None if not implicit else expected[0] is not None
            pairs = [(a, b) for a, b in zip(given, expected, strict=True) if a is not None]
            np.testing.assert_allclose(*zip(*pairs, strict=True), atol=2e-5)
            best = [max(one.values()) for one in logprobs["top_logprobs"] if one is not None]
            top = logs.max(axis=1)[max(0, implicit - 1) :][: len(best)]
            np.testing.assert_allclose(best, top, atol=2e-5)


def test_the_end_is_a_token_without_text(client: httpx2.Client, opened: Opened) -> None:
    """So what follows a prompt has as many log-probabilities as ids, which lm-evaluation-harness counts on."""
    end = {str(opened("char").tokenizer.end): 100.0}
    (choice,) = asked(client, prompt=PROMPT, echo=True, logprobs=1, max_tokens=1, logit_bias=end)["choices"]
    assert choice["octavo"]["finish"] == "end" and choice["text"] == PROMPT
    assert choice["logprobs"]["tokens"] == [*PROMPT, ""]
    assert choice["logprobs"]["token_logprobs"][-1] == choice["octavo"]["end_logprob"]
    how = {"messages": [{"role": "user", "content": "the"}], "logit_bias": end, "logprobs": True}
    (choice,) = asked(client, "/v1/chat/completions", **how)["choices"]
    assert [one["bytes"] for one in choice["logprobs"]["content"]] == [[]]


def test_a_prompt_is_scored_without_an_answer(client: httpx2.Client) -> None:
    for logprobs in (0, 1):
        (choice,) = asked(client, prompt=PROMPT, echo=True, logprobs=logprobs, max_tokens=0)["choices"]
        assert choice["text"] == PROMPT and choice["finish_reason"] == "length"
        assert len(choice["logprobs"]["tokens"]) == len(PROMPT)
        assert None not in choice["logprobs"]["token_logprobs"]  # the document's start stands before it
        assert {len(one) for one in choice["logprobs"]["top_logprobs"]} <= {1, 1 + logprobs}
    first, last = streamed(client, prompt=PROMPT, echo=True, max_tokens=0)
    assert first["choices"][0]["text"] == PROMPT and last["choices"][0]["text"] == ""


def test_an_echo_with_greedy_choice_is_the_best(client: httpx2.Client) -> None:
    (choice,) = asked(client, prompt=PROMPT, temperature=0, max_tokens=8, logprobs=1)["choices"]
    for value, best in zip(
        choice["logprobs"]["token_logprobs"], choice["logprobs"]["top_logprobs"], strict=True
    ):
        assert value == max(best.values())


def test_half_a_character_waits_for_its_rest(client: httpx2.Client, opened: Opened) -> None:
    """Of bytes; tokens still add up to the text, and a text that breaks off inside says so."""
    tokenizer = opened("bytes").tokenizer
    bias = {str(id): 100.0 for id in tokenizer.encode("é").tolist()}
    seen = set()
    for tokens in (1, 2, 5):
        (choice,) = asked(
            client, model="bytes", prompt="x", logit_bias=bias, max_tokens=tokens, logprobs=2, seed=1
        )["choices"]
        tokens_add_up(choice["text"], choice["logprobs"])
        assert set(choice["octavo"]["ids"]) <= set(map(int, bias))
        chunks = streamed(client, model="bytes", prompt="x", logit_bias=bias, max_tokens=tokens, seed=1)
        assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == choice["text"]
        seen |= set(choice["text"])
    assert "\ufffd" in seen


def test_biases_and_penalties_take_effect(client: httpx2.Client) -> None:
    how: dict[str, Any] = {"prompt": PROMPT, "temperature": 0, "max_tokens": 10}
    (plain,) = asked(client, **how)["choices"]
    (other,) = asked(client, **how, logit_bias={str(plain["octavo"]["ids"][0]): -100})["choices"]
    assert plain["octavo"]["ids"][0] not in other["octavo"]["ids"]
    (rare,) = asked(client, **how, presence_penalty=2, frequency_penalty=2)["choices"]
    assert len(set(rare["octavo"]["ids"])) > len(set(plain["octavo"]["ids"]))


def test_the_window_slides_as_it_does_alone(client: httpx2.Client, opened: Opened) -> None:
    (choice,) = asked(client, prompt=PROMPT, max_tokens=3 * CONTEXT, seed=8, logit_bias={})["choices"]
    assert choice["text"] == opened("char").generate(PROMPT, tokens=3 * CONTEXT, seed=8)


def test_what_was_read_before_is_not_read_again(client: httpx2.Client) -> None:
    prompt = "a big bird sees the tree"
    for text, cached in ((prompt, 0), (prompt, len(prompt) + 1), (prompt[:-3] + "sma", len(prompt) - 2)):
        found = asked(client, prompt=text, max_tokens=1)["usage"]
        assert found["prompt_tokens_details"]["cached_tokens"] == cached


# What none has


def probabilities(told: Mapping[str, Any]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(told["data"]), "<f4").reshape(told["shape"])


def test_full_probabilities(client: httpx2.Client, opened: Opened) -> None:
    run = opened("char")
    for choice in asked(client, prompt=PROMPT, probabilities="full", seed=3, n=2, logprobs=1)["choices"]:
        details = choice["octavo"]
        ids = [*details["prompt_ids"], *details["ids"]]
        found = np.concatenate(
            [probabilities(details[name]) for name in ("prompt_probabilities", "probabilities")]
        )
        logs = torch.log_softmax(run.logits(np.array(ids[:-1]))[0], dim=-1).numpy()
        np.testing.assert_allclose(found, logs, atol=2e-5)
        np.testing.assert_allclose(np.exp(found).sum(axis=1), 1, atol=1e-5)
        answer = found[len(details["prompt_ids"]) - 1 :]
        given = choice["logprobs"]["token_logprobs"]
        assert given == [float(row[id]) for row, id in zip(answer, details["ids"], strict=True)][: len(given)]
    assert (
        refused(client, prompt=PROMPT, probabilities="full", max_tokens=100_000, n=64)["param"]
        == "probabilities"
    )


def test_who_said_what(client: httpx2.Client, opened: Opened) -> None:
    for tokens in (9, 2 * CONTEXT):
        (choice,) = asked(
            client, model="counts", prompt=PROMPT, attribution=True, max_tokens=tokens, seed=1, logprobs=0
        )["choices"]
        rows = choice["octavo"]["attribution"]
        assert [row["token"] for row in rows] == choice["octavo"]["ids"]
        near = rows[: CONTEXT - len(PROMPT) - 1]
        for row, value in zip(near, choice["logprobs"]["token_logprobs"], strict=False):
            assert 0 < row["network"] < 1
            mixed = row["network"] * math.exp(row["network_logprob"])
            mixed += (1 - row["network"]) * math.exp(row["counts_logprob"])
            assert math.log(mixed) == pytest.approx(value, abs=1e-4)
    assert refused(client, prompt=PROMPT, attribution=True)["param"] == "attribution"


# Conversations


def test_a_conversation_by_the_template(client: httpx2.Client, opened: Opened) -> None:
    from octavo.corpus.records.turns import Message
    from octavo.tuning.chat_session import Talk

    run = opened("chat")
    answer = asked(
        client, "/v1/chat/completions", model="chat", messages=[{"role": "user", "content": "the"}], seed=0
    )
    assert answer["octavo"]["template"] == "chat"
    talk = Talk(run)
    assert answer["choices"][0]["message"]["content"] == "".join(talk.ask("the"))
    assert talk.messages[0] == Message("user", "the")


def test_a_base_model_gets_the_texts(client: httpx2.Client, opened: Opened) -> None:
    parts = [{"type": "text", "text": "the "}, {"type": "text", "text": "small"}]
    for content in ("the small", parts):
        messages = [{"role": "user", "content": content}]
        answer = asked(client, "/v1/chat/completions", messages=messages, seed=0)
        assert answer["octavo"]["template"] == "plain"
        (choice,) = answer["choices"]
        assert choice["message"] == {
            "role": "assistant",
            "content": opened("char").generate("the small"),
            "refusal": None,
        }


def test_a_chat_stream_is_as_clients_expect(client: httpx2.Client) -> None:
    how: dict[str, Any] = {"model": "chat", "messages": [{"role": "user", "content": "the"}], "seed": 1}
    how |= {"logprobs": True, "top_logprobs": 2, "max_completion_tokens": 9, "n": 2}
    whole = asked(client, "/v1/chat/completions", **how)
    chunks = streamed(client, "/v1/chat/completions", **how)
    for choice in whole["choices"]:
        own = [one for chunk in chunks for one in chunk["choices"] if one["index"] == choice["index"]]
        assert own[0]["delta"] == {"role": "assistant", "content": None}
        assert all("role" not in one["delta"] for one in own[1:])
        assert own[-1]["delta"] == {} and own[-1]["finish_reason"] == choice["finish_reason"]
        assert all(one["finish_reason"] is None for one in own[:-1])
        text = "".join(one["delta"].get("content") or "" for one in own)
        assert text == choice["message"]["content"]
        told = [each for one in own if one["logprobs"] for each in one["logprobs"]["content"]]
        assert told == choice["logprobs"]["content"]
        assert "".join(one["token"] for one in told) == text
        assert bytes(byte for one in told for byte in one["bytes"]).decode() == text
        assert {len(one["top_logprobs"]) for one in told} == {2}
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    ChatChunk.model_validate(chunks[0])


def test_a_long_conversation_is_cut_where_that_is_asked_for(client: httpx2.Client) -> None:
    turns = [{"role": "system", "content": "a"}]
    for _ in range(6):
        turns += [{"role": "user", "content": "the tree"}, {"role": "assistant", "content": "sees"}]
    turns.append({"role": "user", "content": "the bird"})
    how = {"model": "chat", "messages": turns, "seed": 1}
    assert refused(client, "/v1/chat/completions", **how)["code"] == "context_length_exceeded"
    cut = asked(client, "/v1/chat/completions", **how, truncate=True)
    assert cut["octavo"]["truncated"] > 0
    kept = [turns[0], *turns[1 + cut["octavo"]["truncated"] :]]
    same = asked(client, "/v1/chat/completions", **{**how, "messages": kept})
    assert same["choices"][0]["message"] == cut["choices"][0]["message"]


# Tokens


def test_tokens_forth_and_back(client: httpx2.Client, opened: Opened) -> None:
    tokenizer = opened("char").tokenizer
    found = asked(client, "/tokenize", content=PROMPT)["tokens"]
    assert found == tokenizer.encode(PROMPT).tolist()
    assert asked(client, "/tokenize", content=PROMPT, add_special=True)["tokens"] == [tokenizer.start, *found]
    assert asked(client, "/detokenize", tokens=found)["content"] == PROMPT
    pieces = asked(client, "/tokenize", content=PROMPT, with_pieces=True)["tokens"]
    assert "".join(one["piece"] for one in pieces) == PROMPT and [one["id"] for one in pieces] == found
    assert asked(client, "/tokenize", content="")["tokens"] == []


def test_tokens_by_the_names_of_vllm(client: httpx2.Client, opened: Opened) -> None:
    """With which lm-evaluation-harness has the model's own tokenizer from the server."""
    tokenizer = opened("char").tokenizer
    told = asked(client, "/tokenize", prompt=PROMPT, add_special_tokens=True)
    assert told["tokens"] == [tokenizer.start, *tokenizer.encode(PROMPT).tolist()]
    assert told["count"] == len(told["tokens"]) and told["max_model_len"] == CONTEXT
    assert asked(client, "/detokenize", tokens=told["tokens"][1:])["prompt"] == PROMPT
    info = client.get("/tokenizer_info", params={"model": "char"}).json()
    assert asked(client, "/tokenize", prompt=info["eos_token"])["tokens"] == [tokenizer.end]
    assert refused(client, "/tokenize", content=info["eos_token"])["code"] == "not_in_vocabulary"
    assert "assistant" in client.get("/tokenizer_info", params={"model": "chat"}).json()["chat_template"]
    for fields in ({}, {"prompt": "a", "content": "a"}):
        assert refused(client, "/tokenize", **fields)["status"] == 400


# Wrong requests

WRONG: list[tuple[dict[str, Any], str | None]] = [
    ({"prompt": "QUARTZ"}, "prompt"),
    ({"prompt": PROMPT * 20}, "prompt"),
    ({"prompt": "x" * 100_000}, "prompt"),
    ({"prompt": []}, "prompt"),
    ({"prompt": [[]]}, "prompt"),
    ({"prompt": [10**9]}, "prompt"),
    ({"prompt": ["a"] * 65}, None),
    ({"prompt": {"a": 1}}, "prompt"),
    ({"prompt": [1, "a"]}, "prompt"),
    ({"n": 10_000}, "n"),
    ({"n": 0}, "n"),
    ({"n": True}, "n"),
    ({"n": "3"}, "n"),
    ({"n": 2, "best_of": 1}, None),
    ({"best_of": 2, "stream": True}, None),
    ({"max_tokens": 0}, None),
    ({"max_tokens": -1}, "max_tokens"),
    ({"max_tokens": 2**70}, "max_tokens"),
    ({"temperature": -0.1}, "temperature"),
    ({"top_p": 0}, "top_p"),
    ({"top_k": -2}, "top_k"),
    ({"min_p": -0.1}, "min_p"),
    ({"grammar": "root ::= [a]"}, "grammar"),
    ({"json_schema": {"type": "object"}}, "json_schema"),
    ({"seed": -1}, "seed"),
    ({"seed": 2**64}, "seed"),
    ({"logprobs": 101}, "logprobs"),
    ({"logit_bias": {"x": 1}}, "logit_bias"),
    ({"logit_bias": {"99999": 1}}, "logit_bias"),
    ({"logit_bias": {"1": 101}}, "logit_bias"),
    ({"presence_penalty": 3}, "presence_penalty"),
    ({"stop": ["x"] * 17}, "stop"),
    ({"stop": "x" * 257}, "stop"),
    ({"suffix": "x"}, "suffix"),
    ({"probabilities": "some"}, "probabilities"),
    ({"model": "x" * 501}, "model"),
]


@pytest.mark.parametrize(("fields", "param"), WRONG, ids=lambda one: str(one)[:40])
def test_what_cannot_be_is_refused_by_name(
    client: httpx2.Client, fields: dict[str, Any], param: str | None
) -> None:
    found = refused(client, **{"prompt": PROMPT, **fields})
    assert (found["status"], found["type"], found["param"]) == (400, "invalid_request_error", param)
    assert found["message"]


WRONG_CHATS: list[Any] = [
    [],
    [{"role": "user", "content": ""}],
    [{"role": "tool", "content": "the"}],
    [{"role": "user", "content": None}],
    [{"role": "user"}],
    [{"content": "the"}],
    ["the"],
    [{"role": "user", "content": "the"}, {"role": "assistant", "content": "the"}],
    [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://127.0.0.1/"}}]}],
    "the",
]


@pytest.mark.parametrize("name", ["char", "chat"])
@pytest.mark.parametrize("messages", WRONG_CHATS, ids=lambda one: str(one)[:40])
def test_wrong_conversations(client: httpx2.Client, messages: Any, name: str) -> None:
    found = refused(client, "/v1/chat/completions", model=name, messages=messages)
    assert (found["status"], found["param"]) == (400, "messages")
    assert "Traceback" not in found["message"]


def test_what_is_no_json(client: httpx2.Client) -> None:
    deep = "[" * 60_000 + "]" * 60_000
    bodies: Iterator[bytes] = iter(
        [
            b"",
            b"{",
            b"[]",
            b"null",
            b'{"prompt": "\\ud800"}',
            b'{"prompt": "\xff"}',
            b'{"prompt": NaN}',
            b'{"temperature": NaN, "prompt": "a"}',
            b'{"temperature": 1e999, "prompt": "a"}',
            ('{"prompt": ' + deep + "}").encode(),
            ('{"unknown": ' + deep + "}").encode(),
            b'{"prompt": "a", "n": 1e400}',
        ]
    )
    for body in bodies:
        answer = client.post("/v1/completions", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 400, body[:60]
        ErrorAnswer.model_validate_json(answer.content)


def test_unknown_fields_are_said_to_have_no_effect(client: httpx2.Client) -> None:
    found = asked(client, prompt=PROMPT, mirostat=2, dry_base="x", user="me", seed=1)
    assert found["octavo"]["ignored"] == ["dry_base", "mirostat"]


def test_empty_fields_ask_for_nothing(client: httpx2.Client, opened: Opened) -> None:
    """Many clients send all fields that they know."""
    empty = {
        "suffix": "",
        "grammar": None,
        "json_schema": {},
        "stop": [],
        "top_k": 0,
        "min_p": 0,
        "logit_bias": {},
    }
    found = asked(client, prompt=PROMPT, seed=1, **empty)
    assert found["choices"][0]["text"] == opened("char").generate(PROMPT, seed=1)
    assert "ignored" not in found["octavo"]
    more = {"tools": [], "functions": None, "audio": None, "modalities": ["text"]}
    asked(client, "/v1/chat/completions", messages=[{"role": "user", "content": "the"}], **more)
    wrong = [("tools", [{}]), ("functions", [{}]), ("audio", {"voice": "a"}), ("modalities", ["audio"])]
    for name, value in [
        *wrong,
        ("web_search_options", {"a": 1}),
        ("response_format", {"type": "json_object"}),
    ]:
        fields = {"messages": [{"role": "user", "content": "the"}], name: value}
        assert refused(client, "/v1/chat/completions", **fields)["param"] == name


def test_a_recipe_s_cuts_can_be_taken_back(client: httpx2.Client, tmp_path: Path) -> None:
    """top_k=0 and min_p=0 stand for all tokens, not for the recipe's own."""
    careful = saved(tmp_path / "careful", tokenizer_of("char"), sampling={"top_k": 2, "min_p": 0.5})
    how: dict[str, Any] = {"model": None, "prompt": PROMPT, "seed": 5}
    with running(careful) as (address, _), httpx2.Client(base_url=address, trust_env=False) as other:
        cut, free = (asked(other, **how, **more)["choices"] for more in ({}, {"top_k": 0, "min_p": 0}))
    (plain,) = asked(client, **how | {"model": "char"})["choices"]
    assert free[0]["text"] == plain["text"] != cut[0]["text"]


def test_a_text_whose_end_is_ignored_goes_on(client: httpx2.Client, opened: Opened) -> None:
    end = opened("char").tokenizer.end
    bias = {str(end): 30.0}
    (choice,) = asked(client, prompt=PROMPT, logit_bias=bias, max_tokens=20)["choices"]
    assert choice["octavo"]["ids"] == [end]
    (choice,) = asked(client, prompt=PROMPT, logit_bias=bias, max_tokens=20, ignore_eos=True)["choices"]
    assert len(choice["octavo"]["ids"]) == 20 and end not in choice["octavo"]["ids"]


def test_a_cut_prompt_is_its_end(client: httpx2.Client, opened: Opened) -> None:
    long = "the small bird sees a big tree. " * 4
    found = asked(client, prompt=long, truncate=True, seed=1, echo=True, logprobs=0)
    ids = opened("char").tokenizer.encode(long).tolist()
    assert found["octavo"]["truncated"] == len(ids) + 1 - CONTEXT
    expected = opened("char").generate(ids[-CONTEXT:], seed=1)
    assert found["choices"][0]["text"] == long[-CONTEXT:] + expected
