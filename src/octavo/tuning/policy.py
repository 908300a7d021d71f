"""Learning from a reward: the policy gradient over texts that the model writes itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor

from octavo.config import Recipe
from octavo.config.parts import LARGEST, MOST, FilePath, PartConfig, PartOf, register
from octavo.data import Dataset, Split
from octavo.data.batch import Batch
from octavo.errors import ConfigError
from octavo.model.base import LanguageModel
from octavo.tasks.chat.prompts import Question
from octavo.tokenizers import Tokenizer
from octavo.tokenizers.chat import has_chat
from octavo.training.objective import (
    NEXT_TOKEN,
    Answers,
    Learning,
    Loss,
    Model,
    Objective,
    ObjectiveConfig,
    PerToken,
    at_least_float32,
    logits_of,
)
from octavo.tuning.prompts import (
    START,
    fitting,
    questions_in_conversations,
    questions_in_file,
    questions_in_text,
)
from octavo.tuning.rewards.base import RewardConfig
from octavo.tuning.rollouts import Rollouts, Way, room_for


class PolicyGradient(Objective):
    """Raise the probability of tokens in texts that turned out better than usual, and lower that of the others.

    It is evaluated as a model of texts, or of the answers in conversations: what the tuning cost. On a batch of texts
    that it did not write it learns these, as `next-token` and `answers` do.
    """

    learns_texts, asks_start = False, True  # for the distance from it

    def __init__(self, config: PolicyGradientConfig) -> None:
        self.config = config
        self.texts = Answers() if config.answers else NEXT_TOKEN
        self.unit, self.metrics = self.texts.unit, self.texts.metrics
        self.base: LanguageModel | None = None

    def refuse(self, recipe: Recipe, dataset: Dataset, model: LanguageModel, *, processes: int) -> None:
        config, batch = self.config, recipe.training.batch
        if recipe.training.start_from is None:
            raise ConfigError(
                "objective=policy-gradient tunes a model that can write; this run has none.",
                remedy="training.start_from=RUN, or octavo tune rl RUN",
            )
        if recipe.model.held_out:
            raise ConfigError(
                "objective=policy-gradient changes a network, and what is counted beside it hides that.",
                remedy="model.counts=none",
            )
        if processes > 1:
            raise ConfigError("objective=policy-gradient writes its texts in one process alone.")
        if recipe.training.teachers.runs:
            raise ConfigError(
                "training.teachers teach from texts; objective=policy-gradient learns from what the model writes.",
                remedy="leave training.teachers out",
            )
        if batch % config.group:
            raise ConfigError(
                f"training.batch={batch} is no whole number of groups of {config.group}.",
                remedy=f"training.batch={max(1, round(batch / config.group)) * config.group}",
            )
        if config.answers and not has_chat(dataset.tokenizer):
            raise ConfigError(
                "objective.answers is for a model that was tuned on conversations; this one has no chat template.",
                remedy="octavo tune sft RUN --text chats.jsonl first, or leave it out",
            )
        config.reward.build()  # a run that is named may have learned none
        questions = config.questions(dataset.train, dataset.tokenizer)
        room_for(fitting(questions, model.context, config.tokens), model, dataset.tokenizer, config.tokens)

    def improves(self, loss: float, best: float) -> bool:
        """The loss on texts is no measure of the reward: the newest model is the best."""
        return True

    def begin(self, learning: Learning) -> Rollouts:
        config, tokenizer = self.config, learning.dataset.tokenizer
        asked = config.questions(learning.dataset.train, tokenizer)
        questions = fitting(asked, learning.model.context, config.tokens)
        assert learning.started is not None, "see `refuse`"
        self.base = learning.started().requires_grad_(False).to(next(learning.model.parameters()).device)
        return Rollouts(
            model=learning.model,
            base=self.base,
            tokenizer=tokenizer,
            questions=questions,
            left_out=len(asked) - len(questions),
            reward=config.reward.build(),
            rows=learning.rows,
            seed=learning.seed,
            way=Way(
                group=config.group,
                form=config.advantage,
                beta=config.beta,
                kl_in=config.kl_in,
                updates=config.updates,
                budget=config.kl_budget,
                credit=config.credit,
                tokens=room_for(questions, learning.model, tokenizer, config.tokens),
            ),
        )

    def loss(self, model: Model, batch: Batch[Tensor], *, step: int = 0) -> Loss:
        """The ratio to the probability with which a token was written is 1 at the first update, so
        its gradient is that of the log-probability; further updates need it, and `clip` keeps it near 1 (Schulman et
        al. 2017)."""
        if batch.advantages is None or batch.behaviour is None:
            return self.texts.loss(model, batch, step=step)
        config, scored = self.config, batch.targets >= 0
        logs = at_least_float32(logits_of(model, batch)).log_softmax(dim=-1)  # (B, T, V)
        chosen = logs.gather(-1, batch.targets.clamp(min=0)[..., None])[..., 0]
        ratio = torch.where(scored, chosen - batch.behaviour, 0.0).exp()
        gain, metrics = ratio * batch.advantages, {}
        if config.clip is not None:
            near = ratio.clamp(1 - config.clip, 1 + config.clip)
            metrics["clipped"] = ((near * batch.advantages < gain) & scored).sum()
            gain = torch.minimum(gain, near * batch.advantages)
        total = -gain.sum()
        if config.beta and config.kl_in == "loss" and self.base is not None:
            with torch.no_grad():
                base = at_least_float32(logits_of(self.base, batch)).log_softmax(dim=-1)
            kl = (logs.exp() * (logs - base)).sum(dim=-1)  # (B, T)
            total = total + config.beta * torch.where(scored, kl, 0.0).sum()
        if config.entropy:
            entropy = -(logs.exp() * logs).sum(dim=-1)  # (B, T)
            total = total - config.entropy * torch.where(scored, entropy, 0.0).sum()
        return Loss(total, metrics)

    def evaluate(self, model: Model, batch: Batch[Tensor]) -> PerToken:
        return self.texts.evaluate(model, batch)

    def baselines(
        self, train: np.ndarray | None, validation: np.ndarray, *, vocab_size: int
    ) -> Mapping[str, float]:
        return self.texts.baselines(train, validation, vocab_size=vocab_size)


@register("objective")
class PolicyGradientConfig(ObjectiveConfig):
    """Reinforcement learning: the model writes, a reward judges, and better texts become more probable."""

    kind: Literal["policy-gradient"] = "policy-gradient"
    tunes: ClassVar[bool] = True
    answers: bool = False
    """Whether the model answers in conversations, as after `octavo tune sft`, and does not go on with texts; `octavo
    tune rl` sets it as the run asks for."""
    reward: Annotated[PartConfig, PartOf("reward", "pidgin")] = Field(
        {"kind": "pidgin"}, validate_default=True
    )
    """What a text is worth."""
    prompts: FilePath | None = None
    """A file of prompts: one a line, or a YAML or JSON list; of a model that answers also a .jsonl file of records with
    a `prompt` or `messages`. Empty: see `prompt_ends`; of one that answers, what was asked in the training
    conversations."""
    prompt_ends: str = ""
    """Where the prompt ends in each document of the training split, such as `=`: what follows is written by the model.
    Empty: the model writes whole documents."""
    group: int = Field(8, ge=2, le=MOST)
    """Texts after one prompt, which are compared with each other; `training.batch` counts texts."""
    advantage: Literal["rloo", "mean", "grpo"] = "rloo"
    """What a text's reward is compared with. rloo: the mean of the others (without bias). mean: the mean of all. grpo:
    that, divided by the standard deviation."""
    credit: float = Field(1.0, gt=0, le=1)
    """What a token gets of a change in the text's worth that comes later: so much less with each token between (the λ
    of generalised advantage estimation). 1: each token the whole text's reward, without bias. Less has much less noise;
    it takes a reward that can judge what is not whole yet (wishes, pidgin, sums of them), and advantage=rloo."""
    updates: int = Field(1, ge=1, le=1000)
    """Steps that learn from the same texts."""
    clip: float | None = Field(None, gt=0, lt=1)
    """How far a token's probability may move from where it was written, as a share (PPO's clip); it needs `updates`
    above 1. Empty: no limit."""
    beta: float = Field(0.02, ge=0, le=LARGEST)
    """Reward that a nat of KL from the base costs."""
    kl_in: Literal["loss", "reward"] = "loss"
    """Where that cost stands. loss: exact over the vocabulary, differentiated, with what it brings on later. reward: by
    the tokens drawn; the same gradient on average, with more noise."""
    entropy: float = Field(0.0, ge=-LARGEST, le=LARGEST)
    """Reward for a nat of entropy of each token's distribution, differentiated where it is written: above 0 the texts
    stay varied, below 0 the model becomes surer of what it holds probable."""
    kl_budget: float | None = Field(None, gt=0, le=LARGEST)
    """Stop when a text is so many nats from the base, on average. Empty: never."""
    tokens: int | None = Field(None, ge=1, le=MOST)
    """Most tokens of a text. Empty: as many as fit into the context."""

    @model_validator(mode="after")
    def _has_effect(self) -> PolicyGradientConfig:
        if self.clip is not None and self.updates == 1:
            raise ValueError("clip has no effect where texts are learned from once; set updates to 2 or more")
        if self.credit < 1 and self.advantage != "rloo":
            raise ValueError(
                "credit below 1 compares tokens with those of the other texts; set advantage=rloo"
            )
        if self.credit < 1 and isinstance(self.reward, RewardConfig) and not self.reward.build().early:
            raise ValueError(
                "credit below 1 takes a reward that can judge what is not whole yet: wishes, pidgin, or a sum with them"
            )
        if self.prompts is not None and self.prompt_ends:
            raise ValueError("give prompts or prompt_ends, not both")
        if self.answers and self.prompt_ends:
            raise ValueError(
                "prompt_ends is for texts; a conversation's prompt ends where the assistant answers"
            )
        return self

    @property
    def reads(self) -> str:  # pyrefly: ignore  # of other objectives always the same
        return "conversations" if self.answers else "text"

    def questions(self, split: Split, tokenizer: Tokenizer) -> tuple[Question, ...]:
        """The prompts, each once. Raises InputError where the file, or ConfigError where the split has none."""
        if self.prompts is not None:
            return questions_in_file(self.prompts, tokenizer, answers=self.answers)
        if self.answers:
            return questions_in_conversations(split, tokenizer)
        if not self.prompt_ends:
            return (START,)
        found = questions_in_text(split, tokenizer, self.prompt_ends)
        if not found:
            raise ConfigError(
                f"objective.prompt_ends={self.prompt_ends!r}: no document of the text has it.",
                remedy="batches or split by documents, or another end",
            )
        return found

    def build(self) -> Objective:
        return PolicyGradient(self)
