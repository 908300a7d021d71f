"""The ceiling: what the best policy could reach at each distance from its base.

Of all policies that lie so many nats (KL) from a base p, none has a higher mean reward r than one of the tilted
policies p·exp(r/β)/Z (Ziegler et al. 2019 draw that curve). Its reward and its KL = E[r]/β − log Z follow from how the
reward is distributed under the base alone. Where that is known (see `synthesis.counting`), the curve is exact; from
samples it is an estimate, which ends where too few of them carry it.

P prompts, M samples of each, K points of the curve. KL in nats for a whole text, over prompts on average.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from octavo.errors import InputError
from octavo.generation import Engine, Sample, Sampling, TextRequest, in_order
from octavo.model.base import LanguageModel
from octavo.synthetic.counting import distribution
from octavo.synthetic.storyteller import story_grammar
from octavo.tasks.chat.prompts import Question
from octavo.tokenizers import Tokenizer
from octavo.tuning.prompts import START
from octavo.tuning.rewards.base import Judged, Reward, RewardConfig, judge
from octavo.util.stats import counts_drawn_again, ends_of
from octavo.util.terminal import Console

LEAST = 10.0
"""Effective samples of a prompt that must carry a point."""
DRAWS = 400
"""Bootstrap draws, of which ten lie beyond each end of an interval."""
POINTS = 40
SAID = (1, 2, 4, 8, 16, 32, 64)
"""The n of best-of-n."""


@dataclass(frozen=True)
class Curve:
    """Reward against KL.

    Attributes:
        kl, reward: (K,), ascending; the first point is the base.
        low, high: (K,), the interval of the reward at that KL; equal to it where the curve is exact.
        labels: (K,), what makes each point: β, or n.
        ends: why the curve ends where it does, as a sentence.
    """

    kl: np.ndarray
    reward: np.ndarray
    low: np.ndarray
    high: np.ndarray
    labels: np.ndarray
    ends: str

    def reward_at(self, kl: float) -> float | None:
        """The reward at a KL; None beyond the curve."""
        return float(np.interp(kl, self.kl, self.reward)) if kl <= self.kl[-1] else None

    def kl_at(self, reward: float) -> float | None:
        """The least KL at which a reward is reached; None if the curve does not reach it."""
        if reward > self.reward[-1]:
            return None
        return float(np.interp(reward, np.maximum.accumulate(self.reward), self.kl))

    def as_dict(self, label: str) -> dict[str, Any]:
        """As plain data; `label` names what makes the points (infinite: null)."""
        rows = zip(self.labels, self.kl, self.reward, self.low, self.high, strict=True)
        points = [
            {
                label: each if math.isfinite(each) else None,
                "kl": kl,
                "reward": reward,
                "low": low,
                "high": high,
            }
            for each, kl, reward, low, high in (map(float, row) for row in rows)
        ]
        return {"points": points, "ends": self.ends}


def tilted(
    rewards: np.ndarray, weights: np.ndarray, beta: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The reward, the KL and the tilted weights of p·exp(r/β)/Z, for each prompt: (P,), (P,), (P, M).

    `weights` (P, M) are p; they sum to 1 in each row. β = 0 keeps the best texts alone, β = ∞ is the base.
    """
    top = np.max(np.where(weights > 0, rewards, -math.inf), axis=1, keepdims=True)
    lifted = np.where(weights > 0, rewards - top, 0.0)
    if beta == 0:
        factor = (lifted == 0).astype(float)
    else:
        with np.errstate(over="ignore", under="ignore"):
            factor = np.exp(lifted / beta)
    mass = weights * factor
    z = mass.sum(axis=1, keepdims=True)
    q = mass / z
    # E[r]/β − log Z, in a form that also holds for β = 0: the mean of log(q/p).
    slope = 0.0 if beta == 0 else 1.0 / beta
    kl = (q * lifted).sum(axis=1) * slope - np.log(z[:, 0])
    return (q * np.where(weights > 0, rewards, 0.0)).sum(axis=1), np.maximum(kl, 0.0), q


