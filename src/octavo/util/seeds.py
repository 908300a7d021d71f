"""Seeds of the parts of what is drawn by chance."""

from __future__ import annotations

import numpy as np


def derived(seed: int, *part: int) -> int:
    """A seed for a part, from 0 to 2**64 - 1: of its own for each part and each seed."""
    return int(np.random.SeedSequence([seed, *part]).generate_state(1, np.uint64)[0])
