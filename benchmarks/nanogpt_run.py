"""nanoGPT itself, unmodified, at its README's recipe: its loop's time, its whole-validation-split loss.

    git clone https://github.com/karpathy/nanoGPT
    python benchmarks/nanogpt_run.py --nanogpt nanoGPT --text tinyshakespeare.txt

It works in a temporary copy of the checkout. On a CPU its evaluations (20 random batches) are kept to one at the start
and one at the end; with --device cuda its recipe for a GPU runs to the letter, which keeps the best by its evaluations.
Evaluations are left out of the loop's time. The loss is computed from the checkpoint that it saved last, with its own
model, over the whole split: blocks of one context side by side, each token scored once. Its preparation of the data
imports `requests`, although it downloads nothing: the text is in place.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from common import finish, load, print_table, spread

STEP = re.compile(r"^iter (\d+): loss ([\d.]+|nan), time ([\d.]+)ms", re.MULTILINE)
JUDGED = re.compile(r"^step \d+: train loss [\d.]+, val loss ([\d.]+)")
GPU_EVALUATES_EVERY = 250  # in its config/train_shakespeare_char.py
LENGTH = {"max_iters": 2000, "lr_decay_iters": 2000}
RECIPE = {
    "device": "cpu",
    "compile": False,
    "eval_iters": 20,
    "log_interval": 1,
    "block_size": 64,
    "batch_size": 12,
    "n_layer": 4,
    "n_head": 4,
    "n_embd": 128,
    "dropout": 0.0,
}


@dataclass(frozen=True)
class PeerResult:
    """One run of nanoGPT: `loop_seconds` is `steps` updates without evaluations, loss is nats per token."""

    steps: int
    loop_seconds: float
    step_ms: float
    val_loss: float
    bits_per_byte: float
    val_tokens: int
    parameters: int
    wall_seconds: float
    load_before: float | None


def run_nanogpt(
    checkout: Path,
    text: Path,
    steps: int = 2000,
    options: dict[str, object] | None = None,
    device: str = "cpu",
) -> PeerResult:
    """Train nanoGPT for `steps` updates (more than its 100 of warm-up), on a GPU as many as its recipe has; `options`
    go to its train.py."""
    before = load()
    with tempfile.TemporaryDirectory(prefix="nanogpt-") as folder:
        copy = Path(folder, "nanoGPT")
        shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns(".git", "out*"))
        prepare(copy, text)
        started = time.time()
        own = recipe_for_a_gpu(device) if device != "cpu" else recipe_for_a_cpu(steps)
        output = train(copy, {**own, **(options or {})})
        wall = time.time() - started
        if device != "cpu":
            wall = (copy / "out-shakespeare-char" / "ckpt.pt").stat().st_mtime - started
        measured = json.loads(call([__file__, "--measure", str(copy)], copy).splitlines()[-1])
    times = {int(step): float(milliseconds) for step, _, milliseconds in STEP.findall(output)}
    every = own.get("eval_interval", GPU_EVALUATES_EVERY)
    if device == "cpu":
        assert measured["step"] == steps, f"nanoGPT saved step {measured['step']}, not {steps}"
    else:
        steps = max(times)
    # Some iterations hold an evaluation; the median stands in for them.
    pure = [times[step] for step in range(steps) if step % every]
    val = text.read_text(encoding="utf-8")
    val = val[int(len(val) * 0.9) + 1 :]  # nanoGPT's split; nothing predicts the first character
    assert len(val) == measured["tokens"], "nanoGPT's split is not the one that this script expects"
    return PeerResult(
        steps=steps,
        loop_seconds=(sum(pure) + (steps - len(pure)) * statistics.median(pure)) / 1000,
        step_ms=statistics.median(pure),
        val_loss=measured["val_loss"],
        bits_per_byte=measured["val_loss"] * measured["tokens"] / math.log(2) / len(val.encode()),
        val_tokens=measured["tokens"],
        parameters=measured["parameters"],
        wall_seconds=wall,
        load_before=before,
    )


def nanogpt_curve(checkout: Path, text: Path) -> list[tuple[float, float]]:
    """Its README's command to the letter: (seconds since its start, its own estimate of the validation loss)."""
    points = []
    with tempfile.TemporaryDirectory(prefix="nanogpt-") as folder:
        copy = Path(folder, "nanoGPT")
        shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns(".git", "out*"))
        prepare(copy, text)
        words = [f"--{name}={value}" for name, value in {**RECIPE, **LENGTH}.items()]
        command = [sys.executable, "-u", "train.py", "config/train_shakespeare_char.py", *words]
        begin = time.perf_counter()
        with subprocess.Popen(command, cwd=copy, stdout=subprocess.PIPE, encoding="utf-8") as process:
            for line in process.stdout or ():
                found = JUDGED.match(line)
                if found:
                    points.append((time.perf_counter() - begin, float(found[1])))
    return points