def exact_frontier(found: Mapping[float, float]) -> Curve:
    """The ceiling of a base whose rewards are distributed as `found` says: {reward: probability}."""
    rewards = np.array([list(found)], dtype=float)
    weights = np.array([list(found.values())], dtype=float)
    weights = weights / weights.sum()
    betas = _betas(rewards, weights)
    points = [tilted(rewards, weights, beta) for beta in betas]
    reward, kl = (np.array([float(point[i][0]) for point in points]) for i in (0, 1))
    said = f"All texts have the reward {reward[-1]:.4g} at {kl[-1]:.2f} nats: more is not possible."
    return Curve(kl, reward, reward, reward, np.array(betas), said)


def exact_best_of_n(found: Mapping[float, float], numbers: Sequence[int] = SAID) -> Curve:
    """Best-of-n of such a base: its reward and exact KL. Ties are kept: of equal texts any may be taken."""
    order = sorted(found)
    share = np.array([found[value] for value in order], dtype=float)
    share /= share.sum()
    below = np.concatenate(([0.0], np.minimum(np.cumsum(share), 1.0)))
    below[-1] = 1.0
    points = []
    for n in numbers:
        q = np.diff(below**n)
        seen = (q > 0) & (share > 0)
        kl = float((q[seen] * np.log(q[seen] / share[seen])).sum())
        points.append((float(q @ np.array(order)), max(kl, 0.0)))
    reward, kl = (np.array(column) for column in zip(*points, strict=True))
    return Curve(kl, reward, reward, reward, np.array(numbers, float), f"n was tried up to {numbers[-1]}.")


def sampled_frontier(rewards: Sequence[np.ndarray], *, seed: int = 0) -> Curve:
    """The ceiling from samples of the base: the rewards of each prompt's texts, NaN where there is none.

    One β for all prompts, which is best for their mean reward at their mean KL. The interval is that of the mean over
    prompts and samples drawn again (a bootstrap). Raises InputError where fewer than two texts have a reward.
    """
    table, counts = _table(rewards)
    base = counts / counts.sum(1, keepdims=True)
    betas, ends = (
        _betas(table, base),
        "The samples carry all of it: the best of each prompt's texts alone are left.",
    )
    kept: list[tuple[float, float, float]] = []
    for beta in betas:
        reward, kl, q = tilted(table, base, beta)
        if kept and (left := _effective(q, table, counts)) < LEAST:  # the base itself is always known
            ends = (
                f"It ends at {kept[-1][1]:.2f} nats: beyond, fewer than {LEAST:.0f} effective samples a prompt "
                f"({left:.1f} at {float(kl.mean()):.2f} nats) would carry it. More samples lead further."
            )
            break
        kept.append((beta, float(kl.mean()), float(reward.mean())))
    kls, means = (np.array([point[i] for point in kept]) for i in (1, 2))
    drawn = []
    for rows, weights, share in counts_drawn_again(counts, draws=DRAWS, seed=seed):
        # Each curve goes as far as its own samples lead.
        points = [tilted(table[rows], weights, beta) for beta in betas]
        own_kls, own_means = (np.array([point[i] @ share for point in points]) for i in (1, 0))
        drawn.append(np.interp(kls, own_kls, own_means))
    low, high = ends_of(np.array(drawn))
    labels = np.array([beta for beta, _, _ in kept])
    return Curve(kls, means, np.minimum(low, means), np.maximum(high, means), labels, ends)


