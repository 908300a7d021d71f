"""A loss on nanoGPT's split that nothing was chosen on: settings tuned inside the training part, frozen, scored once.

    python benchmarks/honest.py --text input.txt --out FOLDER [--students 1 2 3] [--steps 5400] [KEY=VALUE ...]

1. *Tuning.* The last tenth of the text is cut off and stays unread. Of what is left, the last tenth judges CANDIDATES:
   students of the same three teachers, at half the steps. The best is frozen. Only then it is trained whole, beside the
   controls of 2., and all are scored on the tenth that was cut off: a test split.
2. *The result.* On nanoGPT's split, each student has three teachers of its own, and is trained twice with the frozen
   settings: as a network alone, and with counted n-grams mixed in. Beside them stand the controls: the teachers, and
   models of as many steps that nobody teaches, with the recipe's own settings. Every run reads the validation split at
   its end alone, and its last weights count.

`distillation.py` says what teachers and students are. Losses are kept in a file of the repository (`--kept`): another
machine goes on where one stopped: what is there is not trained again. Runs that FOLDER has are taken as they are, or
gone on with. KEY=VALUEs hold for all runs; a file takes no others than its own.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common import finish, load, machine, print_table
from distillation import trained
from octavo.errors import Interrupted
from octavo.run.evaluate import evaluate_run
from octavo.run.run import Run
from octavo.util.files import replace_text

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
TEACHER = "a teacher: the recipe itself"
COUNTS = ("model.counts=kneser-ney",)
KINDS: dict[str, tuple[bool, tuple[str, ...]]] = {
    "taught": (True, ()),
    "not taught": (False, ()),
    "taught, with counts": (True, COUNTS),
    "not taught, with counts": (False, COUNTS),
}
"""Whether somebody teaches, and settings."""
KEPT = Path(__file__).parent / "results" / "honest.json"


def trained_teachers(
    options: argparse.Namespace, text: Path, seeds: Sequence[int], folder: Path
) -> list[Run]:
    """The teachers with these seeds."""
    return [
        trained(options.recipe, text, folder / f"teacher-{seed}", [f"seed={seed}", *ONCE, *options.overrides])
        for seed in seeds
    ]


def taught_by(teachers: Sequence[Run], steps: int) -> list[str]:
    """A student's settings."""
    paths = ", ".join(json.dumps(str(run.path.absolute())) for run in teachers)
    return [f"training.teachers.runs=[{paths}]", f"training.teachers.written={WRITTEN * steps}"]


def student(
    options: argparse.Namespace, text: Path, folder: Path, seed: int, steps: int, settings: Sequence[str]
) -> Run:
    """A student, trained, or one that nobody teaches."""
    own = (f"seed={seed}", f"training.steps={steps}")
    return trained(options.recipe, text, folder, [*options.overrides, *own, *ONCE, *settings])


def loss_of(run: Run) -> float:
    """Of its last weights, on the split that judges it."""
    found = json.loads((run.path / "evaluation.json").read_text(encoding="utf-8"))
    last = Run.open(run.path, checkpoint="last")
    return float((found if found["step"] == last.step else evaluate_run(last))["val_loss"])


class Kept:
    """The losses so far, in a file that is written after each.

    Attributes:
        tuning: by candidate.
        test: by kind of student, of one run each that has not seen the last fifth, on the tenth that was cut off.
        results: by kind of student, then by seed.
        processors: that trained.
    """

    def __init__(self, path: Path, wanted: dict[str, Any]) -> None:
        self.path, self.wanted = path, wanted
        found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {"wanted": wanted}
        if found["wanted"] != wanted:
            raise SystemExit(f"{path} is of other settings ({found['wanted']}); take another --kept")
        self.tuning: dict[str, float] = found.get("tuning", {})
        self.test: dict[str, float] = found.get("test", {})
        results = found.get("results", {})
        self.results: dict[str, dict[str, float]] = {
            kind: results.get(kind, {}) for kind in (TEACHER, *KINDS)
        }
        self.processors: list[str] = found.get("processors", [])

    def write(self) -> None:
        """As it is now."""
        here = machine()["processor"]
        self.processors += [here] if here not in self.processors else []
        names = ("wanted", "processors", "tuning", "test", "results")
        text = json.dumps({name: getattr(self, name) for name in names}, indent=1)
        replace_text(self.path, text + "\n")

    @property
    def best(self) -> str:
        """The candidate that was best."""
        return min(self.tuning, key=lambda name: self.tuning[name])


