"""Tokens that follow two others with preferences, so that every order of an n-gram knows something."""

from __future__ import annotations

import numpy as np
import torch

from octavo.ngram.mixture import CountedText


def text(length: int, seed: int, *, vocabulary: int, evenly: float) -> np.ndarray:
    """So many of them; the less `evenly` (a Dirichlet's concentration), the surer is what follows."""
    random = np.random.default_rng(seed)
    table = np.random.default_rng(5).dirichlet(np.full(vocabulary, evenly), size=(vocabulary, vocabulary))
    found = [0, 1]
    for _ in range(length - 2):
        found.append(int(random.choice(vocabulary, p=table[found[-2], found[-1]])))
    return np.array(found, np.int32)


@torch.no_grad()
def trust_what_was_said(counts: object) -> None:
    """Give what a text has said a share that depends on all that is known of it: of these texts, in which nothing comes
    again but by chance, it has none."""
    if isinstance(counts, CountedText) and counts.recent is not None:
        counts.recent.start(0.3)
        counts.recent.onto[0, :-1] = torch.linspace(-0.5, 0.5, counts.recent.onto.size(1) - 1)
