"""The fast twin in torch: keys and values are kept, and only new ids are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.weak import WeakTensorKeyDictionary

from octavo.generation.decoder import AHEAD, Span
from octavo.generation.full import FullDecoder, Rows
from octavo.generation.sampling import Precision, Window
from octavo.model.attention import KeyValueCache
from octavo.model.base import LanguageModel
from octavo.model.gpt import Cache
from octavo.ngram.recent import recent_apart
from octavo.training.device import autocast

# Linear layers on the CPU that are batch-invariant: what they make of a row does not depend on the other
# rows.

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
        attributes = module.__dict__ | module._parameters | module._buffers | children
        made.__dict__ = attributes | {"_modules": children}
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
    first: dict[int, Tensor] = {}
    with autocast(products, torch.device("cpu")):
        for count in (count for count in COUNTS if count <= most):
            y = torch.stack([F.linear(row.repeat(count, 1, 1), weight, bias) for row in rows], dim=1)
            if torch.equal(y, y[:1].expand_as(y)):
                first[count] = y[0]
    for least in (count for count in first if count <= MOST_PADDING):
        alike = tuple(count for count, y in first.items() if count >= least and torch.equal(y, first[least]))
        if alike[-1] >= min(4 * least, most):
            return alike
    return (1,)


BOUNDARY = 64
"""Bytes: a line of a processor's cache, and its widest vector."""


