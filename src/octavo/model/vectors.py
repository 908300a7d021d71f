"""Rows of numbers instead of tokens: what a model knows of the scale of each column, and the last number seen.

B sequences, T positions, D columns. A number that is not there is NaN.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from octavo.model.base import asked

NEXT_TO_NOTHING = 1e-9
"""A spread that is this share of what it is a spread of, or less, is none but that of rounding."""


def calibrate(model: nn.Module, rows: np.ndarray) -> None:
    """Let every module that keeps constants of the training split, as buffers, take them from its rows (N, D); a model
    of tokens has none."""
    for take in asked(model, "calibrate"):
        take(rows)


def _moments(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each column of rows (N, D), of the numbers that are there."""
    there = np.isfinite(rows)
    count = np.maximum(there.sum(axis=0), 1)
    held = np.where(there, rows, 0.0).astype(np.float64)
    mean = held.sum(axis=0) / count
    return mean, np.sqrt((np.where(there, held - mean, 0.0) ** 2).sum(axis=0) / count)


def spread_of(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each column of rows (N, D), of the numbers that are there. A column that never
    changes has its own size as its spread, or 1 if it is zero: what differs from it later is measured by that."""
    mean, spread = _moments(rows)
    size = np.where(mean == 0, 1.0, np.abs(mean))
    return mean, np.where(spread > NEXT_TO_NOTHING * np.abs(mean), spread, size)


def spread_of_steps(rows: np.ndarray) -> np.ndarray:
    """Standard deviation of each column's `differences`, (D,); of a column whose steps are all alike, its own."""
    own, spread = spread_of(rows)[1], _moments(differences(rows))[1]
    return np.where(spread > NEXT_TO_NOTHING * own, spread, own)


def differences(rows: np.ndarray) -> np.ndarray:
    """From each number of a column to the next one that is there, in the row of the first, (N − 1, D); NaN where that
    is farther away than usual (the median distance), or no number is there. Without gaps that is from row to row."""
    found = np.full((max(len(rows) - 1, 0), rows.shape[1]), np.nan)
    for column in range(rows.shape[1]):
        there = np.flatnonzero(np.isfinite(rows[:, column]))
        if len(there) < 2:
            continue
        apart, steps = np.diff(there), np.diff(rows[there, column].astype(np.float64))
        near = apart <= np.sort(apart)[(len(apart) - 1) // 2]
        found[there[:-1][near], column] = steps[near]
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
