"""A folder of somebody's work, its page at a port of this machine, and a real browser that looks at it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")

from octavo.browser.app import application
from octavo.browser.guard import Tickets
from octavo.browser.work import Work
from octavo.serving.http import Drained, listening, serve
from octavo.serving.service import Limits, Service
from unit.explain.conftest import browser  # noqa: F401 — a fixture

TOKEN = "a-token-that-only-tests-know-and-nobody-else"
READY = ".oo[data-ready=yes]"


class Window:
    """The page of a folder, while its server runs."""

    def __init__(self, folder: Path, port: int, app: Any) -> None:
        self.folder, self.port, self.app = folder, port, app
        self.origin = f"http://127.0.0.1:{port}"

    @property
    def address(self) -> str:
        return f"{self.origin}/?token={TOKEN}"

    def client(self, **headers: str) -> httpx2.Client:
        """One with what the page itself sends."""
        told = {"authorization": f"Bearer {TOKEN}", "origin": self.origin, **headers}
        return httpx2.Client(base_url=self.origin, headers=told, timeout=60, trust_env=False)

    def things(self, client: httpx2.Client) -> dict[str, Any]:
        """All that the page lists."""
        with client.stream("GET", "/api/events") as answer:
            for line in answer.iter_lines():
                return json.loads(line.removeprefix("data: "))
        raise AssertionError("nothing came")


@contextmanager
def opened(folder: Path, port: int = 0, **options: Any) -> Iterator[Window]:
    """The page of a folder, until the context ends."""
    sock = listening("127.0.0.1", port)
    ready: list[Drained] = []
    listens = threading.Event()

    def note(server: Drained) -> None:
        ready.append(server)
        listens.set()

    apps: list[Any] = []

    def build(service: Service) -> Any:
        apps.append(application(service, work=Work.open(folder), token=TOKEN, tickets=Tickets(), **options))
        return apps[0]

    how: dict[str, Any] = {"memory": 2**30, "limits": Limits(), "slots": 4, "seconds": 5.0, "ready": note}
    thread = threading.Thread(target=serve, args=([], sock, build), kwargs=how)
    thread.start()
    assert listens.wait(60)
    try:
        yield Window(folder, sock.getsockname()[1], apps[0])
    finally:
        ready[0].stop()
        thread.join(60)
        assert not thread.is_alive()


def write_run(folder: Path, *, steps: int = 20, seed: int = 0, config: bool = True) -> Path:
    """A run folder as one that is training leaves it, without a model."""
    folder.mkdir(parents=True)
    if config:
        (folder / "config.yaml").write_text(
            "description: made up\ntraining:\n  steps: 100\n", encoding="utf-8"
        )
    rows = [
        {"event": "train", "step": step, "loss": 3 + seed - step / 100, "learning_rate": 0.1, "tokens": step * 10,
         "tokens_per_second": 5.0, "seconds": step * 0.5}
        for step in range(1, steps + 1)
    ]  # fmt: skip
    rows.append({"event": "validation", "step": steps, "loss": 2.5, "bits_per_byte": 3.5, "best": True})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


def until(page: Any, true: str, seconds: float = 300) -> None:
    """Wait for a JavaScript expression to be true. (Playwright's own way is forbidden by the page's policy.)"""
    for _ in range(int(seconds * 10)):
        if page.evaluate(true):
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"it never came: {true}")


class Shown:
    """A page in a browser, with what it complained of and what it asked others for."""

    def __init__(self, page: Any, origin: str) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.elsewhere: list[str] = []
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on(
            "request",
            lambda request: (
                self.elsewhere.append(request.url)
                if not request.url.startswith((origin, "data:", "blob:"))
                else None
            ),
        )


@pytest.fixture
def show(browser: Any) -> Iterator[Callable[..., Shown]]:  # noqa: F811
    """Opens the page of a folder at a view, such as watch?logy=1."""
    contexts = []

    def showing(window: Window, view: str = "start", **options: Any) -> Shown:
        context = browser.new_context(**{"locale": "en-US", "reduced_motion": "reduce", **options})
        contexts.append(context)
        shown = Shown(context.new_page(), window.origin)
        shown.page.goto(f"{window.address}#{view}")
        shown.page.wait_for_selector(READY, timeout=90_000)
        return shown

    yield showing
    for context in contexts:
        context.close()
