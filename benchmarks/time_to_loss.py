"""How soon a validation loss is reached, from process start to the saved checkpoint, beside nanoGPT in the same run.

    python benchmarks/time_to_loss.py --text input.txt --nanogpt PATH [--repeats 3] [--picture loss.png]

Rows: nanoGPT's own CPU recipe (unmodified; its whole-split loss by the same blocks); Octavo at nanoGPT's exact shape
and steps; Octavo's recipes for a minute and for seconds. Times run from the process's start to the first saved weights
whose loss over the whole validation split is at most the target; nanoGPT's to its last save, with one evaluation at
the start and one at the end where its README has nine. Beside it what each had saved by that time of nanoGPT's.
The second target is *better than counting*: the loss of the best n-grams of the same text, which take a process of
their own to count and to score. nanoGPT's recipe never gets there.

Where a recipe looks at a part of the split on the way, what it saved is judged on all of it afterwards.
With --picture, both once more with frequent evaluations, drawn as loss against seconds.

With --device cuda the peer is nanoGPT's recipe for a GPU, compiled as it is by default, until it saved its best; the
target is then 1.47, and Octavo's recipes are the same shape and the one of many passes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from common import finish, load, print_table
from nanogpt_run import PeerResult, nanogpt_curve, run_nanogpt
from octavo.config import check, recipe_tree
from octavo.run.data import build_dataset
from octavo.run.evaluate import evaluate_split, whole_split
from octavo.run.run import Run
from octavo.tasks.text.task import cached_baselines
from octavo.training.device import Runtime
from octavo.util.terminal import Console

TARGETS = {"cpu": 1.92, "cuda": 1.47}
COUNTING = "counting"
QUIET, CPU = Console(quiet=True), torch.device("cpu")
SPLIT = ("split=contiguous", "validation=0.1", "test=0")
"""nanoGPT's, whatever a recipe's own is: losses on other splits do not compare."""
OURS = {
    "cpu": [
        "shakespeare-char-cpu",
        "shakespeare-char-modern",
        "shakespeare-char-quick",
        "shakespeare-char-modern training.steps=2200 evaluation.every=0.05",
        "shakespeare-char-modern model.counts=kneser-ney evaluation.every=100",
    ],
    "cuda": ["shakespeare-char training.compile=true", "shakespeare-char-long training.compile=true"],
}


Curve = list[tuple[float, float]]
"""Seconds since the process's start, and the validation loss then."""


def octavo_run(recipe: str, text: Path, folder: Path, seed: int, settings: list[str]) -> dict[str, Any]:
    """One training as a process of its own; times are from its start, to each saved evaluation."""
    command = [sys.executable, "-m", "octavo", "train", recipe, "--text", str(text), "--out", str(folder)]
    begin = time.time()
    subprocess.run([*command, f"seed={seed}", *settings], check=True, capture_output=True)
    whole = time.time() - begin
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    saved = {
        int(path.parent.name[5:]): path.stat().st_mtime - begin
        for path in (folder / "checkpoints").glob("step-*/MANIFEST.json")
    }
    judged = [row for row in rows if row["event"] == "validation"]
    points = [(saved[row["step"]], whole_loss(folder, row)) for row in judged if row["step"] in saved]
    trained = [row for row in rows if row["event"] == "train"]
    return {
        "loss": points[-1][1],
        "loop_seconds": trained[-1]["seconds"],
        "process_seconds": whole,
        "steps": judged[-1]["step"],
        "points": points,
    }


def whole_loss(folder: Path, judged: dict[str, Any]) -> float:
    """Of the whole validation split: what the run wrote down, or where that is of a part, what its checkpoint has."""
    run = Run.open(folder, checkpoint=str(judged["step"]))
    recipe = whole_split(run.config)
    if recipe == run.config:
        return judged["loss"]
    split, runtime = build_dataset(recipe, QUIET, run.tokenizer).validation, Runtime(CPU, "float32", 0)
    return evaluate_split(run.model, split, recipe, run.tokenizer, runtime).loss


def until(points: Curve, target: float) -> float | None:
    """Seconds to the first saved weights whose loss is at most the target; None where none are."""
    return min((seconds for seconds, loss in points if loss <= target), default=None)


