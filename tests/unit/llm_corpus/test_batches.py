"""The batch endpoint: half the price, the same checks and cap, and nothing asked twice, wherever a session ends."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from octavo.errors import ConfigError, InputError
from octavo.llm_corpus import batches as batching
from octavo.llm_corpus.money import PICO, Prices, Tokens
from octavo.llm_corpus.session import WritingJob
from octavo.llm_corpus.spec import WritingSpec
from octavo.llm_corpus.writer import WritersGone

Make = Callable[..., WritingSpec]
PRICES = {"input": 0.28, "cached_input": 0.028, "output": 0.42, "batch": 0.5}
BATCH = {"batch": True, "poll": 0.02, "prices": PRICES, "in_flight": 1000}


def job(spec_for: Make, url: str, out: Path, stories: int = 30, **more: Any) -> WritingJob:
    return WritingJob(spec_for(url, writer={**BATCH, **more}), out, stories=stories, max_usd=2)


def asked(server: Any) -> Counter[str]:
    return Counter(name for batch in server.batches.made.values() for name in batch["ids"])


def outcomes(out: Path) -> dict[str, int]:
    with sqlite3.connect(out / "stories.sqlite") as con:
        return dict(con.execute("SELECT outcome, count(*) FROM calls GROUP BY outcome").fetchall())


def test_a_batch_is_written_at_half_the_price(tmp_path: Path, fake: Any, spec_for: Make, key: str) -> None:
    with fake(key=key, seconds=0.1) as server:
        result = job(spec_for, server.url, tmp_path).run()
        (made,) = server.batches.made.values()
        request = made["lines"][0]
    assert result["stories"] == 30 == len(made["ids"]) and result["report"]["yield"] == 1
    assert request["method"] == "POST" and request["url"] == "/v1/chat/completions"
    assert request["body"]["messages"][0]["role"] == "system" and "stream" not in request["body"]
    assert result["spent_usd"] * PICO == pytest.approx(server.billed, abs=2 * 30)
    full, half = Prices.model_validate(PRICES), Prices.model_validate(PRICES).in_batches()
    assert half.cost(Tokens(1000, 500, 200)) * 2 == full.cost(Tokens(1000, 500, 200))


def test_the_estimate_knows_the_price_of_a_batch(tmp_path: Path, spec_for: Make) -> None:
    whole = job(spec_for, "https://x/v1", tmp_path / "a", batch=False).estimate().usd
    half = job(spec_for, "https://x/v1", tmp_path / "b").estimate().usd
    assert whole and half == pytest.approx(whole / 2, rel=1e-3)


def test_what_failed_in_a_batch_is_asked_again(tmp_path: Path, fake: Any, spec_for: Make, key: str) -> None:
    kinds = ("429", "500", "timeout", "cut", "wrong_json", "empty", "html", "length", "bad_story")
    with fake(key=key, faults=dict.fromkeys(kinds, 0.05), seed=3) as server:
        result = job(spec_for, server.url, tmp_path, 60).run()
        whole = {call["text"] for call in server.calls if call["fault"] in ("", "length")}
        ledger, twice = server.ledger(), [name for name, count in asked(server).items() if count > 1]
    records = [json.loads(line) for line in (tmp_path / "corpus.jsonl").read_text("utf-8").splitlines()]
    assert len({record["id"] for record in records}) == 60 and {r["text"] for r in records} <= whole
    assert len(server.batches.made) > 1 and twice == []
    assert set(kinds) <= ledger["faults"].keys()
    assert ledger["billed"] <= result["spent_usd"] * PICO + 1 and result["spent_usd"] <= 2
    found = outcomes(tmp_path)
    assert found["cut"] == ledger["faults"]["cut"] and found["timeout"] == ledger["faults"]["timeout"]


def test_the_cap_is_kept_before_a_batch_is_sent(tmp_path: Path, fake: Any, spec_for: Make, key: str) -> None:
    with fake(key=key, faults={"cut": 0.2}) as server:
        spec = spec_for(server.url, writer=BATCH)
        result = WritingJob(spec, tmp_path, stories=500, max_usd=0.02).run()
        first = next(iter(server.batches.made.values()))
    assert result["ended"] == "budget" and 0 < len(first["ids"]) < 500
    assert server.billed <= result["spent_usd"] * PICO + 1 <= 0.02 * PICO + 1


def test_a_session_that_ends_leaves_its_batch_to_the_next(
    tmp_path: Path, fake: Any, spec_for: Make, key: str
) -> None:
    with fake(key=key, seconds=1.0) as server:
        made = server.batches.made
        first = job(spec_for, server.url, tmp_path).run(stop=lambda: bool(made))
        assert first["ended"] == "stopped" and first["stories"] == 0 and outcomes(tmp_path) == {"sent": 30}
        second = job(spec_for, server.url, tmp_path).run()
        assert second["stories"] == 30 and len(made) == 1
    assert outcomes(tmp_path) == {"accepted": 30}
    assert second["spent_usd"] == pytest.approx(server.billed / PICO, rel=1e-3)


def test_a_batch_whose_name_was_never_heard_is_found_by_its_token(
    tmp_path: Path, fake: Any, spec_for: Make, key: str
) -> None:
    with fake(key=key, seconds=0.5) as server:
        batches = server.batches
        batches.script = ["", "forget"]  # the upload is well, the batch is made in silence
        job(spec_for, server.url, tmp_path).run(stop=lambda: bool(batches.made))
        with sqlite3.connect(tmp_path / "stories.sqlite") as con:
            con.execute("UPDATE batches SET remote = NULL")  # as after a death at that moment
        con.close()
        others = [{**next(iter(batches.made.values())), "metadata": {"octavo": str(i)}} for i in range(5)]
        batches.made |= {f"other-{i}": one for i, one in enumerate(others)}  # it is not on the first page
        result = job(spec_for, server.url, tmp_path).run()
    assert result["stories"] == 30 and len(batches.made) == 6 and outcomes(tmp_path) == {"accepted": 30}


def test_a_batch_that_was_taken_in_silence_is_not_made_twice(
    tmp_path: Path, fake: Any, spec_for: Make, key: str
) -> None:
    with fake(key=key) as server:
        server.batches.script = ["500", "429", "", "429", "forget", "500"]  # uploads, batch, batch, look
        result = job(spec_for, server.url, tmp_path).run()
        assert result["stories"] == 30 and len(server.batches.made) == 1
        assert max(asked(server).values()) == 1


def test_what_was_only_collected_costs_nothing(
    tmp_path: Path, fake: Any, spec_for: Make, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batching, "COLLECT", 60.0)
    ticks: list[int] = []
    with fake(key=key) as server:
        one = job(spec_for, server.url, tmp_path)
        one.run(tell=lambda progress: ticks.append(progress.in_flight), stop=lambda: len(ticks) > 2)
        assert outcomes(tmp_path) == {"waiting": 30} and server.batches.made == {}
        monkeypatch.setattr(batching, "COLLECT", 0.1)
        result = job(spec_for, server.url, tmp_path).run()
    assert outcomes(tmp_path) == {"accepted": 30, "lost": 30}
    assert result["spent_usd"] == pytest.approx(server.billed / PICO, rel=1e-3)


def test_a_batch_that_nobody_knows_any_more_counts_in_full(
    tmp_path: Path, fake: Any, spec_for: Make, key: str
) -> None:
    with fake(key=key, seconds=5.0) as server:
        made = server.batches.made
        job(spec_for, server.url, tmp_path).run(stop=lambda: bool(made))
        made.clear()
        server.seconds = 0.0
        result = job(spec_for, server.url, tmp_path).run()
    assert outcomes(tmp_path) == {"accepted": 30, "cut": 30}
    assert result["spent_usd"] * PICO > 2 * server.billed


def test_a_wrong_key_does_not_lose_a_batch(
    tmp_path: Path, fake: Any, spec_for: Make, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fake(key=key, seconds=0.5) as server:
        job(spec_for, server.url, tmp_path).run(stop=lambda: bool(server.batches.made))
        monkeypatch.setenv("TEST_KEY", "sk-another")
        with pytest.raises(InputError, match="HTTP 401"):
            job(spec_for, server.url, tmp_path).run()
        assert outcomes(tmp_path) == {"sent": 30}
        monkeypatch.setenv("TEST_KEY", key)
        assert job(spec_for, server.url, tmp_path).run()["stories"] == 30
        assert len(server.batches.made) == 1


def test_a_batch_that_is_refused_ends_it_with_the_reason(
    tmp_path: Path, fake: Any, spec_for: Make, key: str
) -> None:
    with fake(key=key) as server, pytest.raises(WritersGone, match="no such model"):
        server.batches.status = "failed"
        job(spec_for, server.url, tmp_path).run()
    assert outcomes(tmp_path) == {"refused": 30}


def test_a_large_batch_is_cut_into_several(
    tmp_path: Path, fake: Any, spec_for: Make, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batching, "REQUESTS", 12)
    with fake(key=key) as server:
        assert job(spec_for, server.url, tmp_path).run()["stories"] == 30
        assert sorted(len(batch["ids"]) for batch in server.batches.made.values()) == [6, 12, 12]


def test_a_stream_in_a_batch_is_refused(spec_for: Make) -> None:
    with pytest.raises(ConfigError, match="not streamed"):
        spec_for("https://x/v1", writer={"batch": True, "stream": True})
