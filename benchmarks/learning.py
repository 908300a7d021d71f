"""What the field found to help where a text is short, at the sizes of the dial and with a context mixer beside: each
change against the same baseline, with equal steps and with equal seconds, for several seeds and texts.

    python benchmarks/learning.py --texts FOLDER --out runs.jsonl
    python benchmarks/learning.py --out runs.jsonl --table results/learning.md

The baseline is the dial's own recipe of a size (`--size`), trained for `--steps` steps by what trains it: Muon, linear
decay, products in bfloat16 where the processor has them. A change replaces parts of it. Bits per byte of the nineteenth
twentieth of each text, of the network *alone* and *mixed* by a context mixer that reads on, as the dial judges; and of
the last twentieth, which nothing was chosen on, mixed, with `--end`. *Equal seconds*: as many steps as the baseline
would need time for, by the ratio of both steps' processor time, which is taken in turns. Where that is within 3 % of 1,
one run stands for *both*.

What is in the file is not done again. Differences to the baseline are means over pairs of a text and a seed, with their
95 % interval by Student's t. Where a change was adopted, the baseline has it from then on.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from common import above, keep_row, mean, parser_of, run_missing
from octavo.auto import family
from octavo.config import Recipe, check
from octavo.config.schema import ASKING, TeachersConfig
from octavo.data.batch import NO_SIDE_INPUTS
from octavo.data.batches import held_out_end
from octavo.model.base import block_matrices, build_model, sparse_parameters
from octavo.model.gpt import GPT
from octavo.ngram.codes import CODE
from octavo.ngram.mixing_counts import MOST_HEARD, MixingCounts
from octavo.training import optimizers
from octavo.training.device import Bfloat16Products, fast_bfloat16

TURNS, TURN = 15, 8
"""How often a change and the baseline take turns to be timed, and steps of a turn."""
ALIKE = 0.03
"""Steps whose times differ by less, which is what two takings of one ratio differ by, take as long."""
HELD_OUT = 0.04
"""Share of the text that the mixer hears the network on, as in the dial."""
BYTES = 256
Row = dict[str, Any]
Parts = tuple[np.ndarray, np.ndarray, np.ndarray]


def nothing(*_: Any) -> None:
    """No change of a model, of its optimizers."""


def plain(model: GPT, inputs: Tensor, targets: Tensor, done: float) -> Tensor:
    """Mean cross-entropy."""
    return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())


@dataclass(frozen=True)
class Change:
    """What is done in another way than by the baseline.

    Attributes:
        about: in words.
        settings: of the recipe, by dotted names.
        build: rebuilds parts of a model before it is trained.
        loss: of a model, inputs, targets and the share of the steps that is done.
        each: called with the groups of parameters and that share before each step.
        muon: the optimizer of matrices.
        epochs: windows without replacement, from a new offset for each pass.
        average: share of the steps, at the end, whose weights are averaged; the rate then falls to `floor` alone.
        members: models, each trained for its share of the steps, whose probabilities are averaged.
        teachers: models that are trained before it in the same time, as long as it or, with several, half as long.
        longer: by how much its windows are longer; a step has as many tokens in fewer of them.
    """

    about: str
    settings: dict[str, Any] = field(default_factory=dict)
    build: Callable[[GPT], None] = nothing
    loss: Callable[[GPT, Tensor, Tensor, float], Tensor] = plain
    each: Callable[[list[dict[str, Any]], float], None] = nothing
    muon: type[optimizers.Muon] = optimizers.Muon
    epochs: bool = False
    average: float = 0.0
    floor: float = 0.0
    members: int = 1
    teachers: int = 0
    longer: int = 1

    def size_of(self, size: family.Size) -> family.Size:
        """A size with the windows of this change."""
        return replace(size, context=size.context * self.longer, batch=size.batch // self.longer)


# Parts of models.


class Around(nn.Module):
    """Attention with something done to its values and to what its heads found."""

    def __init__(self, attention: Any, change: Any) -> None:
        super().__init__()
        self.inner, self.change = attention, change
        self.kv_heads, self.head_width, self.qkv = attention.kv_heads, attention.head_width, attention.qkv

    def forward(self, x: Tensor, rotation: Any = None, cache: Any = None, mask: Any = None) -> Tensor:
        a = self.inner
        qkv = self.change.before(a.qkv(x), x)
        y = a.by_kernel(qkv, rotation)
        return a.dropout(a.project(self.change.after(y, qkv, x)))


class Touch(nn.Module):
    """What `Around` does; nothing by itself."""

    def before(self, qkv: Tensor, x: Tensor) -> Tensor:
        return qkv

    def after(self, y: Tensor, qkv: Tensor, x: Tensor) -> Tensor:
        return y


def aside(module: nn.Module) -> Any:
    """Weights that AdamW trains, though they stand in a block."""
    for weights in module.parameters():
        weights.aside = True  # pyrefly: ignore
    return module


def zeros(rows: int, columns: int) -> Any:
    """A linear layer that gives nothing yet."""
    layer = nn.Linear(columns, rows, bias=False)
    nn.init.zeros_(layer.weight)
    return aside(layer)


class HeadGate(Touch):
    """A gate for each head."""

    def __init__(self, attention: Any) -> None:
        super().__init__()
        self.heads = attention.heads
        self.gate = zeros(attention.heads, attention.qkv.in_features)

    def after(self, y: Tensor, qkv: Tensor, x: Tensor) -> Tensor:
        return (y.unflatten(-1, (self.heads, -1)) * 2 * self.gate(x).sigmoid()[..., None]).flatten(2)


class Exclusive(Touch):
    """Heads find nothing along their own value."""

    def __init__(self, attention: Any) -> None:
        super().__init__()
        self.heads = attention.heads

    def after(self, y: Tensor, qkv: Tensor, x: Tensor) -> Tensor:
        v = qkv[..., -y.size(-1) :].float().unflatten(-1, (self.heads, -1))
        y = y.float().unflatten(-1, (self.heads, -1))
        along = (y * v).sum(-1, keepdim=True) / (v.square().sum(-1, keepdim=True) + 1e-6)
        return (y - along * v).flatten(2)


class Interleaved(Touch):
    """Each head's queries, keys and values are combinations of all heads'."""

    def __init__(self, attention: Any) -> None:
        super().__init__()
        self.heads = attention.heads
        self.mix = aside(nn.ParameterList([nn.Parameter(torch.eye(self.heads)) for _ in range(3)]))

    def before(self, qkv: Tensor, x: Tensor) -> Tensor:
        parts = qkv.float().unflatten(-1, (3, self.heads, -1))
        mixed = [torch.einsum("hg,btgd->bthd", m, parts[:, :, i]) for i, m in enumerate(self.mix)]
        return torch.stack(mixed, dim=2).flatten(2)


class ValueEmbedding(Touch):
    """Each token's own vector, added to its value."""

    def __init__(self, attention: Any, seen: list[Tensor]) -> None:
        super().__init__()
        self.width, self.seen = attention.heads * attention.head_width, seen
        self.table = aside(nn.Embedding(BYTES, self.width))
        nn.init.normal_(self.table.weight, std=0.1)
        self.gate = nn.Parameter(torch.zeros(1))

    def before(self, qkv: Tensor, x: Tensor) -> Tensor:
        qk, v = qkv.float().split((2 * self.width, self.width), dim=-1)
        return torch.cat((qk, v + self.gate * self.table(self.seen[0])), dim=-1)