def counting_run(text: Path) -> dict[str, Any]:
    """A process of its own that counts n-grams and says their loss: seconds of all, and the losses."""
    begin = time.time()
    command = [sys.executable, str(Path(__file__).with_name("counting.py")), str(text)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {"process_seconds": time.time() - begin, **json.loads(said)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--nanogpt", type=Path, required=True, help="a checkout of nanoGPT")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--picture", type=Path, help="draw loss against seconds into this file")
    parser.add_argument("--octavo", nargs="+", help="recipes, each with its settings after it")
    parser.add_argument("--device", choices=TARGETS, default="cpu")
    parser.add_argument("--target", type=float, help="a loss; 1.92, with --device cuda 1.47")
    parser.add_argument(
        "--count", action="store_true", help="count n-grams, print their loss as JSON, and end"
    )
    options = parser.parse_args()
    if options.picture and options.device != "cpu":
        parser.error("the picture is drawn for the CPU's recipes")
    target, device = options.target or TARGETS[options.device], options.device
    before = load()
    peers: list[PeerResult] = []
    counted: list[dict[str, Any]] = []
    ours: dict[str, list[dict[str, Any]]] = {words: [] for words in options.octavo or OURS[device]}
    for seed in range(
        1, options.repeats + 1
    ):  # in turn, so that a change of the machine's speed meets all alike
        peers.append(run_nanogpt(options.nanogpt, options.text, device=device))
        counted.append(counting_run(options.text))
        for words, runs in ours.items():
            recipe, *settings = words.split()
            with tempfile.TemporaryDirectory() as folder:
                # All checkpoints stay, so that every saved evaluation has its time.
                settings = ["training.keep=1000", f"training.device={device}", *SPLIT, *settings]
                runs.append(octavo_run(recipe, options.text, Path(folder) / "run", seed, settings))
    levels = {"target": target, COUNTING: counted[0]["loss"]}
    rows = [nanogpt_row(peers, levels), counting_row(counted, peers, levels)]
    rows += [row(words, runs, peers, levels) for words, runs in ours.items()]
    print_table(rows)
    best = max((found["speed-up"] or 0 for found in rows[2:]), default=0)
    document = {**levels, "device": device, "speedup": best, "rows": rows, "load_before": before}
    if options.picture:
        document["curves"] = curves(options.nanogpt, options.text)
        document["lines"] = counting(options.text)
        draw(document["curves"], document["lines"], options.picture)
    everything = {"nanogpt": [vars(peer) for peer in peers], COUNTING: counted, **ours}
    finish({**document, "runs": everything})


def nanogpt_row(peers: list[PeerResult], levels: dict[str, float]) -> dict[str, Any]:
    """nanoGPT's line of the table: all that it has is its last save."""
    losses, times = [peer.val_loss for peer in peers], [peer.wall_seconds for peer in peers]
    better = all(loss <= levels[COUNTING] for loss in losses)
    return {
        "": "nanoGPT",
        "loop, s": round(statistics.median(peer.loop_seconds for peer in peers), 2),
        "of nanoGPT's loop": 1.0,
        **spread_of(losses),
        "saved at the target after, s": round(statistics.median(times), 2),
        "speed-up": 1.0,
        "better than counting after, s": round(statistics.median(times), 2) if better else None,
        "loss at nanoGPT's time": round(statistics.median(losses), 4),
    }


def counting_row(
    counted: list[dict[str, Any]], peers: list[PeerResult], levels: dict[str, float]
) -> dict[str, Any]:
    """The line of n-grams: a process that counts and scores them."""
    times, loss = [one["process_seconds"] for one in counted], counted[0]["loss"]
    ratios = [peer.wall_seconds / seconds for seconds, peer in zip(times, peers, strict=True)]
    reached = loss <= levels["target"]
    return {
        "": f"counting {counted[0]['order']}-grams",
        "loop, s": None,
        "of nanoGPT's loop": None,
        **spread_of([loss]),
        "saved at the target after, s": round(statistics.median(times), 2) if reached else None,
        "speed-up": round(statistics.median(ratios), 2) if reached else None,
        "better than counting after, s": None,
        "loss at nanoGPT's time": round(loss, 4),
    }


def row(
    name: str, runs: list[dict[str, Any]], peers: list[PeerResult], levels: dict[str, float]
) -> dict[str, Any]:
    """A line of the table: run i beside nanoGPT's run i, which was just before it. A time that not every run reached is
    None."""
    times, better = ([until(run["points"], levels[name]) for run in runs] for name in ("target", COUNTING))
    pairs = list(zip(runs, peers, strict=True))
    by_then = [
        min((loss for seconds, loss in run["points"] if seconds <= peer.wall_seconds), default=None)
        for run, peer in pairs
    ]
    loops = [run["loop_seconds"] / peer.loop_seconds for run, peer in pairs]
    ratios = [peer.wall_seconds / seconds for seconds, peer in zip(times, peers, strict=True) if seconds]
    return {
        "": name,
        "loop, s": round(statistics.median(run["loop_seconds"] for run in runs), 2),
        "of nanoGPT's loop": round(statistics.median(loops), 3),
        **spread_of([run["loss"] for run in runs]),
        "saved at the target after, s": round(statistics.median(times), 2) if all(times) else None,
        "speed-up": round(statistics.median(ratios), 2) if all(times) else None,
        "better than counting after, s": round(statistics.median(better), 2) if all(better) else None,
        "loss at nanoGPT's time": round(statistics.median(by_then), 4) if all(by_then) else None,
    }


def spread_of(losses: list[float]) -> dict[str, Any]:
    """The columns of a median with the smallest and the largest."""
    return {
        "loss": round(statistics.median(losses), 4),
        "smallest and largest": f"{min(losses):.3f} {max(losses):.3f}",
    }


def curves(checkout: Path, text: Path) -> dict[str, Curve]:
    """One run of each with an evaluation every so often; nanoGPT's are its own estimates from random batches."""
    found = {"nanoGPT": nanogpt_curve(checkout, text)}
    for recipe, every in (("shakespeare-char-modern", 50), ("shakespeare-char-quick", 5)):
        settings = [f"evaluation.every={every}", "training.keep=1000", f"training.checkpoint_every={every}"]
        with tempfile.TemporaryDirectory() as folder:
            run = octavo_run(recipe, text, Path(folder) / "run", 1, settings)
        found[f"Octavo, {recipe}"] = run["points"]
    return found


def counting(text: Path) -> dict[str, float]:
    """The loss of counting n-grams on the same split: trigrams, and the best length."""
    tree = recipe_tree("shakespeare-char-quick")
    recipe = check({**tree, "corpus": {"kind": "files", "paths": [str(text)]}})
    dataset = build_dataset(recipe, QUIET)
    found = cached_baselines(dataset, recipe, QUIET)
    return {f"counting {found[key].order}-grams": found[key].loss or 0.0 for key in ("trigram", "ngram")}


def draw(found: dict[str, Curve], counted: dict[str, float], out: Path) -> None:
    """The picture: loss against seconds, on a logarithmic axis of time."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4.5), dpi=120, layout="constrained")
    for (name, points), color in zip(found.items(), ("#8a8a8a", "#1f77b4", "#d62728"), strict=True):
        seconds, losses = zip(*points, strict=True)
        axes.plot(seconds, losses, marker="o", markersize=3, color=color, label=name)
    lines = [(TARGETS["cpu"], f"{TARGETS['cpu']}, the target", "#6a6a6a", (0.21, -11))]
    lines += [(loss, f"{loss:.3f}, {name}", "#2c8a5b", (0.42, 3)) for name, loss in counted.items()]
    for level, words, color, (right, above) in lines:  # where no curve crosses the words
        axes.axhline(level, color=color, linewidth=0.8, linestyle=":")
        axes.annotate(
            words,
            (right, level),
            xytext=(0, above),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            color=color,
            fontsize=8,
        )
    axes.set_xscale("log")
    ticks = [2, 5, 10, 20, 50, 100]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("seconds since the process began, evaluations and saving included")
    axes.set_ylabel("validation loss, nats per character")
    axes.set_title("TinyShakespeare characters on 2 CPU cores", fontsize=10)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(out)


if __name__ == "__main__":
    main()
