"""What recording a step, and compiling its blocks, gives on a GPU: training at three shapes, and writing.

    python benchmarks/gpu.py [--device cuda] [--steps 40]

Training: random tokens, AdamW, bfloat16, the median step after the first ten. FLOPs are 6 a weight and token, and for
attention 12 · layers · width · context. Writing: ids alone, sampled at 0.8 from the 200 likeliest.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from common import finish, load, machine, print_table, settle
from octavo.auto.family import BYTES, SIZES, Size, recipe_of
from octavo.config import check
from octavo.data.batch import Batch
from octavo.generation import Sample, Sampling
from octavo.generation.engine import fastest_decoder
from octavo.generation.streams import Stream, Streams
from octavo.model.base import LanguageModel, build_model
from octavo.model.config import GPTConfig
from octavo.planning.plan import subject
from octavo.tokenizers.char import CharTokenizer
from octavo.training.device import autocast, compiled
from octavo.training.loop import training_steps
from octavo.training.optimizers import AdamWConfig
from octavo.training.step import StepOptions

SHAPES: dict[str, tuple[dict[str, int], int, int]] = {  # a model, its vocabulary, sequences of a batch
    "11M": ({"layers": 6, "heads": 6, "width": 384, "context": 256}, 65, 64),
    "14M": ({"layers": 8, "heads": 8, "width": 384, "context": 256}, 65, 64),
    "124M": ({"layers": 12, "heads": 12, "width": 768, "context": 1024}, 50257, 12),
}
TINY = {"tiny": ({"layers": 2, "heads": 2, "width": 32, "context": 32}, 65, 4)}
COUNTED = {f"width {size.width}, counts": size for size in (SIZES[0], SIZES[3])}
"""Models of the dial's family, whose gate learns apart."""
Subject = tuple[Any, LanguageModel, Callable[[int, int], Batch[np.ndarray]]]
"""A model's config, the model, and its batches."""
WAYS = {"op by op": (False, False), "recorded": (True, False), "recorded, blocks compiled": (True, True)}


def step_row(name: str, way: str, device: torch.device, steps: int) -> dict[str, Any]:
    """A training of some steps."""
    record, compile = WAYS[way]
    config, model, batch = counting(COUNTED[name]) if name in COUNTED else at_random(name)
    model.to(device)
    tokens = batch(0, 0).scored
    loop = training_steps(
        compiled(model, device) if compile else model,
        AdamWConfig().build(model),
        batch,
        steps=range(steps),
        seed=1,
        schedule=lambda step: 1.0,
        options=StepOptions(clip=1.0, autocast=lambda: autocast("bfloat16", device), record=record),
    )
    marks = [time.perf_counter()]
    for _ in loop:
        settle(device.type)
        marks.append(time.perf_counter())
    taken = [after - before for before, after in pairwise(marks)]
    seconds = statistics.median(taken[10:] or taken)
    weights = sum(each.numel() for each in model.parameters()) - config.context * config.width
    flops = tokens * (6 * weights + 12 * config.layers * config.width * config.context)
    return {
        "model": name,
        "step": way,
        "ms": round(1000 * seconds, 2),
        "tokens/s": round(tokens / seconds),
        "TFLOP/s": round(flops / seconds / 1e12, 1),
        "first step, s": round(taken[0], 1),
    }


def at_random(name: str) -> Subject:
    """A model of a shape, and batches of random tokens."""
    shape, vocabulary, rows = (SHAPES | TINY)[name]
    config, random = GPTConfig.model_validate(shape), np.random.default_rng(0)

    def batch(step: int, micro: int) -> Batch[np.ndarray]:
        ids = random.integers(vocabulary, size=(rows, config.context + 1))
        return Batch(ids[:, :-1].copy(), ids[:, 1:].copy())

    return config, build_model(config, vocab_size=vocabulary, seed=1), batch


def counting(size: Size) -> Subject:
    """A model with counts, and one batch, some of it held out."""
    recipe = check(recipe_of(size, steps=1, tokenizer=BYTES))
    model, batch = subject(recipe, 65)
    return recipe.model, model, lambda step, micro: batch


def writing_row(name: str, streams: int, precision: Any, device: torch.device, tokens: int) -> dict[str, Any]:
    """So many texts written side by side."""
    shape, vocabulary, _ = (SHAPES | TINY)[name]
    model = build_model(GPTConfig.model_validate(shape), vocab_size=vocabulary, seed=1).eval().to(device)
    tokenizer = CharTokenizer(
        "".join(map(chr, range(1000, 1000 + vocabulary))), documents=False, unknown=False
    )
    decoder = fastest_decoder(model)(model, slots=streams, precision=precision)
    side_by_side = Streams(decoder, Sampling(temperature=0.8, top_k=200))
    for index in range(streams):
        begun = Stream(tokenizer, [1] * 8, Sample(index), seed=1, tokens=10**9, stop=())
        side_by_side.begin(begun)
    for _ in range(4):
        side_by_side.step()
    settle(device.type)
    began = time.perf_counter()
    for _ in range(tokens):
        side_by_side.step()
    settle(device.type)
    speed = streams * tokens / (time.perf_counter() - began)
    return {"model": name, "streams": streams, "precision": precision, "tokens/s": round(speed)}


def main() -> None:
    """Two tables, and a JSON line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument(
        "--shapes", nargs="+", choices=[*SHAPES, *COUNTED, *TINY], default=[*SHAPES, *COUNTED]
    )
    given = parser.parse_args()
    device = torch.device(given.device)
    trained = [step_row(name, way, device, given.steps) for name in given.shapes for way in WAYS]
    print_table(trained)
    written = [
        writing_row(name, streams, precision, device, 100 if streams == 1 else 24)
        for name in given.shapes
        if name not in COUNTED
        for streams in (1, 256)
        for precision in ("float32", "bfloat16")
    ]
    print_table(written)
    finish({"machine": machine(), "load": load(), "training": trained, "writing": written})


if __name__ == "__main__":
    main()
