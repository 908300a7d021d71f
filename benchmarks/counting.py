"""The loss of counting n-grams on nanoGPT's split of a text, and nothing else: what a trained model has to beat.

    time python benchmarks/counting.py input.txt [--said]

The first nine tenths of the characters are counted (Kneser–Ney), the rest is scored; of the orders 1 to 8 the one that
does best there. With `--said` also mixed with counts of the 2,000 characters before each, as `octavo.ngram.recent` has
them, by the fixed share that does best there. One JSON document. Other scripts start it as the process whose time is
that of counting.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np

from octavo.ngram.kneser_ney import KneserNey


def counted(text: Path, *, said: bool) -> dict[str, float]:
    """Nats per character of the best order and of trigrams; of the best with what the text has said so far."""
    codes = np.frombuffer(text.read_bytes().decode().encode("utf-32-le"), np.uint32)
    alphabet, tokens = np.unique(codes, return_inverse=True)
    cut = int(0.9 * len(tokens))
    losses = KneserNey(tokens[:cut], vocab_size=len(alphabet), highest=8).losses(tokens[cut:])
    best = int(losses.argmin())
    found = {"order": best + 1, "loss": float(losses[best]), "trigram": float(losses[2])}
    if said:
        from octavo.auto.facts import counting  # with torch, whose import takes longer than counting

        model = KneserNey(tokens[:cut], vocab_size=len(alphabet), highest=best + 1)
        rest = tokens[cut:].astype(np.int32)
        found["said"] = float(counting(model, rest, np.arange(1, len(rest))).mean()) * math.log(2)
    return found


if __name__ == "__main__":
    print(json.dumps(counted(Path(sys.argv[1]), said="--said" in sys.argv[2:])))
