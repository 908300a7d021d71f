"""How weights start. A scheme is a function of the assembled GPT that fills its parameters in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Protocol

import torch
from pydantic import Field
from torch import Tensor, nn

from octavo.config.parts import LARGEST, PartConfig, register
from octavo.model.inputs import VectorInput


class Model(Protocol):
    """What a scheme fills: a GPT, or a model of several stacks like its one."""

    lm_head: nn.Linear

    @property
    def blocks(self) -> Sequence[Any]: ...
    @property
    def embeddings(self) -> Sequence[nn.Embedding | VectorInput]:
        """Of tokens, or what reads numbers."""
        ...

    @property
    def sides(self) -> Sequence[Any]:
        """The stacks, each with its positions."""
        ...

    def modules(self) -> Iterator[nn.Module]: ...


Scheme = Callable[[Model], None]


def writers(model: Model) -> Iterator[nn.Linear]:
    """The matrices that write into the residual stream: last of attention (to a memory too) and of feed-forward, block
    by block."""
    for block in model.blocks:
        cross, inner = getattr(block, "cross", None), getattr(block.feed_forward, "down_proj", None)
        for last in (block.attention.project, getattr(cross, "project", None), inner):
            if isinstance(last, nn.Linear):
                yield last


def tables(model: Model) -> Iterator[Tensor]:
    """Token embeddings and learned positions."""
    for embedding in model.embeddings:
        yield embedding.weight
    for side in model.sides:
        yield from side.positions.parameters()


@torch.no_grad()
def normal(model: Model, *, std: float) -> None:
    """Every matrix and table normal with one spread, biases zero (report B with std 1)."""
    for parameter in tables(model):
        parameter.normal_(0, std)
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.weight.normal_(0, std)
            if module.bias is not None:
                module.bias.zero_()


@torch.no_grad()
def gpt2(model: Model, *, std: float) -> None:
    """The same, with residual writers narrower by √(2 · layers) (Radford et al. 2019)."""
    normal(model, std=std)
    for linear in writers(model):
        linear.weight.normal_(0, std / (2 * len(model.blocks)) ** 0.5)


@torch.no_grad()
def zero_output(model: Model, *, embedding_std: float) -> None:
    """Matrices by their inputs (uniform, variance 1/inputs); residual writers and an untied head zero.

    Every block starts as the identity and the first logits are uniform, so learning rates can be higher.
    """
    for parameter in tables(model):
        parameter.normal_(0, embedding_std)
    # Without residual connections a zero would let nothing through.
    zero = (
        {id(linear) for linear in writers(model)} if all(block.residual for block in model.blocks) else set()
    )
    shared = {id(embedding.weight) for embedding in model.embeddings}
    if id(model.lm_head.weight) not in shared:
        zero.add(id(model.lm_head))
    for module in model.modules():
        if not isinstance(module, nn.Linear) or id(module.weight) in shared:
            continue
        bound = 0.0 if id(module) in zero else (3 / module.in_features) ** 0.5
        module.weight.uniform_(-bound, bound)
        if module.bias is not None:
            module.bias.zero_()


@register("initialization")
class GPT2InitializationConfig(PartConfig):
    """Normal, with narrower residual writers."""

    kind: Literal["gpt2"] = "gpt2"
    std: float = Field(0.02, gt=0, le=LARGEST)
    """Spread of the weights."""

    def build(self) -> Scheme:
        return lambda model: gpt2(model, std=self.std)


@register("initialization")
class NormalInitializationConfig(PartConfig):
    """One spread for everything."""

    kind: Literal["normal"] = "normal"
    std: float = Field(0.02, gt=0, le=LARGEST)
    """Spread of the weights; report B has 1."""

    def build(self) -> Scheme:
        return lambda model: normal(model, std=self.std)


@register("initialization")
class TorchInitializationConfig(PartConfig):
    """What torch's own layers start with: uniform by inputs, embeddings standard normal (reports A, C, E)."""

    kind: Literal["torch"] = "torch"

    def build(self) -> Scheme:
        """The scheme: the layers have drawn their weights already."""
        return lambda model: None


@register("initialization")
class ZeroOutputInitializationConfig(PartConfig):
    """Residual writers and head start at zero."""

    kind: Literal["zero_output"] = "zero_output"
    embedding_std: float = Field(1.0, gt=0, le=LARGEST)
    """Spread of the embeddings."""

    def build(self) -> Scheme:
        return lambda model: zero_output(model, embedding_std=self.embedding_std)
