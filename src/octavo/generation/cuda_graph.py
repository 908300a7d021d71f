"""On a GPU: the fast twin in torch with its step recorded once, as a CUDA graph, and replayed.

A token takes some hundred short kernels, which a processor launches slower than a GPU runs them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from octavo.generation.decoder import Span
from octavo.generation.full import FullDecoder
from octavo.generation.sampling import Precision, Window
from octavo.model.attention import KeyValueCache
from octavo.model.base import LanguageModel
from octavo.model.gpt import GPT, Cache
from octavo.training.cuda_graph import unless_it_waits
from octavo.training.device import autocast
from octavo.util.kernels import native_wanted

SHORTEST = 64  # places that are looked at, at least; then twice as many, and so on


class RecordedDecoder(FullDecoder):
    """The same as `FullDecoder`, with a cache, on a GPU. Prompts are read one by one; of single ids, one for some of
    the slots, all slots are computed together, as they stand: so what one holds never changes what another gives.
    """

    def __init__(
        self, model: LanguageModel, *, slots: int, precision: Precision = "float32", window: Window = "slide"
    ) -> None:
        assert isinstance(model, GPT), "see `fits`"
        super().__init__(model, slots=slots, precision=precision, window=window)
        if precision == "bfloat16":
            self._computing = with_short_matrices(model)
        dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
        place = {"device": self.device, "dtype": dtype}
        shapes = [(block.attention.kv_heads, block.attention.head_width) for block in model.blocks]
        self._keys = [torch.zeros(slots, heads, self.context, width, **place) for heads, width in shapes]
        self._values = [torch.zeros_like(keys) for keys in self._keys]
        self._staged = torch.zeros(2, slots, dtype=torch.long).pin_memory()
        self._given = torch.zeros(2, slots, dtype=torch.long, device=self.device)  # ids and their places
        self._recorded: dict[int, tuple[torch.cuda.CUDAGraph, Tensor] | None] = {}

    @staticmethod
    def fits(model: LanguageModel) -> bool:
        """Whether it can decode this model."""
        plain = type(model) is GPT and model.ngrams.before == 0 and model.counts.before == 0
        return plain and next(model.parameters()).device.type == "cuda" and native_wanted()

    @torch.no_grad()
    def read(self, spans: Sequence[Span]) -> Tensor:
        if len({slot for slot, _, _ in spans}) < len(spans):
            return torch.cat([self.read([span]) for span in spans])
        single = [(slot, start) for slot, start, end in spans if end - start == 1]
        together = self._together(single) if single else None
        if together is not None and len(single) == len(spans):
            slots = [slot for slot, _ in single]
            return together if slots == list(range(self.slots)) else together[slots]
        rows = [
            self._prompt(slot, start, end) if together is None or end - start > 1 else together[slot]
            for slot, start, end in spans
        ]
        return torch.stack(rows)

    def share(self, source: int, to: Sequence[int], length: int) -> None:
        for kept in (*self._keys, *self._values):
            kept[list(to), :, :length] = kept[source, :, :length].clone()

    def _prompt(self, slot: int, start: int, end: int) -> Tensor:
        """Logits (V,) after several ids in a slot."""
        parts = [
            _Row(keys, values, slot, start) for keys, values in zip(self._keys, self._values, strict=True)
        ]
        with of_any_length():
            return self.last(slice(slot, slot + 1), start, end, Cache([*parts], before=0))[0]

    def _together(self, single: Sequence[tuple[int, int]]) -> Tensor:
        """Logits (slots, V) after one id in some of the slots. Of the others the next place is written to, which they
        have not filled yet; what comes out for them is not used."""
        slots, starts = np.array(single).T
        ids, places = self._staged.numpy()
        places[:] = np.minimum(self._lengths, self.context - 1)
        ids[slots], places[slots] = self.text[slots, starts], starts
        self._given.copy_(self._staged, non_blocking=True)
        seen = SHORTEST
        while seen <= starts.max():
            seen *= 2
        seen = min(seen, self.context)
        if (recorded := self._recording(seen)) is None:
            return self._step(seen)
        graph, logits = recorded
        graph.replay()
        return logits.clone()

    def _recording(self, seen: int) -> tuple[torch.cuda.CUDAGraph, Tensor] | None:
        """A step that looks at so many places, recorded when it is first asked for; None: a part of the model asks the
        processor, and it goes on op by op."""
        if seen not in self._recorded:
            self._step(seen)  # what libraries set up at their first calls cannot be recorded
            self._recorded[seen] = None
            if unless_it_waits(lambda: self._step(seen), self.device) is not None:
                torch.cuda.synchronize(self.device)
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                    logits = self._step(seen)
                self._recorded[seen] = graph, logits
        return self._recorded[seen]

    def _step(self, seen: int) -> Tensor:
        ids, places = self._given[0][:, None], self._given[1][:, None]  # (slots, 1)
        mask = (torch.arange(seen, device=self.device) <= places)[:, None, None]  # (slots, 1, 1, S)
        parts = [_Together(*kept, places[:, 0], mask) for kept in zip(self._keys, self._values, strict=True)]
        cache = Cache([*parts], before=0)
        cache.places = places
        with of_any_length(), autocast(self._products, self.device):
            return self._computing(ids, cache)[:, -1].float()


class _Row(KeyValueCache):
    """One slot of a layer's keys and values."""

    def __init__(self, keys: Tensor, values: Tensor, slot: int, length: int) -> None:
        self.keys, self.values, self.length = keys[slot : slot + 1], values[slot : slot + 1], length

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        held = super().append(keys.to(self.keys.dtype), values.to(self.values.dtype))
        return held[0].to(keys.dtype), held[1].to(values.dtype)


class _Together(KeyValueCache):
    """All slots of a layer, each with a place of its own (B,) for what is new."""

    def __init__(self, keys: Tensor, values: Tensor, places: Tensor, mask: Tensor) -> None:
        self.keys, self.values, self.length, self.places, self.mask = keys, values, 0, places, mask
        self.rows = torch.arange(len(places), device=places.device)

    def attend(
        self, attend: nn.Module, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None
    ) -> Tensor:
        for kept, new in ((self.keys, keys), (self.values, values)):
            kept[self.rows, :, self.places] = new[:, :, 0].to(kept.dtype)
        seen = self.mask.size(-1)
        held = self.keys[:, :, :seen].to(queries.dtype), self.values[:, :, :seen].to(queries.dtype)
        return attend(queries, *held, self.mask)


@contextmanager
def of_any_length() -> Iterator[None]:
    """Attention by kernels that take every length as it comes; cuDNN's are planned for each, in a tenth of a second."""
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
        yield


def with_short_matrices(model: GPT) -> GPT:
    """The same model with the matrices of its linear layers in bfloat16, so that they need not be rounded at each
    step."""
    twin = copy.deepcopy(model)
    for module in twin.modules():
        if isinstance(module, nn.Linear):
            module.weight = nn.Parameter(module.weight.detach().bfloat16(), requires_grad=False)
    return twin
