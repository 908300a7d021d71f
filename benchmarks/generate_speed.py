"""Tokens a second while writing, beside nanoGPT, Hugging Face and llama.cpp, each in a process of its own, in turn.

    python benchmarks/generate_speed.py --shape 14M --nanogpt PATH --peers PYTHON [--repeats 3] [--streams 64]

All at the same shape with random weights, in float32 unless said otherwise, with the same number of threads, greedily
(nanoGPT's `generate` always draws). An eighth of the context is the prompt and the rest is written, so that no window
slides; the time for the prompt counts, and it is the same in all streams, which Octavo makes use of. PYTHON is an
interpreter with the peers' packages; a peer that it lacks is left out and said to be. Cold: from the process's start to
the first token, and the first text; warm: later ones (median of 3 in each process), and by a second of one core's time,
which other programs disturb less. With --device cuda peers compute in bfloat16, and llama.cpp, whose package is built
for processors, is left out.
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

from common import finish, load, print_table, spread

SHAPES: dict[str, dict[str, Any]] = {
    "0.8M": {"layers": 4, "heads": 4, "width": 128, "context": 64, "vocabulary": 65, "activation": "relu"},
    "14M": {"layers": 8, "heads": 8, "width": 384, "context": 256, "vocabulary": 65, "activation": "relu"},
    "124M": {
        "layers": 12,
        "heads": 12,
        "width": 768,
        "context": 1024,
        "vocabulary": 50257,
        "activation": "gelu_tanh",
    },
}
CONTENDERS: dict[str, dict[str, Any]] = {
    "octavo": {"who": "octavo"},
    "octavo, bfloat16": {"who": "octavo", "precision": "bfloat16"},
    "octavo, int8": {"who": "octavo", "precision": "int8"},
    "nanogpt": {"who": "nanogpt"},
    "huggingface": {"who": "huggingface"},
    "huggingface, static cache": {"who": "huggingface", "static": True},
    "llamacpp": {"who": "llamacpp"},
    "llamacpp, one cache": {
        "who": "llamacpp",
        "unified": True,
    },  # for all streams; faster while texts are short
}


def measured(spec: dict[str, Any], python: str) -> dict[str, Any]:
    """What `generate_peers.py` found."""
    script = Path(__file__).with_name("generate_peers.py")
    environment = {**os.environ, "OMP_NUM_THREADS": str(spec["threads"]), "PYTHONWARNINGS": "ignore"}
    words = json.dumps({**spec, "started": time.time()})
    done = subprocess.run(
        [python, str(script), words], capture_output=True, encoding="utf-8", env=environment, check=False
    )
    if done.returncode:
        return {"missing": f"failed: {done.stderr.strip()[-300:]}"}
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", choices=SHAPES, default="14M")
    parser.add_argument("--nanogpt", type=Path, help="a checkout of nanoGPT")
    parser.add_argument("--peers", default=sys.executable, help="an interpreter that has the peers' packages")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--streams", type=int, default=64, help="written together, beside one alone")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--tokens", type=int, help="fewer than the rest of the context")
    parser.add_argument("--only", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--device", default="cpu", help="cpu, or cuda")
    options = parser.parse_args()
    shape = SHAPES[options.shape]
    prompt = shape["context"] // 8
    tokens = min(options.tokens or shape["context"], shape["context"] - prompt)
    common = {**shape, "prompt": prompt, "tokens": tokens, "threads": options.threads}
    common |= {"device": options.device}
    common |= {"tied": options.shape == "124M", "nanogpt": str(options.nanogpt)}
    names = [name for name in options.only if name != "nanogpt" or options.nanogpt]
    before, left_out = load(), {}
    runs: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for _ in range(options.repeats):  # in turn, so that a change of the machine's speed meets all alike
        for streams in sorted({1, options.streams}):
            for name in names:
                if name in left_out:
                    continue
                python = sys.executable if CONTENDERS[name]["who"] in ("octavo", "nanogpt") else options.peers
                found = measured({**common, **CONTENDERS[name], "streams": streams}, python)
                if "missing" in found:
                    left_out[name] = found["missing"]
                else:
                    runs.setdefault((name, streams), []).append(found)
    rows = [row(name, streams, found) for (name, streams), found in sorted(runs.items(), key=order)]
    print_table(rows)
    for name, why in left_out.items():
        print(f"{name} is left out: {why}")
    warm = {key: spread([one["warm_tokens_s"] for one in found]) for key, found in runs.items()}
    finish(
        {
            "shape": options.shape,
            **common,
            **speedups(warm, options.streams),
            "rows": rows,
            "versions": sorted({one["told"] for found in runs.values() for one in found}),
            "runs": [
                {"name": name, "streams": streams, "found": found} for (name, streams), found in runs.items()
            ],
            "left_out": left_out,
            "load_before": before,
        }
    )


def order(entry: tuple[tuple[str, int], Any]) -> tuple[int, int]:
    """One stream before many, each as in `CONTENDERS`."""
    (name, streams), _ = entry
    return streams, list(CONTENDERS).index(name)


def row(name: str, streams: int, found: list[dict[str, Any]]) -> dict[str, Any]:
    """One line of the table: medians."""

    def median(key: str) -> float:
        return statistics.median(one[key] for one in found)

    return {
        "": name,
        "streams": streams,
        "tokens/s, warm": round(median("warm_tokens_s"), 1),
        "of a core's time": round(median("busy_tokens_s"), 1),
        "tokens/s, cold": round(median("cold_tokens_s"), 1),
        "first token, ms": round(1000 * median("first_token_s"), 2),
        "process to first token, s": round(median("process_to_first_token_s"), 2),
        "memory, MiB": round(median("memory_mib")),
    }


def speedups(warm: dict[tuple[str, int], dict[str, float]], many: int) -> dict[str, float]:
    """Octavo's float32 over each peer's best, one stream and many; many streams over one."""
    told: dict[str, float] = {}

    def ratio(name: str, top: tuple[str, int], below: list[tuple[str, int]]) -> None:
        there = [warm[key]["median"] for key in below if key in warm]
        if top in warm and there:
            told[name] = round(warm[top]["median"] / max(there), 3)

    for streams, suffix in ((1, ""), (many, "_batched"))[: 1 + (many > 1)]:
        for peer in ("nanogpt", "huggingface", "llamacpp"):
            rivals = [(name, streams) for name in CONTENDERS if name.partition(",")[0] == peer]
            ratio(f"speedup_{peer}{suffix}", ("octavo", streams), rivals)
    if many == 1:
        return told
    ratio("batched_over_one", ("octavo", many), [("octavo", 1)])
    ratio("batched_bfloat16_over_one_bfloat16", ("octavo, bfloat16", many), [("octavo, bfloat16", 1)])
    ratio("batched_bfloat16_over_one", ("octavo, bfloat16", many), [("octavo", 1)])
    return told


if __name__ == "__main__":
    main()