class Convolved(nn.Module):
    """A short causal convolution for each number beside it, before a layer (Allen-Zhu 2025, "Canon")."""

    def __init__(self, layer: nn.Module, width: int, reach: int) -> None:
        super().__init__()
        self.layer, self.reach = layer, reach
        self.weight = nn.Parameter(torch.zeros(width, 1, reach))

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer(x)
        rows = F.pad(x.transpose(1, 2), (self.reach - 1, 0))
        return x + F.conv1d(rows, self.weight, groups=x.size(-1)).transpose(1, 2)


def touched(touch: Callable[..., Touch]) -> Callable[[GPT], None]:
    """A model whose attention is gone around."""

    def build(model: GPT) -> None:
        for block in model.blocks:
            block.attention = Around(block.attention, touch(block.attention))  # pyrefly: ignore

    return build


def with_value_embeddings(model: GPT) -> None:
    """In the first block and the last."""
    seen: list[Tensor] = [torch.zeros(0)]
    model.embedding.register_forward_pre_hook(lambda _, given: seen.__setitem__(0, given[0]))
    for block in (model.blocks[0], model.blocks[-1]):
        block.attention = Around(block.attention, ValueEmbedding(block.attention, seen))  # pyrefly: ignore


def convolved(reach: int) -> Callable[[GPT], None]:
    """A model whose layers all read so."""

    def build(model: GPT) -> None:
        for block in model.blocks:
            width = block.attention.qkv.in_features
            block.attention_norm = Convolved(block.attention_norm, width, reach)
            block.feed_forward_norm = Convolved(block.feed_forward_norm, width, reach)

    return build


