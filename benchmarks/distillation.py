"""One model taught by several: the losses of teachers, of the mean of their predictions, and of a student of them.

    python benchmarks/distillation.py --text TEXT --out FOLDER [--seeds 1 2 3] [KEY=VALUE ...]

The teachers are runs of `--recipe` with these seeds; the student is the same recipe with STUDENT and the KEY=VALUEs
given here. Runs that FOLDER has already are taken as they are, or gone on with. Nats a token on the whole validation
split, in float32.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import octavo
from common import finish, load, print_table
from octavo.run.data import build_dataset
from octavo.run.evaluate import evaluate_split, whole_split
from octavo.run.folder import RunFolder
from octavo.run.list import run_info
from octavo.run.run import Run
from octavo.training.device import Runtime, set_threads
from octavo.util.terminal import Console

STUDENT = (
    "training.steps=2700",
    "training.teachers.weight=0.9",
    "training.teachers.written=2000000",
    "model.dropout.projection=0.1",
    "model.dropout.feed_forward=0.1",
)


class Mean(nn.Module):
    """Logits of the mean of several models' probabilities."""

    def __init__(self, models: Sequence[nn.Module]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, T) to (B, T, V)."""
        return torch.stack([model(tokens).float().softmax(dim=-1) for model in self.models]).mean(dim=0).log()


def trained(recipe: str, text: Path, out: Path, overrides: Sequence[str]) -> Run:
    """A finished run in a folder: the one that stands there, gone on with or begun."""
    begun = RunFolder(out).config.is_file()
    if not (begun and run_info(out)["finished"]):
        octavo.train(recipe, text, out, overrides=overrides, resume=begun)
    return Run.open(out)


def row(name: str, run: Run, loss: float) -> dict[str, Any]:
    """What the table says of one model."""
    state = run.checkpoint.state()
    return {
        "model": name,
        "parameters": run.parameters,
        "steps": run.step,
        "training seconds": round(state["seconds"]),
        "loss": loss,
    }


def main() -> None:
    """Train what is missing, judge and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--recipe", default="shakespeare-char-long")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--student", default="student", help="its folder's name")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    options = parser.parse_intermixed_args()
    before = load()

    folders = [options.out / f"teacher-{seed}" for seed in options.seeds]
    teachers = [
        trained(options.recipe, options.text, folder, [f"seed={seed}"])
        for seed, folder in zip(options.seeds, folders, strict=True)
    ]
    named = ", ".join(f'"{folder.absolute()}"' for folder in folders)
    settings = [f"training.teachers.runs=[{named}]", *STUDENT, *options.overrides]
    student = trained(options.recipe, options.text, options.out / options.student, settings)

    recipe = whole_split(student.config)
    dataset = build_dataset(recipe, Console(quiet=True))
    runtime = Runtime(torch.device("cpu"), "float32", set_threads(None))

    def loss(model: Any) -> float:
        return evaluate_split(model, dataset.validation, recipe, dataset.tokenizer, runtime).loss

    rows = [
        row(f"teacher, seed {seed}", run, loss(run.model))
        for seed, run in zip(options.seeds, teachers, strict=True)
    ]
    together = loss(Mean([run.model for run in teachers]).eval())
    rows.append(
        {
            "model": "the teachers' mean",
            "parameters": sum(run.parameters for run in teachers),
            "steps": None,
            "training seconds": None,
            "loss": together,
        }
    )
    rows.append(row("student", student, loss(student.model)))
    print_table([{**one, "loss": f"{one['loss']:.4f}"} for one in rows])
    finish(
        {
            "recipe": options.recipe,
            "student": settings,
            "rows": rows,
            "load_before": before,
        }
    )


if __name__ == "__main__":
    main()
