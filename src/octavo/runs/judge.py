"""The model's place on a split, as every part of a run states it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from pydantic import ValidationError

from octavo.config import Recipe, SamplingConfig
from octavo.dataset import Split
from octavo.errors import InputError
from octavo.evaluation.places import Places
from octavo.evaluation.score import Score, score
from octavo.generation import Sampling
from octavo.model.gpt import GPT
from octavo.tokenizers import Tokenizer
from octavo.training.runtime import Runtime


@dataclass(frozen=True)
class Judgement:
    """Loss in nats per token, and what follows from it."""

    loss: float
    perplexity: float
    bits_per_byte: float
    accuracy: float
    tokens: int

    def as_dict(self) -> dict[str, Any]:
        """For metrics.jsonl."""
        return asdict(self)


def judge(
    model: GPT,
    split: Split,
    recipe: Recipe,
    tokenizer: Tokenizer,
    runtime: Runtime,
    places: Places | None = None,
) -> Judgement:
    """Score a model on a split (or on the part of it that the recipe states), together with the runtime's world."""
    limit = recipe.evaluation.tokens
    batches = recipe.batches.evaluation(
        split.tokens,
        split.starts,
        context=recipe.model.context,
        batch=recipe.evaluation.batch,
        start_id=tokenizer.start,
        end_id=tokenizer.end,
        limit=limit,
    )
    world = runtime.world
    scored = score(model, map(world.share, batches), autocast=runtime.autocast, places=places)
    nats, tokens, correct = world.sums(scored.nats, scored.tokens, scored.correct)
    result = Score(nats=nats, tokens=int(tokens), correct=int(correct))
    # A part is taken to have its share of the split's bytes.
    whole = limit is None or limit >= len(split.tokens)
    scored_bytes = split.bytes if whole else split.bytes * result.tokens / len(split.tokens)
    return Judgement(
        loss=result.loss,
        perplexity=result.perplexity,
        bits_per_byte=result.bits_per_byte(scored_bytes),
        accuracy=result.accuracy,
        tokens=result.tokens,
    )


def sampling_of(settings: SamplingConfig, **changes: Any) -> Sampling:
    """The recipe's way of choosing tokens, with what was given instead of it. Raises InputError for what is no way."""
    given = {name: value for name, value in changes.items() if value is not None}
    try:
        checked = type(settings).model_validate(settings.model_dump() | given)
    except ValidationError as error:
        wrong = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        raise InputError(f"This is no way to choose tokens: {'; '.join(wrong)}.") from error
    return Sampling(**{name: getattr(checked, name) for name in Sampling.__dataclass_fields__})