class Smeared(nn.Module):
    """A gated part of the embedding before is added."""

    def __init__(self, norm: nn.Module, width: int) -> None:
        super().__init__()
        self.norm, self.gate = norm, aside(nn.Linear(width, width, bias=True))
        nn.init.zeros_(self.gate.weight), nn.init.zeros_(self.gate.bias)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(x)
        return x + self.gate(x).tanh() * F.pad(x, (0, 0, 1, 0))[:, :-1]


def smeared(model: GPT) -> None:
    """A model whose embeddings are."""
    model.embedding_norm = Smeared(model.embedding_norm, model.blocks[0].attention.qkv.in_features)


class Skips(nn.Module):
    """A block to whose input a share of the embeddings is added, and of an earlier block's output."""

    def __init__(self, block: Any, kept: dict[str, Tensor], number: int, source: str | None) -> None:
        super().__init__()
        self.block, self.kept, self.number, self.source = block, kept, number, source
        self.shares = nn.Parameter(torch.tensor([1.0, 0.0, 0.0]))
        self.attention = block.attention

    def forward(self, x: Tensor, *rest: Any) -> Tensor:
        if not self.number:
            self.kept.clear()
            self.kept["embedding"] = x
        x = self.shares[0] * x + self.shares[1] * self.kept["embedding"]
        if self.source:
            x = x + self.shares[2] * self.kept[self.source]
        x = self.block(x, *rest)
        self.kept[str(self.number)] = x
        return x


def skipping(*, across: bool) -> Callable[[GPT], None]:
    """A model of such blocks."""

    def build(model: GPT) -> None:
        kept: dict[str, Tensor] = {}
        layers = len(model.blocks)
        sources = [str(layers - 1 - i) if across and i > layers // 2 else None for i in range(layers)]
        blocks = [
            Skips(block, kept, i, source)
            for i, (block, source) in enumerate(zip(model.blocks, sources, strict=True))
        ]
        model.blocks = nn.ModuleList(blocks)  # pyrefly: ignore

    return build


def repeated(model: GPT) -> None:
    """A model whose middle blocks work twice."""
    first, *middle, last = model.blocks
    model.blocks = nn.ModuleList([first, *middle, *middle, last])  # pyrefly: ignore


class Dropped(nn.Module):
    """A block that is left out of some steps, more often the deeper it stands."""

    def __init__(self, block: Any, rate: float) -> None:
        super().__init__()
        self.block, self.rate, self.attention = block, rate, block.attention

    def forward(self, x: Tensor, *rest: Any) -> Tensor:
        if not self.training or not self.rate:
            return self.block(x, *rest)
        if torch.rand(()) < self.rate:
            return x
        return x + (self.block(x, *rest) - x) / (1 - self.rate)


def dropping(rate: float) -> Callable[[GPT], None]:
    """A model of such blocks, the last with this rate."""

    def build(model: GPT) -> None:
        last = len(model.blocks) - 1
        model.blocks = nn.ModuleList(
            [Dropped(block, rate * i / max(1, last)) for i, block in enumerate(model.blocks)]
        )

    return build


# Losses, update rules, schedules.


def looking_further(model: GPT) -> None:
    """A model with a second view for the token after the next."""
    width = model.blocks[0].attention.qkv.in_features
    model.further = zeros(width, width)


def two_ahead(model: GPT, inputs: Tensor, targets: Tensor, done: float) -> Tensor:
    """The token after the next is predicted, too, which counts less and less."""
    logits, x, _ = model.network(inputs, None, NO_SIDE_INPUTS)
    next_one = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    further = model.lm_head(x + model.further(x))[:, :-1]  # pyrefly: ignore
    return next_one + 0.3 * (1 - done) * F.cross_entropy(further.flatten(0, 1), targets[:, 1:].flatten())


def smoothed(model: GPT, inputs: Tensor, targets: Tensor, done: float) -> Tensor:
    """With a little of every other token, at first."""
    return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), label_smoothing=0.05 * (1 - done))


