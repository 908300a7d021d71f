"""What windows are told: everything at first, then what has changed, then what is gone."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from octavo.browser import windows
from octavo.browser.windows import Windows
from octavo.browser.work import Work
from octavo.serving.models import Models
from unit.browser.conftest import opened, write_run
from unit.serving.conftest import saved, tokenizer_of


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "TICK", 0.02)
    monkeypatch.setattr(windows, "PATIENCE", 0)


async def until(changes: Any, name: str) -> str | None:
    """What is told of a thing next."""
    async with asyncio.timeout(20):
        async for news in changes:
            if name in news:
                return news[name]
    raise AssertionError


def test_windows_see_the_same(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "one")

    async def main() -> None:
        told = Windows(Work.open(tmp_path), Models([], memory=2**20))
        first, second = told.changes(), told.changes()
        one = await until(first, "run:runs/one")
        assert one == await until(second, "run:runs/one") and json.loads(str(one))["step"] == 20
        write_run(tmp_path / "runs" / "two")
        assert await until(first, "run:runs/two") == await until(second, "run:runs/two")
        with (tmp_path / "runs/one/metrics.jsonl").open("a") as file:
            file.write('{"event": "train", "step": 21, "loss": 1.0, "tokens": 1, "learning_rate": 0.1}\n')
        assert json.loads(str(await until(first, "run:runs/one")))["step"] == 21
        shutil.rmtree(tmp_path / "runs" / "one")
        assert await until(first, "run:runs/one") is None
        assert told.open == 2
        await first.aclose()
        await second.aclose()
        assert told.open == 0

    asyncio.run(main())


def test_models_are_those_that_have_a_checkpoint(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "none")
    saved(tmp_path / "runs" / "one", tokenizer_of("char"))

    async def main() -> None:
        models = Models([], memory=2**30)
        told = Windows(Work.open(tmp_path), models)
        await told.look()
        assert list(models.places) == ["runs/one"]
        async with models.using("runs/one") as served:
            assert served.run.step == 3
        models.close()

    asyncio.run(main())


def test_who_has_left_is_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After so many reloads no window came in any more."""
    monkeypatch.setattr("octavo.browser.app.MOST_WINDOWS", 3)
    with opened(tmp_path) as window:
        for _ in range(12):
            with window.client() as client:
                assert window.things(client)["about"]["empty"]


def test_a_stream_of_news_ends_with_the_server(tmp_path: Path) -> None:
    with opened(tmp_path) as window, window.client() as client:
        assert window.things(client)["about"] == {
            "folder": str(tmp_path.resolve()),
            "runs": str(tmp_path / "runs"),
            "exports": str(tmp_path / "exports"),
            "version": window.things(client)["about"]["version"],
            "empty": True,
            "cut": False,
        }
