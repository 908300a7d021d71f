"""Best-of-n of a run as something to learn from: conversations with its best answers (rejection sampling), or pairs of
its best and its worst.

P prompts, M answers to each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from octavo.errors import InputError, TokenizerError
from octavo.generation import Sample
from octavo.run.data import build_dataset
from octavo.run.run import Run
from octavo.tasks.chat.prompts import Question, judges_only
from octavo.tokenizers import with_special
from octavo.tokenizers.chat import CHAT_TOKENS, ChatTemplate, has_chat
from octavo.tuning.ceiling import judged_by_prompt, written
from octavo.tuning.prompts import START, fitting, questions_in_conversations, questions_in_file
from octavo.tuning.rewards.base import Reward, RewardConfig
from octavo.tuning.rollouts import room_for
from octavo.util.terminal import Console


@dataclass(frozen=True)
class Chosen:
    """What there is to learn from.

    Attributes:
        records: conversations, or preferences, as `octavo tune` reads them.
        prompts: how many were asked.
        usual: mean reward of all answers that have one.
        best: mean reward of those that were chosen.
        failed: why answers have no reward, with how many each.
    """

    records: Sequence[dict[str, Any]]
    prompts: int
    usual: float
    best: float
    failed: dict[str, int]


def prompts_for(run: Run, file: Path | None) -> Sequence[Question]:
    """What a run is asked: the prompts of a file, or those of its own training conversations, as far as they leave room
    for an answer. Raises InputError for a run that answers nothing."""
    if judges_only(run.config):
        raise InputError(f"{run.path} is a learned reward: it judges texts, and writes none.")
    if not has_chat(run.tokenizer):
        raise InputError(
            f"{run.path} was not tuned on conversations, so it answers nothing.",
            remedy="octavo tune sft RUN --text chats.jsonl",
        )
    if file is not None:
        asked = questions_in_file(file, run.tokenizer, answers=True)
    else:
        dataset = build_dataset(run.config, Console(quiet=True), run.tokenizer)
        asked = questions_in_conversations(dataset.train, run.tokenizer)
    return fitting(asked, run.model.context, None)


def asked_of(run: Run) -> Sequence[Question]:
    """What a run is asked by itself: the prompts of its training conversations, or the start of a document."""
    return prompts_for(run, None) if run.config.form != "text" else (START,)


def best_answers(
    run: Run,
    config: RewardConfig,
    asked: Sequence[Question],
    *,
    samples: int,
    pairs: bool = False,
    seed: int = 0,
    console: Console | None = None,
) -> Chosen:
    """Let a run answer each prompt so many times, and keep its best answer, or with `pairs` its best and its worst,
    where these differ. An answer that did not come to its end counts for none: it would teach to stop there.

    Raises InputError where nothing is left to learn from.
    """
    found = _chosen(run, config.build(), asked, samples=samples, pairs=pairs, seed=seed, console=console)
    if not found.records:
        raise InputError(
            f"Of {len(asked):,} prompts none has {'two answers of different worth' if pairs else 'a whole answer'}.",
            remedy="more answers to each (--samples), or another reward",
        )
    return found


def pairs_of(run: Run, reward: Reward, asked: Sequence[Question], *, seed: int) -> Sequence[dict[str, Any]]:
    """Two texts of a run after each prompt, the better one chosen, as preferences; none of those that tie."""
    return _chosen(run, reward, asked, samples=2, pairs=True, seed=seed).records


def _chosen(
    run: Run,
    reward: Reward,
    asked: Sequence[Question],
    *,
    samples: int,
    pairs: bool,
    seed: int,
    console: Console | None = None,
) -> Chosen:
    template = ChatTemplate(with_special(run.tokenizer, CHAT_TOKENS))  # what a training would read them with
    tokens = room_for(asked, run.model, run.tokenizer, None)
    texts = written(
        run.model,
        run.tokenizer,
        asked,
        samples=samples,
        tokens=tokens,
        within=True,
        seed=seed,
        console=console,
    )
    judged = judged_by_prompt(reward, asked, texts)
    usable = np.array(
        [[sample.finish == "end" and _kept(template, sample) for sample in row] for row in texts]
    )
    rewards = np.where(usable, judged.rewards, np.nan)
    records, best = [], []
    for one, row, worth in zip(asked, texts, rewards, strict=True):
        if not np.isfinite(worth).any():
            continue
        top, low = int(np.nanargmax(worth)), int(np.nanargmin(worth))
        turns = [] if isinstance(one.prompt, str) else template.parse(one.prompt)[:-1]
        said = [message.as_dict() for message in turns]
        if not pairs:
            records.append({"messages": [*said, {"role": "assistant", "content": row[top].text}]})
        elif worth[top] > worth[low]:
            records.append({"messages": said, "chosen": row[top].text, "rejected": row[low].text})
        else:
            continue
        best.append(worth[top])
    best_mean = float(np.mean(best)) if best else math.nan
    return Chosen(records, len(asked), float(np.nanmean(judged.rewards)), best_mean, judged.failed)


def _kept(template: ChatTemplate, sample: Sample) -> bool:
    """Whether an answer says something, and the template keeps it, so that a training can read it."""
    try:
        template.encode(sample.text)
    except TokenizerError:
        return False
    return bool(sample.text.strip())
