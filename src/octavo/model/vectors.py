"""Rows of numbers instead of tokens: what a model knows of the scale of each column, and the last number seen.

B sequences, T positions, D columns. A number that is not there is NaN.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import torch
from torch import Tensor, nn

LEAST = 1e-12
"""Of a scale: a column that never changes divides by this."""


class Calibrated(nn.Module):
    """A module that keeps constants of the training split, as buffers, which are saved with the weights."""

    @abstractmethod
    def calibrate(self, rows: np.ndarray) -> None:
        """Take them from the training split's rows (N, D)."""


def calibrate(model: nn.Module, rows: np.ndarray) -> None:
    """Give every module of a model that asks for it the constants of the training split's rows (N, D); a model of
    tokens has none."""
    for module in model.modules():
        if isinstance(module, Calibrated):
            module.calibrate(rows)


def spread_of(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each column of rows (N, D), of the numbers that are there."""
    there = np.isfinite(rows)
    count = np.maximum(there.sum(axis=0), 1)
    held = np.where(there, rows, 0.0).astype(np.float64)
    mean = held.sum(axis=0) / count
    spread = np.sqrt((np.where(there, held - mean, 0.0) ** 2).sum(axis=0) / count)
    return mean, np.maximum(spread, LEAST)


def differences(rows: np.ndarray) -> np.ndarray:
    """From each row (N, D) to the next, (N − 1, D); NaN where either is not there. Of a column that is never there
    twice in a row, from each number to the next one that is."""
    found = np.diff(rows.astype(np.float64), axis=0)
    for column in np.flatnonzero(~np.isfinite(found).any(axis=0)):
        held = rows[np.isfinite(rows[:, column]), column].astype(np.float64)
        if len(held) > 1:
            found[: len(held) - 1, column] = np.diff(held)
    return found


def fill(buffer: Tensor, values: np.ndarray) -> None:
    """Put constants into a buffer."""
    buffer.copy_(torch.as_tensor(values, dtype=buffer.dtype))


def last_seen(rows: Tensor, otherwise: Tensor) -> Tensor:
    """Each column's newest number up to each position of rows (B, T, D); before its first one `otherwise` (D,)."""
    missing = rows.isnan()
    place = torch.arange(rows.size(1), device=rows.device)[None, :, None]
    newest = torch.where(missing, -1, place).cummax(dim=1).values  # (B, T, D)
    held = rows.gather(1, newest.clamp_min(0))
    return torch.where(newest < 0, otherwise.to(rows.dtype), held)
