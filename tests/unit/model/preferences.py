"""Tokens that follow two others with preferences, so that every order of an n-gram knows something."""

from __future__ import annotations

import numpy as np


def text(length: int, seed: int, *, vocabulary: int, evenly: float) -> np.ndarray:
    """So many of them; the less `evenly` (a Dirichlet's concentration), the surer is what follows."""
    random = np.random.default_rng(seed)
    table = np.random.default_rng(5).dirichlet(np.full(vocabulary, evenly), size=(vocabulary, vocabulary))
    found = [0, 1]
    for _ in range(length - 2):
        found.append(int(random.choice(vocabulary, p=table[found[-2], found[-1]])))
    return np.array(found, np.int32)
