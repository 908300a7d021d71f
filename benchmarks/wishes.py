"""The road from the demo's model to one that keeps wishes, for several seeds: demo, SFT, RL, and what each reached.

    python benchmarks/wishes.py [KEY=VALUE ...] --out FOLDER [--seeds 0 1 2] [--texts 1024] [--results FILE]

Runs that FOLDER has already, and what was measured of them, are taken as they are. KEY=VALUEs are for each step.
Wishes are counted on combinations that no training had, after held-out prompts, drawn as the model predicts
(temperature 1, nothing left out), unless said otherwise. Seconds are those of the processor, of the three commands with
all that they evaluate and judge.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from common import finish, load
from octavo.generation import Engine, Sampling, TextRequest, in_order
from octavo.generation.on_device import keep_min_p
from octavo.generation.sampling import sampling_of
from octavo.model.base import LanguageModel
from octavo.run.run import Run
from octavo.studies.chance import student
from octavo.synthetic.checker import check
from octavo.synthetic.wishes import Wish
from octavo.tasks.chat.prompts import wished
from octavo.tuning.judge import measure
from octavo.tuning.report import write_page
from octavo.tuning.rewards.named import named_reward
from octavo.tuning.rollouts import ROWS, as_batch, room_for

STEPS = ("demo", "sft", "rl")


def taken(out: Path, name: str, arguments: Sequence[str]) -> float | None:
    """Processor seconds of a command that makes the run `out`/`name`; where it stands there, as they were noted."""
    folder, times = out / name, out / f"{name}.seconds"
    if not folder.is_dir():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "octavo", *arguments, "--out", str(folder), "--quiet"]
        subprocess.run(command, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.write_text(f"{after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime:.1f}\n")
    return float(times.read_text()) if times.is_file() else None


def road(out: Path, seed: int, overrides: Sequence[str]) -> dict[str, float | None]:
    """The three commands of a seed; their processor seconds."""
    demo, sft, rl = (f"{name}-{seed}" for name in STEPS)
    same = [f"seed={seed}", *overrides]
    begins, answers = str(out / demo), str(out / sft)
    return {
        "demo": taken(out, demo, ["train", "pidgin-demo", *same]),
        "sft": taken(out, sft, ["tune", "sft", begins, "--recipe", "pidgin-wishes", *same]),
        "rl": taken(out, rl, ["tune", "rl", answers, "--recipe", "pidgin-wishes-rl", *same]),
    }


COLD = 0.9
"""A temperature at which both are drawn too; of SFT it is the simplest control."""


def drawn(
    run: Run, sampling: Sampling, base: LanguageModel, *, prompts: int = 64, texts: int = 16
) -> dict[str, float]:
    """What a run keeps, how much of it is good pidgin, and its nats from `base` as that predicts, when it is drawn with
    a temperature or min_p: what these change counts too, exact over the vocabulary at each token."""
    asked = [one for one in wished(run.tokenizer, prompts, seed=0) for _ in range(texts)]
    requests = [TextRequest(one.prompt, 0, number) for number, one in enumerate(asked)]
    tokens = room_for(asked, run.model, run.tokenizer, None)
    engine = Engine(run.model, run.tokenizer)
    samples = in_order(
        one for one, _ in engine.write_each(requests, tokens=tokens, sampling=sampling, within=True)
    )
    batch = as_batch([(list(one.prompt), sample.ids) for one, sample in zip(asked, samples, strict=True)])
    total = 0.0
    for part in batch.parts(ROWS):
        with torch.no_grad():
            logits = run.model(torch.from_numpy(part.inputs)) / sampling.temperature
            logits = keep_min_p(logits, sampling.min_p) if sampling.min_p else logits
            own, other = logits.log_softmax(dim=-1), base(torch.from_numpy(part.inputs)).log_softmax(dim=-1)
        kl = torch.where(own.isfinite(), own.exp() * (own - other), 0.0).sum(dim=-1)  # (B, T)
        total += float(torch.where(torch.from_numpy(part.targets) >= 0, kl, 0.0).sum())
    kept = [Wish.of(one.text).kept(sample.text) for one, sample in zip(asked, samples, strict=True)]
    good = [check(sample.text.strip()).ok for sample in samples]
    return {"keeps": statistics.mean(kept), "pidgin": statistics.mean(good), "nats": total / len(asked)}


def reached(out: Path, seed: int, texts: int) -> dict[str, Any]:
    """What a seed's run keeps, at which distance, and what was possible there."""
    kept = out / f"rl-{seed}.reached.json"
    if kept.is_file():
        return dict(json.loads(kept.read_text(encoding="utf-8")))
    run = Run.open(out / f"rl-{seed}")
    wishes, pidgin = (measure(run, gold=named_reward(name)[0], texts=texts) for name in ("wishes", "pidgin"))
    write_page(run, wishes)
    figures, far = wishes.figures, wishes.figures["distance"]
    tuned, cost = figures["tuned"], figures["bits_per_byte"]
    before = Run.open(out / f"sft-{seed}")
    assert run.started is not None, "the run keeps what it started from"
    own = json.loads((run.path / "evaluation.json").read_text(encoding="utf-8"))
    found = {
        "seed": seed,
        "SFT keeps": figures["base"]["mean"],
        "RL keeps": tuned["mean"],
        "from": tuned["low"],
        "to": tuned["high"],
        "with min_p, SFT": own["wishes"]["before"]["mean"],
        "with min_p, RL": own["wishes"]["kept"]["mean"],
        "nats": tuned["kl"]["mean"],
        "ceiling there": far["ceiling_at_kl"] or float(wishes.ceiling.curve.reward[-1]),
        "nats needed": far["kl_needed"],
        "best-of-n there": far["best_of_n_at_kl"] or float(wishes.ceiling.best_of_n.reward[-1]),
        "wins": figures["win_rate"]["mean"],
        "wins from": figures["win_rate"]["low"],
        "pidgin, SFT": pidgin.figures["base"]["mean"],
        "pidgin, RL": pidgin.figures["tuned"]["mean"],
        "pidgin with min_p, RL": own["stories"]["passed"] / own["stories"]["written"],
        "nats with min_p, RL": drawn(run, sampling_of(run.config.sampling), run.started, texts=4)["nats"],
        "bits per byte": None if cost["after"] is None else cost["after"] - cost["before"],
    }
    for name, one in (("SFT", before), ("RL", run)):
        cold = drawn(one, Sampling(temperature=COLD), before.model)
        found |= {f"{figure}, {name} at T={COLD}": value for figure, value in cold.items()}
    kept.write_text(json.dumps(found), encoding="utf-8")
    return found


