"""The shortest chain of rewrites after which an architecture can say a shape, or why there is none."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count

from octavo.export.architectures.base import Architecture
from octavo.export.rewrites import rewrites
from octavo.export.rewrites.base import Rewrite
from octavo.export.weights import Shape, Weights

NEGLIGIBLE = 1e-4
"""A rewrite whose error at one feature is below that is a limit, and counts as exact: float32 hardly sees it."""


@dataclass(frozen=True)
class Step:
    """A rewrite and the shape that it leads to."""

    rewrite: Rewrite
    before: Shape
    after: Shape

    def __str__(self) -> str:
        return self.rewrite.says(self.before, self.after)


@dataclass(frozen=True)
class Solution:
    """How an architecture says a shape.

    Attributes:
        conflicts: what it cannot say in any way; empty where it can.
    """

    architecture: Architecture
    steps: tuple[Step, ...]
    shape: Shape
    conflicts: tuple[str, ...] = ()

    @property
    def near(self) -> tuple[Step, ...]:
        """The steps that are not exact."""
        return tuple(step for step in self.steps if step.rewrite.error > NEGLIGIBLE)

    @property
    def cost(self) -> tuple[int, int, float, int]:
        """What is better comes first: sayable, exact, few rewrites, a preferred architecture."""
        limits = sum(step.rewrite.error > 0 for step in self.steps)
        return len(self.conflicts), len(self.near), len(self.steps) + 0.5 * limits, self.architecture.rank

    def __call__(self, weights: Weights) -> Weights:
        """The rewritten weights; best given in float64."""
        for step in self.steps:
            weights = step.rewrite(weights, step.after)
        return weights


def solve(shape: Shape, architectures: Iterable[Architecture]) -> Solution:
    """The best way that one of the architectures has to say a shape; see `Solution.cost`."""
    return min((chain(shape, each) for each in architectures), key=lambda found: found.cost)


def chain(shape: Shape, architecture: Architecture) -> Solution:
    """The cheapest chain for one architecture (Dijkstra's algorithm over shapes), or the one that comes nearest."""
    allowed, number = architecture.allowed(), count()
    waiting: list[tuple[float, int, Shape, tuple[Step, ...]]] = [(0.0, next(number), shape, ())]
    seen: set[Shape] = set()
    nearest = Solution(architecture, (), shape, tuple(architecture.conflicts(shape)))
    while waiting:
        cost, _, here, steps = heapq.heappop(waiting)
        if here in seen:
            continue
        seen.add(here)
        conflicts = architecture.conflicts(here)
        if not conflicts:
            return Solution(architecture, steps, here)
        if len(conflicts) < len(nearest.conflicts):
            nearest = Solution(architecture, steps, here, tuple(conflicts))
        for rewrite in rewrites():
            after = rewrite.shape(here, allowed) if rewrite.mends & conflicts.keys() else None
            if after is not None and after not in seen:
                price = 1 + 0.5 * (rewrite.error > 0) + 100 * (rewrite.error > NEGLIGIBLE)
                step = Step(rewrite, here, after)
                heapq.heappush(waiting, (cost + price, next(number), after, (*steps, step)))
    return nearest


PHRASES = {
    "norm": "normalizes otherwise",
    "norm_place": "has its norms at another place",
    "norm_scale": "has no norm without a scale",
    "norm_bias": "shifts in its norms, or does not",
    "embedding_norm": "has no norm on embeddings to which something else is added",
    "final_norm": "has a norm before the head, or has none",
    "residual": "needs residual connections",
    "projects": "needs the heads' projection",
    "positions": "has other positions",
    "partly_turned": "turns whole heads",
    "own_speeds": "turns at the usual speeds alone",
    "qk_norm": "norms queries and keys, or does not",
    "qk_scale": "scales normed queries and keys",
    "usual_scale": "has a fixed attention scale",
    "one_eps": "has one ε",
    "qkv_bias": "has other biases in attention",
    "output_bias": "has other biases in attention",
    "one_bias": "has other biases in attention",
    "feed_forward_bias": "has other biases in its feed-forward layer",
    "activation": "has other activations",
    "gated": "has a gate in its feed-forward layer, or has none",
    "four_wide": "has a feed-forward layer four times as wide as the model",
    "grouped": "has keys and values for every head",
    "fills_width": "has heads that fill the width",
    "tied": "has a head of its own",
    "head_bias": "has no bias in the head",
    "capped": "squashes no logits",
    "ngrams": "knows no n-gram tables",
}
"""Why a feature of a run is in an architecture's way."""


def because(solution: Solution) -> str:
    """The reason in a sentence without its end."""
    reasons = list(dict.fromkeys(PHRASES[feature] for feature in solution.conflicts))
    return f"{solution.architecture.title}, which comes nearest, {listed(reasons)}"


def listed(words: Sequence[str]) -> str:
    """`a, b and c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
