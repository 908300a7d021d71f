"""How an architecture of another library is described: what it can say, its settings and its tensors, in data.

The description works in both directions: `settings` and `tensors` write ours as theirs, `shape` and `weights` read
theirs as ours.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from octavo.errors import InputError
from octavo.export.architectures.layouts import AS_IT_IS, Layout
from octavo.export.weights import Shape

USUAL: Mapping[str, frozenset[Any]] = {
    "norm_place": frozenset({"pre"}),
    "norm_scale": frozenset({True}),
    "norm_bias": frozenset({False}),
    "embedding_norm": frozenset({False}),
    "final_norm": frozenset({True}),
    "residual": frozenset({True}),
    "projects": frozenset({True}),
    "qk_norm": frozenset({False}),
    "qk_scale": frozenset({False}),
    "usual_scale": frozenset({True}),
    "one_eps": frozenset({True}),
    "own_speeds": frozenset({False}),
    "partly_turned": frozenset({False}),
    "gated": frozenset({False}),
    "head_bias": frozenset({False}),
    "capped": frozenset({False}),
    "ngrams": frozenset({False}),
}
"""What an architecture can say where its description says nothing; what stands in neither is free."""


NOTHING = object()
"""Not given; None is a value."""


class Setting(ABC):
    """Something that an architecture's settings say."""

    @abstractmethod
    def write(self, shape: Shape) -> dict[str, Any]:
        """Keys and values for the other library."""

    @abstractmethod
    def read(self, theirs: Mapping[str, Any], fields: dict[str, Any]) -> None:
        """Put what their settings say into the fields of a `Shape`. Raises InputError for what ours cannot say."""


@dataclass(frozen=True)
class Key(Setting):
    """One of their keys is one of our fields.

    Attributes:
        words: our value → theirs, where they differ.
        default: theirs where the key is missing; without one it must be there.
        other: names that the key had in other versions.
    """

    theirs: str
    ours: str
    words: Mapping[Any, Any] = field(default_factory=dict)
    default: Any = NOTHING
    other: tuple[str, ...] = ()

    def write(self, shape: Shape) -> dict[str, Any]:
        value = getattr(shape, self.ours)
        return {self.theirs: self.words.get(value, value)}

    def read(self, theirs: Mapping[str, Any], fields: dict[str, Any]) -> None:
        names = [name for name in (self.theirs, *self.other) if theirs.get(name) is not None]
        if not names and self.default is NOTHING:
            raise InputError(f"The settings lack '{self.theirs}'.")
        value = theirs[names[0]] if names else self.default
        back = {there: here for here, there in self.words.items()}
        if self.words and value not in back:
            raise InputError(
                f"The settings have {self.theirs} = {value!r}; Octavo knows {', '.join(map(str, back))}."
            )
        if value is not None:
            fields[self.ours] = back.get(value, value)


@dataclass(frozen=True)
class Fixed(Setting):
    """A key that always has the same value; `default` is what it means where it is missing. With `free`, another value
    is no matter for reading."""

    theirs: str
    value: Any
    default: Any = NOTHING
    free: bool = False

    def write(self, shape: Shape) -> dict[str, Any]:
        return {self.theirs: self.value}

    def read(self, theirs: Mapping[str, Any], fields: dict[str, Any]) -> None:
        default = self.value if self.default is NOTHING else self.default
        if not self.free and theirs.get(self.theirs, default) != self.value:
            raise InputError(
                f"The settings have {self.theirs} = {theirs.get(self.theirs)!r}; Octavo knows {self.value!r} alone."
            )


@dataclass(frozen=True)
class Name:
    """One of their tensors and those of ours that it holds; names without `.weight` and `.bias`, `{i}` the layer."""

    ours: tuple[str, ...]
    theirs: str
    layout: Layout = AS_IT_IS


