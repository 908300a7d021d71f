"""`octavo corpus write` as a user meets it: a corpus from nothing, sentences for mistakes, and 9 as a signal."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from e2e.asking import refused
from e2e.forked import Octavo

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))  # its server, and its trial of kills


def test_from_nothing_to_a_corpus_that_trains(octavo: Octavo) -> None:
    done = octavo("corpus", "write", "pidgin-storyteller", "--stories", "60", "--out", "told", "--json")
    assert done.code == 0, done
    assert json.loads(done.out)["report"]["stories"] == 60
    again = octavo("corpus", "write", "pidgin-storyteller", "--stories", "60", "--out", "told")
    assert again.code == 0 and "yield 100.0 %" in again.out and str(Path("told", "corpus.txt")) in again.out
    trained = octavo(
        "train", "recipe.yaml", "--text", "told/corpus.txt", "--out", "on-told", "training.steps=2"
    )
    assert trained.code == 0 and "cut into documents at the lines <|endoftext|>" in trained.err, trained


def test_the_price_is_told_and_nothing_is_made(octavo: Octavo) -> None:
    done = octavo(
        "corpus", "write", "pidgin", "--stories", "5000", "--max-usd", "0.5", "--dry-run", "--out", "dry"
    )
    assert done.code == 0 and "the cap of $0.5000 is enough for about" in done.out and "GRAMMAR" in done.out
    assert not (octavo.folder / "dry").exists()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["pidgn", "--stories", "5"], "Did you mean 'pidgin'?"),
        (["pidgin", "--stories", "5"], "--max-usd"),
        (["pidgin", "--stories", "0", "--max-usd", "1"], "stories"),
        (["pidgin", "--max-usd", "1"], "stories"),
        (["pidgin", "--stories", "5", "--max-usd", "1", "rules.words=many"], "rules.words"),
        (
            ["pidgin", "--stories", "5", "--max-usd", "1", "writers.model.key_env=NOT_SET_HERE"],
            "NOT_SET_HERE",
        ),
        (
            ["pidgin", "--stories", "5", "--max-usd", "1", "writers.model.base_url=http://api.example/v1"],
            "without encryption",
        ),
        (
            ["pidgin", "--stories", "5", "--max-usd", "1", "--off-peak", "at night"],
            "10:00-18:30@America/Denver",
        ),
        (["pidgin-storyteller", "--stories", "5", "prompt=nothing"], "no prompt 'nothing'"),
        (["pidgin-storyteller", "--stories", "5", "--compare", "compare=[pidgin]"], "at least two prompts"),
    ],
)
def test_mistakes_are_sentences(octavo: Octavo, words: list[str], expected: str) -> None:
    refused(octavo("corpus", "write", *words, "--out", "wrong"), expected)


def write_with(octavo: Octavo, out: str, url: str, *more: str) -> list[str]:
    settings = [f"writers.model.base_url={url}", "writers.model.key_env=null", *more]
    return ["corpus", "write", "pidgin", "--stories", "20", "--max-usd", "1", "--out", out, *settings]


def test_killed_at_a_429_it_rests_as_long_as_was_asked(octavo: Octavo) -> None:
    from fake_endpoint import FakeEndpoint

    with FakeEndpoint(most=0, retry_after=(1.5, 1.5), dates=0) as server:
        words = write_with(octavo, "rested", server.url, "writers.model.in_flight=4")
        child = octavo.start(*words)
        while not server.calls:
            time.sleep(0.01)
        child.signal(9)
        assert child.wait().code == -9
        told, server.most = list(server.calls), 1000
        done = octavo(*words)
        again = [call for call in server.calls if call["id"].endswith(".1")]
    assert done.code == 0, done
    assert {call["id"] for call in again} >= {call["id"].replace(".0", ".1") for call in told}
    assert server.ledger()["early"] == 0
    assert min(call["at"] for call in again) >= told[0]["at"] + 1.5


def test_killed_while_a_batch_is_under_way_nothing_is_asked_twice(octavo: Octavo) -> None:
    from fake_endpoint import FakeEndpoint

    with FakeEndpoint(seconds=1.0) as server:
        made = server.batches.made
        settings = ("writers.model.batch=true", "writers.model.poll=0.1", "writers.model.prices.batch=0.5")
        words = write_with(octavo, "batched", server.url, *settings)
        child = octavo.start(*words)
        while not made:
            time.sleep(0.01)
        child.signal(9)
        assert child.wait().code == -9
        done = octavo(*words, "--json")
    assert done.code == 0, done
    report = json.loads(done.out)["report"]
    asked = [name for batch in made.values() for name in batch["ids"]]
    assert report["stories"] == 20 == report["calls"] == len(asked) == len(set(asked))
    assert report["cost_usd"] == pytest.approx(server.billed / 10**12, rel=1e-3)


def test_killed_again_and_again_in_a_storm_of_faults() -> None:
    from corpus_write_faults import trial

    found = trial("small", stories=60, kills=1, cap=20, seed=3)
    assert found["stories"] == found["distinct_ids"] == found["distinct_texts"] == 60
    assert found["torn"] == found["early_calls"] == found["key_in_files"] == found["key_in_process_list"] == 0
    assert found["integrity"] == "ok" and not found["cap_exceeded"]
