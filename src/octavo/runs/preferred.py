"""How often a run that learned from pairs prefers the held-out answer that was chosen, with its interval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from octavo.config import Recipe
from octavo.evaluation.validity import wilson


def preferred(found: Mapping[str, Any], recipe: Recipe) -> dict[str, Any]:
    """The figures of held-out pairs for evaluation.json, from an evaluation's means; empty where there are no pairs."""
    if recipe.form != "preferences":
        return {}
    pairs, share = found["tokens"], found["accuracy"]
    low, high = interval(share, pairs)
    return {"preferences": {"pairs": pairs, "accuracy": {"mean": share, "low": low, "high": high}}}


def interval(share: float, pairs: int) -> tuple[float, float]:
    """95 % interval of a share of pairs; a tie counts as half a win."""
    return wilson(share * pairs, pairs)


def said(result: Mapping[str, Any]) -> list[str]:
    """Sentences for it."""
    if "preferences" not in result:
        return []
    found, start = result["preferences"], (result.get("baselines") or {}).get("start") or {}
    share = found["accuracy"]
    sentences = [
        f"It prefers the chosen answer in {share['mean']:.1%} ({share['low']:.1%} to {share['high']:.1%}) of "
        f"{found['pairs']:,} held-out pairs; always taking the longer one would be right in {result['longer']:.1%}."
    ]
    if "chosen" in result and "chosen" in start:
        sentences.append(
            f"Log-likelihood of the chosen answers: {start['chosen']:.2f} nats before, {result['chosen']:.2f} after; "
            f"of the rejected ones {start['rejected']:.2f} and {result['rejected']:.2f}."
        )
        if result["chosen"] < start["chosen"]:
            sentences.append(
                "The chosen answers became less probable too: what grew is their lead, and the probability went to "
                "texts that stand in no pair."
            )
    return sentences