@dataclass(frozen=True)
class Architecture:
    """What one architecture of one library can say, and how.

    Attributes:
        name: as its library calls it.
        library: "hf" or "gguf".
        title: for people.
        says: values that a feature (a field or property of `Shape`) may have, where they are not the usual ones.
        rank: of several that fit alike the lowest is taken.
        implied: fields that its settings cannot change, for reading.
        beside: tensors of theirs that follow from the shape.
    """

    name: str
    library: str
    title: str
    says: Mapping[str, frozenset[Any]]
    settings: Sequence[Setting]
    names: Sequence[Name]
    implied: Mapping[str, Any]
    rank: int = 0
    beside: Callable[[Shape], dict[str, Tensor]] = lambda shape: {}

    def allowed(self) -> dict[str, frozenset[Any]]:
        """Every feature that is not free, with its values."""
        return {**USUAL, **self.says}

    def conflicts(self, shape: Shape) -> dict[str, Any]:
        """The features of a shape that this architecture cannot say, with their values."""
        conflicting = {}
        for feature, values in self.allowed().items():
            if feature in ("norm_scale", "norm_bias") and shape.norm == "none":
                continue
            value = getattr(shape, feature)
            if value not in values:
                conflicting[feature] = value
        return conflicting

    def settings_of(self, shape: Shape) -> dict[str, Any]:
        """Their settings for a shape without conflicts."""
        assert not self.conflicts(shape), self.conflicts(shape)
        return {name: value for each in self.settings for name, value in each.write(shape).items()}

    def tensors_of(self, shape: Shape, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Our tensors under their names, in their layout; every one of ours is in exactly one of theirs."""
        left, found = dict(tensors), {}
        for name, ours, theirs in self._pairs(shape):
            parts = [left.pop(one) for one in ours if one in left]
            if parts:
                assert len(parts) == len(ours), f"of {ours} some are missing"
                found[theirs] = name.layout.there(parts, name.ours, shape).contiguous()
        assert not left, f"{self.name} has no place for {sorted(left)}"
        return found | self.beside(shape)

    def shape_of(self, theirs: Mapping[str, Any], **more: Any) -> Shape:
        """The shape that their settings say. Raises InputError where ours cannot say it."""
        fields = dict(self.implied)
        for setting in self.settings:
            setting.read(theirs, fields)
        fields.setdefault("kv_heads", fields["heads"])
        fields.setdefault("head_width", fields["width"] // fields["heads"])
        fields.setdefault("attention_scale", fields["head_width"] ** -0.5)
        fields.setdefault("features", 4 * fields["width"])
        if fields.get("positions") == "rotary":
            fields.setdefault("turned", fields["head_width"])
        if fields.get("qk_norm"):
            fields.setdefault("qk_eps", fields.get("norm_eps", 1e-5))
        return Shape(**fields | more)

    def weights_of(self, shape: Shape, theirs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Their tensors under our names, in our layout. Raises InputError for a tensor that is missing."""
        found: dict[str, Tensor] = {}
        for name, ours, their in self._pairs(shape, _wanted(shape)):
            if their not in theirs:
                raise InputError(f"The weights lack the tensor '{their}'.")
            found |= dict(zip(ours, name.layout.back(theirs[their], name.ours, shape), strict=True))
        return found

    def reads(self, shape: Shape) -> set[str]:
        """The names of their tensors that `weights_of` takes."""
        return {their for _, _, their in self._pairs(shape, _wanted(shape))}

    def _pairs(self, shape: Shape, wanted: Set[str] | None = None) -> Iterator[tuple[Name, list[str], str]]:
        """Each of their tensors' names with those of ours, for all layers, weights and biases; with `wanted` only where
        the first layer has some of these."""
        for name in self.names:
            for layer in range(shape.layers) if "{i}" in name.theirs else (0,):
                for end in ("weight", "bias"):
                    if wanted is None or any(f"{one.format(i=0)}.{end}" in wanted for one in name.ours):
                        ours = [f"{one.format(i=layer)}.{end}" for one in name.ours]
                        yield name, ours, f"{name.theirs.format(i=layer)}.{end}"


def _wanted(shape: Shape) -> Set[str]:
    """The names of the tensors that a model of this shape has, of its layers the first: the others have the same, and
    settings may say more of them than can be built in a minute."""
    from octavo.export.model import Model

    with torch.device("meta"):
        own = Model(shape.as_dict() | {"layers": 1}).state_dict()
    return {
        name for name, tensor in own.items() if tensor.numel() and not (shape.tied and name == "head.weight")
    }