class CachedDecoder(FullDecoder):
    """The same as `FullDecoder`, with a cache.

    On a processor a stream's logits are the same to the bit alone and among others. Prompts are computed one by one.
    Single ids, one for each of several slots, are computed together: linear layers are made batch-invariant, and
    attention looks at just what a row holds, which begins in memory where that of a row alone does (`lined_up`). Other
    operations may still round otherwise for several rows, such as an activation at an odd width. So a decoder tries its
    rows when it is made, and computes them one by one where they differ.

    On an accelerator, slots that hold and get equally many ids are computed together; last bits may depend on how many
    these are.

    Attributes:
        together: how many slots are computed at a time.
    """

    in_parts = False

    def __init__(
        self, model: LanguageModel, *, slots: int, precision: Precision = "float32", window: Window = "slide"
    ) -> None:
        super().__init__(model, slots=slots, precision=precision, window=window)
        self.together = slots
        self._cache = model.new_cache(slots)
        if self._said is not None:  # which knows the texts; the model needs what its n-grams look at
            self._cache.before = max(model.ngrams.before, model.counts.near)  # type: ignore[union-attr]
        self._parts: dict[tuple[int, int], _SlotsCache] = {}
        self._invariant = self.device.type == "cpu"
        self._uneven = self._invariant and model.takes_uneven_cache
        if self._invariant:
            self._computing, self._least, self._most = batch_invariant(self._computing, self._products)
            for layer in self._cache.layers:
                layer.keys, layer.values = lined_up(layer.keys), lined_up(layer.values)
            self.together = min(slots, self._most)
            with recent_apart():
                if self.together > 1 and not self._rows_agree():
                    self.together = 1

    def foresees(self) -> bool:
        if not self._uneven or (self.slots > 1 and self.together == 1):
            return False
        with recent_apart():
            agree = self._places_agree()
        if agree:
            self.together = min(max(self.slots, AHEAD), self._most)
        return agree

    @torch.no_grad()
    def read(self, spans: Sequence[Span]) -> Tensor:
        groups = self._groups(spans)
        parts = [self._logits(group) for group in groups]
        logits = parts[0] if len(parts) == 1 else torch.cat(parts)
        read = [pair for group in groups for pair in zip(group.slots, group.starts, strict=True)]
        asked = [(slot, start) for slot, start, _ in spans]
        if read == asked:
            return logits
        place = {pair: row for row, pair in enumerate(read)}
        return logits[[place[pair] for pair in asked]]

    def read_each(self, span: Span) -> Tensor:
        slot, start, end = span
        return self._computed(_Group((slot,), (start,), end - start))[0].float()

    def share(self, source: int, to: Sequence[int], length: int) -> None:
        for layer in self._cache.layers:
            for kept in (layer.keys, layer.values):
                kept[list(to), :, :length] = kept[source, :, :length].clone()

    def _groups(self, spans: Sequence[Span]) -> list[_Group]:
        """What is computed together: as many new ids for each slot, and on a processor just one."""
        groups: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        for slot, start, end in spans:
            if self._invariant and end - start > 1:
                key = (end - start, slot)
            elif self._uneven:
                key = (1, min(start, self._cache.before))  # n-grams look at as many tokens before it
            else:
                key = (end - start, start)
            groups.setdefault(key, []).append((slot, start))
        grouped = []
        for (length, _), members in sorted(groups.items()):  # earlier ids of a slot before later ones
            members.sort(key=lambda member: member[1])  # those that hold equally many attend together
            for first in range(0, len(members), self.together):
                slots, starts = zip(*members[first : first + self.together], strict=True)
                grouped.append(_Group(slots, starts, length))
        return grouped

    def _logits(self, group: _Group) -> Tensor:
        """Logits (n, V) after the last new id of each slot."""
        return self._computed(group)[:, -1].float()

    @torch.no_grad()
    def _computed(self, group: _Group) -> Tensor:
        """The same (n, length, V) after each new id."""
        rows, start = group.rows, group.starts[0]
        if group.even:
            tokens = self.text[rows, start : start + group.length]
        else:
            tokens = self.text[group.slots, group.starts][:, None]
        ids, part = torch.from_numpy(tokens).long().to(self.device), self._part(group, rows, start)
        if self._invariant and ids.numel() == 1:
            ids = ids.expand(self._least, 1)
            part.recent = None if part.recent is None else part.recent.expand(self._least, -1)
        with autocast(self._products, self.device):
            logits = self._computing(ids, part)
        return logits[: len(group.slots)]

    def _part(self, group: _Group, rows: Rows, start: int) -> _SlotsCache:
        """The cache of a group's slots, as they were before the new ids."""
        part = self._part_of(rows)
        part.starts = None if group.even else group.starts
        for layer in part.parts:
            layer.length, layer.starts = group.starts[-1], part.starts
        if part.before:
            before = min(start, part.before)
            places = np.array(group.starts)[:, None] + np.arange(-before, 0)
            recent = self.text[np.array(group.slots)[:, None], places]
            part.recent = torch.from_numpy(recent).long().to(self.device) if before else None
        return part

    def _part_of(self, rows: Rows) -> _SlotsCache:
        if isinstance(rows, list):
            return _SlotsCache(self._cache, torch.tensor(rows, device=self.device), len(rows))
        key = (rows.start, rows.stop)
        if key not in self._parts:
            self._parts[key] = _SlotsCache(self._cache, rows, rows.stop - rows.start)
        return self._parts[key]

    def _rows_agree(self) -> bool:
        """Whether single ids that are computed together give the same bits as one by one; tried in the empty slots."""
        rows, tried, uneven = self.together, min(self.together, 4), self._uneven and not self._cache.before
        ids = np.random.default_rng(0).integers(self.vocabulary, size=(2, tried), dtype=np.int32)
        for step in range(min(2, self.context)):
            starts = [step * (slot % 4 > 1 if uneven else 1) for slot in range(rows)]
            for slot, start in enumerate(starts):
                self.text[slot, start] = ids[step, slot % tried]
            alone = torch.cat([self._logits(_Group((slot,), (starts[slot],), 1)) for slot in range(tried)])
            for count in {2, min(3, rows), rows}:
                together = self._logits(_Group(tuple(range(count)), tuple(starts[:count]), 1))
                if not torch.equal(together, alone[[slot % tried for slot in range(count)]]):
                    return False
        return True

    def _places_agree(self) -> bool:
        """The same of ids that follow each other in one slot; of fewer than two it does not help."""
        first = self._cache.before
        length = min(AHEAD, self._most, self.context - first)
        self.text[0, first : first + length] = np.random.default_rng(0).integers(
            self.vocabulary, size=max(0, length)
        )
        starts = tuple(range(first, first + length))
        alone = [self._logits(_Group((0,), (start,), 1)) for start in starts]
        for count in {2, 3, length} if length > 1 else ():
            some = starts[:count]
            together = self._logits(_Group((0,) * len(some), some, 1))
            if not torch.equal(together, torch.cat(alone[:count])):
                return False
        return length > 1