def taught(teachers: Sequence[GPT]) -> Callable[[GPT, Tensor, Tensor, float], Tensor]:
    """What a recipe's teachers do to the loss, each in its turn."""
    turns, weight = cycle(teachers), TeachersConfig.model_fields["weight"].default

    def loss(model: GPT, inputs: Tensor, targets: Tensor, done: float) -> Tensor:
        with torch.no_grad():
            soft = next(turns)(inputs).float().softmax(-1).flatten(0, 1)
        logits = model(inputs).flatten(0, 1)
        own = F.cross_entropy(logits, targets.flatten())
        return own + weight * (F.cross_entropy(logits, soft) - own)

    return loss


class EqualRows(optimizers.Muon):
    """Muon whose momentum's rows are brought to one length before they are orthogonalized (MuonEq-R)."""

    equal = staticmethod(lambda m: m / (m.norm(dim=-1, keepdim=True) + 1e-7))

    def step(self, closure: Any = None) -> None:
        straight = optimizers.orthogonalize
        optimizers.orthogonalize = lambda m, rounds=5: straight(self.equal(m), rounds=rounds)
        try:
            super().step(closure)
        finally:
            optimizers.orthogonalize = straight


class NormedRows(optimizers.Muon):
    """Muon whose update's rows all have one length (NorMuon without its memory)."""

    def step(self, closure: Any = None) -> None:
        straight = optimizers.orthogonalize

        def even(m: Tensor, rounds: int = 5) -> Tensor:
            found = straight(m, rounds=rounds)
            rows = found.norm(dim=-1, keepdim=True) + 1e-7
            return found / rows * rows.square().mean(dim=-2, keepdim=True).sqrt()

        optimizers.orthogonalize = even
        try:
            super().step(closure)
        finally:
            optimizers.orthogonalize = straight


def decaying(at: Callable[[float], float]) -> Callable[[list[dict[str, Any]], float], None]:
    """A decay of the blocks' matrices that depends on how far the run is."""

    def each(groups: list[dict[str, Any]], done: float) -> None:
        groups[0]["weight_decay"] = at(done)

    return each


RATE, REST, DROPOUT = "training.optimizer.learning_rate", "training.optimizer.rest", "model.dropout"
CHANGES = {
    "epochs": Change("windows without replacement, shuffled for each pass", epochs=True),
    "decay": Change("weight decay of 0.1 for the blocks' matrices", each=decaying(lambda done: 0.1)),
    "decay falls": Change("the same from 0.3 down to nothing", each=decaying(lambda done: 0.3 * (1 - done))),
    "decay rises": Change("the same from nothing up to 0.6", each=decaying(lambda done: 0.6 * done)),
    "average": Change(
        "the last quarter's weights averaged, the rate falling to a sixth", average=0.25, floor=0.17
    ),
    "head gate": Change("a gate for each head, from its input", build=touched(HeadGate)),
    "two ahead": Change(
        "the token after the next, too, with a falling share", build=looking_further, loss=two_ahead
    ),
    "exclusive": Change("what a head finds without the part along its own value", build=touched(Exclusive)),
    "interleaved": Change("heads that are combinations of all heads", build=touched(Interleaved)),
    "equal rows": Change("rows of Muon's momentum at one length", muon=EqualRows),
    "normed rows": Change("rows of Muon's update at one length", muon=NormedRows),
    "repeated": Change("the middle blocks twice", build=repeated),
    "depth": Change("blocks left out of some steps, up to one in ten", build=dropping(0.1)),
    "probabilities": Change("two models of half the steps, probabilities averaged", members=2),
    "three": Change("three of a third of the steps", members=3),
    "one teacher": Change("a model that learns from another's predictions, too", teachers=1),
    "three teachers": Change("from three, half as long as itself", teachers=3),
    "value embeddings": Change(
        "each token's own vector in the first and last values", build=with_value_embeddings
    ),
    "n-gram vectors": Change(
        "hashed vectors of up to four tokens", settings={"model.ngrams": {"kind": "hashed"}}
    ),
    "convolved": Change("a causal convolution over four positions before each layer", build=convolved(4)),
    "smeared": Change("a gated part of the embedding before", build=smeared),
    "embeddings again": Change(
        "a learned share of the embeddings into each block", build=skipping(across=False)
    ),
    "across": Change("the same, and of the block that stands opposite", build=skipping(across=True)),
    "smoothed": Change("targets smoothed at first", loss=smoothed),
    "windows": Change("windows twice as long, half as many", longer=2),
    "long windows": Change("four times as long, a quarter as many", longer=4),
}
BASE = Change("the dial's recipe")


