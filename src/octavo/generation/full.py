"""The slow twin of all decoders: it reads the whole window of a slot anew for each token."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from octavo.generation.decoder import Decoder, Span
from octavo.generation.sampling import Precision, Window
from octavo.model.base import LanguageModel
from octavo.model.gpt import Cache
from octavo.training.device import autocast

Rows = slice | list[int]
"""Slots: side by side, or not."""


class FullDecoder(Decoder):
    """Remembers nothing but the ids, and reads slot by slot."""

    in_parts = True

    def __init__(
        self, model: LanguageModel, *, slots: int, precision: Precision = "float32", window: Window = "slide"
    ) -> None:
        super().__init__(model, slots=slots, precision=precision, window=window)
        self.device = next(model.parameters()).device
        self._computing = model
        if precision == "int8":
            from octavo.generation.rounded import rounded

            self._computing = rounded(model)
        self._products = "float32" if precision == "int8" else precision

    @torch.no_grad()
    def read(self, spans: Sequence[Span]) -> Tensor:
        return torch.cat([self.last(slice(slot, slot + 1), 0, end) for slot, _, end in spans])

    def share(self, source: int, to: Sequence[int], length: int) -> None:
        """The ids are all that there is."""

    def last(self, rows: Rows, start: int, end: int, cache: Cache | None = None) -> Tensor:
        """Logits (n, V) after the last of these places of each slot."""
        tokens = torch.from_numpy(self.text[rows, start:end]).long().to(self.device)
        with autocast(self._products, self.device):
            return self._computing(tokens, cache)[:, -1].float()