@dataclass(frozen=True)
class _Group:
    """Slots that are computed together, each from a start of its own on, with as many new ids."""

    slots: tuple[int, ...]
    starts: tuple[int, ...]
    length: int

    @property
    def even(self) -> bool:
        return len(set(self.starts)) == 1

    @property
    def rows(self) -> Rows:
        first, after = self.slots[0], self.slots[0] + len(self.slots)
        return slice(first, after) if self.slots == tuple(range(first, after)) else list(self.slots)


class _SlotsCache(Cache):
    """Some slots of a decoder's cache."""

    def __init__(self, whole: Cache, rows: slice | Tensor, count: int) -> None:
        self.parts = [_SlotsLayer(layer, rows, count) for layer in whole.layers]
        super().__init__([*self.parts], before=whole.before)


class _SlotsLayer(KeyValueCache):
    """Some slots of a layer's cache: a view where they lie side by side, else what is read is a copy.

    Attributes:
        starts: where each row's new position goes, in ascending order; None: at `length` in all.
    """

    starts: Sequence[int] | None = None

    def __init__(self, whole: KeyValueCache, rows: slice | Tensor, count: int) -> None:
        self.length, self.count = 0, count
        if isinstance(rows, slice):
            self.keys, self.values = whole.keys[rows], whole.values[rows]
            self.rows, self.each = slice(None), torch.arange(count, device=whole.keys.device)
        else:
            self.keys, self.values, self.rows, self.each = whole.keys, whole.values, rows, rows

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        rows, length = keys.size(0), self.length
        self.length = end = length + keys.size(2)
        if rows > self.count:  # a single one, filled up
            self.keys[:, :, length:end], self.values[:, :, length:end] = keys[:1], values[:1]
            held = self.keys[:, :, :end], self.values[:, :, :end]
            return held[0].expand(rows, -1, -1, -1), held[1].expand(rows, -1, -1, -1)
        self.keys[self.rows, :, length:end] = keys.to(self.keys.dtype)
        self.values[self.rows, :, length:end] = values.to(self.values.dtype)
        return self.keys[self.rows, :, :end], self.values[self.rows, :, :end]

    def attend(
        self, attend: nn.Module, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None
    ) -> Tensor:
        """Rows that hold equally many positions attend together, so that none looks at more than is its own."""
        if self.starts is None:
            held = self.append(keys, values)
            return attend(self.placed(queries), *map(self.placed, held), mask)
        starts = torch.tensor(self.starts)
        self.keys[self.each, :, starts] = keys[:, :, 0]
        self.values[self.each, :, starts] = values[:, :, 0]
        outputs, first = [], 0
        for start, alike in groupby(self.starts):
            after = first + len(list(alike))
            rows: slice | Tensor = slice(first, after)
            new = queries[rows]
            rows = rows if isinstance(self.rows, slice) else self.rows[rows]
            held = (each[rows, :, : start + 1] for each in (self.keys, self.values))
            outputs.append(attend(self.placed(new), *map(self.placed, held)))
            first = after
        return torch.cat(outputs)

    @staticmethod
    def placed(x: Tensor) -> Tensor:
        """On a processor, lined up."""
        return lined_up(x) if x.device.type == "cpu" else x


def lined_up(x: Tensor) -> Tensor:
    """Matrices (B, H, T, D) that each begin at a multiple of `BOUNDARY` bytes; a copy where they do not yet.

    Some processors add the first numbers of a matrix by themselves up to such a place, so that sums round by where in
    memory a matrix lies: in a cache of head widths that are no multiple of 16, by its slot.
    """
    each = x.element_size()
    if not any(place % BOUNDARY for place in (x.data_ptr(), x.stride(0) * each, x.stride(1) * each)):
        return x
    slots, heads, length, width = x.shape
    apart = -(-length * width * each // BOUNDARY) * BOUNDARY // each  # a new tensor begins at a boundary
    made = x.new_empty(slots * heads * apart).as_strided(x.shape, (heads * apart, apart, width, 1))
    return made.copy_(x)
