"""What the page is told of each token, and that all of it is what the model says."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator
from typing import Any

import httpx2
import numpy as np
import pytest
import torch

from octavo.run.run import Run
from octavo.tokenizers.base import with_special
from octavo.tokenizers.chat import CHAT_TOKENS
from unit.browser.conftest import Window, opened, write_run
from unit.serving.conftest import KNESER_NEY, saved, tokenizer_of


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Window]:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("work")
    saved(folder / "runs" / "char", tokenizer_of("char"))
    saved(folder / "runs" / "bytes", tokenizer_of("byte"))
    saved(folder / "runs" / "chat", with_special(tokenizer_of("char"), CHAT_TOKENS))
    saved(folder / "runs" / "counts", tokenizer_of("char"), counts=KNESER_NEY)
    write_run(folder / "runs" / "young")
    with opened(folder) as window:
        yield window


@pytest.fixture(scope="module")
def client(window: Window) -> Iterator[httpx2.Client]:
    with window.client() as client:
        yield client


def written(client: httpx2.Client, **asked: Any) -> tuple[list[Any], list[Any], dict[str, Any]]:
    """The prompt's tokens, those that were written, and what is told at the end."""
    prompt: list[Any] = []
    tokens: list[Any] = []
    last: dict[str, Any] = {}
    with client.stream("POST", "/api/write", json={"model": "runs/char", "seed": 1, **asked}) as answer:
        assert answer.status_code == 200, answer.read()
        for line in answer.iter_lines():
            data = line.removeprefix("data: ")
            if data and data != "[DONE]":
                told = json.loads(data)
                assert "error" not in told, told
                prompt += told.get("prompt", [])
                tokens += told.get("tokens", [])
                last = {**last, **told}
    return prompt, tokens, last


def text(rows: list[Any]) -> str:
    return "".join(row[1] for row in rows)


@pytest.mark.parametrize("name", ["char", "bytes", "counts"])
def test_a_text_is_that_of_octavo_generate(window: Window, client: httpx2.Client, name: str) -> None:
    run = Run.open(window.folder / "runs" / name)
    prompt, tokens, last = written(client, model=f"runs/{name}", prompt="the", tokens=30, seed=7)
    assert text(prompt) == "the" and text(tokens) == run.generate("the", tokens=30, seed=7).removeprefix(
        "the"
    )
    assert last["seed"] == 7 and last["end"] in ("length", "end")
    ids = torch.tensor([[row[0] for row in (*prompt, *tokens)]])
    with torch.no_grad():
        logs = run.model(ids[:, : run.model.context])[0].log_softmax(-1)
    for place, (id, _, log, best) in enumerate((*prompt, *tokens)[1 : run.model.context], 1):
        assert log == pytest.approx(float(logs[place - 1, id]), abs=2e-3)
        wanted = logs[place - 1].topk(len(best))
        assert [log for _, _, log in best] == pytest.approx(wanted.values.tolist(), abs=2e-3)
        assert len({other for other, _, _ in best}) == len(best) == 12


def test_a_branch_goes_on_from_ids(client: httpx2.Client) -> None:
    prompt, tokens, _ = written(client, prompt="the small", tokens=10)
    ids = [row[0] for row in (*prompt, *tokens[:4])]
    other = next(id for id, _, _ in tokens[4][3] if id != tokens[4][0])
    again, more, _ = written(client, prompt=[*ids, other], tokens=6)
    assert [row[0] for row in again] == [*ids, other] and len(more) == 6
    assert written(client, prompt=[*ids, other], tokens=6)[1] == more  # so an address can hold it


def test_who_predicted_each_token(client: httpx2.Client) -> None:
    prompt, tokens, last = written(client, model="runs/counts", prompt="the small", tokens=20)
    shares, first = last["shares"], last["first"]
    assert first + len(shares) == len(prompt) + len(tokens)
    for (_, _, log, _), (network, *both) in zip((*prompt, *tokens)[first:], shares, strict=True):
        assert 0 <= network <= 1
        mixed = network * math.exp(both[0]) + (1 - network) * math.exp(both[1])
        assert mixed == pytest.approx(math.exp(log), abs=0.02)
    assert "shares" not in written(client, prompt="the", tokens=3)[2]


def test_what_comes_next_is_all_of_it(window: Window, client: httpx2.Client) -> None:
    found = client.post("/api/next", json={"model": "runs/char", "prompt": "the s"}).json()
    logs = np.frombuffer(base64.b64decode(found["logs"]), "<f4")
    run = Run.open(window.folder / "runs" / "char")
    engine_ids = [row[0] for row in written(client, prompt="the s", tokens=1)[0]]
    with torch.no_grad():
        wanted = run.model(torch.tensor([engine_ids]))[0, -1].log_softmax(-1).numpy()
    assert np.abs(logs - wanted).max() < 1e-3 and np.exp(logs).sum() == pytest.approx(1, abs=1e-4)
    names = dict(map(tuple, found["names"]))
    assert names[int(logs.argmax())] == run.tokenizer.decode([int(logs.argmax())])


def test_what_a_model_is(client: httpx2.Client) -> None:
    def told(name: str) -> dict[str, Any]:
        return client.post("/api/model", json={"model": name}).json()

    assert told("runs/char")["writes"] and not told("runs/char")["chats"] and not told("runs/char")["counts"]
    assert told("runs/chat")["chats"] and told("runs/counts")["counts"] and told("runs/char@3")["step"] == 3


@pytest.mark.parametrize(
    ("path", "asked", "status"),
    [
        ("model", {"model": "runs/none"}, 404),
        ("model", {"model": "runs/young"}, 404),
        ("model", {"model": "runs/char@99"}, 404),
        ("model", {"model": "../char"}, 404),
        ("model", {}, 400),
        ("write", {"model": "runs/char", "prompt": [99999]}, 400),
        ("write", {"model": "runs/char", "prompt": "the", "tokens": 10**6}, 400),
        ("write", {"model": "runs/char", "prompt": "the", "best": 10**6}, 400),
        ("write", {"model": "runs/char", "prompt": "the", "temperature": -1}, 400),
        ("write", {"model": "runs/char", "prompt": "日"}, 400),
        ("next", {"model": "runs/char", "prompt": "x" * 2**20}, 400),
        ("translate", {"model": "runs/char", "source": "the"}, 400),
        ("judge", {"kind": "thumb", "model": "runs/char", "prompt": "a", "answer": "b", "good": 5}, 400),
    ],
)
def test_what_cannot_be(window: Window, client: httpx2.Client, path: str, asked: Any, status: int) -> None:
    answer = client.post(f"/api/{path}", json=asked)
    assert answer.status_code in (status, 413) and answer.json()["error"]["message"]
    assert str(window.folder) not in answer.text


def test_a_judgement_is_kept(window: Window, client: httpx2.Client) -> None:
    told = {"kind": "choice", "model": "runs/char", "prompt": "a", "chosen": "b", "rejected": "c"}
    assert client.post("/api/judge", json=told).json()["pairs"] == 1
    assert client.post("/api/judged", json={"model": "runs/char"}).json()["choices"] == 1
    assert json.loads((window.folder / "preferences" / "runs-char.jsonl").read_text()) == {
        "prompt": "a",
        "chosen": "b",
        "rejected": "c",
    }
