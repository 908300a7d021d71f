"""Recipes whose records are no text, over several seeds: nats per record beside baselines and the floor, and validity.

    python benchmarks/symbols.py RUNS                                # bouncing-ball and digits
    python benchmarks/symbols.py RUNS --recipes mnist-cpu --text train-images-idx3-ubyte.gz
    python benchmarks/symbols.py runs/films --draw docs/pictures/symbols-films.png

A run that stands in RUNS already is not made again, so a script that was stopped goes on where it was. The seed is that
of weights and batches; the records, and which of them are held out, are the same for all.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from common import finish, machine, mean, print_table


def evaluated(recipe: str, seed: int, folder: Path, text: str | None) -> dict[str, Any]:
    """The evaluation of a run as a user starts it; one that is finished already is read."""
    out = folder / f"{recipe}-{seed}"
    if not (out / "evaluation.json").is_file():
        command = [sys.executable, "-m", "octavo", "train", recipe, "--out", str(out), "--quiet"]
        command += ["--resume"] if (out / "manifest.json").is_file() else []
        command += [f"seed={seed}", *([] if text is None else ["--text", text])]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return json.loads((out / "evaluation.json").read_text(encoding="utf-8"))


def rows_of_text(recipe: str, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same of records that are text: nats per token and bits per byte."""
    units = {"nats per token": "loss", "bits per byte": "bits_per_byte"}
    own = [{**one, "loss": one["val_loss"]} for one in found]
    model = {head: mean([one[key] for one in own], 3) for head, key in units.items()}
    simpler = sorted(found[0]["baselines"].items(), key=lambda item: item[1]["bits_per_byte"])
    rows = [(f"model, {len(found)} seeds", model)]
    for name, one in simpler:
        cells = {head: "–" if one.get(key) is None else f"{one[key]:.3f}" for head, key in units.items()}
        rows.append((name, cells))
    return [{"recipe": recipe, "by": name, **cells} for name, cells in rows]


def rows_of(recipe: str, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The model, then what simpler means reach, from best to worst; in nats per record and bits per symbol."""
    if not found[0].get("records"):
        return rows_of_text(recipe, found)
    records = found[0]["records"]
    tokens = records["symbols"] + 1
    bits = records["nats"] / records["bits_per_symbol"]  # nats per record for a bit per symbol
    nats = [one["records"]["nats"] for one in found]
    rows = [
        (
            f"model, {len(found)} seeds",
            mean(nats, 3),
            mean([one["records"]["bits_per_symbol"] for one in found], 3),
        )
    ]
    others = {
        name: one["loss"] * tokens for name, one in found[0]["baselines"].items() if one["loss"] is not None
    }
    if "source_entropy" in found[0]:
        others["the source itself"] = found[0]["source_loss"] * tokens
    rows += [
        (name, f"{value:.3f}", f"{value / bits:.3f}")
        for name, value in sorted(others.items(), key=lambda item: item[1])
    ]
    return [
        dict(zip(("recipe", "by", "nats per record", "bits per symbol"), (recipe, *row), strict=True))
        for row in rows
    ]


def validity_of(recipe: str, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each seed, how many records are valid, and of the control."""
    return [
        {
            "recipe": recipe,
            "seed": seed,
            "records of": name,
            "valid": f"{one['valid']} of {one['records']}",
            "95 % interval": f"{one['interval'][0]:.1%} to {one['interval'][1]:.1%}",
        }
        for seed, evaluation in enumerate(found, 1)
        for name, one in evaluation.get("validity", {}).items()
    ]


def draw(run: Path, file: Path, *, columns: int = 3, rows: int = 4, scale: int = 5) -> None:
    """A PNG file with samples of a run whose records are images."""
    import numpy as np

    from octavo import Run
    from octavo.tasks.records.pixels import numbers_of, png

    opened = Run.open(run)
    raster = opened.config.corpus.raster()
    texts = [one.text for one in opened.samples(count=columns * rows, tokens=opened.config.model.context)]
    images = [
        np.pad(raster.grey(numbers_of(text)).repeat(scale, 0).repeat(scale, 1), 4, constant_values=255)
        for text in texts
    ]
    file.write_bytes(
        png(np.vstack([np.hstack(images[at : at + columns]) for at in range(0, len(images), columns)]))
    )


def main() -> None:
    """Train what is missing, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path)
    parser.add_argument("--recipes", nargs="*", default=["bouncing-ball", "digits"])
    parser.add_argument("--text")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--draw", type=Path, help="only draw samples of the run RUNS into this PNG file")
    given = parser.parse_args()
    if given.draw:
        draw(given.runs, given.draw)
        return
    document = {}
    for recipe in given.recipes:
        found = [evaluated(recipe, seed, given.runs, given.text) for seed in range(1, given.seeds + 1)]
        document[recipe] = rows_of(recipe, found)
        print_table(document[recipe])
        if checked := validity_of(recipe, found):
            print_table(checked)
            document[f"{recipe}, validity"] = checked
    finish({"machine": machine(), "tables": document})


if __name__ == "__main__":
    main()
