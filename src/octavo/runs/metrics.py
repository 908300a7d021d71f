"""A model's metrics on a split, as every part of a run states them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from octavo.config import Recipe
from octavo.dataset import Split
from octavo.evaluation.places import Places
from octavo.evaluation.score import Score, score
from octavo.model.kind import LanguageModel
from octavo.runs.data import evaluated_on, rows_at_once
from octavo.runs.start import with_reference
from octavo.tokenizers import Tokenizer
from octavo.training.objective import Unit
from octavo.training.runtime import Runtime


@dataclass(frozen=True)
class Metrics:
    """Mean loss, what follows from it if it is one of text, and the objective's other metrics."""

    loss: float
    perplexity: float | None
    bits_per_byte: float | None
    others: Mapping[str, float]
    tokens: int
    unit: Unit

    def as_dict(self) -> dict[str, Any]:
        """For metrics.jsonl: what there is, and the unit unless it is that of text."""
        text = {"perplexity": self.perplexity, "bits_per_byte": self.bits_per_byte}
        if self.bits_per_byte is None:
            text = {"unit": str(self.unit)}
        return {"loss": self.loss, **text, **self.others, "tokens": self.tokens}

    def __str__(self) -> str:
        if self.bits_per_byte is None:
            return f"{self.loss:.4f} {self.unit}"
        return f"{self.loss:.4f}  {self.bits_per_byte:.3f} bits/byte"


def evaluate_split(
    model: LanguageModel,
    split: Split,
    recipe: Recipe,
    tokenizer: Tokenizer,
    runtime: Runtime,
    places: Places | None = None,
    *,
    reference: LanguageModel | None = None,
) -> Metrics:
    """Score a model on a split (or on the part of it that the recipe states), together with the runtime's world.

    `reference`: what its run started from. Raises InputError where the objective compares with that and it is missing.
    """
    limit, rows = recipe.evaluation.tokens, rows_at_once(recipe, tokenizer, runtime.device)
    batches = evaluated_on(split, recipe, tokenizer, rows=rows, limit=limit)
    world, objective = runtime.world, with_reference(recipe.objective.build(), reference, runtime.device)
    own = score(
        model, map(world.shard, batches), objective=objective, autocast=runtime.autocast, places=places
    )
    total, weight, tokens, *sums = world.all_reduce(own.total, own.weight, own.tokens, *own.sums.values())
    totals = dict(zip(own.sums, sums, strict=True))
    result = Score(total, weight, int(tokens), totals, objective.unit)
    # A part is taken to have its share of the split's bytes.
    whole = limit is None or limit >= len(split.tokens)
    scored_bytes = split.bytes if whole else split.bytes * result.tokens / len(split.tokens)
    return Metrics(
        loss=result.loss,
        perplexity=result.perplexity,
        bits_per_byte=result.bits_per_byte(scored_bytes),
        others=result.metrics,
        tokens=result.tokens,
        unit=result.unit,
    )
