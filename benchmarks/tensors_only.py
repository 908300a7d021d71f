"""What doing a window at once gains over one update for each prefix (report B), from tensors alone.

    python benchmarks/tensors_only.py --text shakespeare.txt

Both forms read the same windows once, from the same start, at the same rate; the loss is then taken on the same text
after them. Times are of the process, on one thread, so that a busy machine does not change what is compared.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from octavo.model.tensors_only import Parameters, by_prefix, by_window, cross_entropy, encode, fresh, logits

SHAPE = {"context": 10, "heads": 5}
WIDTH, RATE = 60, 0.001


def judged(tokens: torch.Tensor, parameters: Parameters) -> float:
    """Mean loss over text that was not learned from, in windows side by side."""
    context = SHAPE["context"]
    count = (len(tokens) - 1) // context * context
    with torch.no_grad():
        scores = logits(tokens[:count].view(-1, context), parameters, heads=SHAPE["heads"])
        return cross_entropy(scores, tokens[1 : count + 1].view(-1, context)).mean().item()


def measured(
    form: Callable[..., Iterator[float]], learned: torch.Tensor, held: torch.Tensor, vocab_size: int
) -> dict[str, float]:
    """Updates, predicted tokens a second, and the loss afterwards."""
    parameters = fresh(vocab_size, width=WIDTH, seed=0)
    began = time.process_time()
    updates = sum(1 for _ in form(learned, parameters, **SHAPE, rate=RATE, stride=SHAPE["context"]))
    seconds = time.process_time() - began
    return {
        "updates": updates,
        "seconds": round(seconds, 2),
        "tokens_per_second": round((len(learned) - 1) / seconds),
        "loss": round(judged(held, parameters), 3),
    }


def main() -> None:
    """Measure both and print a table; the last line is one JSON document."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    asked.add_argument("--text", type=Path, required=True)
    asked.add_argument("--tokens", type=int, default=10_000)
    given = asked.parse_args()
    torch.set_num_threads(1)
    text = given.text.read_text(encoding="utf-8")
    symbols = sorted(set(text))
    tokens = encode(text[: given.tokens + 10_001], symbols)
    learned, held = tokens[: given.tokens + 1], tokens[given.tokens :]
    results = {
        name: measured(form, learned, held, len(symbols))
        for name, form in (("by prefix", by_prefix), ("by window", by_window))
    }
    untrained = round(judged(held, fresh(len(symbols), width=WIDTH, seed=0)), 3)
    print(f"{given.tokens:,} tokens, each predicted once; loss before: {untrained} nats\n")
    print("| form | updates | seconds | tokens a second | loss after |\n|---|---|---|---|---|")
    for name, row in results.items():
        print(
            f"| {name} | {row['updates']:,} | {row['seconds']:.2f} | {row['tokens_per_second']:,} | {row['loss']:.3f} |"
        )
    gain = results["by window"]["tokens_per_second"] / results["by prefix"]["tokens_per_second"]
    print(f"\nA window at once is {gain:.1f} times as fast.\n")
    print(
        json.dumps({"tokens": given.tokens, "untrained_loss": untrained, "gain": round(gain, 2), **results})
    )


if __name__ == "__main__":
    main()
