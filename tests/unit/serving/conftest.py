"""Runs that nobody trained, and a server of them at a port of this machine."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import httpx2
import pytest
import torch

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")

from guards.common import ROOT
from octavo.config import load_recipe
from octavo.config.parts import parts
from octavo.model.base import build_model
from octavo.run.run import Run
from octavo.run.saved import save_run
from octavo.serving import call
from octavo.serving.app import application
from octavo.serving.http import Drained, listening, serve
from octavo.serving.models import places_of
from octavo.serving.openapi import PATHS
from octavo.serving.schemas import ErrorAnswer
from octavo.serving.service import Limits
from octavo.tokenizers import Tokenizer
from octavo.tokenizers.base import with_special
from octavo.tokenizers.chat import CHAT_TOKENS
from octavo.training.checkpoint import model_tensors
from unit.model import preferences

TEXT = "the small bird sees a big tree."
CONTEXT = 40
KNESER_NEY = {"kind": "kneser-ney", "orders": 3, "hidden": 4}


def tokenizer_of(kind: str) -> Tokenizer:
    return parts("tokenizer")[kind]().build(lambda: iter([TEXT]), documents=True)


def saved(
    folder: Path,
    tokenizer: Tokenizer,
    *,
    step: int = 3,
    seed: int = 3,
    sampling: Mapping[str, Any] = MappingProxyType({}),
    **model: Any,
) -> Path:
    """A run of a small model with weights that say something."""
    options = {"layers": 2, "width": 16, "heads": 2, "context": CONTEXT, **model}
    recipe = load_recipe(
        {
            "tokenizer": tokenizer.kind,
            "model": options | {"initialization": {"kind": "normal", "std": 0.4}},
            "sampling": {"tokens": 12, "temperature": 0.9, **sampling},
        }
    )
    made = build_model(recipe.model, vocab_size=tokenizer.vocab_size, seed=seed).eval()
    if "counts" in model:
        made.take_text(preferences.text(400, 0, vocabulary=tokenizer.vocab_size, evenly=0.4))
    told = {"data": {"text": "", "vocab_size": tokenizer.vocab_size, "splits": {}}}
    save_run(folder, recipe, tokenizer, model_tensors(made), step=step, facts=told, log="")
    return folder


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """char, bytes, chat and counts: read them, don't write."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("runs")
    saved(folder / "char", tokenizer_of("char"))
    saved(folder / "bytes", tokenizer_of("byte"))
    saved(folder / "chat", with_special(tokenizer_of("char"), CHAT_TOKENS))
    saved(folder / "counts", tokenizer_of("char"), counts=KNESER_NEY)
    return folder


@contextmanager
def running(*paths: Path, **options: Any) -> Iterator[tuple[str, Drained]]:
    """A server in a thread, until the context ends: its address, and itself."""
    sock = listening("127.0.0.1", 0)
    ready: list[Drained] = []
    listens = threading.Event()

    def note(server: Drained) -> None:
        ready.append(server)
        listens.set()

    guarded = {name: options.pop(name) for name in ("hosts", "addresses", "key") if name in options}
    how: dict[str, Any] = {"memory": 2**30, "limits": Limits(), "seconds": 5.0, **options}
    build = partial(application, **guarded)
    thread = threading.Thread(
        target=serve, args=(places_of(paths), sock, build), kwargs={**how, "ready": note}
    )
    thread.start()
    assert listens.wait(60)
    try:
        yield f"http://127.0.0.1:{sock.getsockname()[1]}", ready[0]
    finally:
        ready[0].stop()
        thread.join(60)
        assert not thread.is_alive()


@pytest.fixture(scope="session")
def address(runs: Path) -> Iterator[str]:
    """A server of all runs."""
    with running(runs) as (address, _):
        yield address


@pytest.fixture(scope="session")
def opened(runs: Path) -> Callable[[str], Run]:
    """The same runs, opened once, for comparison."""
    known: dict[str, Run] = {}

    def run(name: str) -> Run:
        if name not in known:
            known[name] = Run.open(runs / name)
        return known[name]

    return run


@pytest.fixture(scope="session")
def client(address: str) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=address, timeout=60, trust_env=False) as client:
        yield client


def port_of(address: str) -> tuple[str, int]:
    return "127.0.0.1", int(address.rpartition(":")[2])


def connected(address: str) -> socket.socket:
    return socket.create_connection(port_of(address), timeout=30)


def asked(client: httpx2.Client, path: str = "/v1/completions", **fields: Any) -> dict[str, Any]:
    """An answer, which is of the shape that the document promises."""
    answer = client.post(path, json={"model": "char", **fields})
    assert answer.status_code == 200, answer.text
    told = PATHS[path].answer
    assert told is not None
    told.model_validate_json(answer.content)
    return answer.json()


def streamed(client: httpx2.Client, path: str = "/v1/completions", **fields: Any) -> list[dict[str, Any]]:
    """The chunks of a stream, each of the promised shape."""
    told = PATHS[path].chunk
    assert told is not None
    with client.stream("POST", path, json={"model": "char", "stream": True, **fields}) as answer:
        assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/event-stream")
        lines = [line.removeprefix("data: ") for line in answer.iter_lines() if line]
    assert lines.pop() == "[DONE]"
    for line in lines:
        told.model_validate_json(line)
    return [json.loads(line) for line in lines]


def refused(client: httpx2.Client, path: str = "/v1/completions", **fields: Any) -> dict[str, Any]:
    answer = client.post(path, json={"model": "char", **fields})
    assert answer.status_code >= 400, answer.text
    ErrorAnswer.model_validate_json(answer.content)
    return {"status": answer.status_code, **answer.json()["error"]}


def fuzzer(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """benchmarks/serve_fuzz.py, for servers that wait no longer than a moment for bodies that never come."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.setattr(call, "BODY_SECONDS", 2.0)
    return import_module("serve_fuzz")