def prepare(copy: Path, text: Path) -> None:
    """Let nanoGPT's own script turn the text into its train.bin and val.bin."""
    folder = copy / "data" / "shakespeare_char"
    shutil.copyfile(text, folder / "input.txt")
    call(["prepare.py"], folder)


def recipe_for_a_cpu(steps: int) -> dict[str, Any]:
    """Saves a checkpoint after exactly `steps` updates; nanoGPT then makes one more that is not saved."""
    own = {
        "max_iters": steps,
        "lr_decay_iters": steps,
        "eval_interval": steps,
        "always_save_checkpoint": True,
    }
    return {**RECIPE, **own}


def recipe_for_a_gpu(device: str) -> dict[str, Any]:
    """Its config file says the rest."""
    return {"device": device, "log_interval": 1}


def train(copy: Path, options: dict[str, Any]) -> str:
    """Run nanoGPT's train.py and return what it printed."""
    words = [f"--{name}={value}" for name, value in options.items()]
    return call(["train.py", "config/train_shakespeare_char.py", *words], copy)


def call(words: list[str], folder: Path, **more: str) -> str:
    """Run a Python script in `folder`, with more of an environment, and return its output; end with its words if it
    fails."""
    environment = {name: value for name, value in os.environ.items() if name not in {"RANK", "PYTHONPATH"}}
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**environment, "PYTHONUTF8": "1", "PYTHONWARNINGS": "ignore", **more},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode:
        sys.exit(f"{' '.join(words)} failed:\n{done.stdout[-1000:]}\n{done.stderr[-3000:]}")
    return done.stdout


def measure(checkout: Path) -> dict[str, float]:
    """With nanoGPT's own model, in a process of its own: its checkpoint's loss over the whole split."""
    import numpy as np
    import torch

    sys.path.insert(0, str(checkout))
    from model import GPT, GPTConfig  # nanoGPT's

    checkpoint = torch.load(
        checkout / "out-shakespeare-char" / "ckpt.pt", map_location="cpu", weights_only=True
    )
    model = GPT(GPTConfig(**checkpoint["model_args"])).eval()
    model.load_state_dict(checkpoint["model"])
    raw = np.fromfile(checkout / "data" / "shakespeare_char" / "val.bin", dtype=np.uint16)
    ids = torch.from_numpy(raw.astype(np.int64))
    context, total = model.config.block_size, 0.0
    whole = (len(ids) - 1) // context * context
    inputs, targets = ids[:whole].view(-1, context), ids[1 : whole + 1].view(-1, context)
    pieces = [
        *zip(inputs.split(128), targets.split(128), strict=True),
        (ids[whole:-1][None], ids[whole + 1 :][None]),
    ]
    with torch.no_grad():
        for x, y in pieces:
            if y.numel():  # the last block may be short, or empty
                total += model(x, y)[1].item() * y.numel()
    tokens = len(ids) - 1
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return {
        "val_loss": total / tokens,
        "tokens": tokens,
        "parameters": parameters,
        "step": checkpoint["iter_num"],
    }


def main() -> None:
    """Run it `--repeat` times and print the table and the document."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nanogpt", type=Path, help="a checkout of nanoGPT; it is not changed")
    parser.add_argument("--text", type=Path, help="the text to train on (UTF-8)")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--device", default="cpu", help="cpu, or cuda: its recipe for a GPU")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        print(json.dumps(measure(chosen.measure)))
        return
    if not (chosen.nanogpt and chosen.text and chosen.steps > 100 and chosen.repeat >= 1):
        parser.error("--nanogpt and --text are needed; --steps is above 100 (its warm-up)")
    results = []
    for _ in range(chosen.repeat):
        found = run_nanogpt(
            chosen.nanogpt.resolve(), chosen.text.resolve(), chosen.steps, device=chosen.device
        )
        results.append(asdict(found))
        print_table(results[-1:])
    loop = spread([result["loop_seconds"] for result in results])
    finish({"benchmark": "nanogpt_run", "recipe": RECIPE, "loop_seconds": loop, "runs": results})


if __name__ == "__main__":
    main()
