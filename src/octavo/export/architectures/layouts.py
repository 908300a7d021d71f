"""How a tensor of another library holds ours. D head width."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from octavo.export.weights import Shape


class Layout:
    """One of ours, as it is."""

    def there(self, parts: Sequence[Tensor], names: Sequence[str], shape: Shape) -> Tensor:
        """Their tensor from ours."""
        (part,) = parts
        return part

    def back(self, tensor: Tensor, names: Sequence[str], shape: Shape) -> list[Tensor]:
        """Our tensors from theirs."""
        return [tensor]


class Joined(Layout):
    """Several of ours, one below the other; `transposed`: matrices as (inputs, outputs), GPT-2's Conv1D."""

    def __init__(self, *, transposed: bool = False) -> None:
        self.transposed = transposed

    def there(self, parts: Sequence[Tensor], names: Sequence[str], shape: Shape) -> Tensor:
        tensor = torch.cat(list(parts))
        return tensor.T if self.transposed and tensor.ndim == 2 else tensor

    def back(self, tensor: Tensor, names: Sequence[str], shape: Shape) -> list[Tensor]:
        tensor = tensor.T if self.transposed and tensor.ndim == 2 else tensor
        rows = [_rows(name, shape) for name in names] if len(names) > 1 else [tensor.size(0)]
        return [part.contiguous() for part in tensor.split(rows)]


class HeadByHead(Layout):
    """Queries, keys and values of one head, then those of the next (GPT-NeoX)."""

    def there(self, parts: Sequence[Tensor], names: Sequence[str], shape: Shape) -> Tensor:
        split = [part.unflatten(0, (shape.heads, shape.head_width)) for part in parts]
        return torch.cat(split, dim=1).flatten(0, 1)

    def back(self, tensor: Tensor, names: Sequence[str], shape: Shape) -> list[Tensor]:
        parts = tensor.unflatten(0, (shape.heads, len(names) * shape.head_width)).chunk(len(names), dim=1)
        return [part.flatten(0, 1) for part in parts]


class Interleaved(Layout):
    """Rows of each head in the order 0, D/2, 1, D/2 + 1, …: the pair that turns together stands side by side."""

    def there(self, parts: Sequence[Tensor], names: Sequence[str], shape: Shape) -> Tensor:
        (part,) = parts
        return part.unflatten(0, (-1, 2, shape.head_width // 2)).transpose(1, 2).flatten(0, 2)

    def back(self, tensor: Tensor, names: Sequence[str], shape: Shape) -> list[Tensor]:
        return [tensor.unflatten(0, (-1, shape.head_width // 2, 2)).transpose(1, 2).flatten(0, 2)]


AS_IT_IS, JOINED, CONV1D = Layout(), Joined(), Joined(transposed=True)
HEAD_BY_HEAD, INTERLEAVED = HeadByHead(), Interleaved()


def _rows(name: str, shape: Shape) -> int:
    last = name.rpartition(".")[2]
    heads = {"q": shape.heads, "k": shape.kv_heads, "v": shape.kv_heads}
    return heads[last] * shape.head_width if last in heads else shape.features
