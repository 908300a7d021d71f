"""Linear layers on the CPU that are batch-invariant: what they make of a row does not depend on the other rows.

BLAS takes other ways for one row than for two or for sixty, and their sums round otherwise. Which numbers of rows agree
to the bit differs from processor to processor and from shape to shape. So it is tried out, once for each shape, and a
layer multiplies only so many rows at a time as agree. K inputs, N outputs.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.weak import WeakTensorKeyDictionary

from octavo.model.kind import LanguageModel
from octavo.training.precision import autocast

Module = TypeVar("Module", bound=nn.Module)

COUNTS = (1, 2, 4, 8, 12, 16, 32, 64)
"""Rows that may be multiplied at a time."""
MOST_PADDING = 4
"""Rows that a single one may be filled up to."""
TURNED = 2**17
"""Numbers of the largest matrix that is laid out the other way round, by columns: then more counts agree, and many rows
are multiplied faster, but one row of a matrix that does not fit into a processor's cache more slowly."""
UNSHARED = 2**15
"""Beyond so many numbers torch shares an operation out to threads; the last bits of some depend on where it cuts."""

_LAID_OUT = WeakTensorKeyDictionary()  # by weight: what it was like, and the copy


class BatchInvariantLinear(nn.Linear):
    """A linear layer for rows of different sequences, (B, 1, K). Several positions, (1, T, K), are one product."""

    counts: tuple[int, ...]

    @classmethod
    def of(cls, layer: nn.Linear, counts: tuple[int, ...]) -> BatchInvariantLinear:
        """A layer's copy, which multiplies so many rows at a time."""
        made = cls.__new__(cls)
        parameters = layer._parameters | {"weight": _laid_out(layer.weight)}
        made.__dict__ = layer.__dict__ | parameters | {"_parameters": parameters, "counts": counts}
        return made

    def forward(self, input: Tensor) -> Tensor:
        rows = input.size(0)
        if input.size(1) > 1 or rows in self.counts:
            return F.linear(input, self.weight, self.bias)
        parts, done = [], 0
        while done < rows:
            count = max((count for count in self.counts if count <= rows - done), default=self.counts[0])
            part = input[done : done + count]
            parts.append(F.linear(_filled(part, count), self.weight, self.bias)[: part.size(0)])
            done += count
        return parts[0] if len(parts) == 1 else torch.cat(parts)


def _filled(x: Tensor, count: int) -> Tensor:
    """Rows (B, 1, K), and the first of them again until there are `count`."""
    missing = count - x.size(0)
    return torch.cat((x, x[:1].expand(missing, -1, -1))) if missing else x


def batch_invariant(model: LanguageModel, products: str) -> tuple[LanguageModel, int, int]:
    """A copy of a model on the CPU whose linear layers are batch-invariant. How many rows a single one is best filled
    up to, and how many it may take at a time.

    `products`: float32 or bfloat16, what matrices are multiplied in. All but the matrices is shared with the model.
    """
    layers = [layer for layer in model.modules() if type(layer) is nn.Linear]
    widest = max(
        (layer.out_features for layer in layers if layer.out_features != model.vocab_size), default=1
    )
    most = max(1, UNSHARED // widest)
    own = {layer: BatchInvariantLinear.of(layer, _counts(layer, products, most)) for layer in layers}
    least = max((layer.counts[0] for layer in own.values()), default=1)
    return _with(model, {**own}), least, most


def _with(module: Module, others: dict[nn.Module, Any]) -> Module:
    """A copy of a module with others in the place of some; everything that it holds is shared.

    Modules and parameters are plain attributes too, which Python finds faster.
    """
    if module not in others:
        made = others[module] = module.__new__(type(module))
        children = {
            name: None if child is None else _with(child, others) for name, child in module._modules.items()
        }
        found = module.__dict__ | module._parameters | module._buffers | children
        made.__dict__ = found | {"_modules": children}
    return others[module]


def _laid_out(weight: Tensor) -> Tensor:
    """The weight (N, K) as its layer multiplies by it; a copy is kept while the weight is unchanged."""
    if weight.numel() > TURNED:
        return weight
    state = (weight.data_ptr(), weight._version, float(weight.detach().sum()))
    kept = _LAID_OUT.get(weight)
    if kept is None or kept[0] != state:
        kept = _LAID_OUT[weight] = (state, turned(weight))
    return kept[1]


def turned(weight: Tensor) -> nn.Parameter:
    """A copy (N, K) whose columns are contiguous, with what products in bfloat16 go by."""
    made = nn.Parameter(weight.detach().t().contiguous().t(), requires_grad=False)
    made.__dict__.update(vars(weight))
    return made


def _counts(layer: nn.Linear, products: str, most: int) -> tuple[int, ...]:
    short = bool(getattr(layer.weight, "short_output", False))
    shape, dtype = (layer.out_features, layer.in_features), layer.weight.dtype
    return agreeing(shape, dtype, layer.bias is not None, products, short, most, torch.get_num_threads())


@cache
@torch.no_grad()
def agreeing(
    shape: tuple[int, int],
    dtype: torch.dtype,
    biased: bool,
    products: str,
    short_output: bool,
    most: int,
    threads: int,
) -> tuple[int, ...]:
    """Counts of rows, at most so many, that give each of them the same bits in a layer of this shape (N, K), smallest
    first. (1,) where none do.
    """
    random = torch.Generator().manual_seed(0)
    outputs, inputs = shape
    drawn = min(outputs, 509)  # a large vocabulary's would take long
    few = torch.randn(drawn, inputs, generator=random).to(dtype)
    apart = torch.randperm(inputs, generator=random)[: inputs // 2 * 2].view(2, -1)
    few[:, apart[1]] = few[:, apart[0]]
    weight = few.repeat(-(-outputs // drawn), 1)[:outputs].contiguous()
    weight = turned(weight) if weight.numel() <= TURNED else nn.Parameter(weight, requires_grad=False)
    weight.short_output = short_output  # pyrefly: ignore
    bias = torch.randn(outputs, generator=random).to(dtype) if biased else None
    several = max(2, 256 // outputs)  # one number may agree by chance
    rows = torch.randn(2 * several, 1, inputs, generator=random).to(dtype)
    # Half of the rows have terms that cancel each other, so that what comes out is how sums were rounded on their way.
    # In bfloat16 the sums of others differ so seldom that a trial would miss it.
    cancelling = torch.zeros_like(rows[several:])
    cancelling[..., apart[0]], cancelling[..., apart[1]] = (
        sign * rows[several:, :, apart[0]] for sign in (1, -1)
    )
    rows[several:] = cancelling
    found: dict[int, Tensor] = {}
    with autocast(products, torch.device("cpu")):
        for count in (count for count in COUNTS if count <= most):
            y = torch.stack([F.linear(row.repeat(count, 1, 1), weight, bias) for row in rows], dim=1)
            if torch.equal(y, y[:1].expand_as(y)):
                found[count] = y[0]
    for least in (count for count in found if count <= MOST_PADDING):
        alike = tuple(count for count, y in found.items() if count >= least and torch.equal(y, found[least]))
        if alike[-1] >= min(4 * least, most):
            return alike
    return (1,)
