"""A law and a text that are made up, for tests that need some whose numbers are known."""

from __future__ import annotations

from octavo.auto.facts import TextFacts
from octavo.auto.family import BYTES
from octavo.auto.law import NAMES, Law

VALUES = {
    "floor": 0.7,
    "size": 0.05,
    "size_power": 0.5,
    "data": 0.3,
    "data_power": 0.5,
    "fit": 0.01,
    "fit_power": 0.5,
    "blend": 0.05,
    "passes_power": 1.0,
    "counted": 0.05,
}

FACTS = TextFacts(
    tokenizer=BYTES,
    documents=1,
    duplicates=0,
    alphabet=65,
    train_tokens=1_000_000,
    validation_tokens=50_000,
    test_tokens=50_000,
    train_bytes=1_000_000,
    validation_bytes=50_000,
    vocabulary=65,
    counted=2.3,
    counts={"kind": "mixing"},
    start=2.2,
    idle=False,
    token_seconds=1e-6,
    drift=0.0,
    spread=0.01,
    others={"bpe": 2.31},
)


def made_up(*, residual: float = 0.005, texts: float = 0.3) -> Law:
    return Law(
        values=tuple(VALUES[name] for name in NAMES),
        covariance=tuple(
            tuple(1e-6 * (row == column) for column in range(len(NAMES))) for row in range(len(NAMES))
        ),
        residual=residual,
        texts=texts,
        bend=0.1,
        beyond=0.2,
        at=26.0,
        ranges={
            "parameters": (5e4, 5e6),
            "bytes": (1e5, 1e7),
            "train_bytes": (3e4, 3e6),
        },
    )
