"""Where the time of `octavo train --minutes` goes: seconds by stage, and how much of the time asked for is training.

    python benchmarks/minutes_profile.py a.txt b.txt --minutes 0.5 2
    python benchmarks/minutes_profile.py a.txt --out rows.jsonl --table benchmarks/results/minutes_profile.md

Each run is a process of its own, with an empty cache but for the kernels, which are compiled and tried once before. A
stage's seconds are those of the main thread, without the stages inside it. *kept* is what the run kept for its end when
the training was over (*for judging* and *for the rest*, as it reckoned), *end* what that took, and *in all* the time
from the start of the process to its end. *bits* are per byte of the test split. *vectors* are the widest instructions
that the processor has for products.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import above, finish, in_markdown, keep_row, machine, print_table, rows_in

STAGES = {
    "reading": ("octavo.run.data:build_dataset",),
    "counting": ("octavo.auto.facts:counted", "octavo.ngram.mixing_counts:MixingCounts.take_text"),
    "timing": ("octavo.auto.train:measured_times",),
    "pilot": ("octavo.auto.train:with_pilot",),
    "preparing": ("octavo.auto.train:foretell", "octavo.run.train:compose", "octavo.run.train:train"),
    "baselines": ("octavo.run.train:reserve_for_the_end",),
    "training": ("octavo.run.trainer:Trainer.fit",),
    "judging": ("octavo.run.trainer:Trainer.measured",),
    "saving": ("octavo.run.trainer:Trainer.save",),
    "evaluating": ("octavo.run.finish:finish",),
    "samples": ("octavo.run.finish:write_samples",),
    "page": ("octavo.run.finish:report",),
    "audit": ("octavo.run.audit:audited",),
}
"""By the stage, what is timed: a function's module and name."""


class Watch:
    """Seconds by stage, each without those inside it."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._open: list[str] = []
        self._mark = time.monotonic()

    def turn(self) -> None:
        """What has passed goes to the innermost stage that is open."""
        now = time.monotonic()
        self.seconds[self._open[-1] if self._open else "starting"] += now - self._mark
        self._mark = now

    def watched(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, which counts for a stage."""

        @functools.wraps(function)
        def timed(*args: Any, **named: Any) -> Any:
            self.turn()
            self._open.append(stage)
            try:
                return function(*args, **named)
            finally:
                self.turn()
                self._open.pop()

        return timed


def watch(began: float) -> tuple[Watch, dict[str, float]]:
    """Put a watch around every stage, wherever its function was imported to; and what is told of the end."""
    found, told = Watch(), {}
    importlib.import_module("octavo.auto.train")
    importlib.import_module("octavo.run.finish")
    found._mark = began
    for stage, places in STAGES.items():
        for place in places:
            module, _, name = place.partition(":")
            owner = importlib.import_module(module)
            *inside, last = name.split(".")
            for each in inside:
                owner = getattr(owner, each)
            function = getattr(owner, last)
            timed = found.watched(stage, function)
            setattr(owner, last, timed)
            for other in [each for key, each in sys.modules.items() if key.startswith("octavo")] * (
                not inside
            ):
                if getattr(other, last, None) is function:
                    setattr(other, last, timed)

    from octavo.run.trainer import Trainer

    fit = Trainer.fit

    def told_fit(trainer: Trainer) -> None:
        fit(trainer)
        assert trainer.clock is not None, "a run by the clock"
        told["kept"] = trainer.clock.end - time.monotonic()
        told["for judging"], told["for the rest"] = trainer.clock.judging, trainer.clock.finish
        told["ended"] = time.monotonic()

    Trainer.fit = told_fit  # type: ignore[method-assign]
    return found, told


def child(text: str, minutes: float, out: str, began: float) -> None:
    """One run in this process, which ends with its seconds as a line of JSON."""
    from octavo.auto.api import train
    from octavo.util.terminal import Console

    console = Console.in_python(quiet=True)
    console.started = began
    found, told = watch(began)
    train(None, text, out, minutes=minutes, console=console)
    found.turn()
    now = time.monotonic()
    evaluation = json.loads((Path(out) / "evaluation.json").read_text(encoding="utf-8"))
    stages = {stage: round(found.seconds[stage], 2) for stage in ("starting", *STAGES)}
    kept = {name: round(told[name], 2) for name in ("kept", "for judging", "for the rest")}
    end = {"end": round(now - told["ended"], 2), "in all": round(now - began, 2)}
    look = json.loads((Path(out) / "manifest.json").read_text(encoding="utf-8"))["test_looks"][-1]
    end["bits"] = round(look.get("reading_on", look)["bits_per_byte"], 4)
    row = {**stages, **kept, **end, "share": round(evaluation["seconds"]["training"] / (60 * minutes), 3)}
    print(json.dumps(row))


def profile(text: Path, minutes: float) -> dict[str, Any]:
    """The row of one run."""
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache"
        known = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "octavo" / "native"
        if known.is_dir():
            shutil.copytree(known, cache / "octavo" / "native")
        command = [sys.executable, __file__, "--child", str(text), str(minutes), str(Path(folder) / "run")]
        command.append(str(time.monotonic()))
        done = subprocess.run(
            command,
            env={**os.environ, "XDG_CACHE_HOME": str(cache)},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    row = json.loads(done.stdout.splitlines()[-1])
    asked = {"text": text.stem, "kB": round(text.stat().st_size / 1000), "minutes": minutes}
    return {**asked, "vectors": (machine()["flags"] or ["none"])[-1], **row}


def main() -> None:
    """Profile what is asked for; with `--child`, be one of the runs."""
    if sys.argv[1:2] == ["--child"]:
        text, minutes, out, began = sys.argv[2:]
        child(text, float(minutes), out, float(began))
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("texts", nargs="*", type=Path)
    parser.add_argument("--minutes", nargs="+", type=float, default=[0.5])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path)
    given = parser.parse_args()
    rows = rows_in(given.out) if given.out else []
    subprocess.run(
        [sys.executable, "-c", "from octavo.util.kernels import in_use; in_use()"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    for minutes in given.minutes:
        for text in given.texts:
            row = profile(text, minutes)
            keep_row(row, rows, given.out) if given.out else rows.append(row)
    print_table(rows)
    if given.table:
        head = above("Where the minutes go", __doc__, "seconds, one run each")
        given.table.write_text(f"{head}\n\n{in_markdown(rows)}", encoding="utf-8")
    finish({"rows": rows})


if __name__ == "__main__":
    main()