def tune(options: argparse.Namespace, text: Path, kept: Kept) -> None:
    """Judge the candidates that have no loss yet; then score the best, and its controls, on what none has seen."""
    if len(kept.test) == len(KINDS):
        return
    whole = text.read_text(encoding="utf-8")
    folder = options.out / "tuning"
    folder.mkdir(parents=True, exist_ok=True)
    known, unread = folder / "training-part.txt", folder / "unread-part.txt"
    at = int(0.9 * len(whole))
    known.write_text(whole[:at], encoding="utf-8")
    unread.write_text(whole[at:], encoding="utf-8")
    teachers = trained_teachers(options, known, range(1, TEACHERS + 1), folder)

    def candidate(name: str) -> Run:
        number, steps = list(CANDIDATES).index(name) + 1, max(1, options.steps // 2)
        settings = [*taught_by(teachers, steps), *CANDIDATES[name]]
        return student(options, known, folder / f"student-{number}", 1, steps, settings)

    for name in CANDIDATES:
        if name not in kept.tuning:
            kept.tuning[name] = loss_of(candidate(name))
            kept.write()
    for kind in KINDS:
        if kind not in kept.test:
            run = of_kind(options, known, folder, 1, kind, teachers, kept)
            kept.test[kind] = float(evaluate_run(Run.open(run.path, checkpoint="last"), unread)["val_loss"])
            kept.write()


def of_kind(
    options: argparse.Namespace,
    text: Path,
    folder: Path,
    seed: int,
    kind: str,
    teachers: Sequence[Run],
    kept: Kept,
) -> Run:
    """A student or a control, trained whole with the settings that are frozen."""
    is_taught, settings = KINDS[kind]
    own = [*taught_by(teachers, options.steps), *CANDIDATES[kept.best]] if is_taught else []
    place = folder / kind.replace(", ", "-").replace(" ", "-")
    return student(options, text, place, seed, options.steps, [*own, *settings])


def train_students(options: argparse.Namespace, text: Path, kept: Kept) -> None:
    """Train and score the students and controls that have no loss yet."""
    for seed in options.students:
        wanted = [kind for kind in KINDS if str(seed) not in kept.results[kind]]
        first = TEACHERS * seed + 1
        seeds = range(first, first + TEACHERS)
        if not wanted and all(str(each) in kept.results[TEACHER] for each in seeds):
            continue
        folder = options.out / f"result-{seed}"
        teachers = trained_teachers(options, text, seeds, folder)
        kept.results[TEACHER] |= {str(each): loss_of(run) for each, run in zip(seeds, teachers, strict=True)}
        kept.write()
        for kind in wanted:
            run = of_kind(options, text, folder, seed, kind, teachers, kept)
            kept.results[kind][str(seed)] = loss_of(run)
            kept.write()


def speakers_known(text: str, share: float) -> float:
    """Of the speeches in a play's last tenth, those of speakers whom its beginning has, that share of it."""
    parts = text[: int(share * len(text))], text[int(0.9 * len(text)) :]
    before, after = (re.findall(r"(?m)^([A-Z][A-Za-z ]+):$", part) for part in parts)
    return sum(speaker in set(before) for speaker in after) / max(1, len(after))


def rows_of(kept: Kept) -> list[dict[str, Any]]:
    """Mean and spread of each kind."""
    return [
        {
            "model": kind,
            "mean": f"{statistics.mean(found.values()):.4f}",
            "standard deviation": f"{statistics.stdev(found.values()):.4f}" if len(found) > 1 else None,
            "each": ", ".join(f"{loss:.4f}" for loss in found.values()),
            "test split": f"{kept.test[kind]:.4f}" if kind in kept.test else None,
        }
        for kind, found in kept.results.items()
        if found
    ]


def main() -> None:
    """Tune, freeze, train and score what is missing, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--kept", type=Path, default=KEPT, help="where losses are kept")
    parser.add_argument("--recipe", default="shakespeare-char-long")
    parser.add_argument("--students", type=int, nargs="+", default=[1, 2, 3], help="their seeds")
    parser.add_argument("--steps", type=int, default=5400, help="of a student")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="of teachers and students")
    options = parser.parse_intermixed_args()
    before = load()

    wanted = {"recipe": options.recipe, "steps": options.steps, "overrides": options.overrides}
    kept = Kept(options.kept, wanted)
    try:
        tune(options, options.text, kept)
        train_students(options, options.text, kept)
    except Interrupted as error:
        print(error.what)
    print_table([{"candidate": name, "loss": f"{loss:.4f}"} for name, loss in kept.tuning.items()])
    if rows := rows_of(kept):
        print_table(rows)
    whole = options.text.read_text(encoding="utf-8")
    speakers = {share: round(speakers_known(whole, share), 3) for share in (0.9, 0.81)}
    frozen = kept.best if kept.test else None
    finish({"frozen": frozen, "speakers_known": speakers, "rows": rows, "load_before": before})


if __name__ == "__main__":
    main()
