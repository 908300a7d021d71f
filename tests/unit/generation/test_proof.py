"""What kernels have to prove: right ones do, and every kind of fault is found."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from octavo.generation import proof
from octavo.util.kernels import in_use, twins

pytestmark = pytest.mark.skipif(in_use().native is None, reason="there are no kernels here")


def test_the_kernels_in_use_prove_themselves() -> None:
    assert proof.prove() is None


def test_every_kernel_is_asked() -> None:
    asked = [name for name, _ in proof.answers()]
    assert len(set(asked)) == len(asked)
    for part in ("attention", "backward", "writing", "bfloat16", "int8", "counting", "said", "mixing"):
        assert any(part in name for name in asked)


@pytest.mark.parametrize(
    ("by", "fault", "complaint"),
    [
        ("kernel", 1e-3, "gives other results than torch"),
        ("kernel", np.nan, "gives other results than torch"),
        ("kernel", np.inf, "gives other results than torch"),
        ("second thread", 1e-9, "gives other results by two threads than by one"),
        ("nobody", 1.0, None),
    ],
)
def test_faults_are_found(
    monkeypatch: pytest.MonkeyPatch, by: str, fault: float, complaint: str | None
) -> None:
    """By asking three times: one thread, two, and the twins."""
    times = []

    def answers() -> Iterator[tuple[str, np.ndarray]]:
        times.append(1)
        wrong = {"kernel": len(times) < 3, "second thread": len(times) == 2, "nobody": False}[by]
        yield "counting, mixture", np.array([0.5, 1.0 + fault * wrong])

    monkeypatch.setattr(proof, "answers", answers)
    found = proof.prove()
    assert found == complaint if complaint is None else found is not None and found.startswith(complaint)
    assert len(times) == 3


def test_without_kernels_there_is_nothing_to_prove() -> None:
    with twins():
        assert proof.prove() == "cannot be loaded"
