"""English to German on the captions of Multi30k: BLEU of the recipe multi30k-cpu, beside simple systems and by hours.

    python benchmarks/multi30k.py RUNS [--data FOLDER] [--seeds 1 2 3] [key=value …]

The data (train, val and test_2016_flickr, .en.gz and .de.gz) is yours to get; its terms are non-commercial, so it is
not shipped. Without --data it is multi30k/ in $OCTAVO_TEST_DATA. A script that was stopped goes on where it was:
training from its last checkpoint, and what was judged is read again.

How to decode, and how many checkpoints to average, is chosen on val; test2016 is looked at for the table alone.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import octavo
from common import finish, is_override, machine, mean, print_table
from octavo import Run
from octavo.corpus.files import Spool, find_files
from octavo.errors import InputError
from octavo.tasks.translation.average import average
from octavo.tasks.translation.beam import Search
from octavo.tasks.translation.bleu import bootstrap, judged
from octavo.tasks.translation.source import FIELDS, one_line, read_pairs
from octavo.tasks.translation.systems import learned_pairs, texts, word_for_word
from octavo.training.checkpoint_folder import list_checkpoints
from octavo.training.device import accelerator
from octavo.util.files import replace_text
from octavo.util.records import plain
from octavo.util.terminal import Console

AVERAGED = (1, 2, 4, 8)
GREEDY, BEAM = "greedy", "beam 5"
SEARCHES = {GREEDY: Search(1), BEAM: Search(5), "beam 5, length penalty 1": Search(5, 1.0)}
CHECKPOINTS = 40
"""Of a run; that many stay, so that BLEU can be told by the time that training had."""


@dataclass(frozen=True)
class Text:
    """Sentences and their references."""

    sources: list[str]
    references: list[str]


def sentences(data: Path, name: str) -> Text:
    """The pairs of a part of the data."""
    paths = [str(data / f"{name}.{side}.gz") for side in ("en", "de")]
    pairs = list(read_pairs(find_files(paths, lambda _: True, Spool(), print), FIELDS, "auto", print))
    return Text([one_line(pair.source) for pair in pairs], [one_line(pair.target) for pair in pairs])


class Kept:
    """What was found out about a run, in a file beside it: a question is answered once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}

    def __call__(self, name: str, answer: Callable[[], Any]) -> Any:
        if name not in self.found:
            self.put(name, answer())
        return self.found[name]

    def put(self, name: str, value: Any) -> None:
        """Keep an answer."""
        self.found[name] = value
        replace_text(self.path, json.dumps(self.found, ensure_ascii=False))


def trained(out: Path, data: Path, seed: int, overrides: Sequence[str], kept: Kept) -> None:
    """Train a run, or go on with it; `cpu_hours` are those of this process, of all sessions."""
    if (out / "evaluation.json").is_file():
        return
    given = [f"seed={seed}", f"training.checkpoint_every={1 / CHECKPOINTS}", f"training.keep={CHECKPOINTS}"]
    before, began = kept.found.get("cpu_hours", 0.0), time.process_time()
    text = [str(data / f"train.{side}.gz") for side in ("en", "de")]
    resume = (out / "config.yaml").is_file()
    octavo.train("multi30k-cpu", text, out, overrides=[*given, *overrides], resume=resume, console=Console())
    kept.put("cpu_hours", before + (time.process_time() - began) / 3600)


def written(out: Path, text: Text, *, averaged: int, search: str, checkpoint: str = "last") -> list[str]:
    """What a run writes with the mean of its last checkpoints."""
    run = Run.open(out, checkpoint=checkpoint)
    if averaged > 1:
        average(run, averaged)
    run.model.to(accelerator() or "cpu")
    return texts(run, text.sources, SEARCHES[search])


def bleu(lines: Sequence[str], text: Text) -> float:
    """Of raw text."""
    return judged(lines, text.references).bleu.score