# Training and judging.


@cache
def parts_of(path: Path) -> Parts:
    """What is learned from, what is chosen on, what nothing is chosen on."""
    text = np.frombuffer(path.read_bytes(), np.uint8)
    first, second = len(text) * 18 // 20, len(text) * 19 // 20
    return text[:first], text[first:second], text[second:]


@cache
def mixer_of(path: Path, context: int) -> tuple[MixingCounts, np.ndarray]:
    """A mixer that has read what is learned from, and where the network does not learn."""
    learned, _, _ = parts_of(path)
    starts = np.zeros(1, np.int64)
    held = held_out_end(starts, len(learned), share=HELD_OUT, most=MOST_HEARD, context=context)
    assert held is not None
    counts = MixingCounts(vocab_size=BYTES, recent=0)
    spelt = [bytes([unit]).decode("latin-1") for unit in range(BYTES)]
    counts.take_text(learned.astype(np.int32), held, learned=False, spelt=lambda: spelt)
    counts.eval()
    return counts, held


def windows(
    text: np.ndarray, size: family.Size, seed: int, *, epochs: bool
) -> Iterator[tuple[Tensor, Tensor]]:
    """Inputs and targets (B, T), for ever."""
    draw, queue = np.random.default_rng(seed), np.zeros(0, np.int64)
    while True:
        if epochs:
            while len(queue) < size.batch:
                places = np.arange(draw.integers(size.context), len(text) - size.context, size.context)
                queue = np.concatenate((queue, draw.permutation(places)))
            at, queue = queue[: size.batch], queue[size.batch :]
        else:
            at = draw.integers(0, len(text) - size.context, size.batch)
        rows = torch.from_numpy(text[at[:, None] + np.arange(size.context + 1)].astype(np.int64))
        yield rows[:, :-1], rows[:, 1:]


class Training:
    """A model on its way."""

    def __init__(self, change: Change, path: Path, size: family.Size, *, steps: int, seed: int) -> None:
        learned, _, _ = parts_of(path)
        size = change.size_of(size)
        _, held = mixer_of(path, size.context)
        text = learned[~held]
        weights = family.parameters_of(size, BYTES)
        dropout = family.dropout_for(steps * size.step_tokens / len(text), weights / len(text))
        recipe = recipe_for(change, size, steps, dropout)
        self.change, self.steps, self.taken, self.summed = change, steps, 0, 0
        torch.manual_seed(seed)
        self.model = build_model(recipe.model, vocab_size=BYTES, seed=seed)
        change.build(self.model)
        self.optimizers = optimizers_of(self.model, recipe, change)
        self.groups = [group for optimizer in self.optimizers for group in optimizer.param_groups]
        self.parameters = list(self.model.parameters())
        tables = {id(p) for p in sparse_parameters(self.model)}
        self.clipped = [p for p in self.parameters if id(p) not in tables]
        self.windows = windows(text, size, seed, epochs=change.epochs)
        self.mean: list[Tensor] = []
        self.model.train()

    def step(self) -> None:
        """One update."""
        done, change = self.taken / self.steps, self.change
        for group in self.groups:
            group["lr"] = group["base_lr"] * max(change.floor, 1 - done)
        change.each(self.groups, done)
        inputs, targets = next(self.windows)
        with Bfloat16Products() if fast_bfloat16(torch.device("cpu")) else nullcontext():
            loss = change.loss(self.model, inputs, targets, done)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.clipped, 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.taken += 1
        if change.average and done >= 1 - change.average:
            self.average()

    def average(self) -> None:
        """Take the weights into their mean."""
        now = [weights.detach() for weights in self.parameters]
        self.summed += 1
        if self.mean:
            torch._foreach_lerp_(self.mean, now, 1 / self.summed)
        else:
            self.mean = [weights.clone() for weights in now]

    def trained(self) -> GPT:
        """The model after all steps."""
        while self.taken < self.steps:
            self.step()
        for weights, averaged in zip(self.parameters, self.mean, strict=False):
            weights.data.copy_(averaged)
        return self.model.eval()


