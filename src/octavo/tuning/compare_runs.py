"""Several tuned runs judged side by side: asked the same, beneath one ceiling, and what seeds of one tuning say.

S runs, P prompts.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from octavo.errors import InputError
from octavo.run.run import Run
from octavo.studies.chance import satterthwaite, student
from octavo.tuning.judge import TEXTS, Verdict, asking, judging_questions, measure
from octavo.tuning.rewards.base import RewardConfig
from octavo.util.stats import LEVEL, SAID
from octavo.util.terminal import Console


def measure_together(
    runs: Sequence[Run],
    *,
    gold: RewardConfig | None = None,
    texts: int = TEXTS,
    seed: int = 0,
    console: Console | None = None,
) -> list[Verdict]:
    """Judge each run, all after the same prompts, which are held out from each. Raises InputError where they cannot be
    asked the same."""
    objectives = [asking(run, gold) for run in runs]
    paths = [run.path.resolve() for run in runs]
    for at, path in enumerate(paths):
        if path in paths[:at]:
            raise InputError(f"{runs[at].path} is named twice.")
    for run, objective in zip(runs[1:], objectives[1:], strict=True):
        if gold is None and objective.reward != objectives[0].reward:
            raise InputError(
                f"{runs[0].path} and {run.path} were taught by different rewards.",
                remedy="octavo tune judge RUNS --reward KIND",
            )
        if (objective.answers, run.tokenizer.fingerprint()) != (
            objectives[0].answers,
            runs[0].tokenizer.fingerprint(),
        ):
            raise InputError(
                f"{runs[0].path} and {run.path} cannot be asked the same: their tokens differ, or one answers and "
                "the other continues a text.",
                remedy="judge them one by one",
            )
    asked = judging_questions(runs, gold, seed=seed)
    return [measure(run, gold=gold, texts=texts, seed=seed, console=console, asked=asked) for run in runs]


def start_of(run: Run) -> str | None:
    """What tells the weights that a run started from; None where it is not known."""
    told = (run.folder.made_by() or {}) if run.folder else {}
    return (told.get("start_from") or {}).get("sha256")


def beneath_one_ceiling(runs: Sequence[Run], at: int) -> list[int]:
    """Which other runs started from the same weights as one of them."""
    starts = [start_of(run) for run in runs]
    return [other for other, start in enumerate(starts) if other != at and start and start == starts[at]]


@dataclass(frozen=True)
class Crossed:
    """The mean of runs by prompts, with the 95 % interval of other seeds and other prompts, and each run's own."""

    mean: float
    low: float
    high: float
    each: list[float]


@dataclass(frozen=True)
class OverSeeds:
    """What runs that differ by their seeds came to together."""

    runs: int
    prompts: int
    wins: Crossed
    gained: Crossed
    kl: Crossed


def over_seeds(runs: Sequence[Run], verdicts: Sequence[Verdict]) -> OverSeeds | None:
    """The mean of runs that were tuned in one way and differ by their seeds, with its interval; None where they do
    not: one run alone, other ways of tuning, or the same seed and start twice."""
    kinds = {run.config.objective.kind for run in runs}
    if len(runs) < 2 or len(kinds) > 1 or len({(run.config.seed, start_of(run)) for run in runs}) < len(runs):
        return None
    wins, gained, kl = (
        crossed(np.array([_by_prompt(verdict.tables[name]) for verdict in verdicts]))
        for name in ("wins", "gained", "kl")
    )
    shares = replace(wins, low=max(wins.low, 0.0), high=min(wins.high, 1.0))
    return OverSeeds(len(runs), verdicts[0].figures["prompts"], shares, gained, kl)


def _by_prompt(table: np.ndarray) -> np.ndarray:
    """The mean over each prompt's texts (P, M) that have one, (P,); NaN where none has."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a prompt of which no text has a reward
        return np.nanmean(table, axis=1)


def crossed(table: np.ndarray) -> Crossed:
    """Of runs by prompts (S, P). Prompts that a run knows nothing of are left out.

    Both could have been others, and each prompt is the same in every run: the variances of the runs' means and of the
    prompts' means add up, by Student's t with Satterthwaite's degrees of freedom. Noise of single texts is in both, so
    the interval is rather too wide.
    """
    table = table[:, np.isfinite(table).all(axis=0)]
    parts = [
        (float(means.var(ddof=1)) / len(means), len(means) - 1)
        for means in (table.mean(axis=1), table.mean(axis=0))
        if len(means) > 1
    ]
    variance = sum(part for part, _ in parts)
    half = 0.0
    if variance > 0:
        freedom = satterthwaite([part for part, _ in parts], [count for _, count in parts])
        half = student(freedom, 1 - LEVEL) * variance**0.5
    mean = float(table.mean())
    return Crossed(mean, mean - half, mean + half, table.mean(axis=1).tolist())


def seeds_said(found: OverSeeds) -> list[str]:
    """What the seeds say together."""
    wins, gained, kl = found.wins, found.gained, found.kl
    asked = f"{found.prompts} prompt{'s' if found.prompts > 1 else ''}"
    each = ", ".join(f"{share:.1%}" for share in wins.each)
    return [
        f"Over {found.runs} seeds and {asked} ({SAID} intervals of other seeds and prompts): wins "
        f"{wins.mean:.1%} ({wins.low:.1%} to {wins.high:.1%}) against what each started from; by seed {each}.",
        f"The reward changed by {gained.mean:+.3f} ({gained.low:+.3f} to {gained.high:+.3f}), at "
        f"{kl.mean:.2f} nats ({kl.low:.2f} to {kl.high:.2f}).",
    ]
