"""The loss of counting n-grams on nanoGPT's split of a text, and nothing else: what a trained model has to beat.

    time python benchmarks/counting.py input.txt

The first nine tenths of the characters are counted (Kneser–Ney), the rest is scored; of the orders 1 to 8 the one that
does best there. One JSON document. Other scripts start it as the process whose time is that of counting.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from octavo.model.kneser_ney import KneserNey


def counted(text: Path) -> dict[str, float]:
    """Nats per character of the best order and of trigrams."""
    codes = np.frombuffer(text.read_bytes().decode().encode("utf-32-le"), np.uint32)
    alphabet, tokens = np.unique(codes, return_inverse=True)
    cut = int(0.9 * len(tokens))
    losses = KneserNey(tokens[:cut], vocab_size=len(alphabet), highest=8).losses(tokens[cut:])
    best = int(losses.argmin())
    return {"order": best + 1, "loss": float(losses[best]), "trigram": float(losses[2])}


if __name__ == "__main__":
    print(json.dumps(counted(Path(sys.argv[1]))))
