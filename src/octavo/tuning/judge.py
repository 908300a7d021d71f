"""What a tuned run reached, and what it cost: the gold reward against KL, under the ceiling and beside best-of-n.

P prompts that were held out, M texts of each by the run and by what it started from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from octavo.config.parts import PartConfig
from octavo.errors import InputError
from octavo.evaluation.stored import Evaluation
from octavo.generation import Engine, Sample
from octavo.model.base import LanguageModel
from octavo.run.data import build_dataset
from octavo.run.run import Run
from octavo.tasks.chat.prompts import Question, judges_only, wished
from octavo.tuning.ceiling import DRAWS, Ceiling, ceiling_of, judged_by_prompt, written
from octavo.tuning.plots import Reached
from octavo.tuning.policy import PolicyGradientConfig
from octavo.tuning.prompts import fitting
from octavo.tuning.rewards.base import RewardConfig
from octavo.tuning.rollouts import as_batch, compared, distinct, room_for
from octavo.util.records import read_record
from octavo.util.stats import SAID, interval_of_mean
from octavo.util.terminal import Console

MOST_PROMPTS = 64
TEXTS = 1024
"""Of each model, over all prompts."""
LEAST = 16
"""After each prompt; for fewer texts there are fewer prompts."""
SHOWN = 3
"""Pairs of texts on the page."""


@dataclass(frozen=True)
class Pair:
    """A prompt, with a text of the base and one of the tuned model, and their rewards."""

    prompt: str
    base: str
    tuned: str
    rewards: tuple[float, float]


@dataclass(frozen=True)
class Verdict:
    """What was measured.

    Attributes:
        ceiling: of what the run started from.
        reached: KL and gold reward of the run.
        figures: everything as plain data, for tuning.json.
        sentences: what it says.
        pairs: texts side by side.
        tables: of each text (P, M): `wins` against what it started from, `gained` reward, and `kl`.
    """

    ceiling: Ceiling
    reached: Reached
    figures: dict[str, Any]
    sentences: list[str]
    pairs: list[Pair]
    tables: dict[str, np.ndarray]


def measure(
    run: Run,
    *,
    gold: RewardConfig | None = None,
    texts: int = TEXTS,
    seed: int = 0,
    console: Console | None = None,
    asked: tuple[Sequence[Question], bool] | None = None,
) -> Verdict:
    """Let a tuned run and what it started from write after held-out prompts, and compare. `gold`: the reward that
    judges, by default the one that taught; `asked`: the prompts, and whether they were held
    out, by default `judging_questions` of the run.

    Raises InputError for a run that was not tuned, does not know what it started from, or was taught by no reward where
    none is given.
    """
    console = console or Console(quiet=True)
    objective, base = asking(run, gold), run.started
    if base is None:
        raise InputError(f"{run.path} does not know what it started from.", remedy="name the run folder")
    config = gold or objective.reward
    assert isinstance(config, RewardConfig)
    prompts, held_out = asked or judging_questions([run], gold, seed=seed)
    prompts, each = shared_out(texts, prompts)
    how: dict[str, Any] = {
        "samples": each,
        "tokens": room_for(prompts, run.model, run.tokenizer, objective.tokens),
        "within": True,
        "seed": seed,
        "console": console,
    }
    before, after = (written(model, run.tokenizer, prompts, **how) for model in (base, run.model))
    judged = [judged_by_prompt(config.build(), prompts, found) for found in (before, after)]
    ceiling, rewards = ceiling_of(config, judged[0], seed=seed), [one.rewards for one in judged]
    wins = won(*rewards)
    tables = {
        "wins": wins,
        "gained": rewards[1] - rewards[0],
        "kl": distances(run, base, prompts, after),
    }
    draws: Any = {"draws": DRAWS, "seed": seed}
    kl = interval_of_mean(tables["kl"], least=0.0, **draws)
    tuned: dict[str, Any] = interval_of_mean(rewards[1], **draws) | style(after) | {"kl": kl}
    figures: dict[str, Any] = {
        "reward": config.model_dump(mode="json"),
        "learned_from": run.config.objective.kind,
        "prompts": len(prompts),
        "prompts_held_out": held_out,
        "texts_a_prompt": each,
        "failed_rewards": {**judged[0].failed, **judged[1].failed},
        "base": interval_of_mean(rewards[0], **draws) | style(before),
        "tuned": tuned,
        "win_rate": interval_of_mean(wins, least=0.0, most=1.0, **draws),
        "bits_per_byte": _cost(run),
        "ceiling": ceiling.as_dict(),
    }
    reached = Reached(run.path.name, tuned["kl"]["mean"], *(tuned[key] for key in ("mean", "low", "high")))
    figures["distance"] = distance(ceiling, reached)
    figures["taught_by"] = taught_by(objective.reward, config, prompts, (before, after), seed)
    pairs = side_by_side(prompts, (before, after), rewards)
    return Verdict(ceiling, reached, figures, sentences(figures), pairs, tables)


def won(base: np.ndarray, tuned: np.ndarray) -> np.ndarray:
    """Of rewards (P, M): 1 where the tuned model's text is worth more than the base's, ½ where both are worth the same,
    else 0; NaN where one has no reward."""
    return np.where(np.isfinite(base + tuned), np.sign(tuned - base) / 2 + 0.5, np.nan)


def side_by_side(
    prompts: Sequence[Question], texts: Sequence[Sequence[Sequence[Sample]]], rewards: Sequence[np.ndarray]
) -> list[Pair]:
    """Texts of the base and of the tuned model: of several prompts the first of each, of one prompt its first texts."""
    before, after = texts
    each = len(before[0])
    places = [(i, 0) if len(prompts) > 1 else (0, i) for i in range(min(SHOWN, max(len(prompts), each)))]
    return [
        Pair(prompts[p].text, before[p][m].text, after[p][m].text, (rewards[0][p, m], rewards[1][p, m]))
        for p, m in places
        if p < len(prompts) and m < each
    ]


def shared_out(texts: int, prompts: Sequence[Question]) -> tuple[list[Question], int]:
    """Prompts, and how many texts after each, for so many texts in all; of too many prompts some, evenly spread."""
    count = max(1, min(len(prompts), texts // LEAST))
    return [prompts[number * len(prompts) // count] for number in range(count)], max(LEAST, texts // count)


def asking(run: Run, gold: RewardConfig | None) -> PolicyGradientConfig:
    """What a run is asked and judged by: its own objective's where a reward taught it; where conversations or
    preferences did, what they ask, and the reward that is given."""
    config = run.config
    if isinstance(config.objective, PolicyGradientConfig):
        return config.objective
    if judges_only(config):
        raise InputError(f"{run.path} is a learned reward: it judges texts, and writes none.")
    if not config.objective.tunes:
        raise InputError(
            f"{run.path} was not tuned by a reward.", remedy="octavo tune rl BASE makes such a run"
        )
    if gold is None:
        raise InputError(
            f"No reward taught {run.path}: it learned from {config.form}.",
            remedy="octavo tune judge RUN --reward KIND",
        )
    return PolicyGradientConfig.model_validate({"answers": True, "reward": gold.model_dump()})


def taught_by(
    taught: PartConfig,
    gold: RewardConfig,
    questions: Sequence[Question],
    texts: Sequence[Sequence[Sequence[Sample]]],
    seed: int,
) -> dict[str, Any] | None:
    """What the reward that taught says of the same texts, the base's and the tuned model's; None where it judges."""
    assert isinstance(taught, RewardConfig)
    if taught == gold:
        return None
    reward = taught.build()
    base, tuned = (
        interval_of_mean(judged_by_prompt(reward, questions, found).rewards, draws=DRAWS, seed=seed)
        for found in texts
    )
    return {"reward": taught.model_dump(mode="json"), "base": base, "tuned": tuned}


def judging_questions(
    runs: Sequence[Run], gold: RewardConfig | None, *, seed: int = 0
) -> tuple[Sequence[Question], bool]:
    """The prompts to judge runs by, and whether they were held out from the tuning of each: those that stand in a
    validation split alone, and of wishes combinations that no training has."""
    learned: dict[Question, None] = {}
    others: dict[Question, None] = {}
    objectives = [asking(run, gold) for run in runs]
    for run, objective in zip(runs, objectives, strict=True):
        dataset = build_dataset(run.config, Console(quiet=True), run.tokenizer)
        learned |= dict.fromkeys(objective.questions(dataset.train, run.tokenizer))
        found: Sequence[Question] = ()
        if run.config.corpus.kind == "wishes":
            found = wished(run.tokenizer, MOST_PROMPTS, seed=seed)
        elif objective.prompts is None and (objective.prompt_ends or objective.answers):
            found = objective.questions(dataset.validation, run.tokenizer)
        others |= dict.fromkeys(found)
    held_out = [one for one in others if one not in learned]
    context, room = (
        min(run.model.context for run in runs),
        max((objective.tokens or 0) for objective in objectives),
    )
    chosen = fitting(held_out or list(learned), context, room or None)
    return chosen[:MOST_PROMPTS], bool(held_out)


def distances(
    run: Run, base: LanguageModel, questions: Sequence[Question], texts: Sequence[Sequence[Sample]]
) -> np.ndarray:
    """KL (P, M) from the base along each text that the run wrote, exact over the vocabulary at each token."""
    engine = Engine(run.model, run.tokenizer)
    pairs = [
        (engine.prompt_ids(asked.prompt), one.ids)
        for asked, row in zip(questions, texts, strict=True)
        for one in row
    ]
    return compared(run.model, base, as_batch(pairs))["kl"].sum(1).reshape(len(questions), -1)


def style(texts: Sequence[Sequence[Sample]]) -> dict[str, float]:
    """How texts are, apart from their reward: tokens, whether they end, repetition and sameness."""
    flat = [one for row in texts for one in row]
    return {
        "tokens": float(np.mean([len(one.ids) for one in flat])),
        "ended": float(np.mean([one.finish == "end" for one in flat])),
        "distinct_2": distinct([one.ids for one in flat], 2),
        "distinct_4": distinct([one.ids for one in flat], 4),
        "repeated_4": 1
        - float(np.mean([distinct([one.ids], 4) for one in flat if len(one.ids) > 3] or [1.0])),
        "different_texts": len({one.text for one in flat}) / len(flat),
    }


def _cost(run: Run) -> dict[str, float | None]:
    """Bits per byte on the validation text, before and after, as the run's evaluation has them; of one that answers, on
    the text of the run that its road began with."""
    if run.folder is None or not run.folder.evaluation.is_file():
        return {"before": None, "after": None}
    found = read_record(run.folder.evaluation, Evaluation)
    if cost := found.get("cost"):
        return dict(cost["bits_per_byte"])
    start = found.get("baselines", {}).get("start") or {}
    return {"before": start.get("bits_per_byte"), "after": found.get("bits_per_byte")}


def distance(ceiling: Ceiling, reached: Reached) -> dict[str, float | None]:
    """How far below the ceiling a policy is, as far as the ceiling is known: the nats that the best policy needs for
    its reward, the nats too many, and the rewards at its KL of the best policy and of best-of-n."""
    needed = ceiling.curve.kl_at(reached.reward)
    return {
        "kl_needed": needed,
        "nats_too_many": None if needed is None else reached.kl - needed,
        "ceiling_at_kl": ceiling.curve.reward_at(reached.kl),
        "best_of_n_at_kl": ceiling.best_of_n.reward_at(reached.kl),
    }


def proxy_said(figures: dict[str, Any]) -> list[str]:
    """The reward that taught beside the one that judges."""
    taught = figures["taught_by"]
    if taught is None:
        learned = figures["reward"]["kind"] == "model" and figures["learned_from"] == "policy-gradient"
        return [
            "This judge is a learned reward, and it is what taught the run: of its mistakes it knows nothing. Ask "
            "another one: octavo tune judge RUN --reward KIND."
        ] * learned
    return [
        f"The reward that taught it ({taught['reward']['kind']}) says {taught['tuned']['mean']:.3f} "
        f"({SAID} interval {taught['tuned']['low']:.3f} to {taught['tuned']['high']:.3f}), of what it started from "
        f"{taught['base']['mean']:.3f} ({taught['base']['low']:.3f} to {taught['base']['high']:.3f})."
    ]


def sentences(figures: dict[str, Any]) -> list[str]:
    """The verdict on a tuning, from its figures."""
    base, tuned, far, wins = (figures[key] for key in ("base", "tuned", "distance", "win_rate"))
    kl = tuned["kl"]["mean"]
    said = [
        f"Reward {tuned['mean']:.3f} ({SAID} interval {tuned['low']:.3f} to {tuned['high']:.3f}), where it started "
        f"from {base['mean']:.3f} ({base['low']:.3f} to {base['high']:.3f}), at {kl:.2f} nats a text."
    ]
    if base["low"] == base["high"] == tuned["low"] == tuned["high"]:
        said.append("All texts of both are worth the same: this reward tells nothing of them.")
    said += proxy_said(figures)
    if far["kl_needed"] is not None:
        said.append(
            f"The best possible policy needs {far['kl_needed']:.2f} nats for that reward: this one spends "
            f"{far['nats_too_many']:.2f} more."
        )
    else:
        said.append("The ceiling's samples do not lead to that reward; nobody knows here how near it is.")
    if far["ceiling_at_kl"] is not None:
        said.append(f"At its distance the ceiling is {far['ceiling_at_kl']:.3f}.")
    if far["best_of_n_at_kl"] is not None:
        than = far["best_of_n_at_kl"]
        better = (
            "better"
            if tuned["low"] > than
            else "worse"
            if tuned["high"] < than
            else "neither better nor worse"
        )
        said.append(
            f"Best-of-n of what it started from reaches {far['best_of_n_at_kl']:.3f} at that distance, without "
            f"training: the tuned model is {better}."
        )
    said.append(
        f"It wins {wins['mean']:.1%} ({SAID} interval {wins['low']:.1%} to {wins['high']:.1%}) against what it started "
        "from; a tie counts half."
    )
    cost = figures["bits_per_byte"]
    if cost["before"] is not None and cost["after"] is not None:
        said.append(
            f"The tuning cost {cost['after'] - cost['before']:+.4f} bits per byte of the validation text."
        )
    if not figures["prompts_held_out"]:
        said.append("The prompts are those that it was tuned with: none were held out.")
    return said
