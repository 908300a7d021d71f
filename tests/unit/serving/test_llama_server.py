"""llama.cpp's own interface says the same as OpenAI's, in its words."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from octavo.run.run import Run
from octavo.serving.openapi import PATHS
from octavo.serving.schemas import ErrorAnswer
from unit.serving.conftest import CONTEXT, asked

Opened = Callable[[str], Run]
PROMPT = "the small b"
TURNS = [{"role": "system", "content": "a big"}, {"role": "user", "content": "the tree"}]


def completion(client: httpx2.Client, **fields: Any) -> Any:
    return asked(client, "/completion", **fields)


def events(client: httpx2.Client, **fields: Any) -> list[dict[str, Any]]:
    """Those of a stream, each of the promised shape."""
    answer = client.post("/completion", json={"model": "char", "stream": True, **fields})
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line]
    assert lines.pop() == "[DONE]"
    told = PATHS["/completion"].chunk
    assert told is not None
    for line in lines:
        told.model_validate_json(line)
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("name", ["char", "bytes", "counts"])
def test_a_text_is_that_of_generate(client: httpx2.Client, opened: Opened, name: str) -> None:
    run = opened(name)
    found = completion(client, model=name, prompt=PROMPT, seed=2)
    assert found["content"] == run.generate(PROMPT, seed=2)
    assert found["tokens"] == [] and found["stop"] and found["prompt"].endswith(PROMPT)
    how: dict[str, Any] = {"temperature": 1.2, "top_k": 9, "top_p": 0.9, "min_p": 0.01, "seed": 3}
    found = completion(client, model=name, prompt="", n_predict=30, stop=["e"], repeat_penalty=1.1, **how)
    assert found["content"] == run.generate("", tokens=30, stop=["e"], repetition_penalty=1.1, **how)
    told = found["generation_settings"]
    assert {name: told[name] for name in how} == how
    assert told["n_predict"] == 30 and told["stop"] == ["e"] and told["repeat_penalty"] == 1.1


def test_a_seed_that_was_drawn_is_told(client: httpx2.Client, opened: Opened) -> None:
    for seed in ({}, {"seed": -1}):
        found = completion(client, prompt=PROMPT, **seed)
        drawn = found["generation_settings"]["seed"]
        assert found["octavo"]["seed"] == drawn
        assert found["content"] == opened("char").generate(PROMPT, seed=drawn)


def test_prompts_of_every_form(client: httpx2.Client, opened: Opened) -> None:
    tokenizer = opened("char").tokenizer
    ids = tokenizer.encode(PROMPT).tolist()
    start = [tokenizer.start, *ids]
    one = completion(client, prompt=PROMPT, seed=1)["content"]
    for prompt in (
        start,
        {"prompt_string": PROMPT},
        [tokenizer.start, *ids[:3], PROMPT[3:]],
        [PROMPT[:3], *ids[3:]],
    ):
        found = completion(client, prompt=prompt, seed=1)
        assert found["content"] == one and found["tokens_evaluated"] == len(start)
    several = completion(
        client, prompt=[PROMPT, start, {"prompt_string": PROMPT}, [PROMPT[:5], *ids[5:]]], seed=1
    )
    assert [each["content"] for each in several] == [one] * 4
    assert [each["index"] for each in several] == [0, 1, 2, 3]
    assert len(completion(client, prompt=[PROMPT], seed=1)) == 1
    samples = [sample.text for sample in opened("char").samples(PROMPT, count=3, seed=1)]
    assert [each["content"] for each in completion(client, prompt=PROMPT, n_cmpl=3, seed=1)] == samples


@pytest.mark.parametrize("name", ["char", "bytes"])
def test_a_stream_says_the_same(client: httpx2.Client, name: str) -> None:
    for more in ({}, {"stop": ["e"]}, {"ignore_eos": True, "n_predict": 30}):
        how = {"model": name, "prompt": PROMPT, "seed": 4, "n_probs": 2, "n_cmpl": 2, **more}
        for whole in completion(client, **how, return_tokens=True):
            own = [one for one in events(client, **how) if one["index"] == whole["index"]]
            assert [one["stop"] for one in own] == [False] * (len(own) - 1) + [True]
            assert "".join(one["content"] for one in own) == whole["content"]
            ids = [id for one in own for id in one["tokens"]]
            assert ids == whole["tokens"] or (whole["stop_type"] == "eos" and ids == whole["tokens"][:-1])
            told = [each for one in own for each in one.get("completion_probabilities", [])]
            assert told == whole["completion_probabilities"]
            for name_ in (
                "tokens_predicted",
                "stop_type",
                "generation_settings",
                "has_new_line",
                "truncated",
            ):
                assert own[-1][name_] == whole[name_]


def test_its_probabilities_are_those_of_the_other_interface(client: httpx2.Client) -> None:
    how = {"prompt": PROMPT, "seed": 3}
    found = completion(client, **how, n_predict=9, n_probs=3)
    other = asked(client, **how, max_tokens=9, logprobs=3)["choices"][0]
    told = found["completion_probabilities"]
    assert [one["token"] for one in told] == other["logprobs"]["tokens"]
    assert [one["logprob"] for one in told] == other["logprobs"]["token_logprobs"]
    for one, id in zip(told, other["octavo"]["ids"], strict=False):
        assert one["id"] == id and bytes(one["bytes"]).decode() == one["token"]
        assert len(one["top_logprobs"]) == 3
        values = [each["logprob"] for each in one["top_logprobs"]]
        assert values == sorted(values, reverse=True)
    assert "completion_probabilities" not in completion(client, **how)


def test_how_a_text_ended(client: httpx2.Client, opened: Opened) -> None:
    tokenizer = opened("char").tokenizer
    end = tokenizer.end
    assert completion(client, prompt=PROMPT, logit_bias=[[end, 30]])["stop_type"] == "eos"
    assert completion(client, prompt=PROMPT, n_predict=3, ignore_eos=True)["stop_type"] == "limit"
    letters = sorted(set(PROMPT))
    found = completion(client, prompt=PROMPT, stop=letters, ignore_eos=True, n_predict=100, temperature=1.0)
    assert found["stop_type"] == "word"
    nothing = completion(client, prompt=PROMPT, n_predict=0)
    assert nothing["content"] == "" and nothing["tokens_predicted"] == 0
    assert nothing["generation_settings"]["n_predict"] == 0
    long = completion(client, prompt=PROMPT, n_predict=2 * CONTEXT, ignore_eos=True)
    assert long["truncated"] and long["tokens_predicted"] == 2 * CONTEXT and not found["truncated"]


def test_biases_by_id_and_by_text(client: httpx2.Client, opened: Opened) -> None:
    tokenizer, how = opened("char").tokenizer, {"prompt": PROMPT, "n_predict": 20, "ignore_eos": True}
    banned = "etas "  # each a token
    ids = tokenizer.encode(banned).tolist()
    for bias in (
        [[banned, False]],
        [[id, False] for id in ids],
        dict.fromkeys(banned, -100),
        {str(id): -100 for id in ids},
    ):
        found = completion(client, **how, logit_bias=bias, seed=1)
        assert not set(found["content"]) & set(banned)
        told = {one["token"]: one["bias"] for one in found["generation_settings"]["logit_bias"]}
        assert told == dict.fromkeys(ids, -100.0) | dict.fromkeys(tokenizer.ends)


def test_timings_are_those_of_the_text(client: httpx2.Client) -> None:
    prompt = "a tree sees the bird"
    first, again = (completion(client, prompt=prompt, n_predict=n, ignore_eos=True) for n in (1, 5))
    told = first["timings"]
    assert told["cache_n"] + told["prompt_n"] == first["tokens_evaluated"] == len(prompt) + 1
    assert told["prompt_ms"] > 0 and told["predicted_n"] == 1
    assert told["predicted_per_second"] == told["predicted_ms"] == 0  # one token comes from reading
    told = again["timings"]
    assert told["cache_n"] == again["tokens_cached"] > 0
    assert told["predicted_per_second"] == pytest.approx(4000 / told["predicted_ms"])
    assert all(value >= 0 for value in told.values())


def test_props_and_slots(client: httpx2.Client, opened: Opened) -> None:
    completion(client, prompt=PROMPT)
    told = client.get("/props", params={"model": "char"}).json()
    assert told["default_generation_settings"]["n_ctx"] == CONTEXT
    assert told["default_generation_settings"]["params"]["temperature"] == 0.9
    assert told["model_alias"] == "char" and "path" not in json.dumps(told)
    assert "join" in told["chat_template"]
    assert "<|assistant|>" in client.get("/props", params={"model": "chat"}).json()["chat_template"]
    slots = client.get("/slots", params={"model": "char"}).json()
    assert [slot["id"] for slot in slots] == list(range(told["total_slots"]))
    assert {(slot["model"], slot["n_ctx"], slot["is_processing"]) for slot in slots} == {
        ("char", CONTEXT, False)
    }
    assert {slot["model"] for slot in client.get("/slots").json()} >= {"char", "chat"}
    for path, status in (("/props", 400), ("/props?model=none", 404)):
        answer = client.get(path)
        assert answer.status_code == status
        ErrorAnswer.model_validate_json(answer.content)


def test_a_conversation_as_it_is_read(client: httpx2.Client, opened: Opened) -> None:
    for name, text in (
        ("chat", "<|system|>a big<|end|><|user|>the tree<|end|><|assistant|>"),
        ("char", "a big\nthe tree".replace("\n", " ")),
    ):
        turns = TURNS if name == "chat" else [{"role": "user", "content": "a big the tree"}]
        assert asked(client, "/apply-template", model=name, messages=turns)["prompt"] == text
        length = asked(client, "/v1/chat/completions/input_tokens", model=name, messages=turns)[
            "input_tokens"
        ]
        chat = asked(client, "/v1/chat/completions", model=name, messages=turns, seed=1)
        assert chat["usage"]["prompt_tokens"] == length
    closed = asked(client, "/apply-template", model="chat", messages=TURNS, add_generation_prompt=False)
    assert closed["prompt"].endswith("the tree<|end|>")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": []}, "prompt"),
        ({"prompt": [[]]}, "prompt"),
        ({"prompt": PROMPT * 20}, "prompt"),
        ({"prompt": [10**9]}, "prompt"),
        ({"prompt": {"prompt_string": "a", "multimodal_data": ["x"]}}, "prompt"),
        ({"prompt": [["QUARTZ", 1]]}, "prompt"),
        ({"n_predict": -2}, "n_predict"),
        ({"n_cmpl": 65}, "n_cmpl"),
        ({"seed": -2}, "seed"),
        ({"n_probs": 101}, "n_probs"),
        ({"post_sampling_probs": True}, "post_sampling_probs"),
        ({"grammar": "root ::= [a]"}, "grammar"),
        ({"logit_bias": [[1, True]]}, "logit_bias"),
        ({"logit_bias": [[10**6, 1]]}, "logit_bias"),
        ({"logit_bias": [["Q", 1]]}, "logit_bias"),
        ({"n_discard": -1, "n_keep": -5, "prompt": 3}, "prompt"),
    ],
    ids=lambda one: str(one)[:40],
)
def test_what_cannot_be_is_refused_by_name(client: httpx2.Client, fields: dict[str, Any], param: str) -> None:
    answer = client.post("/completion", json={"model": "char", "prompt": PROMPT, **fields})
    assert answer.status_code == 400, answer.text
    assert ErrorAnswer.model_validate_json(answer.content).error.param == param


def test_fields_that_are_not_known_are_listed(client: httpx2.Client) -> None:
    found = completion(client, prompt=PROMPT, mirostat=2, cache_prompt=True, id_slot=0)
    assert found["octavo"]["ignored"] == ["cache_prompt", "id_slot", "mirostat"]


def test_paths_with_and_without_the_prefix(client: httpx2.Client) -> None:
    for path in ("/health", "/v1/health", "/models", "/v1/models", "/v1/slots"):
        assert client.get(path).status_code == 200
