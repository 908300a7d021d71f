"""Sample paths of a model of rows of numbers: each drawn row is read again, and the next one drawn after it.

W histories, M paths of each, L rows of history, D columns, C channels (the first columns; the others are known in
advance).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from octavo.model.gpt import GPT, Cache
from octavo.model.heads import VectorHead

Told = Callable[[int, Tensor, Tensor, Tensor], None]
"""Hears at each step, counted from 1, what describes the rows to come (W·M, …), the last rows read (W·M, T, D), and the
rows that are drawn (W·M, D)."""

KEPT = 0.75
"""Of the context, what stays when it is full: the rest is forgotten, and this much read again."""


def inputs_of(rows: np.ndarray, ahead: np.ndarray) -> np.ndarray:
    """What a model reads of rows (…, L, D): channels as they are, covariates of the row after each; `ahead`
    (…, D − C) are those after the last row."""
    covariates = ahead.shape[-1]
    channels = rows[..., : rows.shape[-1] - covariates]
    later = np.concatenate([rows[..., 1:, channels.shape[-1] :], ahead[..., None, :]], axis=-2)
    return np.concatenate([channels, later], axis=-1)


class Rollout:
    """Draws paths after histories.

    Args:
        history: rows (W, L, D), NaN where a number is missing; only the last ones that the context holds are read.
        ahead: covariates of the rows to come, (W, steps, D − C).
        paths: M.
        seed: of all draws: the same one draws the same paths.
        told: see `Told`.
    """

    def __init__(
        self,
        model: GPT,
        history: np.ndarray,
        ahead: np.ndarray,
        *,
        paths: int,
        seed: int,
        told: Told | None = None,
        cached: bool = True,
    ) -> None:
        assert isinstance(model.lm_head, VectorHead), "the model predicts rows of numbers"
        self.model, self.head = model, model.lm_head
        self.device = next(model.parameters()).device
        self.paths, self.told, self.cached = paths, told, cached
        self.channels = history.shape[-1] - ahead.shape[-1]
        self.ahead = ahead.astype(np.float32).repeat(paths, axis=0)
        first = ahead[:, 0] if ahead.shape[1] else np.zeros((len(history), ahead.shape[-1]))
        self.read = inputs_of(history[:, -model.context :].astype(np.float32), first.astype(np.float32))
        self.generator = torch.Generator(self.device).manual_seed(seed)

    @torch.no_grad()
    def rows(self) -> Iterator[Tensor]:
        """The channels (W·M, C) of each step, on the CPU; all paths of the first history come first."""
        model, steps = self.model.eval(), self.ahead.shape[1]
        read = torch.from_numpy(np.ascontiguousarray(self.read, np.float32)).to(self.device)
        pieces, cache = self._begun(read)
        read = read.repeat_interleave(self.paths, dim=0)
        for step in range(1, steps + 1):
            # Missing numbers are looked up in all rows; a drawn row has none.
            before = read if step == 1 else read[:, -1:]
            whole = self.head.draw(pieces, before, self.generator)
            if self.told is not None:
                self.told(step, pieces, before, whole)
            drawn = whole[:, : self.channels]
            yield drawn.cpu()
            if step == steps:
                return
            known = torch.from_numpy(self.ahead[:, step]).to(self.device)
            row = torch.cat([drawn, known], dim=-1)[:, None]
            read = torch.cat([read, row], dim=1)[:, -model.context :]
            if cache is not None and cache.length < model.context:
                pieces = model(row, cache)[:, -1]
            else:
                kept = read if cache is None else read[:, -max(1, int(KEPT * model.context)) :]
                cache = None if cache is None else model.new_cache(len(kept))
                pieces = model(kept, cache)[:, -1]

    def _begun(self, read: Tensor) -> tuple[Tensor, Cache | None]:
        """What describes the first row to come, and a cache that holds each history M times: it is read once."""
        if not self.cached:
            return self.model(read)[:, -1].repeat_interleave(self.paths, dim=0), None
        once, many = self.model.new_cache(len(read)), self.model.new_cache(len(read) * self.paths)
        pieces = self.model(read, once)[:, -1].repeat_interleave(self.paths, dim=0)
        for one, layer in zip(once.layers, many.layers, strict=True):
            layer.append(
                *(
                    held[:, :, : one.length].repeat_interleave(self.paths, dim=0)
                    for held in (one.keys, one.values)
                )
            )
        many.recent = None if once.recent is None else once.recent.repeat_interleave(self.paths, dim=0)
        return pieces, many


def sample_paths(
    model: GPT, history: np.ndarray, ahead: np.ndarray, *, paths: int, seed: int, told: Told | None = None
) -> np.ndarray:
    """Paths (W, M, steps, C) after histories; see `Rollout`."""
    drawn = Rollout(model, history, ahead, paths=paths, seed=seed, told=told).rows()
    paths_drawn = torch.stack(list(drawn), dim=1).numpy()
    return paths_drawn.reshape(len(history), paths, *paths_drawn.shape[1:])
