"""The smallest training that has everything: three checkpoints, two evaluations, samples, a report."""

from __future__ import annotations

RECIPE = {
    "model": {"layers": 1, "width": 16, "heads": 2, "context": 16},
    "training": {"batch": 4, "steps": 6, "checkpoint_every": 2, "precision": "float32"},
    "evaluation": {"every": 3},
    "sampling": {"tokens": 10},
}
