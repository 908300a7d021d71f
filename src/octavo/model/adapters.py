"""What is trained of a model whose weights stay as they are: low-rank adapters, and the rows of added tokens.

Such a model holds some of its weights in pieces, the first of which is frozen. `joined` and `apart` lead from pieces to
the weight and back. Whatever saves, loads, exports or writes with a model sees weights alone, and so needs to know
nothing of this.

F features of a layer, C its inputs, R the rank, V vocabulary, N added tokens.
"""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from octavo.config.parts import LARGEST, PartConfig, register
from octavo.errors import ConfigError
from octavo.model.base import LanguageModel, blocks_of
from octavo.model.grow import rows_of


class Adapted(nn.Module):
    """A layer whose `weight` is made of pieces.

    Attributes:
        pieces: their names, the frozen one first.
    """

    pieces: ClassVar[tuple[str, ...]]

    @abstractmethod
    def joined(self, *pieces: Tensor) -> Tensor:
        """The weight that pieces make."""

    @abstractmethod
    def apart(self, weight: Tensor) -> tuple[Tensor, ...]:
        """Pieces that make a weight; of those that are not cut from it, the first ones, which change nothing yet."""

    @abstractmethod
    def plain(self) -> nn.Module:
        """The layer that has the weight, and no pieces."""

    @property
    def weight(self) -> Tensor:
        """As in the layer that has no pieces."""
        return self.joined(*(getattr(self, name) for name in self.pieces))