def recipe_for(change: Change, size: family.Size, steps: int, dropout: float) -> Recipe:
    """The dial's, with the settings of a change."""
    tree = family.recipe_of(size, steps=steps, dropout=dropout)
    tree["model"]["counts"] = "none"
    for name, value in change.settings.items():
        *folders, last = name.split(".")
        at = tree
        for folder in folders:
            at = at[folder]
        at[last] = value
    return check(tree)


def optimizers_of(model: GPT, recipe: Recipe, change: Change) -> list[Any]:
    """Muon of the blocks' matrices, AdamW of all else, tables as the recipe has them."""
    config: Any = recipe.training.optimizer
    tables, dense = optimizers.tables_and_rest(model)
    inside = {id(p) for p in block_matrices(model) if not getattr(p, "aside", False)}
    muon = change.muon(
        [p for p in dense if id(p) in inside],
        lr=config.learning_rate,
        momentum=config.momentum,
        weight_decay=config.weight_decay,
        rounds=config.rounds,
    )
    rest = config.rest.over([p for p in dense if id(p) not in inside])
    rows = [optimizers.RowAdagrad(tables, lr=config.table_rate)] if tables else []
    return optimizers.with_base_rates([muon, rest, *rows])


Network = Callable[[Tensor], Tensor]


def network_of(models: Sequence[GPT]) -> Network:
    """Logits of the mean of their probabilities."""
    if len(models) == 1:
        return models[0]
    return lambda tokens: torch.stack([model(tokens).log_softmax(-1) for model in models]).logsumexp(0)


@torch.no_grad()
def said_of(network: Network, text: np.ndarray, context: int) -> np.ndarray:
    """(N − 1, V) logits of all tokens but the first, in windows side by side."""
    tokens, found = torch.from_numpy(text.astype(np.int64)), []
    for begin in range(0, len(text) - 1, 16 * context):
        piece = tokens[begin : min(begin + 16 * context, len(text) - 1)]
        whole = len(piece) // context * context
        for part in (piece[:whole].view(-1, context), piece[whole:][None]):
            if part.numel():
                found.append(network(part).float().flatten(0, 1).numpy())
    return np.concatenate(found)


def judged(network: Network, path: Path, context: int, *, end: bool) -> dict[str, float]:
    """Bits per byte of the nineteenth twentieth, by the network alone, mixed, and by the mixer alone; at the end of the
    text, mixed, after the mixer has read what stands before it."""
    counts, _ = mixer_of(path, context)
    _, chosen, last = parts_of(path)
    counts.hear(network, context)
    text = np.concatenate((chosen, last)) if end else chosen
    said = said_of(network, text, context)
    following = text[1:].astype(np.int64)
    heard = np.full((len(text), CODE), -1, np.float32)
    heard[1:] = counts.tables.hear(said, following)
    mixed = counts.tables.copy(more=len(text)).read(text.astype(np.int32), heard)
    only = counts.alone.copy(more=len(chosen)).read(chosen.astype(np.int32))
    by_network = -torch.from_numpy(said).log_softmax(-1)[
        torch.arange(len(following)), torch.from_numpy(following)
    ]
    known = len(chosen)
    found = {"alone": by_network[: known - 1], "mixed": mixed[1:known], "mixer": only[1:]}
    if end:
        found["end"] = mixed[known:]
    return {name: float(each.mean()) / math.log(2) for name, each in found.items()}


def steps_ratio(change: Change, path: Path, size: family.Size) -> float:
    """Processor time of a change's step, in steps of the baseline."""
    if change.members > 1 or change.teachers:
        return 1.0
    both = [Training(each, path, size, steps=1000, seed=0) for each in (BASE, change)]
    ratios = []
    for number in range(TURNS + 1):
        took = [0.0, 0.0]
        for who in (0, 1) if number % 2 else (1, 0):
            began = time.process_time()
            for _ in range(TURN):
                both[who].step()
            took[who] = time.process_time() - began
        ratios.append(took[1] / took[0])
    return statistics.median(ratios[1:])


