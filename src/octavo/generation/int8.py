"""Matrices in eight bits: whole numbers from −127 to 127 and one scale for each row; everything else stays as it is."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from octavo.model.base import LanguageModel


def in_bytes(weight: Tensor) -> tuple[Tensor, Tensor]:
    """A matrix (rows, columns) as int8, and what the numbers of each row are to be multiplied by (rows)."""
    weight = weight.detach()
    scales = (weight.abs().amax(dim=1) / 127).clamp_min(torch.finfo(torch.float32).tiny)
    return (weight / scales[:, None]).round().to(torch.int8), scales


def rounded(model: LanguageModel) -> LanguageModel:
    """A copy whose linear layers hold what `in_bytes` leaves of their matrices. Embeddings stay, even tied ones."""
    model = copy.deepcopy(model)
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            whole, scales = in_bytes(layer.weight)
            layer.weight = nn.Parameter(whole * scales[:, None], requires_grad=False)
    return model
