"""What heads do that have a name: look at the token before, at the same token, or at what followed it last time.

previous    how much a position looks at the one before it
same        how much it looks at earlier places of its own token, of those positions that have any
induction   on random tokens that come twice: how much it looks at what followed the token's first place (Elhage et al.
            2021; Olsson et al. 2022)
Each is a mean of attention weights, between 0 and 1. A head has the name of its highest score where that is at least
`NAMED`. T positions, L layers, H heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from octavo.model.capture import attention_weights
from octavo.model.gpt import GPT

NAMED = 0.4
ROWS, LONGEST = 8, 128
"""Rows of random tokens, and positions of each at most."""


@torch.no_grad()
def head_scores(model: GPT, rows: Sequence[np.ndarray]) -> list[dict[str, Any]]:
    """The scores of every head. `rows`: ids of validation text, which random tokens are drawn from, too."""
    texts = [torch.from_numpy(np.asarray(row[: model.context], np.int64)) for row in rows if len(row) > 1]
    tokens = np.concatenate([text.numpy() for text in texts])
    half = max(1, min(model.context, LONGEST) // 2)
    random = np.random.default_rng(0).choice(np.unique(tokens), (ROWS, half))
    twice = torch.from_numpy(np.concatenate([random, random], axis=1))
    previous, same = _on_text(model, texts)
    induction = _weights(model, twice)[..., half:, :].diagonal(offset=1, dim1=-2, dim2=-1).mean(dim=(1, 3))
    found = []
    for layer in range(len(model.blocks)):
        for head in range(model.blocks[layer].attention.heads):
            scores = {
                "previous": float(previous[layer][head]),
                "same": float(same[layer][head]),
                "induction": float(induction[layer, head]),
            }
            name = max(scores, key=lambda key: scores[key])
            found.append(
                {"layer": layer, "head": head, **scores, "name": name if scores[name] >= NAMED else None}
            )
    return found


def _weights(model: GPT, ids: Tensor) -> Tensor:
    """(L, B, H, T, T)"""
    with attention_weights(model) as seen:
        model(ids)
    return torch.stack([weights.float() for weights in seen.values()])


def _on_text(model: GPT, texts: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """(L, H) each: the weight of the position before, and of earlier places of the same token."""
    previous, same, counts = 0.0, 0.0, [0, 0]
    for text in texts:
        weights = _weights(model, text[None])[:, 0]  # (L, H, T, T)
        previous = previous + weights.diagonal(offset=-1, dim1=-2, dim2=-1).sum(dim=-1)
        alike = (text[:, None] == text[None, :]).tril(-1)
        has = alike.any(dim=1)
        same = same + (weights * alike).sum(dim=-1)[..., has].sum(dim=-1)
        counts = [counts[0] + len(text) - 1, counts[1] + int(has.sum())]
    assert isinstance(previous, Tensor) and isinstance(same, Tensor)
    return previous / counts[0], same / max(1, counts[1])