def run(
    change: Change, path: Path, size: family.Size, *, steps: int, seed: int, end: bool
) -> dict[str, float]:
    """Train and judge."""

    def trained(steps: int, number: int, change: Change = change) -> GPT:
        return Training(change, path, size, steps=steps, seed=seed + 1000 * number).trained()

    if change.teachers:
        longer = 1 if change.teachers == 1 else 2
        each = int(steps / (change.teachers + (1 + ASKING) * longer))
        teachers = [trained(each, number) for number in range(1, change.teachers + 1)]
        members = [trained(longer * each, 0, replace(change, loss=taught(teachers)))]
    else:
        members = [trained(steps // change.members, number) for number in range(change.members)]
    return judged(network_of(members), path, change.size_of(size).context, end=end)


def missing(given: argparse.Namespace, rows: list[Row]) -> None:
    """Run what the file lacks."""
    size = family.SIZES[given.size]
    torch.set_num_threads(given.threads)
    texts = sorted(given.text.iterdir())
    names = list(CHANGES) if given.changes is None else given.changes
    for name in ("baseline", *names):
        change = CHANGES.get(name, BASE)
        known = [row["ratio"] for row in rows if row["change"] == name and row["size"] == given.size]
        ratio = known[0] if known else 1.0 if name == "baseline" else steps_ratio(change, texts[0], size)
        ways = {way: round(given.steps / ratio) if way == "seconds" else given.steps for way in given.equal}
        if abs(ratio - 1) <= ALIKE:
            ways = {"both": given.steps}
        for way in ways:
            for path in texts:
                for seed in given.seeds:
                    key = {"change": name, "text": path.stem, "seed": seed, "size": given.size, "equal": way}
                    key |= {"of": given.steps}
                    if any(all(row[k] == v for k, v in key.items()) for row in rows):
                        continue
                    found = run(change, path, size, steps=ways[way], seed=seed, end=given.end)
                    took = {"ratio": round(ratio, 4), "steps": ways[way]}
                    keep_row(key | took | {k: round(v, 5) for k, v in found.items()}, rows, given.out)


def table_of(rows: list[Row]) -> list[Row]:
    """A row for each change, size and way of comparing: differences to the baseline's runs of the same seeds."""
    base = {(r["text"], r["seed"], r["size"], r["of"]): r for r in rows if r["change"] == "baseline"}
    pairs: dict[tuple[Any, ...], list[tuple[Row, Row]]] = defaultdict(list)
    for row in rows:
        other = base.get((row["text"], row["seed"], row["size"], row["of"]))
        if row["change"] != "baseline" and other:
            pairs[row["size"], row["of"], row["equal"], row["change"]].append((row, other))
    table = []
    for (size, of, equal, change), both in sorted(pairs.items()):
        shown = family.SIZES[size]
        line = {
            "model": f"{shown.width} × {shown.layers}, {of:,} steps",
            "change": change,
            "equal": equal,
            "time of a step": f"{both[0][0]['ratio']:.2f}",
            "runs": len(both),
        }
        for figure in ("alone", "mixed", "end"):
            found = [one[figure] - other[figure] for one, other in both if figure in one and figure in other]
            line[figure] = mean(found, 4) if found else "–"
        table.append(line)
    return table


def main() -> None:
    """See the module's docstring."""
    parser = parser_of(__doc__, texts="--texts")
    parser.add_argument("--changes", nargs="*", choices=list(CHANGES))
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2, 3])
    parser.add_argument("--size", type=int, default=2, help="which of the dial's sizes, from 0")
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--equal", nargs="*", choices=["steps", "seconds"], default=["steps", "seconds"])
    parser.add_argument("--end", action="store_true", help="judge the last twentieth, too")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    said = "\n".join(f"- *{name}*: {change.about}." for name, change in CHANGES.items())

    def page(rows: list[Row]) -> str:
        top = above("What helps a small network on a short text", __doc__, f"{given.threads} thread")
        return f"{top}\n\n{said}"

    run_missing(given, missing, table_of, page)


if __name__ == "__main__":
    main()