def by_hours(out: Path, val: Text, kept: Kept) -> list[dict[str, Any]]:
    """Greedy BLEU on val after shares of the training, without what the rest of the schedule would have brought."""
    steps = [checkpoint.step for checkpoint in list_checkpoints(out / "checkpoints")]
    chosen = [step for step in steps if step % max(1, steps[-1] // 10) == 0] or steps
    found = []
    for step in chosen:
        score = kept(
            f"val at {step}",
            lambda step=step: bleu(written(out, val, averaged=1, search=GREEDY, checkpoint=str(step)), val),
        )
        minutes = 60 * kept.found["cpu_hours"] * step / steps[-1]
        found.append({"step": step, "CPU minutes": round(minutes, 1), "greedy BLEU on val": round(score, 2)})
    return found


def named(way: tuple[int, str]) -> str:
    """Of how many checkpoints the mean, and how it is searched."""
    return f"{way[0]}, {way[1]}"


def measured(out: Path, val: Text, test: Text, kept: Kept) -> dict[str, Any]:
    """What the run reaches: every way on val, the best of them on test, and what its parts are worth there."""
    count = len(list_checkpoints(out / "checkpoints"))
    ways = [(number, search) for number in AVERAGED if number <= count for search in SEARCHES]
    on_val = {
        named(way): kept(
            f"val {named(way)}",
            lambda way=way: bleu(written(out, val, averaged=way[0], search=way[1]), val),
        )
        for way in ways
    }
    best = max(ways, key=lambda way: on_val[named(way)])
    asked = {best, (1, best[1]), (best[0], GREEDY), (best[0], BEAM), (1, GREEDY)}
    lines = {
        way: kept(
            f"test {named(way)}",
            lambda way=way: written(out, test, averaged=way[0], search=way[1]),
        )
        for way in sorted(asked)
    }
    against = {
        "averaged against the last checkpoint": (best, (1, best[1])),
        "beam 5 against greedy": ((best[0], BEAM), (best[0], GREEDY)),
    }
    return {
        "val": on_val,
        "chosen": named(best),
        "test": {named(way): plain(judged(found, test.references)) for way, found in lines.items()},
        "differences": {
            name: kept(
                name, lambda one=one, other=other: plain(bootstrap(lines[one], lines[other], test.references))
            )
            for name, (one, other) in against.items()
            if one != other
        },
    }


def row(system: str, found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A line of the table."""
    names = {"BLEU": "bleu", "chrF": "chrf", "BLEU of tokens, lower case": "tokenized_bleu"}
    return {
        "system": system,
        **{head: mean([one[name]["score"] for one in found]) for head, name in names.items()},
    }


def shown(found: dict[int, dict[str, Any]], baselines: dict[str, dict[str, Any]]) -> None:
    """The tables."""
    chosen = {seed: one["test"][one["chosen"]] for seed, one in found.items()}
    rows = [row(f"the model, {len(found)} seeds", list(chosen.values()))]
    rows += [row(name, [one]) for name, one in baselines.items()]
    print_table(rows)
    for name in ("bleu", "chrf", "tokenized_bleu"):
        print(f"{name}: {next(iter(chosen.values()))[name]['signature']}")
    for seed, one in found.items():
        print(f"\nseed {seed}, {one['cpu_hours']:.2f} CPU hours, chosen on val: {one['chosen']}\n")
        print_table(
            [{"checkpoints and search": way, "BLEU on val": score} for way, score in one["val"].items()]
        )
        for name, difference in one["differences"].items():
            low, high = difference["interval"]
            print(
                f"{name}: {difference['difference']:+.2f} BLEU on test, 95 % interval {low:+.2f} to {high:+.2f}"
            )
        print()
        print_table(one["by_hours"])


def data_folder(given: Path | None) -> Path:
    """Where the data stands. Raises InputError where it is not named or not there."""
    named = given or Path(os.environ.get("OCTAVO_TEST_DATA", "")) / "multi30k"
    if not (named / "train.en.gz").is_file():
        raise InputError(f"{named} has no train.en.gz.", remedy="--data FOLDER, with Multi30k in it")
    return named


def main() -> None:
    """Train what is missing, judge, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    overrides = [word for word in sys.argv[1:] if is_override(word)]
    options = parser.parse_args([word for word in sys.argv[1:] if not is_override(word)])
    data = data_folder(options.data)
    val, test = sentences(data, "val"), sentences(data, "test_2016_flickr")
    options.runs.mkdir(parents=True, exist_ok=True)
    found: dict[int, dict[str, Any]] = {}
    for seed in options.seeds:
        out, kept = options.runs / f"seed-{seed}", Kept(options.runs / f"seed-{seed}.json")
        trained(out, data, seed, overrides, kept)
        found[seed] = measured(out, val, test, kept)
        found[seed] |= {"by_hours": by_hours(out, val, kept), "cpu_hours": kept.found["cpu_hours"]}
    last = options.runs / f"seed-{options.seeds[-1]}"
    run, systems = Run.open(last), {"copy of the source": test.sources}
    if (learned := learned_pairs(run)) is not None:
        systems["word for word (IBM model 1)"] = word_for_word(run, test.sources, learned)
    baselines = {name: plain(judged(lines, test.references)) for name, lines in systems.items()}
    shown(found, baselines)
    finish({"machine": machine(), "seeds": found, "baselines": baselines})


if __name__ == "__main__":
    main()
