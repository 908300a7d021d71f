"""Texts of a known source: how probable each token could be at best, and how probable the model finds it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from octavo.model.gpt import GPT
from octavo.tokenizers import Tokenizer


@torch.no_grad()
def floors(
    model: GPT,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    best: Callable[[str], list[tuple[str, float]] | None],
) -> list[dict[str, Any]]:
    """Of each text that the source could have written, and whose tokens are those of the tokenizer, both, as
    `web/src/facts.ts` reads them."""
    found = []
    for text in texts:
        try:
            known = best(text)
        except ValueError:
            continue
        ids = tokenizer.encode(text)
        pieces = [tokenizer.encode(piece) for piece, _ in known or ()]
        if tokenizer.start is None or not pieces or any(len(piece) != 1 for piece in pieces):
            continue
        if not np.array_equal(np.concatenate(pieces), ids) or len(ids) > model.context:
            continue
        row = torch.from_numpy(np.concatenate(([tokenizer.start], ids)).astype(np.int64))
        logs = model(row[None, :-1])[0].log_softmax(dim=-1)
        own = logs.gather(1, row[1:, None])[:, 0].exp()
        found.append(
            {
                "tokens": [tokenizer.token_text(int(id)) for id in ids],
                "best": [round(math.exp(cost), 4) for _, cost in known or ()],
                "model": [round(float(p), 4) for p in own],
            }
        )
    return found