def shown(name: str, value: Any) -> str:
    """A cell of the table."""
    if value is None:
        return "–"
    form = (
        "{}"
        if name == "seed"
        else "{:.2f}"
        if "nats" in name
        else "{:+.4f}"
        if name == "bits per byte"
        else "{:.1%}"
    )
    return form.format(value)


def mean(name: str, values: Sequence[float]) -> str:
    """The mean of seeds, with its interval where there are several of them."""
    if not values:
        return "–"
    said = shown(name, statistics.mean(values))
    if len(values) < 2 or name.endswith(("from", "to")):
        return said
    half = student(len(values) - 1, 0.05) * statistics.stdev(values) / len(values) ** 0.5
    return f"{said} ± {shown(name, half).lstrip('+')}"


def page(rows: Sequence[dict[str, Any]], seconds: Sequence[dict[str, float | None]], texts: int) -> str:
    """The results for people: a row for each figure, a column for each seed."""
    said = [
        "# Wishes for a story: demo, SFT, RL",
        "",
        f"`python benchmarks/wishes.py`: {len(rows)} seeds, {texts:,} texts of each model after held-out wishes, drawn",
        "as the model predicts; with min_p, as the recipe samples. Intervals: 95 %, prompts and texts drawn again;",
        "behind a mean 95 %, by the scatter of the seeds (Student's t).",
        "Where the base's texts do not carry the ceiling or best-of-n so far, its last point stands there, which is",
        "lower. SFT is what RL started from; bits per byte is what RL added on the demo's validation text. Nats with",
        "min_p are those from SFT as it predicts, with what min_p leaves out; so are those at a lower temperature, of",
        "which SFT's is the control.",
        "",
        "| " + " | ".join(["", *(f"seed {row['seed']}" for row in rows), "mean"]) + " |",
        "| " + " | ".join("---" for _ in range(len(rows) + 2)) + " |",
    ]
    for name in rows[0]:
        values = [row[name] for row in rows]
        known = [value for value in values if value is not None]
        if name != "seed":
            cells = [shown(name, value) for value in values]
            said.append("| " + " | ".join([name, *cells, mean(name, known)]) + " |")
    known = {name: [value for one in seconds if (value := one[name]) is not None] for name in STEPS}
    spent = "; ".join(f"{name} {statistics.mean(values):.0f}" for name, values in known.items() if values)
    return (
        "\n".join([*said, "", f"Processor seconds, one thread on a machine with other work: {spent}."]) + "\n"
    )


def main() -> None:
    """Take the road for each seed, judge and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--texts", type=int, default=1024)
    parser.add_argument("--results", type=Path, help="a file for the table")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    options = parser.parse_intermixed_args()
    options.out.mkdir(parents=True, exist_ok=True)
    seconds = [road(options.out, seed, options.overrides) for seed in options.seeds]
    rows = [reached(options.out, seed, options.texts) for seed in options.seeds]
    text = page(rows, seconds, options.texts)
    print(text)
    if options.results is not None:
        options.results.write_text(text, encoding="utf-8")
    finish({"seeds": rows, "seconds": seconds, "load": load()})


if __name__ == "__main__":
    main()