def sampled_best_of_n(
    rewards: Sequence[np.ndarray], numbers: Sequence[int] = SAID, *, seed: int = 0
) -> Curve:
    """Best-of-n from samples of the base, the mean over every choice of n of a prompt's M: without bias for the reward.
    Ties count as such, so the KL is that of what is chosen, not the bound log n − (n − 1)/n."""
    table, counts = _table(rewards)
    base, fewest = counts / counts.sum(1, keepdims=True), int(counts.sum(1).min())
    points: list[tuple[int, float, float]] = []
    ends = f"n was tried up to {numbers[-1]}."
    for n in numbers:
        q = _chosen(counts, n)
        if points and (n > fewest or _effective(q, table, counts) < LEAST):
            ends = f"It ends at n = {points[-1][0]}: more samples a prompt lead further."
            break
        with np.errstate(divide="ignore", invalid="ignore"):
            kl = np.where(q > 0, q * np.log(q / base), 0.0).sum(1)
        points.append((n, max(float(kl.mean()), 0.0), float((q * table).sum(1).mean())))
    tried, kls, means = (np.array([point[i] for point in points], float) for i in range(3))
    drawn = []
    for rows, weights, share in counts_drawn_again(counts, draws=DRAWS, seed=seed):
        upto = np.minimum(np.cumsum(weights, axis=1), 1.0)
        best = [(np.diff(upto**n, axis=1, prepend=0.0) * table[rows]).sum(1) @ share for n in tried]
        drawn.append(best)
    low, high = ends_of(np.array(drawn))
    return Curve(kls, means, np.minimum(low, means), np.maximum(high, means), tried, ends)


