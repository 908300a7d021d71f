"""What the server says of itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
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


@pytest.mark.parametrize("path", [path for path, told in PATHS.items() if told.asked is not None])
def test_every_number_and_list_has_bounds(path: str) -> None:
    schemas = document()["components"]["schemas"]
    found = set(unbounded(schemas, PATHS[path].asked.__name__))  # pyrefly: ignore
    assert not found, "a body's bound is not enough"


def unbounded(schemas: Any, name: str) -> Iterator[str]:
    """Numbers without a least and a most, and lists and objects without a most, in a request's schema."""

    def walk(node: Any, place: str) -> Iterator[str]:
        if isinstance(node, list):
            for one in node:
                yield from walk(one, place)
        if not isinstance(node, dict):
            return
        kind = node.get("type")
        if kind in ("integer", "number") and not (
            node.keys() & {"minimum", "exclusiveMinimum"} and node.keys() & {"maximum", "exclusiveMaximum"}
        ):
            yield f"{place}: {kind}"
        if kind == "array" and "maxItems" not in node:
            yield f"{place}: list"
        if (
            kind == "object"
            and isinstance(node.get("additionalProperties"), dict)
            and "maxProperties" not in node
        ):
            yield f"{place}: object"
        if reference := node.get("$ref"):
            yield from unbounded(schemas, reference.rpartition("/")[2])
        for key, one in node.items():
            if key == "properties":
                for field, each in one.items():
                    yield from walk(each, f"{place}.{field}")
            elif key not in ("default", "enum", "const"):
                yield from walk(one, place)

    yield from walk(schemas[name], name)
