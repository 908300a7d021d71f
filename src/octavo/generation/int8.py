"""Matrices in eight bits: whole numbers from −127 to 127 and one scale for each row; everything else stays as it is."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from octavo.model.base import LanguageModel


def in_bytes(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A matrix (rows, columns) as int8, and what the numbers of each row are to be multiplied by (rows)."""
    scales = np.maximum(np.abs(weight).max(axis=1) / np.float32(127), np.finfo(np.float32).tiny)
    return np.rint(weight / scales[:, None]).astype(np.int8), scales


def rounded(model: LanguageModel) -> LanguageModel:
    """A copy whose linear layers hold what `in_bytes` leaves of their matrices. Embeddings stay, even tied ones."""
    import torch
    from torch import nn

    model = copy.deepcopy(model)
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            whole, scales = in_bytes(layer.weight.detach().float().cpu().numpy())
            weight = torch.from_numpy(whole * scales[:, None]).to(layer.weight)
            layer.weight = nn.Parameter(weight, requires_grad=False)
    return model