class LowRank(Adapted, nn.Linear):
    """A linear layer W (F, C) that stays, and a product of low rank beside it: W + s·B·A, B (F, R), A (R, C), which are
    trained (Hu et al. 2021). B begins as zero, so that at first nothing is added.
    """

    pieces = ("frozen", "lora_a", "lora_b")

    def __init__(self, layer: nn.Linear, *, rank: int, scale: float) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.frozen, self.bias, self.scale = layer.weight, layer.bias, scale
        self.lora_a = nn.Parameter(layer.weight.new_empty(rank, self.in_features))
        self.lora_b = nn.Parameter(layer.weight.new_zeros(self.out_features, rank))
        if rows := getattr(layer.weight, "row_blocks", None):  # which hold for B too
            self.lora_b.row_blocks = rows  # pyrefly: ignore
        bound = 1 / math.sqrt(self.in_features)
        nn.init.uniform_(self.lora_a, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """Without the weight itself, which is larger than its pieces' products with x."""
        beside = F.linear(F.linear(input, self.lora_a), self.lora_b)
        return F.linear(input, self.frozen, self.bias) + self.scale * beside

    def joined(self, *pieces: Tensor) -> Tensor:
        frozen, a, b = pieces
        return frozen + self.scale * (b @ a)

    def apart(self, weight: Tensor) -> tuple[Tensor, ...]:
        return weight, self.lora_a.detach(), torch.zeros_like(self.lora_b)

    def plain(self) -> nn.Linear:
        return _linear(self)


class GrownEmbedding(Adapted, nn.Embedding):
    """A table whose last rows (N, C) are trained; the others (V − N, C) stay."""

    pieces = ("frozen", "added")

    def __init__(self, layer: nn.Embedding, *, added: nn.Parameter, frozen: nn.Parameter) -> None:
        nn.Module.__init__(self)
        vars(self).update({name: getattr(layer, name) for name in layer.__constants__})
        self.frozen, self.added = frozen, added

    def forward(self, input: Tensor) -> Tensor:
        """Looks up in both pieces, which does not copy the table."""
        first = self.frozen.size(0)
        old = F.embedding(input.clamp(max=first - 1), self.frozen)
        new = F.embedding((input - first).clamp(min=0), self.added)
        return torch.where((input < first)[..., None], old, new)

    def joined(self, *pieces: Tensor) -> Tensor:
        return torch.cat(pieces)

    def apart(self, weight: Tensor) -> tuple[Tensor, ...]:
        return tuple(weight.split((len(weight) - len(self.added), len(self.added))))

    def plain(self) -> nn.Embedding:
        return nn.Embedding.from_pretrained(self.weight.detach())


class GrownHead(Adapted, nn.Linear):
    """An output head whose last rows (N, C) are trained; the others (V − N, C) and the biases stay."""

    pieces = ("frozen", "added")

    def __init__(self, layer: nn.Linear, *, added: nn.Parameter, frozen: nn.Parameter) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features, self.bias = layer.in_features, layer.out_features, layer.bias
        self.frozen, self.added = frozen, added

    joined, apart = GrownEmbedding.joined, GrownEmbedding.apart

    def plain(self) -> nn.Linear:
        return _linear(self)


def _linear(layer: Any) -> nn.Linear:
    """The layer with its weight whole, and with what stood on it."""
    made = nn.Linear(1, 1, bias=False, device="meta")
    made.in_features, made.out_features, made.bias = layer.in_features, layer.out_features, layer.bias
    made.weight = nn.Parameter(layer.weight.detach(), requires_grad=False)
    vars(made.weight).update(vars(layer.frozen))
    return made


def adapted(model: nn.Module) -> dict[str, Adapted]:
    """The layers in pieces, by name."""
    return {name: layer for name, layer in model.named_modules() if isinstance(layer, Adapted)}


def joined(model: nn.Module, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors by the names that a model has for them, as they are called and shaped in one without pieces."""
    whole = dict(tensors)
    for name, layer in adapted(model).items():
        names = [f"{name}.{piece}" for piece in layer.pieces]
        if names[0] in whole:  # else it is a tied one's second name, or this process keeps none
            whole[f"{name}.weight"] = layer.joined(*map(whole.pop, names))
    return whole


def apart(model: nn.Module, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The inverse of `joined`, where nothing was learned yet."""
    separate = dict(tensors)
    for name, layer in adapted(model).items():
        weight = separate.pop(f"{name}.weight", None)
        if weight is not None:
            pieces = zip(layer.pieces, layer.apart(weight), strict=True)
            separate |= {f"{name}.{piece}": tensor for piece, tensor in pieces}
    return separate


def merged(model: LanguageModel) -> LanguageModel:
    """A model that is used: itself, or where it has layers in pieces, a copy without, which shares all else with it."""
    layers = adapted(model).values()
    if not layers:
        return model
    shared: dict[int, Any] = {id(tensor): tensor for tensor in chain(model.parameters(), model.buffers())}
    return copy.deepcopy(model, shared | {id(layer): layer.plain() for layer in layers})


class AdaptersConfig(PartConfig):
    """Base of the kinds."""

    @abstractmethod
    def attach(self, model: LanguageModel, *, added: int, seed: int) -> None:
        """Let nothing of a model be trained but what this part says; `added`: the last so many tokens are new to it.

        Raises ConfigError where the model is not made for that.
        """


@register("adapters")
class NoAdaptersConfig(AdaptersConfig):
    """All weights are trained."""

    kind: Literal["none"] = "none"

    def attach(self, model: LanguageModel, *, added: int, seed: int) -> None:
        """Nothing to do."""


@register("adapters")
class LowRankConfig(AdaptersConfig):
    """LoRA (Hu et al. 2021): all weights stay, and beside those of linear layers a product of two narrow matrices is
    trained. So are the rows of the special tokens that were added to the vocabulary. Every checkpoint holds the sum, so
    that the run is used and exported as any other; what is trained lies beside it, for a resume."""

    kind: Literal["lora"] = "lora"
    rank: int = Field(8, ge=1, le=2**16)
    """R, the inner width of the product."""
    alpha: float = Field(16.0, gt=0, le=LARGEST)
    """The product counts alpha / rank times."""
    targets: tuple[str, ...] = ()
    """Which layers, by their names or those of the parts they stand in, such as attention or qkv. Empty: all linear
    layers of the blocks."""

    def attach(self, model: LanguageModel, *, added: int, seed: int) -> None:
        layers = self._layers(model)
        model.requires_grad_(False)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            for name, layer in layers.items():
                _put(model, name, LowRank(layer, rank=self.rank, scale=self.alpha / self.rank))
        if added:
            _grow(model, added)

    def _layers(self, model: LanguageModel) -> dict[str, nn.Linear]:
        """Those that get a product, by name; a layer that stands in several places once."""
        every = dict(_linear_layers(model))
        if not every:
            raise ConfigError(
                f"training.adapters=lora: a {type(model).__name__} has no linear layers in its blocks.",
                remedy="training.adapters=none trains all of it",
            )
        known = sorted({part for name in every for part in name.split(".")[1:] if not part.isdigit()})
        if strange := [target for target in self.targets if target not in known]:
            raise ConfigError(
                f"training.adapters.targets: no layer of this model is called {strange[0]!r}.",
                remedy=f"there are: {', '.join(known)}",
            )
        chosen = {
            name: layer
            for name, layer in every.items()
            if not self.targets or not set(self.targets).isdisjoint(name.split(".")[1:])
        }
        least, name = min((min(layer.weight.shape), name) for name, layer in chosen.items())
        if self.rank > least:
            raise ConfigError(
                f"training.adapters.rank={self.rank} is more than {name} can have, which has {least}.",
                remedy=f"a rank of at most {least}, or other training.adapters.targets",
            )
        return chosen


def _linear_layers(model: LanguageModel) -> Iterator[tuple[str, nn.Linear]]:
    blocks = {id(layer) for block in blocks_of(model) for layer in block.modules()}
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Linear) and id(layer) in blocks:
            yield name, layer


def _put(model: nn.Module, name: str, layer: nn.Module) -> None:
    """A layer in the place of the one of this name."""
    parent, _, own = name.rpartition(".")
    setattr(model.get_submodule(parent), own, layer)


def _grow(model: LanguageModel, added: int) -> None:
    embedding, head = rows_of(model)
    tied = head.weight is embedding.weight

    def cut(weight: Tensor) -> dict[str, nn.Parameter]:
        old, new = weight.detach().split((len(weight) - added, added))
        return {"frozen": nn.Parameter(old.clone(), requires_grad=False), "added": nn.Parameter(new.clone())}

    table = cut(embedding.weight)
    rows = table if tied else cut(head.weight)
    _put(model, "embedding", GrownEmbedding(embedding, **table))
    _put(model, "lm_head", GrownHead(head, **rows))
