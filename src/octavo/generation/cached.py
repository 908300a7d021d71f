"""The fast twin in torch: keys and values are kept, and only new ids are read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from octavo.generation.full import FullDecoder, Rows
from octavo.generation.sampling import Window
from octavo.generation.slots import Precision, Span
from octavo.model.attention import KeyValueCache
from octavo.model.gpt import Cache
from octavo.model.kind import LanguageModel


class CachedDecoder(FullDecoder):
    """The same as `FullDecoder`, with a cache.

    On a processor each slot is computed alone: torch's product of several rows rounds otherwise than that of one, so
    only so are a stream's logits the same to the bit alone and among others. On an accelerator, where single rows
    leave most of it idle, slots that hold and get equally many ids are computed together; last bits may depend on how
    many these are.
    """

    def __init__(
        self, model: LanguageModel, *, slots: int, precision: Precision = "float32", window: Window = "slide"
    ) -> None:
        super().__init__(model, slots=slots, precision=precision, window=window)
        self.together = self.device.type != "cpu"
        self._cache = model.new_cache(slots)
        self._parts: dict[tuple[int, int], Cache] = {}

    @torch.no_grad()
    def read(self, spans: Sequence[Span]) -> Tensor:
        groups = self._groups(spans)
        parts = [self.last(rows, start, end, self._part(rows, start)) for rows, start, end in groups]
        if len(parts) == 1:
            return parts[0]
        if len(parts) == len(spans):  # the order is still that of the spans
            return torch.cat(parts)
        read = [slot for rows, _, _ in groups for slot in np.arange(self.slots)[rows].tolist()]
        place = {slot: row for row, slot in enumerate(read)}
        return torch.cat(parts)[[place[slot] for slot, _, _ in spans]]

    def share(self, source: int, to: Sequence[int], length: int) -> None:
        for layer in self._cache.layers:
            for kept in (layer.keys, layer.values):
                kept[list(to), :, :length] = kept[source, :, :length].clone()

    def _groups(self, spans: Sequence[Span]) -> list[tuple[Rows, int, int]]:
        """Slots that are computed together, and which places of them."""
        if not self.together:
            return [(slice(slot, slot + 1), start, end) for slot, start, end in spans]
        groups: dict[tuple[int, int], list[int]] = {}
        for slot, start, end in spans:
            groups.setdefault((start, end), []).append(slot)
        return [(_rows(slots), start, end) for (start, end), slots in groups.items()]

    def _part(self, rows: Rows, start: int) -> Cache:
        """The cache of some slots, which hold the first `start` places of their texts."""
        if isinstance(rows, list):
            index, before = torch.tensor(rows, device=self.device), self._cache.before
            part = Cache([_Gathered(layer, index) for layer in self._cache.layers], before=before)
        else:
            part = self._side_by_side(rows.start, rows.stop)
        for layer in part.layers:
            layer.length = start
        if part.before:
            recent = self.text[rows, max(0, start - part.before) : start]
            part.recent = torch.from_numpy(recent).long().to(self.device) if start else None
        return part

    def _side_by_side(self, first: int, after: int) -> Cache:
        if (first, after) not in self._parts:
            layers: list[KeyValueCache] = [_Part(layer, slice(first, after)) for layer in self._cache.layers]
            self._parts[first, after] = Cache(layers, before=self._cache.before)
        return self._parts[first, after]


def _rows(slots: list[int]) -> Rows:
    side_by_side = slots == list(range(slots[0], slots[0] + len(slots)))
    return slice(slots[0], slots[0] + len(slots)) if side_by_side else slots


class _Part(KeyValueCache):
    """Slots of a layer's cache that lie side by side."""

    def __init__(self, whole: KeyValueCache, rows: slice) -> None:
        self.keys, self.values, self.length = whole.keys[rows], whole.values[rows], 0


class _Gathered(KeyValueCache):
    """Slots of a layer's cache that do not; what is read is a copy."""

    def __init__(self, whole: KeyValueCache, rows: Tensor) -> None:
        self.keys, self.values, self.length, self.rows = whole.keys, whole.values, 0, rows

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        start, end = self.length, self.length + keys.size(2)
        self.keys[self.rows, :, start:end] = keys.to(self.keys.dtype)
        self.values[self.rows, :, start:end] = values.to(self.values.dtype)
        self.length = end
        return self.keys[self.rows, :, :end], self.values[self.rows, :, :end]