def _table(rewards: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The different rewards of each prompt in ascending order, (P, U), and how many texts have each, 0 where a prompt
    has fewer than U."""
    known = [row[np.isfinite(row)] for row in (np.asarray(each, dtype=float) for each in rewards)]
    known = [row for row in known if len(row)]
    if sum(map(len, known)) < 2:
        raise InputError("A ceiling needs the rewards of two texts or more.", remedy="more samples")
    different = [np.unique(row, return_counts=True) for row in known]
    table = np.zeros((len(known), max(len(values) for values, _ in different)))
    counts = np.zeros_like(table)
    for number, (values, times) in enumerate(different):
        table[number, : len(values)], counts[number, : len(values)] = values, times
    return table, counts


def _betas(rewards: np.ndarray, weights: np.ndarray) -> list[float]:
    """From the base (∞) to the best texts alone (0), in steps that make a smooth curve; base alone if all are alike."""
    live = weights > 0
    spread = np.where(live, rewards, -math.inf).max(1) - np.where(live, rewards, math.inf).min(1)
    if not spread.max() > 0:
        return [math.inf]
    # Of the largest, hardly anything is left of p; of the smallest, texts that differ least are told apart.
    rows = [np.diff(np.unique(row[here])) for row, here in zip(rewards, live, strict=True)]
    least = min(float(gaps.min()) for gaps in rows if len(gaps))
    scale = np.geomspace(20 * spread.max(), max(least, 1e-6 * spread.max()) / 20, 5 * POINTS)
    # Of these, some that lie evenly along the curve.
    root = np.sqrt([tilted(rewards, weights, beta)[1].mean() for beta in scale])
    even = np.linspace(root[0], root[-1], POINTS)
    chosen = np.unique(np.searchsorted(root, even[1:-1]).clip(0, len(scale) - 1))
    return [math.inf, *(float(scale[i]) for i in chosen), 0.0]


def _effective(q: np.ndarray, table: np.ndarray, counts: np.ndarray) -> float:
    """Effective samples (Kish 1965) of what gives each reward the weight q, the mean over the prompts whose rewards
    differ."""
    differ = (counts > 0).sum(1) > 1
    if not differ.any():
        return math.inf
    squares = np.divide(q**2, counts, out=np.zeros_like(q), where=counts > 0)
    return float((1 / squares[differ].sum(1)).mean())


def _chosen(counts: np.ndarray, n: int) -> np.ndarray:
    """How probable each reward is for the best of n texts that are drawn without putting back, (P, U)."""
    upto = np.cumsum(counts, axis=1)
    among = np.ones_like(upto)  # that all of the n are no better
    for i in range(n):
        among *= np.maximum(upto - i, 0) / np.maximum(upto[:, -1:] - i, 1)
    return np.diff(among, axis=1, prepend=0.0)


# The ceiling of a base and a reward: of a run from its samples, of the storyteller exactly.

STORYTELLER = "storyteller"
AT_ONCE = 256
"""Texts that are written side by side."""


@dataclass(frozen=True)
class Ceiling:
    """What a base could reach.

    Attributes:
        exact: whether the curves are, or are estimated from samples.
        distribution: {reward: probability}, where it is exact.
        failed: why texts have no reward, with how many each.
        samples, prompts: how many texts were written, after how many prompts.
    """

    reward: RewardConfig
    curve: Curve
    best_of_n: Curve
    exact: bool
    distribution: Mapping[float, float]
    failed: Mapping[str, int]
    samples: int = 0
    prompts: int = 0

    def as_dict(self) -> dict[str, Any]:
        return {
            "reward": self.reward.model_dump(mode="json"),
            "exact": self.exact,
            "samples": self.samples,
            "prompts": self.prompts,
            "failed": dict(self.failed),
            "distribution": [{"reward": r, "probability": p} for r, p in self.distribution.items()],
            "ceiling": self.curve.as_dict("beta"),
            "best_of_n": self.best_of_n.as_dict("n"),
        }


def storyteller_ceiling(config: RewardConfig) -> Ceiling:
    """The storyteller's own, exact. Raises InputError for a reward that no grammar can count."""
    automaton = config.build().automaton()
    if automaton is None:
        raise InputError(
            f"The reward {config.kind!r} cannot be counted over a grammar.",
            remedy="words, ends-happily, question or length, or a sum of these; or name a run, whose texts are judged",
        )
    found = distribution(story_grammar(), automaton)
    return Ceiling(config, exact_frontier(found), exact_best_of_n(found), True, found, {})


def sampled_ceiling(
    model: LanguageModel,
    tokenizer: Tokenizer,
    config: RewardConfig,
    *,
    questions: Sequence[Question] = (START,),
    samples: int,
    tokens: int,
    seed: int = 0,
    console: Console | None = None,
) -> Ceiling:
    """That of a model, from so many samples of each prompt."""
    texts = written(model, tokenizer, questions, samples=samples, tokens=tokens, seed=seed, console=console)
    judged = judged_by_prompt(config.build(), questions, texts)
    return ceiling_of(config, judged, seed=seed)


def ceiling_of(config: RewardConfig, judged: Judged, *, seed: int = 0) -> Ceiling:
    """The ceiling from the rewards (P, M) of a base's texts."""
    rewards = list(judged.rewards)
    curve, best = sampled_frontier(rewards, seed=seed), sampled_best_of_n(rewards, seed=seed)
    return Ceiling(config, curve, best, False, {}, judged.failed, judged.rewards.size, len(rewards))


def judged_by_prompt(
    reward: Reward, questions: Sequence[Question], texts: Sequence[Sequence[Sample]]
) -> Judged:
    """The rewards (P, M) of the texts after each prompt."""
    pairs = [(asked.text, one.text) for asked, row in zip(questions, texts, strict=True) for one in row]
    judged = judge(reward, pairs)
    return Judged(judged.rewards.reshape(len(questions), -1), judged.failed)


def written(
    model: LanguageModel,
    tokenizer: Tokenizer,
    questions: Sequence[Question],
    *,
    samples: int,
    tokens: int,
    within: bool = False,
    seed: int = 0,
    console: Console | None = None,
) -> list[list[Sample]]:
    """What a model writes after each prompt, so many times, drawn as it predicts (temperature 1, nothing left out).
    `within`: no further than its context leads."""
    console = console or Console(quiet=True)
    requests = [
        TextRequest(asked.prompt, seed, number * samples + index)
        for number, asked in enumerate(questions)
        for index in range(samples)
    ]
    found, done = [], 0
    with console.working("writing", len(requests)):
        for sample, _ in Engine(model, tokenizer).write_each(
            requests, tokens=tokens, sampling=Sampling(), slots=AT_ONCE, within=within
        ):
            if sample.finish is not None:
                found.append(sample)
                done += 1
                console.advance(done, f"{done} of {len(requests)} texts", first=done == 1)
    ordered = in_order(found)
    return [ordered[at : at + samples] for at in range(0, len(ordered), samples)]
