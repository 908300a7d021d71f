"""What writing in bfloat16 and in int8 costs on real text: loss token by token through the kernel.

    python benchmarks/generate_loss.py --run RUN --text TEXT [--streams 64]

The text's last tenth, cut into windows of the run's context side by side, some of them spread over it evenly. Nats a
token in each precision on the same tokens, the difference to float32 with its standard error over windows, and the
share of places where the most probable token is the same.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any, get_args

import torch

from common import finish, load, print_table
from octavo.generation import Precision
from octavo.generation.native import NativeDecoder
from octavo.model.gpt import GPT
from octavo.run.run import Run


@torch.no_grad()
def judged(model: GPT, windows: torch.Tensor, precision: Precision) -> tuple[torch.Tensor, torch.Tensor]:
    """Nats (B, T − 1) of each token but the first, and the most probable tokens."""
    decoder = NativeDecoder(model, slots=len(windows), precision=precision)
    nats, best = [], []
    for now, coming in zip(windows.T[:-1], windows.T[1:], strict=True):
        logits = decoder.feed(dict(enumerate(now[:, None].tolist())))
        nats.append(torch.nn.functional.cross_entropy(logits, coming, reduction="none"))
        best.append(logits.argmax(dim=-1))
    return torch.stack(nats, dim=1), torch.stack(best, dim=1)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--streams", type=int, default=64)
    options = parser.parse_args()
    run, before = Run.open(options.run), load()
    text = options.text.read_text(encoding="utf-8")
    tokens = torch.as_tensor(run.tokenizer.encode(text[int(len(text) * 0.9) :])).long()
    context = run.model.context
    whole = tokens[: len(tokens) // context * context].view(-1, context)
    windows = whole[torch.linspace(0, len(whole) - 1, min(options.streams, len(whole))).long()]
    exact, best = judged(run.model, windows, "float32")
    rows: list[dict[str, Any]] = []
    for precision in get_args(Precision):
        rough, rough_best = judged(run.model, windows, precision)
        differences = (rough - exact).mean(dim=1)
        rows.append(
            {
                "precision": precision,
                "nats": rough.mean().item(),
                "difference": differences.mean().item(),
                "standard error": differences.std().item() / math.sqrt(len(windows)),
                "same best token": (best == rough_best).float().mean().item(),
            }
        )
    print_table(rows)
    facts = {"step": run.step, "parameters": run.parameters, "context": context, "tokens": exact.numel()}
    finish({**facts, "rows": rows, "load_before": before})


if __name__ == "__main__":
    main()
