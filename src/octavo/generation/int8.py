"""Matrices in eight bits: whole numbers from −127 to 127 and one scale for each row."""

from __future__ import annotations

import numpy as np


def in_bytes(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A matrix (rows, columns) as int8, and what the numbers of each row are to be multiplied by (rows)."""
    scales = np.maximum(np.abs(weight).max(axis=1) / np.float32(127), np.finfo(np.float32).tiny)
    return np.rint(weight / scales[:, None]).astype(np.int8), scales
