"""What the tests of writing share: the fake endpoint of the benchmarks, and small specs that use it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
sys.path.append(str(BENCHMARKS))  # the server is theirs

from octavo.llm_corpus.spec import WritingSpec, check_spec  # noqa: E402

PRICES = {"input": 0.28, "cached_input": 0.028, "output": 0.42}
KEY = "sk-canary-77aa"


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TEST_KEY", KEY)
    return KEY


@pytest.fixture
def fake() -> Any:
    from fake_endpoint import FakeEndpoint

    return FakeEndpoint


@pytest.fixture
def spec_for() -> Callable[..., WritingSpec]:
    def make(*urls: str, **more: Any) -> WritingSpec:
        writer = {
            "model": "fake",
            "key_env": "TEST_KEY",
            "prices": PRICES,
            "timeout": 5,
            **more.pop("writer", {}),
        }
        tree = {
            "name": "test",
            "writers": {
                f"w{i}": {"kind": "endpoint", "base_url": url, **writer} for i, url in enumerate(urls)
            },
            "diversity": {
                "character": [f"mouse {i}" for i in range(997)],
                "place": [f"hill {i}" for i in range(991)],
            },
            "rules": {"checker": "pidgin", "near_duplicates": 0, **more.pop("rules", {})},
            "backoff": 0.02,
            **more,
        }
        return check_spec(tree)

    return make
