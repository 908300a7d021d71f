"""A made-up study folder: the files that a study leaves, with figures drawn from a known truth."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from octavo.studies.resolve import load_study
from octavo.studies.results import StudyResults, collect, write_study
from octavo.studies.spec import Study

NOISE, LEVEL, INITIAL, UNIGRAM, UNITS = 0.005, 2.3, 6.0, 4.7, 40
STEPS = (50, 100, 200, 300, 400, 500)


@dataclass(frozen=True)
class Truth:
    """What a variant's runs are drawn from; distances in noise deviations."""

    shift: float = 0.0
    noisier: float = 1.0
    failed: Mapping[int, str] | None = None
    """Reasons by seed."""
    flat: bool = False
    """Ends at the unigram's level."""
    bytes_per_token: float = 1.0
    cost: float = 1.0
    parameters: int = 804_096


def make(
    folder: Path,
    truths: Mapping[str, Truth],
    *,
    expect: Mapping[str, str] | None = None,
    seed: int = 1,
    **keys: Any,
) -> StudyResults:
    """A finished study with a change for each truth but "baseline", read back from its folder."""
    tree = {
        "name": "a made-up study",
        "description": "What the parts of a small model are worth.",
        "finding": "Residual connections are vital & <b>layer norm</b> helps a little.",
        "baseline": "shakespeare-char-cpu",
        "text": ["play.txt"],
        "budget": {"steps": 500},
        "seeds": 3,
        "changes": [
            {
                "name": name,
                "hypothesis": f"It is as the report says about {name}.",
                "expect": (expect or {}).get(name),
                "set": {"training.batch": 13 + position},
            }
            for position, name in enumerate(truths)
            if name != "baseline"
        ],
        **keys,
    }
    study = load_study(tree)
    folder.mkdir(parents=True, exist_ok=True)
    write_study(study, folder)
    random = np.random.default_rng(seed)
    sizes = random.integers(500, 1500, UNITS)
    difficulty = 0.3 * random.standard_normal(UNITS)
    for variant in study.variants:
        truth = truths.get(variant.name, Truth())
        for number in study.seeds_of(variant):
            level = (UNIGRAM if truth.flat else LEVEL) + NOISE * truth.shift
            level += NOISE * truth.noisier * random.standard_normal() * math.sqrt(0.5)
            bits = level + difficulty
            bits = bits + truth.noisier * NOISE * math.sqrt(0.5 * UNITS) * random.standard_normal(UNITS)
            run = folder / "runs" / variant.slug / f"seed-{number}"
            _write(run, study, variant.name, truth, number, bits, sizes)
    return collect(folder)


def _write(
    run: Path, study: Study, name: str, truth: Truth, seed: int, bits: np.ndarray, sizes: np.ndarray
) -> None:
    """One run's files."""
    run.mkdir(parents=True)
    reason = (truth.failed or {}).get(seed)
    tokens = np.maximum(1, sizes / truth.bytes_per_token).astype(int)
    nats = bits * sizes * math.log(2)
    bpb = float(nats.sum() / sizes.sum() / math.log(2))
    loss = float(nats.sum() / tokens.sum())
    initial = INITIAL * math.log(2) * truth.bytes_per_token
    outcome: dict[str, Any] = {"judge": "last", "status": "failed", "reason": reason, "settled": True}
    if reason is None:
        outcome |= {"status": "done", "val_loss": loss, "bits_per_byte": bpb, "perplexity": math.exp(loss)}
        outcome |= {"accuracy": 1 / (1 + loss), "initial_loss": initial, "step": 500, "tokens": 500_000}
        outcome |= {"flops": truth.cost * 1e12, "parameters": truth.parameters}
        outcome["seconds"] = 20.0 * truth.cost + 0.1 * seed
        units = {"names": None, "nats": nats.tolist(), "bytes": sizes.tolist(), "tokens": tokens.tolist()}
        (run / "units.json").write_text(json.dumps(units), "utf-8")
        (run / "evaluation.json").write_text(
            json.dumps({"baselines": {"unigram": {"bits_per_byte": UNIGRAM}}}), "utf-8"
        )
        (run / "samples").mkdir()
        text = (
            f"ROMEO:\nWhat says {name}? ```` <script>alert('no')</script>\n"
            + 12 * "And so the day is gone.\n"
        )
        (run / "samples" / "step-000500.txt").write_text(text, "utf-8")
    rows = []
    for step in STEPS if reason is None else STEPS[:2]:
        value = bpb + (INITIAL - bpb) * math.exp(-step / 90)
        ended = {"event": "validation", "step": step, "bits_per_byte": value, "best": True}
        rows.append({**ended, "loss": value * math.log(2) * truth.bytes_per_token})
        rows.append({"event": "train", "step": step, "loss": value, "tokens": 1000 * step})
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    (run / "manifest.json").write_text(json.dumps({"octavo": "0.1.0", "seed": seed}), "utf-8")
    (run / "outcome.json").write_text(json.dumps(outcome), "utf-8")
