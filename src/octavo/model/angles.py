"""The tables of angles that positions are told by, in numpy: float32, each number rounded once from double, so
that they are the same on every machine, and with or without torch.

T context, C width.
"""

from __future__ import annotations

import numpy as np


def angles(context: int, count: int, base: float) -> np.ndarray:
    """(T, count / 2) float32: how far the pairs of `count` numbers have turned at each position, the first pair the
    fastest (Vaswani et al. 2017)."""
    exponents = -np.arange(0, count, 2, dtype=np.float32) / np.float32(count)
    speeds = (base ** exponents.astype(np.float64)).astype(np.float32)
    return np.arange(context, dtype=np.float32)[:, None] * speeds


def turns(context: int, turned: int, base: float) -> tuple[np.ndarray, np.ndarray]:
    """(T, turned / 2) cosines and sines."""
    exact = angles(context, turned, base).astype(np.float64)
    return np.cos(exact).astype(np.float32), np.sin(exact).astype(np.float32)


def waves(context: int, width: int, base: float) -> np.ndarray:
    """(T, C) sines and cosines in turn."""
    exact = angles(context, width, base).astype(np.float64)
    return np.stack((np.sin(exact), np.cos(exact)), axis=2).reshape(context, -1)[:, :width].astype(np.float32)


def turned_of(head_width: int, share: float) -> int:
    """How many of a head's dimensions turn."""
    return max(2, int(share * head_width) // 2 * 2)
