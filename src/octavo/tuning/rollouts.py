"""Texts that the model writes to learn from: drawn by (seed, step), judged, and compared with the base.

B texts of a batch in groups of G with one prompt, T positions, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from octavo.data.batch import Batch
from octavo.data.batches import Batches
from octavo.data.permutation import draw
from octavo.errors import InputError
from octavo.generation import Engine, Sample, Sampling, TextRequest, in_order
from octavo.model.base import LanguageModel
from octavo.tasks.chat.prompts import Question
from octavo.tokenizers import Tokenizer
from octavo.tuning.rewards.base import Reward, judge
from octavo.util.seeds import derived

# How much better than usual a text was, and what its distance from the base costs from each token on.

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


ROWS = 64
"""Texts whose logits are held at once."""


@dataclass(frozen=True)
class Way:
    """How texts are written and what is made of them; see `policy.PolicyGradientConfig`."""

    group: int
    form: Form
    beta: float
    kl_in: str
    updates: int
    budget: float | None
    tokens: int
    credit: float = 1.0


@dataclass(frozen=True)
class Rollout:
    """One batch of written texts, with what is told of it."""

    batch: Batch[np.ndarray]
    told: dict[str, float]


class Rollouts(Batches):
    """Batches of texts that the model itself writes, as it is at that step."""

    size = 0

    def __init__(
        self,
        *,
        model: LanguageModel,
        base: LanguageModel,
        tokenizer: Tokenizer,
        questions: Sequence[Question],
        left_out: int = 0,
        reward: Reward,
        rows: int,
        seed: int,
        way: Way,
    ) -> None:
        self.model, self.base, self.tokenizer, self.reward = model, base, tokenizer, reward
        self.questions, self.rows, self.seed, self.way = questions, rows, seed, way
        if left_out:
            verb = "prompt leaves" if left_out == 1 else "prompts leave"
            self.notes = (f"{left_out:,} {verb} too little of the context for an answer; not asked",)
        self.failures: dict[str, int] = {}
        self._said_flat = False
        self._kept: dict[tuple[int, int], Rollout] = {}

    def batch(self, step: int, micro: int = 0) -> Batch[np.ndarray]:
        """The first of several updates writes for all of them, and each learns without dropout, as
        the texts were written."""
        self.model.eval()
        key = step // self.way.updates, micro
        if key not in self._kept:
            self._kept = {other: kept for other, kept in self._kept.items() if other[0] == key[0]}
            self._kept[key] = self.written(*key)
        return self._kept[key].batch

    def figures(self, step: int) -> Mapping[str, float]:
        """Means over the texts of a step."""
        found = [kept.told for (number, _), kept in self._kept.items() if number == step // self.way.updates]
        return {name: float(np.mean([one[name] for one in found])) for name in found[0]} if found else {}

    def over(self, step: int) -> str | None:
        kl, budget = self.figures(step).get("kl", 0.0), self.way.budget
        if budget is None or kl <= budget:
            return None
        return f"the model is {kl:.2f} nats from its base, beyond the budget of {budget:g}: it stops here"

    def remark(self, step: int) -> str | None:
        """Once, where no group has anything to teach."""
        if self._said_flat or self.figures(step).get("flat_groups", 0.0) < 1:
            return None
        self._said_flat = True
        return "all texts of each group are worth the same, so the reward taught nothing"

    def tensors(self, step: int) -> dict[str, Tensor]:
        """The texts that are still to be learned from."""
        if step % self.way.updates == 0:
            return {}
        kept: dict[str, Tensor] = {}
        for (number, micro), rollout in self._kept.items():
            for name, array in rollout.batch.items():
                kept[f"{number}/{micro}/{name}"] = torch.from_numpy(array)
            told = torch.tensor(list(rollout.told.values()), dtype=torch.float64)
            kept[f"{number}/{micro}/told/{','.join(rollout.told)}"] = told
        return kept

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        found: dict[tuple[int, int], dict[str, np.ndarray]] = {}
        told: dict[tuple[int, int], dict[str, float]] = {}
        for name, tensor in tensors.items():
            number, micro, what, *names = name.split("/")
            key = int(number), int(micro)
            if what == "told":
                told[key] = dict(zip(names[0].split(","), tensor.tolist(), strict=True))
            else:
                found.setdefault(key, {})[what] = tensor.numpy()
        self._kept = {key: Rollout(Batch(**fields), told[key]) for key, fields in sorted(found.items())}

    def written(self, number: int, micro: int) -> Rollout:
        """Roll-out `number`, by the model as it is now. The model stays in the state in which it writes, without
        dropout: that is the policy whose probabilities count."""
        return self.judged(*self.drawn(number, micro))

    def judged(self, asked: Sequence[Question], samples: Sequence[Sample]) -> Rollout:
        """What is learned from texts, group after group, each with its prompt."""
        texts = [(one.text, sample.text) for one, sample in zip(asked, samples, strict=True)]
        judged = judge(self.reward, texts)
        for why, count in judged.failed.items():
            self.failures[why] = self.failures.get(why, 0) + count
        engine = Engine(self.model, self.tokenizer)
        batch = as_batch(
            [(engine.prompt_ids(one.prompt), s.ids) for one, s in zip(asked, samples, strict=True)]
        )
        known = compared(self.model, self.base, batch)
        rewards = judged.rewards.reshape(-1, self.way.group)
        advantages = self._advantages(
            rewards, self._worth(texts, samples, judged.rewards, batch), batch, known
        )
        fields = {"advantages": advantages, "behaviour": known["policy"]}
        scored = batch.targets >= 0
        lengths = scored.sum(1)
        told = {
            "reward": float(np.nanmean(judged.rewards)),
            "kl": float(known["kl"].sum() / len(samples)),
            "entropy": float(known["entropy"].sum() / scored.sum()),
            "length": float(lengths.mean()),
            "ended": float(np.mean([sample.finish == "end" for sample in samples])),
            "distinct_2": distinct([sample.ids for sample in samples], 2),
            "flat_groups": flat(rewards) / len(rewards),
            "failed_rewards": float((~judged.known).sum()),
        }
        return Rollout(Batch(batch.inputs, batch.targets, **fields), told)

    def drawn(self, number: int, micro: int) -> tuple[list[Question], list[Sample]]:
        """The texts of a roll-out, each with its prompt."""
        group = self.way.group
        per_step = self.rows // group
        seed = derived(self.seed, number, micro)
        chosen = draw(number * per_step, per_step, len(self.questions), self.seed + micro)
        asked = [self.questions[int(i)] for i in chosen for _ in range(group)]
        requests = [TextRequest(one.prompt, seed, index) for index, one in enumerate(asked)]
        written = Engine(self.model, self.tokenizer).write_each(
            requests, tokens=self.way.tokens, sampling=Sampling(), within=True
        )
        return asked, in_order(sample for sample, _ in written)

    def _worth(
        self,
        texts: Sequence[tuple[str, str]],
        samples: Sequence[Sample],
        rewards: np.ndarray,
        batch: Batch[np.ndarray],
    ) -> np.ndarray | None:
        """What each text was worth before each token and in the end (B, T + 1), NaN without a reward; None where credit
        does not fade. Before the first token and after the last one the row goes on as it is there."""
        if self.way.credit == 1:
            return None
        width = batch.targets.shape[1]
        worth = np.full((len(samples), width + 1), np.nan)
        for row, ((prompt, text), sample) in enumerate(zip(texts, samples, strict=True)):
            if not np.isfinite(rewards[row]):
                continue
            values = np.array(self.reward.along(prompt, text, [0, *sample.sizes]), float)
            first = int((batch.targets[row] >= 0).argmax())
            worth[row, :first] = values[0]
            worth[row, first : first + len(values) - 1] = values[:-1]
            worth[row, first + len(values) - 1 :] = rewards[row]
        return worth

    def _advantages(
        self,
        rewards: np.ndarray,
        worth: np.ndarray | None,
        batch: Batch[np.ndarray],
        known: Mapping[str, np.ndarray],
    ) -> np.ndarray:
        """Of each token (B, T), in float32: how much better the text was, less what the distance from the base costs
        from there on. In the reward, that is what was drawn; in the loss, the whole vocabulary at each later token
        (the token's own is differentiated there)."""
        way, scored = self.way, batch.targets >= 0
        if worth is None:
            found = np.repeat(group_advantages(rewards, way.form).reshape(-1, 1), scored.shape[1], axis=1)
        else:
            found = credited(worth.reshape(*rewards.shape, -1), way.credit).reshape(scored.shape)
        if way.beta:
            inside = way.kl_in == "reward"
            costs = known["policy"].astype(float) - known["base"] if inside else known["kl"].astype(float)
            shape = (len(rewards), way.group, -1)
            found -= way.beta * costs_ahead(costs.reshape(shape), own=inside).reshape(found.shape)
        return np.where(scored, found, 0.0).astype(np.float32)


def as_batch(texts: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Batch[np.ndarray]:
    """Rows of (prompt, what was written after it), whose written tokens alone are targets."""
    longest = max(len(prompt) + len(ids) for prompt, ids in texts)
    inputs, targets = (
        np.zeros((len(texts), longest - 1), np.int64),
        np.full((len(texts), longest - 1), -1, np.int64),
    )
    for row, (prompt, ids) in enumerate(texts):
        whole = [*prompt, *ids]
        inputs[row, : len(whole) - 1] = whole[:-1]
        targets[row, len(prompt) - 1 : len(whole) - 1] = ids
    return Batch(inputs, targets)


@torch.no_grad()
def compared(model: LanguageModel, base: LanguageModel, batch: Batch[np.ndarray]) -> dict[str, np.ndarray]:
    """Of each written token (B, T), 0 elsewhere: its log-probability by the policy and by the base, and before it was
    drawn, the KL between the two and the policy's entropy, both over the whole vocabulary. Nats, float32."""
    model.eval()
    device = next(model.parameters()).device
    parts: dict[str, list[Tensor]] = {"policy": [], "base": [], "kl": [], "entropy": []}
    for part in batch.parts(ROWS):
        here = part.to(device)
        scored = here.targets >= 0
        own, other = (each(here.inputs).float().log_softmax(dim=-1) for each in (model, base))  # (B, T, V)
        chosen = here.targets.clamp(min=0)[..., None]
        known = {
            "policy": own.gather(-1, chosen)[..., 0],
            "base": other.gather(-1, chosen)[..., 0],
            "kl": (own.exp() * (own - other)).sum(dim=-1),
            "entropy": -(own.exp() * own).sum(dim=-1),
        }
        for name, values in known.items():
            parts[name].append(torch.where(scored, values, 0.0).cpu())
    return {name: torch.cat(found).numpy() for name, found in parts.items()}


def distinct(texts: Sequence[Sequence[int]], n: int) -> float:
    """The share of different ones among all runs of n tokens (Li et al. 2016)."""
    runs = [tuple(ids[at : at + n]) for ids in texts for at in range(len(ids) - n + 1)]
    return len(set(runs)) / len(runs) if runs else 0.0


def room_for(
    questions: Sequence[Question], model: LanguageModel, tokenizer: Tokenizer, wanted: int | None
) -> int:
    """Tokens that a text may have: as many as asked for, or as the context has; those that do not fit after its own
    prompt are left out (`Engine.write_each`, `within`).

    Raises InputError where a prompt leaves no room, or not as much as asked for.
    """
    engine = Engine(model, tokenizer)
    size, longest = max((len(engine.prompt_ids(one.prompt)), one.text) for one in questions)
    room = model.context + 1 - size
    if room < (wanted or 1):
        raise InputError(
            f"The context of {model.context} tokens leaves {max(room, 0)} after the prompt {longest[-40:]!r}; "
            f"{wanted or 1} are asked for.",
            remedy=f"objective.tokens={room}" if room > 0 else "shorter prompts",
        )
    return wanted or model.context
