"""Runs as they are after some training, without the training: a recipe's model with random numbers everywhere."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import torch

from octavo.config import load_recipe
from octavo.export.prove import Measurement, measure, misses
from octavo.export.reference_outputs import Reference, reference
from octavo.export.targets import targets
from octavo.export.targets.base import Parcel
from octavo.export.weights import weights_of
from octavo.model.base import build_model
from octavo.tokenizers import Tokenizer
from octavo.tokenizers.config import build_tokenizer
from octavo.util.records import json_text

TEXT = "\n".join(
    f"{who}:\nThe {what} is {how}, and it shan't rain on {number} hills; so be it!\n"
    for number, (who, what, how) in enumerate(
        (who, what, how)
        for who in ("KING", "Second Fool", "Nurse", "Étienne")
        for what in ("old cat", "moon", "quick brown fox", "jazz", "zebra")
        for how in ("well", "gone — far away", "vexed", "“fine”", "big")
    )
)


def measured_here(name: str, folder: Path) -> Measurement:
    """What `measured` gives, without a process whose first seconds go into importing the library."""
    return Measurement.of(json.loads(json_text(measure(name, folder))))


def parcel_of(
    name: str, *overrides: str, dtype: str = "float32", text: str = TEXT
) -> tuple[Parcel, Reference]:
    """What a recipe's run would give to a target, and what the run says."""
    parcel, kept = _parcel_of(name, overrides, text)
    return replace(parcel, dtype=dtype), kept


@cache
def _parcel_of(name: str, overrides: tuple[str, ...], text: str) -> tuple[Parcel, Reference]:
    recipe = load_recipe(name, overrides)
    tokenizer: Tokenizer = build_tokenizer(recipe.tokenizer, lambda: iter([text]), documents=False)
    model = build_model(recipe.model, vocab_size=tokenizer.vocab_size, seed=1)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.05)
    ids = tokenizer.encode(text)
    tokens = np.tile(ids, -(-2048 // len(ids)))
    kept = reference(model.eval(), tokenizer, tokens, text)
    weights = weights_of(model, recipe.model).to(torch.float64)
    return Parcel(weights, tokenizer, "float32", name), kept


def proven(target: str, parcel: Parcel, kept: Reference, folder: Path) -> Measurement:
    """Write, open again, measure; everything promised holds."""
    found = targets()[target]
    found.needs()
    found.refuse(parcel.weights.shape, parcel.tokenizer, parcel.dtype)
    folder.mkdir()
    found.write(parcel, folder)
    kept.save(folder)
    seen = measured_here(target, folder)
    promised = {
        "model": found.model(parcel.weights.shape).status,
        "tokenizer": found.tokenizer(parcel.tokenizer.kind, parcel.tokenizer).status,
    }
    assert misses(seen, dtype=parcel.dtype, **promised) == []
    return seen
