"""octavo serve as a user starts it: the port, the words, the signal; and the client that everybody has."""

from __future__ import annotations

import json
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from e2e.forked import Command, Octavo, until

pytest.importorskip("uvicorn")


@contextmanager
def served(octavo: Octavo, *arguments: object, **options: Any) -> Iterator[tuple[str, Command]]:
    """A server, until the context ends: its address."""
    command = octavo.start("serve", *arguments, "--port", "0", **options)
    out = command.files[1]
    until(lambda: "serving at" in out.read_text() if out.exists() else False)
    address = re.search(r"serving at (http://\S+)/v1", out.read_text())
    assert address
    try:
        yield address[1], command
    finally:
        command.signal(signal.SIGTERM)
        assert command.wait().code == 0


def written(octavo: Octavo, run: Path, prompt: str = "", **options: object) -> str:
    """What `octavo generate` prints, without the prompt."""
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    return octavo("generate", run, "--prompt", prompt, *words).out.removesuffix("\n").removeprefix(prompt)


@pytest.fixture(scope="module")
def address(octavo: Octavo, finished: Path) -> Iterator[str]:
    with served(octavo, finished) as (address, _):
        yield address


def test_a_user_asks_what_the_last_line_says(octavo: Octavo, finished: Path, address: str) -> None:
    asked = {"model": "finished", "prompt": "", "seed": 0}
    answer = httpx2.post(f"{address}/v1/completions", json=asked, timeout=60, trust_env=False)
    assert answer.json()["choices"][0]["text"] == written(octavo, finished, seed=0)


def test_a_signal_ends_it_when_what_is_under_way_is_finished(octavo: Octavo, finished: Path) -> None:
    asked = {"prompt": "the", "seed": 1, "max_tokens": 400, "stream": True}
    with (
        served(octavo, finished) as (address, command),
        httpx2.Client(trust_env=False, timeout=60) as client,
        client.stream("POST", f"{address}/v1/completions", json=asked) as answer,
    ):
        lines = answer.iter_lines()
        first = next(lines)
        command.signal(signal.SIGTERM)
        told = [line.removeprefix("data: ") for line in (first, *lines) if line]
    assert told.pop() == "[DONE]"
    text = "".join(choice["text"] for line in told for choice in json.loads(line)["choices"])
    assert text == written(octavo, finished, "the", seed=1, tokens=400)


def test_checkpoints_and_folders_of_runs(octavo: Octavo, finished: Path) -> None:
    with served(octavo, finished.parent) as (address, _):
        card = httpx2.get(f"{address}/v1/models/finished", trust_env=False).json()
        steps = card["octavo"]["steps"]
        assert len(steps) > 1 and card["octavo"]["finished"]
        for step in steps[-2:]:
            asked = {"model": f"finished@{step}", "prompt": "the", "seed": 0}
            answer = httpx2.post(f"{address}/v1/completions", json=asked, timeout=60, trust_env=False).json()
            assert answer["choices"][0]["text"] == written(octavo, finished, "the", seed=0, checkpoint=step)


def test_what_cannot_be_served_is_a_sentence(octavo: Octavo, finished: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        wrong: list[tuple[tuple[object, ...], str]] = [
            ((finished, "--port", port), str(port)),
            (("nothing",), "nothing"),
            ((finished, "--host", "0.0.0.0"), "OCTAVO_SERVE_KEY"),
            ((finished, "--host", "no.such.host.invalid"), "OCTAVO_SERVE_KEY"),
            ((finished, finished), "finished"),
            ((finished, "--port", "70000"), "70000"),
            ((finished, "--slots", "0"), "slots"),
        ]
        for arguments, named in wrong:
            done = octavo("serve", *arguments)
            assert done.code == 2 and named in done.err and "Traceback" not in done.err, done.err


def test_without_the_extra_its_name_is_said(octavo: Octavo, finished: Path) -> None:
    done = octavo("serve", finished, patch="without_a_server")
    assert done.code == 1 and "octavo[serve]" in done.err and "Traceback" not in done.err


# The client that everybody has


@pytest.fixture
def client(address: str) -> Iterator[Any]:
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0, timeout=60) as client:
        yield client


def test_the_client_reads_models(client: Any) -> None:
    assert [model.id for model in client.models.list()] == ["finished"]
    assert client.models.retrieve("finished@last").object == "model"


def test_the_client_reads_completions(client: Any, octavo: Octavo, finished: Path) -> None:
    how: dict[str, Any] = {"model": "finished", "prompt": "the", "seed": 3, "max_tokens": 12}
    expected = written(octavo, finished, "the", seed=3, tokens=12)
    whole = client.completions.create(**how, logprobs=2, echo=True, n=2)
    assert whole.choices[0].text == "the" + expected
    assert "".join(whole.choices[0].logprobs.tokens) == whole.choices[0].text
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
    chunks = list(client.completions.create(**how, stream=True, stream_options={"include_usage": True}))
    assert "".join(chunk.choices[0].text for chunk in chunks if chunk.choices) == expected
    assert chunks[-1].usage.completion_tokens == 12


def test_the_client_reads_conversations(client: Any) -> None:
    how: dict[str, Any] = {"model": "finished", "messages": [{"role": "user", "content": "the"}], "seed": 3}
    how |= {"max_completion_tokens": 12, "logprobs": True, "top_logprobs": 2}
    whole = client.chat.completions.create(**how)
    said = whole.choices[0].message
    assert said.role == "assistant"
    assert "".join(one.token for one in whole.choices[0].logprobs.content) == said.content
    chunks = list(client.chat.completions.create(**how, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == said.content
    reasons = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices]
    assert {*reasons[:-1]} == {None} and reasons[-1] == whole.choices[0].finish_reason
    how = {**how, "logprobs": False, "top_logprobs": None, "stop": said.content[5]}
    with client.chat.completions.stream(**how) as stream:
        said = stream.get_final_completion().choices[0].message
    assert said.content == client.chat.completions.create(**how).choices[0].message.content


def test_the_client_tells_errors_apart(client: Any) -> None:
    import openai

    with pytest.raises(openai.NotFoundError):
        client.completions.create(model="none", prompt="the")
    with pytest.raises(openai.BadRequestError) as error:
        client.completions.create(model="finished", prompt="the", n=10_000)
    assert error.value.param == "n"
