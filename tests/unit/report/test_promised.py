"""The promise on a run's page: beside what came out, or without it; damaged manifests have none."""

from __future__ import annotations

from typing import Any

import pytest

from octavo.report.promised import of_promise

AUTO = {
    "promise": {"minutes": 5, "bits": 2.21, "within": 0.04, "parameters": 800_000, "steps": 1500},
    "reasons": {"model": "It fits."},
}


def test_before_anybody_looked() -> None:
    found = of_promise({"auto": AUTO})
    assert "Promised for 5 minutes: 2.21 ± 0.04" in found["promise"] and "Came out" not in found["promise"]
    assert found["reasons"] == {"model": "It fits."}


@pytest.mark.parametrize(
    ("bits", "said"),
    [(2.24, ", as"), (2.18, ", as"), (2.26, ", worse than"), (2.10, ", better than")],
)
def test_beside_what_came_out(bits: float, said: str) -> None:
    looks = [{"bits_per_byte": bits}, {"bits_per_byte": 9.0}]
    sentence = of_promise({"auto": AUTO, "test_looks": looks})["promise"]
    assert f"{bits:.3f} on the test split" in sentence, "the first look counts"
    assert sentence.endswith(f"{said} promised.")


def test_no_promise_goes_below_nothing() -> None:
    wide = {**AUTO, "promise": {**AUTO["promise"], "bits": 0.39, "within": 0.67}}
    assert "Promised for 5 minutes: 0.39 (0 to 1.06) bits" in of_promise({"auto": wide})["promise"]


@pytest.mark.parametrize(
    "auto", [None, 5, {}, {"promise": {}}, {**AUTO, "promise": {**AUTO["promise"], "bits": float("nan")}}]
)
def test_a_run_without_a_promise(auto: Any) -> None:
    assert of_promise({"auto": auto})["promise"] is None
