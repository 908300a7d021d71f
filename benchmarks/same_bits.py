"""Whether two versions train the same models to the bit, on one machine: a digest of the weights of small trainings.

    python benchmarks/same_bits.py > before.json                      # in one checkout
    python benchmarks/same_bits.py --against before.json              # in the other; says which differ, exit code 1

Every task is in it: texts, counts beside a network, teachers, tuning by answers, preferences, a reward and its own
tries, translation, forecasts, pictures and symbols. The figures of each evaluation are compared by their values, since
their names may change, and new ones may be added. The last line is a JSON document. It takes half a minute of one core.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported

SENTENCES = (
    "the brown fox jumps over the lazy dog.\n",
    "a dog runs from the old cat!\n",
    "who saw the fox?\n",
    "nobody saw it, said the cat.\n",
    "an owl and a mouse were friends; why, nobody knew.\n",
)
TRAINING = {
    "batch": 4,
    "steps": 12,
    "checkpoint_every": 6,
    "precision": "float32",
    "device": "cpu",
    "threads": 1,
    "optimizer": {"kind": "adamw", "learning_rate": 0.01},
}
MUON = {"kind": "muon", "learning_rate": 0.03, "momentum": 0.9, "rest": {"learning_rate": 0.01}}
GPT = {"layers": 1, "width": 16, "heads": 2, "context": 16}
MODERN = {
    "positions": "rotary",
    "norm": {"kind": "rms", "scale": False},
    "embedding_norm": True,
    "qk_norm": True,
    "attention_scale": 0.3,
    "feed_forward": {"kind": "relu2", "bias": False},
    "output_bias": False,
    "initialization": {"kind": "zero_output", "embedding_std": 0.1},
}
REST = {"evaluation": {"every": 6}, "sampling": {"tokens": 12}, "logging": {"every": 1}}
LENGTH = {"kind": "length", "least": 4, "most": 6, "slack": 3}

RUNS: dict[str, dict[str, Any]] = {
    "text": {"model": GPT | {"dropout": 0.1}, "text": "text.txt"},
    "text-modern": {
        "model": GPT | MODERN | {"layers": 2, "tied": True, "ngrams": {"kind": "hashed", "buckets": 256}},
        "tokenizer": {"kind": "bpe", "size": 280},
        "training": {"optimizer": MUON, "accumulation": 2, "micro_batch": 2, "recompute": True},
        "split": "files",
        "text": "text.txt",
    },
    "counts": {
        "model": GPT
        | {"counts": {"kind": "kneser-ney", "orders": 5, "hidden": 8, "share": 0.1, "recent": 50}},
        "tokenizer": {"kind": "byte", "characters": 200},
        "test": 0.1,
        "text": "text.txt",
    },
    "own-teacher": {
        "model": GPT,
        "training": {"teachers": {"trained": 1, "trained_steps": 6}},
        "text": "text.txt",
    },
    "teachers": {
        "model": GPT,
        "training": {"teachers": {"runs": ["text"], "written": 400}},
        "text": "text.txt",
    },
    "adapters": {
        "model": GPT | {"dropout": 0.1},
        "training": {"start_from": "text", "adapters": {"kind": "lora", "rank": 2}},
        "text": "text.txt",
    },
    "quick": {"shipped": ["model.width=32", "training.steps=8"], "text": "text.txt"},
    "minute": {"shipped": ["model.width=32", "training.steps=8"], "text": "text.txt"},
    "stories": {
        "corpus": {"kind": "storyteller", "stories": 80, "seed": 1},
        "tokenizer": "word",
        "batches": "documents",
        "model": GPT | {"context": 64},
    },
    "answers": {"tune": "sft", "text": "chats.jsonl"},
    "preferences": {"tune": "dpo", "text": "pairs.jsonl"},
    "reward": {"tune": "reward", "text": "pairs.jsonl"},
    "own-tries": {
        "tune": "rl",
        "objective": {"kind": "policy-gradient", "group": 4, "tokens": 12, "beta": 0.1, "reward": LENGTH},
        "training": {"batch": 16, "steps": 4, "checkpoint_every": 2, "schedule": "constant"},
        "evaluation": {"every": 2},
        "options": ["--texts", "16"],
    },
    "translation": {
        "corpus": {"kind": "bilingual", "pairs": 120},
        "tokenizer": {"kind": "word", "lines": "keep"},
        "batches": "pairs",
        "objective": {"kind": "given-source", "label_smoothing": 0.1},
        "model": GPT | {"kind": "encoder-decoder", "context": 24, "tied": True},
    },
    "joined-translation": {
        "corpus": {"kind": "bilingual", "pairs": 120},
        "tokenizer": {"kind": "word", "lines": "keep"},
        "batches": "joined-pairs",
        "objective": {"kind": "given-source"},
        "model": GPT | {"context": 48},
    },
    "forecast": {
        "corpus": {"kind": "dynamics", "world": "switching", "series": 12, "rows": 60, "seed": 1},
        "batches": "series",
        "objective": {"kind": "forecast", "horizons": [1, 3], "origins": 4, "paths": 10},
        "model": {
            **GPT,
            "input": {"kind": "linear", "lags": 2},
            "output": {"kind": "mixture", "components": 2, "channels": "chained"},
        },
    },
    "pictures": {
        "corpus": {"kind": "bouncing-ball", "films": 24},
        "split": "documents",
        "validator": "bouncing-ball",
        "tokenizer": {"kind": "symbols", "size": 3},
        "batches": {"kind": "documents", "alone": True},
        "model": GPT | {"context": 321, "positions": {"kind": "grid", "axes": [8, 8]}},
        "training": {"steps": 6, "optimizer": MUON},
        "sampling": {"tokens": 16},
    },
    "symbols": {
        "corpus": {"documents": "lines"},
        "split": "documents",
        "tokenizer": {"kind": "symbols", "size": 7},
        "batches": {"kind": "documents", "alone": True},
        "model": GPT,
        "text": "symbols.txt",
    },
}
"""A recipe each; `text`: the file that it learns from, `tune`: the verb that tunes the run `text` by it, `shipped`:
settings on top of the shipped recipe of that name."""


def write_texts(folder: Path) -> None:
    """What the trainings learn from."""
    order = ((7 * n * n + 3 * n) % 31 % 5 for n in range(120))
    (folder / "text.txt").write_text("".join(SENTENCES[n] for n in order), encoding="utf-8")
    rows = (" ".join(str(at * step % 7) for at in range(4 + step % 5)) for step in range(60))
    (folder / "symbols.txt").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    asked = [(who, what) for who in ("who", "a dog", "fox", "cat", "no") for what in ("it", "cat")]
    chats = [{"prompt": f"{who}?", "completion": f"{what}."} for who, what in asked]
    pairs = [{"prompt": f"{who}?", "chosen": f"{what}.", "rejected": f"{what}!"} for who, what in asked]
    for name, records in (("chats", chats), ("pairs", pairs)):
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")


def command_of(name: str, run: dict[str, Any]) -> Iterator[str]:
    """The words of the command line that trains it, in the folder with the texts, where its recipe is written."""
    parts = {key: value for key, value in run.items() if key not in ("text", "tune", "options", "shipped")}
    tree = {**REST, **parts, "training": TRAINING | parts.get("training", {})}
    if tune := run.get("tune"):
        yield from ("tune", tune, "text")
        if tune == "rl":
            Path(f"{name}.yaml").write_text(json.dumps(tree), encoding="utf-8")
            yield from ("--recipe", f"{name}.yaml", *run["options"])
        else:
            settings = {**TRAINING, "epochs": 3, "optimizer.learning_rate": 0.003}
            settings = {key: value for key, value in settings.items() if key not in ("optimizer", "steps")}
            yield from (f"training.{key}={value}" for key, value in settings.items())
            yield from ("validation=0.3", "sampling.tokens=8")
    elif shipped := run.get("shipped"):
        settings = {key: TRAINING[key] for key in ("device", "precision", "threads")}
        yield from ("train", name, *shipped, *(f"training.{key}={value}" for key, value in settings.items()))
    else:
        Path(f"{name}.yaml").write_text(json.dumps(tree), encoding="utf-8")
        yield from ("train", f"{name}.yaml")
    if "text" in run:
        yield from ("--text", run["text"])
    yield from ("--out", name)


def octavo(*words: str) -> None:
    """Run a command in this process; what it says is shown only if it fails."""
    from octavo.cli import main

    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            main(list(words))
    except SystemExit as end:
        if end.code:
            raise SystemExit(f"octavo {' '.join(words)}\n{said.getvalue()}") from end


def figures(evaluation: Any) -> Iterator[float]:
    """The broken numbers in an evaluation, whatever they are called; no times."""
    if isinstance(evaluation, dict):
        for key, value in evaluation.items():
            if "seconds" not in key:
                yield from figures(value)
    elif isinstance(evaluation, list):
        for value in evaluation:
            yield from figures(value)
    elif isinstance(evaluation, float):
        yield evaluation


def digests(run: Path) -> dict[str, Any]:
    """Of a finished run: its last weights, the losses on the way, and what its best model is judged to be."""
    from safetensors.numpy import load_file

    weights = hashlib.sha256()
    tensors = load_file(run / "last" / "model.safetensors")
    for array in (tensors[name] for name in sorted(tensors)):
        weights.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    losses = json.dumps([[row["event"], row["step"], row.get("loss")] for row in rows])
    judged = json.loads((run / "evaluation.json").read_text(encoding="utf-8"))
    return {
        "weights": weights.hexdigest()[:16],
        "losses": hashlib.sha256(losses.encode()).hexdigest()[:16],
        "judged": judged["val_loss"],
        "figures": sorted(set(figures(judged))),
    }


def difference(before: dict[str, Any], now: dict[str, Any]) -> str:
    """What is not the same, in words; empty where all is."""
    said = [key for key in ("weights", "losses", "judged") if before[key] != now[key]]
    gone = sorted(set(before["figures"]) - set(now["figures"]))
    if gone:
        said.append(f"{len(gone)} of {len(before['figures'])} figures ({', '.join(map(str, gone[:3]))} …)")
    return f"differs: {', '.join(said)}" if said else ""


def main() -> None:
    """Train all, print their digests, and compare them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", type=Path, help="what another version printed")
    parser.add_argument("--only", nargs="*", choices=RUNS, default=list(RUNS), metavar="RUN")
    given = parser.parse_args()
    before = json.loads(given.against.read_text("utf-8").splitlines()[-1])["runs"] if given.against else {}
    wanted = [name for name in RUNS if name in given.only or name == "text"]  # several start from that one
    with tempfile.TemporaryDirectory(prefix="octavo-bits-") as folder, contextlib.chdir(folder):
        os.environ["OCTAVO_CACHE"] = str(Path(folder, "cache"))
        write_texts(Path(folder))
        found: dict[str, dict[str, Any]] = {}
        differing: dict[str, str] = {}
        for name in wanted:
            octavo(*command_of(name, RUNS[name]))
            found[name] = digests(Path(name))
            if name in before:
                differing[name] = difference(before[name], found[name])
            said = differing[name] or "the same" if name in before else ""
            print(f"{name:<20}{found[name]['weights']}  {found[name]['judged']:.6f}  {said}", file=sys.stderr)
    print(json.dumps({"runs": found, "cpu_seconds": round(sum(os.times()[:4]), 1)}))
    sys.exit(any(differing.values()))


if __name__ == "__main__":
    main()
