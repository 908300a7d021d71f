"""How much better than usual a text was, and what its distance from the base costs from each token on.

P prompts, G texts of each, T tokens of a text.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

Form = Literal["rloo", "mean", "grpo"]


def group_advantages(rewards: np.ndarray, form: Form) -> np.ndarray:
    """Rewards (P, G), NaN where there is none, to advantages (P, G); 0 where nothing can be compared.

    rloo: less the mean of the *other* texts of the prompt, which leaves the gradient without bias (Kool et al. 2019,
    Ahmadian et al. 2024). mean: less the mean of all, which shrinks it by 1 − 1/G. grpo: that, over the group's
    standard deviation (Shao et al. 2024): groups whose rewards differ little count as much as others.
    """
    known = np.isfinite(rewards)
    values = np.where(known, rewards, 0.0)
    count = known.sum(axis=1, keepdims=True)
    away = values - values.sum(axis=1, keepdims=True) / np.maximum(count, 1)
    if form == "rloo":
        away = away * count / np.maximum(count - 1, 1)
    if form == "grpo":
        spread = np.sqrt((np.where(known, away, 0.0) ** 2).sum(axis=1, keepdims=True) / np.maximum(count, 1))
        away = np.divide(away, spread, out=np.zeros_like(away), where=spread > 1e-8)
    return np.where(known & (count > 1), away, 0.0)


def costs_ahead(costs: np.ndarray, *, own: bool) -> np.ndarray:
    """What each token's choice brings on: the costs (P, G, T) from it on (`own`) or after it, less what the others of
    the group pay from there on, on average. The baseline knows nothing of the text itself, so it adds no bias."""
    ahead = np.flip(np.cumsum(np.flip(costs, axis=-1), axis=-1), axis=-1)
    if not own:
        ahead = ahead - costs
    group = costs.shape[1]
    return (ahead - ahead.mean(axis=1, keepdims=True)) * group / max(group - 1, 1)


def credited(worth: np.ndarray, credit: float) -> np.ndarray:
    """Advantages of tokens (P, G, T) from what the texts were worth before each and in the end (P, G, T + 1); NaN in
    texts that have no reward.

    What a token changed, and each later one by `credit` less than the one before it: generalised advantage estimation
    (Schulman et al. 2016) with the worth so far as the value. Less what the others of the group have at that token.
    """
    known = np.isfinite(worth).all(axis=-1, keepdims=True)  # (P, G, 1)
    changes = np.where(known, np.diff(worth, axis=-1), 0.0)
    gained = np.zeros_like(changes)
    ahead = np.zeros(changes.shape[:-1])
    for place in reversed(range(changes.shape[-1])):
        ahead = changes[..., place] + credit * ahead
        gained[..., place] = ahead
    count = known.sum(axis=1, keepdims=True)
    away = gained - gained.sum(axis=1, keepdims=True) / np.maximum(count, 1)
    away = away * count / np.maximum(count - 1, 1)
    return np.where(known & (count > 1), away, 0.0)


def flat(rewards: np.ndarray) -> int:
    """How many groups (P, G) teach nothing: their rewards are all alike, or fewer than two are there."""
    known = np.isfinite(rewards)
    high = np.where(known, rewards, -np.inf).max(axis=1)
    low = np.where(known, rewards, np.inf).min(axis=1)
    return int((high <= low).sum())
