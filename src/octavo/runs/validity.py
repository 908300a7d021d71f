"""Whether what a model writes is valid, for its evaluation: beside n-grams, and held-out records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from octavo.config import Recipe
from octavo.dataset import Dataset
from octavo.evaluation.validity import judged, written_by_ngrams
from octavo.generation.referee import Referee
from octavo.model.kneser_ney import best_order
from octavo.runs.written import GeneratedTexts

COUNTED = 500_000
"""Training tokens that the n-grams of the control are counted on: the last ones."""
CONTROLS = 50
"""Records that the n-grams write."""
HELD_OUT = 200
"""Held-out records that are checked."""


def validity(written: GeneratedTexts, dataset: Dataset, recipe: Recipe) -> dict[str, Any] | None:
    """For evaluation.json; None where the recipe names no validator."""
    validator, tokenizer = recipe.validator.build(recipe.corpus), dataset.tokenizer
    if validator is None:
        return None
    referee = Referee(validator, tokenizer)
    own = judged(
        validator, [(referee.record(sample.ids), sample.finish == "end") for sample in written.samples]
    )
    found: dict[str, Any] = {"generated": own.as_dict()}
    split, edges = dataset.validation, np.append(dataset.validation.starts, len(dataset.validation.tokens))
    chosen = np.unique(np.linspace(0, split.documents - 1, min(HELD_OUT, split.documents)).astype(int))
    texts = [split.tokens[int(edges[at]) : int(edges[at + 1])] for at in chosen]
    found["held_out"] = judged(validator, [(referee.record(ids.tolist()), True) for ids in texts]).as_dict()
    if tokenizer.end is None:
        return found
    train = np.asarray(dataset.train.tokens[-COUNTED:])
    order = best_order(train, vocab_size=tokenizer.vocab_size, highest=8)
    controls = written_by_ngrams(
        train,
        vocab_size=tokenizer.vocab_size,
        order=max(order, 1),
        end=tokenizer.end,
        count=CONTROLS,
        length=written.tokens,
        seed=recipe.seed,
    )
    if controls:
        records = [(referee.record(ids), ended) for ids, ended in controls]
        found["control"] = judged(validator, records).as_dict() | {"order": order}
    return found


def said(found: Mapping[str, Any]) -> str:
    """The sentence for the verdict."""
    own = found["generated"]
    low, high = own["interval"]
    sentence = (
        f"{own['valid'] / own['records']:.1%} of {own['records']} records that it wrote are valid "
        f"({low:.1%} to {high:.1%})"
    )
    if own["typical"]:
        sentence += (
            f"; typically first wrong at symbol {own['typical']['symbol']}, because {own['typical']['why']}"
        )
    beside = []
    if control := found.get("control"):
        beside.append(f"{control['valid'] / control['records']:.0%} of those of {control['order']}-grams")
    held_out = found["held_out"]
    beside.append(f"{held_out['valid'] / held_out['records']:.0%} of held-out ones")
    return f"{sentence}. Beside that: {', '.join(beside)}."
