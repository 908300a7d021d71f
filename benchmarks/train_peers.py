"""One program training at one shape on random tokens, in a process and perhaps an interpreter of its own.

`train_throughput.py` starts it and reads the line of JSON. AdamW, clipped gradients; no evaluation, saving or dropout.
On a GPU the peers compute in bfloat16 by autocast.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from itertools import pairwise
from typing import Any

import torch

from common import settle


class Windows(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """Random windows; labels are the tokens themselves, which the peers shift."""

    def __init__(self, spec: dict[str, Any]) -> None:
        count = spec["batch"] * spec["steps"]
        random = torch.Generator().manual_seed(1)
        self.tokens = torch.randint(spec["vocabulary"], (count, spec["context"]), generator=random)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"input_ids": self.tokens[index], "labels": self.tokens[index]}


def octavo(spec: dict[str, Any]) -> tuple[list[float], str]:
    """Seconds of each step of its training loop."""
    from octavo import __version__
    from octavo.config import load_recipe
    from octavo.data.batch import Batch
    from octavo.model.base import build_model
    from octavo.training.device import autocast, keep_memory
    from octavo.training.loop import training_steps
    from octavo.training.step import StepOptions

    names = ("layers", "heads", "width", "context")
    recipe = load_recipe("shakespeare-char-cpu", [f"model.{name}={spec[name]}" for name in names])
    model = build_model(recipe.model, vocab_size=spec["vocabulary"], seed=1)
    keep_memory()
    device = torch.device(spec["device"])
    trained: Any = torch.compile(model.to(device)) if spec.get("compile") else model.to(device)
    rows = Windows(spec).tokens.numpy()

    def batch(step: int, micro: int) -> Batch[Any]:
        window = rows[step * spec["batch"] : (step + 1) * spec["batch"]]
        return Batch(window, window)

    steps = training_steps(
        trained,
        recipe.training.optimizer.build(model),
        batch,
        steps=range(spec["steps"]),
        seed=1,
        schedule=lambda step: 1.0,
        options=StepOptions(clip=1.0, autocast=lambda: autocast(spec["precision"], device)),
    )
    ends = []
    for _ in steps:
        settle(spec["device"])
        ends.append(time.perf_counter())
    return _between(ends), f"octavo {__version__}, torch {torch.__version__}"


def nanogpt(spec: dict[str, Any]) -> tuple[list[float], str]:
    """Seconds of each step: its model and its optimizer, and what its loop does with them."""
    sys.path.insert(0, spec["nanogpt"])
    with contextlib.redirect_stdout(sys.stderr):
        from model import GPT, GPTConfig  # nanoGPT's

        shape = {"n_layer": "layers", "n_head": "heads", "n_embd": "width", "block_size": "context"}
        config = {name: spec[ours] for name, ours in shape.items()} | {"vocab_size": spec["vocabulary"]}
        model = GPT(GPTConfig(**config, dropout=0.0, bias=False)).to(spec["device"])
        optimizer = model.configure_optimizers(0.1, 1e-3, (0.9, 0.99), spec["device"])
        model = model if spec["device"] == "cpu" else torch.compile(model)

    def loss(tokens: torch.Tensor) -> torch.Tensor:
        return model(tokens, tokens)[1]

    return _loop(spec, model, optimizer, loss), f"nanoGPT, torch {torch.__version__}"


def _loop(
    spec: dict[str, Any],
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    loss: Callable[[torch.Tensor], torch.Tensor],
) -> list[float]:
    rows, ends = Windows(spec).tokens, []
    on_gpu = spec["device"] != "cpu"
    for tokens in rows.to(spec["device"]).split(spec["batch"]):
        with torch.autocast(spec["device"], torch.bfloat16, enabled=on_gpu):
            found = loss(tokens)
        found.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        settle(spec["device"])
        ends.append(time.perf_counter())
    return _between(ends)


def huggingface(spec: dict[str, Any]) -> tuple[list[float], str]:
    """Seconds of each step of its Trainer."""
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

    zero = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    config = GPT2Config(
        vocab_size=spec["vocabulary"],
        n_positions=spec["context"],
        n_embd=spec["width"],
        n_layer=spec["layers"],
        n_head=spec["heads"],
        **zero,
    )
    ends: list[float] = []

    class Clock(TrainerCallback):
        """The moment at which each step ends."""

        def on_step_end(self, *_: Any, **__: Any) -> None:
            settle(spec["device"])
            ends.append(time.perf_counter())

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=spec["batch"],
            max_steps=spec["steps"],
            save_strategy="no",
            report_to=[],
            use_cpu=spec["device"] == "cpu",
            bf16=spec["device"] != "cpu",
            disable_tqdm=True,
            logging_strategy="no",
        )
        Trainer(
            model=GPT2LMHeadModel(config),
            args=arguments,
            train_dataset=Windows(spec),
            callbacks=[Clock()],
        ).train()
    return _between(ends), f"transformers {version('transformers')}, torch {torch.__version__}"


def litgpt(spec: dict[str, Any]) -> tuple[list[float], str]:
    """Seconds of each step: its model in a plain loop, for its own command wants a downloaded model's tokenizer."""
    from litgpt.config import Config
    from litgpt.model import GPT

    config = Config(
        block_size=spec["context"],
        n_layer=spec["layers"],
        n_head=spec["heads"],
        n_embd=spec["width"],
        vocab_size=spec["vocabulary"],
        padded_vocab_size=spec["vocabulary"],
        intermediate_size=4 * spec["width"],
    )
    model = GPT(config).to(spec["device"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    def loss(tokens: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())

    return _loop(spec, model, optimizer, loss), f"litgpt {version('litgpt')}, torch {torch.__version__}"


def _between(ends: list[float]) -> list[float]:
    steps = [end - begin for begin, end in pairwise(ends)]
    return steps[2:] if len(steps) > 10 else steps  # the first ones still choose kernels


def main() -> None:
    """Train and print the median step."""
    spec = json.loads(sys.argv[1])
    torch.set_num_threads(spec["threads"])
    try:
        known = {"octavo": octavo, "nanogpt": nanogpt, "huggingface": huggingface, "litgpt": litgpt}
        steps, told = known[spec["who"]](spec)
    except ImportError as error:
        print(json.dumps({"missing": str(error)}))
        return
    print(json.dumps({"told": told, "step_s": statistics.median(steps)}))


if __name__ == "__main__":
    main()
