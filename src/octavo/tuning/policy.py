"""Learning from a reward: the policy gradient over texts that the model writes itself."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from octavo.config import Recipe
from octavo.config.parts import LARGEST, MOST, FilePath, PartConfig, PartOf, register
from octavo.dataset import Dataset, Split
from octavo.dataset.batch import Batch
from octavo.errors import ConfigError
from octavo.generation.prompts import read_prompts
from octavo.model.kind import LanguageModel
from octavo.tokenizers import Tokenizer
from octavo.training.objective import (
    NEXT_TOKEN,
    Learning,
    Loss,
    Model,
    Objective,
    ObjectiveConfig,
    OwnBatches,
    PerToken,
    at_least_float32,
    logits_of,
)
from octavo.tuning.rollouts import Rollouts, Way, room_for


class PolicyGradient(Objective):
    """Raise the probability of tokens in texts that turned out better than usual, and lower that of the others.

    It is evaluated as a model of texts: what the tuning cost. On a batch of texts that it did not write it learns
    these, as `next-token` does.
    """

    metrics = NEXT_TOKEN.metrics
    learns_texts = False

    def __init__(self, config: PolicyGradientConfig) -> None:
        self.config = config
        self.base: LanguageModel | None = None

    def refuse(self, recipe: Recipe, dataset: Dataset, model: LanguageModel, *, processes: int) -> None:
        """See the base class."""
        config, batch = self.config, recipe.training.batch
        if recipe.training.start_from is None:
            raise ConfigError(
                "objective=policy-gradient tunes a model that can write; this run has none.",
                remedy="training.start_from=RUN, or octavo tune rl RUN",
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
        prompts = config.questions(dataset.train, dataset.tokenizer)
        room_for(prompts, model, dataset.tokenizer, config.tokens)

    def own_batches(self, learning: Learning) -> OwnBatches:
        """See the base class."""
        config, tokenizer = self.config, learning.dataset.tokenizer
        prompts = config.questions(learning.dataset.train, tokenizer)
        assert learning.started is not None, "see `refuse`"
        self.base = learning.started().requires_grad_(False).to(next(learning.model.parameters()).device)
        return Rollouts(
            model=learning.model,
            base=self.base,
            tokenizer=tokenizer,
            prompts=prompts,
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
                tokens=room_for(prompts, learning.model, tokenizer, config.tokens),
            ),
        )

    def loss(self, model: Model, batch: Batch[Tensor], *, step: int = 0) -> Loss:
        """See the base class. The ratio to the probability with which a token was written is 1 at the first update, so
        its gradient is that of the log-probability; further updates need it, and `clip` keeps it near 1 (Schulman et
        al. 2017)."""
        if batch.advantages is None or batch.behaviour is None:
            return NEXT_TOKEN.loss(model, batch, step=step)
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
        return Loss(total, metrics)

    def evaluate(self, model: Model, batch: Batch[Tensor]) -> PerToken:
        """See the base class."""
        return NEXT_TOKEN.evaluate(model, batch)


@register("objective")
class PolicyGradientConfig(ObjectiveConfig):
    """Reinforcement learning: the model writes, a reward judges, and better texts become more probable."""

    kind: Literal["policy-gradient"] = "policy-gradient"
    tunes: ClassVar[bool] = True
    reward: Annotated[PartConfig, PartOf("reward", "pidgin")] = Field(
        {"kind": "pidgin"}, validate_default=True
    )
    """What a text is worth."""
    prompts: FilePath | None = None
    """A file of prompts: one a line, or a YAML or JSON list. Empty: see `prompt_ends`."""
    prompt_ends: str = ""
    """Where the prompt ends in each document of the training split, such as `=`: what follows is written by the model.
    Empty: the model writes whole documents."""
    group: int = Field(8, ge=2, le=MOST)
    """Texts after one prompt, which are compared with each other; `training.batch` counts texts."""
    advantage: Literal["rloo", "mean", "grpo"] = "rloo"
    """What a text's reward is compared with. rloo: the mean of the others (without bias). mean: the mean of all. grpo:
    that, divided by the standard deviation."""
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
    kl_budget: float | None = Field(None, gt=0, le=LARGEST)
    """Stop when a text is so many nats from the base, on average. Empty: never."""
    tokens: int | None = Field(None, ge=1, le=MOST)
    """Most tokens of a text. Empty: as many as fit into the context."""

    @model_validator(mode="after")
    def _has_effect(self) -> PolicyGradientConfig:
        if self.clip is not None and self.updates == 1:
            raise ValueError("clip has no effect where texts are learned from once; set updates to 2 or more")
        if self.prompts is not None and self.prompt_ends:
            raise ValueError("give prompts or prompt_ends, not both")
        return self

    def questions(self, split: Split, tokenizer: Tokenizer) -> tuple[str, ...]:
        """The prompts, each once. Raises InputError where the file, or ConfigError where the split has none."""
        if self.prompts is not None:
            return tuple(dict.fromkeys(read_prompts(self.prompts)))
        if not self.prompt_ends:
            return ("",)
        found = dict.fromkeys(cut(split, tokenizer, self.prompt_ends))
        if not found:
            raise ConfigError(
                f"objective.prompt_ends={self.prompt_ends!r}: no document of the text has it.",
                remedy="batches or split by documents, or another end",
            )
        return tuple(found)

    def build(self) -> Objective:
        """The objective."""
        return PolicyGradient(self)


def cut(split: Split, tokenizer: Tokenizer, end: str) -> Sequence[str]:
    """The beginning of each document up to and with `end`; those without it are left out."""
    bounds = [*split.starts.tolist(), len(split.tokens)]
    found = []
    for first, last in pairwise(bounds):
        text = tokenizer.decode(split.tokens[int(first) : int(last)].tolist())
        before, there, _ = text.partition(end)
        if there:
            found.append(before + there)
    return found
