"""Tokens a second while training, beside nanoGPT, Hugging Face's Trainer and litgpt, in turn; share of the peak.

    python benchmarks/train_throughput.py --nanogpt PATH --peers PYTHON [--repeats 3] [--shape 0.8M 14M 124M]
    python benchmarks/train_throughput.py --nanogpt PATH --peers PYTHON --device cuda --shape 124M --batch 12 --steps 30

Each is a process of its own on random tokens, at nanoGPT's CPU shape (0.8M) and GPU shape (11M), report E's Table 1
(14M) and GPT-2 (124M): the median step after the first ones. On a GPU the peers compute in bfloat16, nanoGPT compiled,
as its defaults are. The peak is the best of some matrix products of 2048 × 2048 (on a GPU 8192 × 8192) on this machine,
in the same run. The share counts 6 FLOPs a weight in a matrix product and token, and for attention 6 · layers · width ·
context (on a GPU 12, as is usual there: the mask not counted). A peer that PYTHON lacks is left out and said to be.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

from common import finish, load, print_table, settle
from octavo.training.device import fast_bfloat16

SHAPES: dict[str, dict[str, Any]] = {
    "0.8M": {
        "layers": 4,
        "heads": 4,
        "width": 128,
        "context": 64,
        "vocabulary": 65,
        "batch": 12,
        "steps": 60,
    },
    "11M": {"layers": 6, "heads": 6, "width": 384, "context": 256, "vocabulary": 65, "batch": 64, "steps": 4},
    "14M": {"layers": 8, "heads": 8, "width": 384, "context": 256, "vocabulary": 65, "batch": 64, "steps": 4},
    "124M": {
        "layers": 12,
        "heads": 12,
        "width": 768,
        "context": 1024,
        "vocabulary": 50257,
        "batch": 1,
        "steps": 4,
    },
}
CONTENDERS: dict[str, dict[str, Any]] = {
    "octavo, float32": {"who": "octavo", "precision": "float32"},
    "octavo, bfloat16": {"who": "octavo", "precision": "bfloat16"},
    "octavo, bfloat16, compiled": {"who": "octavo", "precision": "bfloat16", "compile": True},
    "nanogpt": {"who": "nanogpt"},
    "huggingface": {"who": "huggingface"},
    "litgpt": {"who": "litgpt"},
}


def peak(dtype: torch.dtype, device: str) -> float:
    """FLOP/s of the fastest of some large matrix products."""
    size = 2048 if device == "cpu" else 8192
    a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    times = []
    for _ in range(8):
        settle(device)
        begin = time.perf_counter()
        a @ b
        settle(device)
        times.append(time.perf_counter() - begin)
    return 2 * size**3 / min(times)


def flops(shape: dict[str, Any], device: str) -> float:
    """Of a training step, a token."""
    weights = 12 * shape["layers"] * shape["width"] ** 2 + shape["vocabulary"] * shape["width"]
    attention = 6 if device == "cpu" else 12
    return 6 * weights + attention * shape["layers"] * shape["width"] * shape["context"]


def measured(spec: dict[str, Any], python: str) -> dict[str, Any]:
    """What `train_peers.py` found."""
    script = Path(__file__).with_name("train_peers.py")
    environment = {**os.environ, "OMP_NUM_THREADS": str(spec["threads"]), "PYTHONWARNINGS": "ignore"}
    command = [python, str(script), json.dumps(spec)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", env=environment, check=False)
    if done.returncode:
        return {"missing": f"failed: {done.stderr.strip()[-300:]}"}
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--nanogpt", type=Path, help="a checkout of nanoGPT")
    parser.add_argument("--peers", default=sys.executable, help="an interpreter that has the peers' packages")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", type=int, help="of each process; the first is not counted")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--only", nargs="+", choices=CONTENDERS, help="default: all; compiled on GPUs alone")
    parser.add_argument("--device", default="cpu", help="cpu, or cuda")
    parser.add_argument("--batch", type=int, help="sequences in a step, instead of the shape's own")
    options = parser.parse_args()
    options.only = options.only or [
        name for name, own in CONTENDERS.items() if options.device != "cpu" or "compile" not in own
    ]
    torch.set_num_threads(options.threads)
    before = load()
    peaks = {
        name: peak(dtype, options.device)
        for name, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16))
        if dtype == torch.float32 or fast_bfloat16(torch.device(options.device))
    }
    rows, left_out, runs = [], {}, []
    for name in options.shape:
        given = {"steps": options.steps, "batch": options.batch}
        shape = SHAPES[name] | {key: value for key, value in given.items() if value}
        spec = {
            **shape,
            "device": options.device,
            "threads": options.threads,
            "nanogpt": str(options.nanogpt),
        }
        found: dict[str, list[dict[str, Any]]] = {}
        for _ in range(options.repeats):  # in turn
            for who in options.only:
                if who in left_out or (who == "nanogpt" and not options.nanogpt):
                    continue
                ours = CONTENDERS[who]["who"] in ("octavo", "nanogpt")
                one = measured({**spec, **CONTENDERS[who]}, sys.executable if ours else options.peers)
                if "missing" in one:
                    left_out[who] = one["missing"]
                else:
                    found.setdefault(who, []).append(one)
        runs += [{"shape": name, "name": who, "found": all_of} for who, all_of in found.items()]
        rows += [row(name, spec, who, all_of, peaks) for who, all_of in found.items()]
    print_table(rows)
    for who, why in left_out.items():
        print(f"{who} is left out: {why}")
    finish({"peak_flops": peaks, "rows": rows, "runs": runs, "left_out": left_out, "load_before": before})


def row(
    name: str, spec: dict[str, Any], who: str, found: list[dict[str, Any]], peaks: dict[str, float]
) -> dict[str, Any]:
    """One line of the table."""
    seconds = statistics.median(one["step_s"] for one in found)
    speed = spec["batch"] * spec["context"] / seconds
    done = speed * flops(spec, spec["device"])
    return {
        "shape": name,
        "": who,
        "step, ms": round(1000 * seconds, 2),
        "tokens/s": round(speed, 1),
        **{f"of the {name} peak": round(done / of_all, 4) for name, of_all in peaks.items()},
    }


if __name__ == "__main__":
    main()
