"""What the server says of itself."""

from __future__ import annotations

import re
from typing import Any

import httpx2
import pytest

from octavo.serving.metrics import BUCKETS, Histogram
from octavo.serving.openapi import PATHS, document
from octavo.serving.schemas import Health, ModelCard, ModelList


def test_models_are_listed_with_their_steps(client: httpx2.Client) -> None:
    listed = ModelList.model_validate_json(client.get("/v1/models").content)
    assert [card.id for card in listed.data] == ["bytes", "char", "chat", "counts"]
    assert {(card.octavo.task, card.octavo.step, *card.octavo.steps) for card in listed.data} == {
        ("text", 3, 3)
    }
    for name, status in (("char", 200), ("char@3", 200), ("char@last", 200), ("char@4", 404), ("none", 404)):
        answer = client.get(f"/v1/models/{name}")
        assert answer.status_code == status
        if status == 200:
            assert ModelCard.model_validate_json(answer.content).id == name


def test_health(client: httpx2.Client) -> None:
    assert Health.model_validate_json(client.get("/health").content).status == "ok"
    assert client.head("/health").status_code == 200


def test_metrics_are_what_prometheus_reads(client: httpx2.Client) -> None:
    def figures() -> dict[str, float]:
        answer = client.get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        lines = [line for line in answer.text.splitlines() if not line.startswith("# ")]
        assert all(
            re.fullmatch(r'octavo_\w+(\{\w+="[^"]*"(,\w+="[^"]*")*\})? [-+.e\d]+', line) for line in lines
        )
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    how = {"model": "char", "prompt": "the", "max_tokens": 7, "logit_bias": {}, "seed": 1, "n": 2}
    client.post("/v1/completions", json=how)
    before = figures()
    answer = client.post("/v1/completions", json=how).json()
    client.post("/v1/completions", json={**how, "stream": True})
    after = figures()

    def more(name: str) -> float:
        return after[name] - before[name]

    assert more("octavo_tokens_total") == 2 * answer["usage"]["completion_tokens"]
    assert more("octavo_prompt_tokens_total") + more("octavo_prompt_tokens_shared_total") == 2 * 2 * 4
    assert more('octavo_requests_total{path="/v1/completions",status="200"}') == 2
    assert more("octavo_text_seconds_count") == 2
    assert after["octavo_queue"] == after["octavo_slots_in_use"] == 0
    assert after["octavo_models_loaded"] >= 1 and after["octavo_models_bytes"] > 0


def test_a_histogram_counts_what_is_below_each_bound() -> None:
    histogram = Histogram()
    for seconds in (0.001, BUCKETS[0], 0.3, 1e6):
        histogram.add(seconds)
    told = dict(line.rsplit(" ", 1) for line in histogram.lines("x"))
    assert told[f'x_bucket{{le="{BUCKETS[0]}"}}'] == "2"
    assert told['x_bucket{le="60.0"}'] == "3" and told['x_bucket{le="+Inf"}'] == told["x_count"] == "4"


def references(node: Any) -> set[str]:
    if isinstance(node, dict):
        own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
        return own.union(*map(references, node.values()))
    return set().union(*map(references, node)) if isinstance(node, list) else set()


def test_the_document_is_whole(client: httpx2.Client) -> None:
    told = client.get("/openapi.json").json()
    assert told == document() and told["openapi"] == "3.2.0"
    assert set(told["paths"]) == {path.replace(":path", "") for path in PATHS}
    schemas = {f"#/components/schemas/{name}" for name in told["components"]["schemas"]}
    assert references(told) <= schemas
    operations = [one for path in told["paths"].values() for one in path.values()]
    assert len({one["operationId"] for one in operations}) == len(operations)


@pytest.mark.parametrize("field", ["seed", "n", "max_tokens", "logprobs", "best_of", "top_k"])
def test_every_whole_number_has_bounds(field: str) -> None:
    told = document()["components"]["schemas"]["CompletionRequest"]["properties"][field]
    (number,) = [one for one in told.get("anyOf", [told]) if one.get("type") == "integer"]
    assert number.keys() & {"minimum", "exclusiveMinimum"} and number.keys() & {"maximum", "exclusiveMaximum"}
