"""Exporting a run of 14 million parameters, and writing with the GGUF file beside Octavo's own.

    python benchmarks/ship.py --text tinyshakespeare.txt [--threads 2] [--repeats 3]

A run of `shakespeare-char-modern` with 8 layers of width 384 and context 256 is trained for two steps on the first
200,000 characters. Its export to three targets is timed in a process of its own: without the proof (imports, reading,
rewriting, writing), and the proof alone (what the run says, and three libraries, opened in processes of their own).
Then llama.cpp, with the file as exported, and Octavo, with the run, go on from 32 characters until the context is
full: greedily, in turn, the same threads, each in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from common import finish, load, print_table, spread
from generate_speed import measured

WORDS = ("model.layers=8", "model.width=384", "model.heads=8", "model.context=256", "training.steps=2")
WORDS += ("training.batch=4", "evaluation.tokens=2000", "sampling.tokens=8")
TARGETS = ("hf", "gguf", "onnx")
PROMPT, CHARACTERS = 32, 200_000


def export_timed(run: str, folder: str) -> dict[str, float]:
    """Seconds of the steps of an export; those that `octavo export` takes, one after the other."""
    begin = time.perf_counter()
    from octavo.export import export as steps
    from octavo.export.prove import measured as opened
    from octavo.export.targets import targets
    from octavo.export.targets.base import Parcel
    from octavo.export.weights import weights_of
    from octavo.run.run import Run

    found = Run.open(run)
    weights = weights_of(found.model, found.config.model).to(torch.float64)
    parcel = Parcel(weights, found.tokenizer, "float32", "timed")
    seconds = {"open": time.perf_counter() - begin}

    def timed(name: str, work: Any) -> Any:
        begin = time.perf_counter()
        result = work()
        seconds[name] = time.perf_counter() - begin
        return result

    for name in TARGETS:
        place = Path(folder) / name
        place.mkdir()
        targets()[name].needs()
        timed(f"write {name}", lambda place=place, name=name: targets()[name].write(parcel, place))
    kept = timed("ask the run", lambda: steps._reference(found, None))
    for name in TARGETS:
        kept.save(Path(folder) / name)
        timed(f"prove {name}", lambda name=name: opened(name, Path(folder) / name))
    (Path(folder) / "q8").mkdir()
    targets()["gguf"].write(Parcel(weights, found.tokenizer, "q8_0", "timed"), Path(folder) / "q8")
    return seconds


def main() -> None:
    """Train, export, write, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(export_timed(*options.child)))
        return
    before = load()
    with tempfile.TemporaryDirectory() as folder:
        run = made(options.text, Path(folder), options.threads)
        environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads)}
        exports = []
        for number in range(options.repeats):
            place = Path(folder) / f"out-{number}"
            place.mkdir()
            words = [sys.executable, __file__, "--text", str(options.text), "--child", str(run), str(place)]
            done = subprocess.run(words, capture_output=True, encoding="utf-8", env=environment, check=True)
            exports.append(json.loads(done.stdout.splitlines()[-1]))
        rates, left_out = decoded(run, place, options)
    parts = {name: spread([one[name] for one in exports]) for name in exports[0]}
    proof = [sum(one[name] for name in one if name.startswith(("ask", "prove"))) for one in exports]
    whole = [sum(one.values()) - proof[at] for at, one in enumerate(exports)]
    rows = [{"": name, "seconds": round(found["median"], 2)} for name, found in parts.items()]
    rows += [{"": "without the proof", "seconds": round(spread(whole)["median"], 2)}]
    rows += [{"": "the proof", "seconds": round(spread(proof)["median"], 2)}]
    print_table(rows)
    print_table([{"": name, "tokens/s": round(found["median"])} for name, found in rates.items()])
    finish(
        {
            "threads": options.threads,
            "without_the_proof": spread(whole),
            "the_proof": spread(proof),
            "parts": parts,
            "tokens_s": rates,
            "left_out": left_out,
            "load_before": before,
            "load_after": load(),
        }
    )


def made(text: Path, folder: Path, threads: int) -> Path:
    """The run."""
    import octavo

    (folder / "text.txt").write_text(text.read_text(encoding="utf-8")[:CHARACTERS], encoding="utf-8")
    words = [*WORDS, f"training.threads={threads}"]
    octavo.train(
        "shakespeare-char-modern", text=folder / "text.txt", out=folder / "run", overrides=words, quiet=True
    )
    return folder / "run"


def decoded(run: Path, place: Path, options: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Tokens a second by contender, and those that failed with the reason."""
    letters = (run.parent / "text.txt").read_text(encoding="utf-8")
    common = {"prompt": PROMPT, "tokens": 256 - PROMPT, "threads": options.threads, "device": "cpu"}
    common |= {"streams": 1, "context": 256, "vocabulary": len(set(letters))}
    ours: dict[str, Any] = {"who": "octavo", "run": str(run), "text": letters[:PROMPT]}
    theirs: dict[str, Any] = {"who": "llamacpp", "as_in_the_file": True}
    contenders = {
        "octavo, float32": {**ours, "precision": "float32"},
        "llama.cpp, float32": {**theirs, "file": str(place / "gguf" / "model.gguf")},
        "octavo, int8": {**ours, "precision": "int8"},
        "llama.cpp, q8_0": {**theirs, "file": str(place / "q8" / "model.gguf")},
    }
    rates: dict[str, list[float]] = {}
    left_out: dict[str, str] = {}
    for _ in range(options.repeats):
        for name, spec in contenders.items():
            found = measured({**common, **spec}, sys.executable)
            if "missing" in found:
                left_out[name] = found["missing"]
            else:
                rates.setdefault(name, []).append(found["warm_tokens_s"])
    return {name: spread(found) for name, found in rates.items()}, left_out


if __name__ == "__main__":
    main()
