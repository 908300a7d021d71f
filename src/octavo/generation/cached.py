"""The fast twin in torch: keys and values are kept, and only new ids are read."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from octavo.generation.full import FullDecoder
from octavo.generation.sampling import Window
from octavo.generation.slots import Precision, Span
from octavo.model.attention import KeyValueCache
from octavo.model.gpt import GPT, Cache


class CachedDecoder(FullDecoder):
    """The same as `FullDecoder`, with a cache.

    On a processor each slot is computed alone: torch's product of several rows rounds otherwise than that of one, so
    only so are a stream's logits the same to the bit alone and among others. On an accelerator, where single rows
    leave most of it idle, slots that hold and get equally many ids are computed together; last bits may depend on how
    many these are.
    """

    def __init__(
        self, model: GPT, *, slots: int, precision: Precision = "float32", window: Window = "slide"
    ) -> None:
        super().__init__(model, slots=slots, precision=precision, window=window)
        self.together = self.device.type != "cpu"
        self._cache = model.new_cache(slots)

    @torch.no_grad()
    def read(self, spans: Sequence[Span]) -> Tensor:
        groups = self._groups(spans)
        parts = [self.last(slots, start, end, self._part(slots, start)) for slots, start, end in groups]
        if len(groups) in (1, len(spans)):  # the order is still that of the spans
            return torch.cat(parts)
        read = [slot for slots, _, _ in groups for slot in slots]
        place = {slot: row for row, slot in enumerate(read)}
        return torch.cat(parts)[[place[slot] for slot, _, _ in spans]]

    def share(self, source: int, to: Sequence[int], length: int) -> None:
        for layer in self._cache.layers:
            for kept in (layer.keys, layer.values):
                kept[list(to), :, :length] = kept[source, :, :length].clone()

    def _groups(self, spans: Sequence[Span]) -> list[tuple[list[int], int, int]]:
        """Slots that are computed together, and which places of them."""
        if not self.together:
            return [([slot], start, end) for slot, start, end in spans]
        groups: dict[tuple[int, int], list[int]] = {}
        for slot, start, end in spans:
            groups.setdefault((start, end), []).append(slot)
        return [(slots, start, end) for (start, end), slots in groups.items()]

    def _part(self, slots: list[int], start: int) -> Cache:
        """The cache of some slots, which hold the first `start` places of their texts."""
        side_by_side = slots == list(range(slots[0], slots[0] + len(slots)))
        rows = (
            slice(slots[0], slots[0] + len(slots))
            if side_by_side
            else torch.tensor(slots, device=self.device)
        )
        before = self._cache.before
        part = Cache([_Rows(layer, rows, start) for layer in self._cache.layers], before=before)
        if before and start:
            recent = self.text[slots, max(0, start - before) : start]
            part.recent = torch.from_numpy(recent).long().to(self.device)
        return part


class _Rows(KeyValueCache):
    """Some slots of a layer's cache, filled up to `length`; neighbours are read where they lie, others are gathered."""

    def __init__(self, whole: KeyValueCache, rows: slice | Tensor, length: int) -> None:
        self.keys, self.values, self.rows, self.length = whole.keys, whole.values, rows, length

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        start, end = self.length, self.length + keys.size(2)
        self.keys[self.rows, :, start:end] = keys.to(self.keys.dtype)
        self.values[self.rows, :, start:end] = values.to(self.values.dtype)
        self.length = end
        return self.keys[self.rows, :, :end], self.values[self.rows, :, :end]
