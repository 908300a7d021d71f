"""A loss on nanoGPT's split that nothing was chosen on: settings tuned inside the training part, frozen, scored once.

    python benchmarks/honest.py --text input.txt --out FOLDER [--students 1 2 3] [--steps 5400] [KEY=VALUE ...]

1. *Tuning.* The last tenth of the text is cut off and stays unread. Of what is left, the last tenth judges CANDIDATES:
   students of the same three teachers, at half the steps. The best is written into FOLDER/chosen.json.
2. *The result.* On nanoGPT's split, each student has three teachers of its own, and is trained twice with the chosen
   settings: as a network alone, and with counted n-grams mixed in. Every run reads the validation split at its end
   alone, and its last weights count.

`distillation.py` says what teachers and students are. Runs that FOLDER has are taken as they are, or gone on with, so a
stopped command may be given again. KEY=VALUEs hold for all runs; once settings are chosen, a folder takes no others.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common import finish, load, print_table
from distillation import trained
from octavo.runs.run import Run

TEACHERS = 3
ONCE = ("evaluation.every=1000000", "training.checkpoint_every=300")
"""No look at the split that judges before the end."""
DROPOUT = ("model.dropout.projection={0}", "model.dropout.feed_forward={0}")
CANDIDATES = {
    f"dropout {dropout}, teachers {weight}": (
        *(each.format(dropout) for each in DROPOUT),
        f"training.teachers.weight={weight}",
    )
    for dropout, weight in ((0.1, 0.9), (0.2, 0.9), (0.1, 0.7), (0.1, 1.0))
}
WRITTEN = 740
"""Tokens that the teachers write for each step of a student."""
COUNTS = "model.counts=kneser-ney"


def taught(options: argparse.Namespace, text: Path, seeds: Sequence[int], folder: Path) -> list[str]:
    """The teachers with these seeds, trained, as a student's setting."""
    runs = [
        trained(options.recipe, text, folder / f"teacher-{seed}", [f"seed={seed}", *ONCE, *options.overrides])
        for seed in seeds
    ]
    return [f"training.teachers.runs=[{', '.join(json.dumps(str(run.path.absolute())) for run in runs)}]"]


def student(
    options: argparse.Namespace, text: Path, folder: Path, seed: int, steps: int, settings: Sequence[str]
) -> Run:
    """A student, trained."""
    own = (f"seed={seed}", f"training.steps={steps}", f"training.teachers.written={WRITTEN * steps}")
    return trained(options.recipe, text, folder, [*options.overrides, *own, *ONCE, *settings])


def loss_of(run: Run) -> float:
    """Of its last weights on the split that judges it, as its one evaluation found it."""
    found = json.loads((run.path / "evaluation.json").read_text(encoding="utf-8"))
    if found["step"] != Run.open(run.path, checkpoint="last").step:
        raise SystemExit(f"{run.path} was judged before its end")
    return float(found["val_loss"])


def chosen(options: argparse.Namespace, text: Path) -> dict[str, Any]:
    """The frozen settings: those of the file, or the best candidate's, which are then written into it."""
    path = options.out / "chosen.json"
    wanted = {"recipe": options.recipe, "steps": options.steps, "overrides": options.overrides}
    if path.is_file():
        found = json.loads(path.read_text(encoding="utf-8"))
        if {key: found[key] for key in wanted} != wanted:
            raise SystemExit(f"{path} has frozen other settings; take another --out")
        return found
    whole = text.read_text(encoding="utf-8")
    folder = options.out / "tuning"
    folder.mkdir(parents=True, exist_ok=True)
    known = folder / "training-part.txt"
    known.write_text(whole[: int(0.9 * len(whole))], encoding="utf-8")
    teachers = taught(options, known, range(1, TEACHERS + 1), folder)
    losses = {}
    for number, (name, settings) in enumerate(CANDIDATES.items(), start=1):
        run = student(
            options,
            known,
            folder / f"student-{number}",
            1,
            max(1, options.steps // 2),
            [*teachers, *settings],
        )
        losses[name] = loss_of(run)
    best = min(losses, key=lambda name: losses[name])
    found = {**wanted, "losses": losses, "best": best, "settings": list(CANDIDATES[best])}
    path.write_text(json.dumps(found, indent=1), encoding="utf-8")
    return found


def main() -> None:
    """Tune, freeze, train and score what is missing, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--recipe", default="shakespeare-char-long")
    parser.add_argument("--students", type=int, nargs="+", default=[1, 2, 3], help="their seeds")
    parser.add_argument("--steps", type=int, default=5400, help="of a student")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="of teachers and students")
    options = parser.parse_intermixed_args()
    before = load()

    frozen = chosen(options, options.text)
    print_table([{"candidate": name, "loss": f"{loss:.4f}"} for name, loss in frozen["losses"].items()])
    kinds: dict[str, list[str]] = {"network alone": [], "with counts": [COUNTS]}
    losses: dict[str, list[float]] = {kind: [] for kind in kinds}
    for seed in options.students:
        folder = options.out / f"result-{seed}"
        first = TEACHERS * seed + 1
        teachers = taught(options, options.text, range(first, first + TEACHERS), folder)
        for kind, settings in kinds.items():
            own = folder / f"student-{kind.replace(' ', '-')}"
            run = student(
                options, options.text, own, seed, options.steps, [*teachers, *frozen["settings"], *settings]
            )
            losses[kind].append(loss_of(run))
    rows = [
        {
            "student": kind,
            "mean": f"{statistics.mean(found):.4f}",
            "standard deviation": f"{statistics.stdev(found):.4f}" if len(found) > 1 else None,
            "each": ", ".join(f"{loss:.4f}" for loss in found),
        }
        for kind, found in losses.items()
    ]
    print_table(rows)
    finish({"frozen": frozen, "losses": losses, "rows": rows, "load_before": before})


if __name__ == "__main__":
    main()
