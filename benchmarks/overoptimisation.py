"""Gao et al. (2022) on a laptop: how far a learned reward can be followed before the gold one turns down.

    python benchmarks/overoptimisation.py --base RUN --out FOLDER [--pairs 64 512] [--seeds 0 1 2]
        [--prompts 32] [--texts 128] [--rl STEPS] [--results FILE]

RUN answers wishes for stories, and not too well, so that there is something to gain: `octavo tune sft DEMO --recipe
pidgin-wishes corpus.stories=5000`. Gold is what nobody has to learn: the wishes that are kept, and half as much for
good pidgin. A reward model learns from so many comparisons of RUN's stories, judged by the gold. Then its best-of-n is
taken, n from 1 to `--texts`, after held-out wishes: its own mean, the gold one, and what best-of-n by the gold itself
would have. The KL is log n − (n − 1)/n, exact where no two stories tie. With `--rl`, so many steps of reinforcement
learning are paid by the reward of the most comparisons, and as many by the gold, and stories are judged on the way.

Each seed has comparisons, a reward model and a tuning of its own. Runs that FOLDER has already are taken as they are.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import octavo
from common import finish, load
from octavo.generation import Sample
from octavo.run.run import Run
from octavo.run.trainer import Trainer
from octavo.studies.chance import student
from octavo.synthetic.wishes import WishesSource
from octavo.tasks.chat.prompts import wished
from octavo.training.loop import StepInfo
from octavo.tuning.ceiling import judged_by_prompt, written
from octavo.tuning.prompts import Question, question
from octavo.tuning.rewards.base import RewardConfig, RewardHolder
from octavo.tuning.rollouts import as_batch, compared, room_for

GOLD = {"kind": "sum", "of": [{"reward": "wishes"}, {"reward": "pidgin", "weight": 0.5}]}
DRAWS = 1000
SEEN = 2000
"""Comparisons that a reward model sees at least, each of few several times."""
LOOKS = 6
"""Times that a tuning is looked at."""


def reward_of(plain: object) -> RewardConfig:
    """A reward from plain data."""
    return RewardHolder.model_validate({"reward": plain}).reward


def stories(model: Any, run: Run, asked: Sequence[Question], count: int, seed: int) -> list[list[Sample]]:
    """What a model writes after each prompt."""
    tokens = room_for(asked, model, run.tokenizer, None)
    return written(model, run.tokenizer, asked, samples=count, tokens=tokens, within=True, seed=seed)


def comparisons(run: Run, path: Path, count: int, seed: int) -> float:
    """Write so many pairs of the run's stories, the better one by the gold first; returns the share of pairs that tied,
    of which nobody learns."""
    wanted = {
        wish.text: None for wish, _ in WishesSource(stories=6 * count, seed=1000 + seed).build().pairs()
    }
    found: list[dict[str, str]] = []
    tried = 0
    for at in range(0, len(wanted), 128):
        asked = [question(text, run.tokenizer) for text in list(wanted)[at : at + 128]]
        both = stories(run.model, run, asked, 2, seed=10_000 * (seed + 1) + at)
        gold = judged_by_prompt(reward_of(GOLD).build(), asked, both).rewards
        for one, texts, worth in zip(asked, both, gold, strict=True):
            tried += 1
            if worth[0] != worth[1]:
                better, worse = sorted((0, 1), key=lambda side: -worth[side])
                found.append(
                    {"prompt": one.text, "chosen": texts[better].text, "rejected": texts[worse].text}
                )
        if len(found) >= count:
            break
    lines = [json.dumps(pair) for pair in found[:count]]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 1 - len(found) / tried


def learned(base: Path, out: Path, pairs: Path, count: int, seed: int) -> Path:
    """The reward model of the first `count` comparisons."""
    run = out / f"reward-{seed}-{count}"
    if not run.is_dir():
        few = out / f"pairs-{seed}-{count}.jsonl"
        few.write_text("".join(pairs.read_text("utf-8").splitlines(keepends=True)[:count]), encoding="utf-8")
        words = [
            sys.executable,
            "-m",
            "octavo",
            "tune",
            "reward",
            base,
            "--text",
            few,
            "--out",
            run,
            "--quiet",
        ]
        words += [f"seed={seed}", "training.threads=1", "validation=0.15", "evaluation.every=0.1"]
        words += ["training.checkpoint_every=0.25", f"training.epochs={max(3, SEEN // count)}"]
        words += ["training.optimizer.learning_rate=0.001"]
        subprocess.run(list(map(str, words)), check=True)
    return run


def best_of(proxy: np.ndarray, gold: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The proxy's and the gold reward of the best of n by the proxy, for each prompt (P,) the mean over every choice of
    n of its M texts (P, M). Texts that tie stand for each other."""
    count = proxy.shape[1]
    order = np.argsort(proxy, axis=1, kind="stable")
    ranks = np.arange(count)
    weight = np.array([math.comb(int(rank), n - 1) / math.comb(count, n) for rank in ranks])
    ordered = np.take_along_axis(proxy, order, axis=1)
    worth = np.take_along_axis(gold, order, axis=1)
    for row, values in zip(worth, ordered, strict=True):  # of equal proxies each is as likely taken
        _, group = np.unique(values, return_inverse=True)
        row[:] = (np.bincount(group, weights=row) / np.bincount(group))[group]
    return ordered @ weight, worth @ weight


def curves(proxies: Sequence[np.ndarray], gold: np.ndarray, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """Of each n: KL, the proxies' gain in their own deviations, the gold reward, and the interval (95 %) of its gain
    over the base, seeds and prompts drawn again; also that of what is lost against the best n."""
    scaled = [(proxy - proxy.mean()) / proxy.std() for proxy in proxies]
    table = np.array([[best_of(proxy, gold, n) for n in numbers] for proxy in scaled])  # (S, N, 2, P)
    random = np.random.default_rng(0)
    seeds, prompts = len(scaled), gold.shape[0]
    drawn = np.array(
        [
            table[random.integers(0, seeds, seeds)][..., random.integers(0, prompts, prompts)].mean((0, 3))
            for _ in range(DRAWS)
        ]
    )  # (D, N, 2)
    means = table.mean((0, 3))
    top = int(means[:, 1].argmax())
    rows = []
    for at, n in enumerate(numbers):
        low, high = np.percentile(drawn[:, at, 1] - drawn[:, numbers.index(1), 1], (2.5, 97.5))
        lost = drawn[:, top, 1] - drawn[:, at, 1]
        rows.append(
            {
                "n": n,
                "kl": math.log(n) - (n - 1) / n,
                "proxy": float(means[at, 0]),
                "gold": float(means[at, 1]),
                "low": float(low),
                "high": float(high),
                "below_top": [float(v) for v in np.percentile(lost, (2.5, 97.5))],
            }
        )
    return rows


class Watched:
    """Judges a tuning on the way: stories after held-out wishes, by the reward that pays and by the gold."""

    def __init__(self, base: Run, asked: Sequence[Question], proxy: RewardConfig, texts: int) -> None:
        self.base, self.asked, self.texts = base, asked, texts
        self.proxy, self.gold = proxy.build(), reward_of(GOLD).build()
        self.rows: list[dict[str, float]] = []

    def look(self, session: Trainer, info: StepInfo) -> None:
        """See `octavo.Hook`."""
        model = session.model.eval()
        found = stories(model, self.base, self.asked, self.texts, seed=77)
        pairs = [(one.prompt, text.ids) for one, row in zip(self.asked, found, strict=True) for text in row]
        batch = as_batch([(list(prompt), ids) for prompt, ids in pairs])
        self.rows.append(
            {
                "step": info.step,
                "kl": float(compared(model, self.base.model, batch)["kl"].sum(1).mean()),
                "proxy": float(np.nanmean(judged_by_prompt(self.proxy, self.asked, found).rewards)),
                "gold": float(np.nanmean(judged_by_prompt(self.gold, self.asked, found).rewards)),
            }
        )


def tuned(base: Path, out: Path, paid: Any, asked: Sequence[Question], steps: int, seed: int) -> list[Any]:
    """A tuning that a reward pays, and what it had reached on the way."""
    name = f"rl-gold-{seed}" if paid == GOLD else f"rl-{seed}"
    kept = out / f"{name}.json"
    if not kept.is_file():
        watched = Watched(Run.open(base), asked, reward_of(paid), texts=8)
        overrides = {
            "training.start_from": str(base),
            "training.steps": steps,
            "training.threads": 1,
            "training.optimizer.learning_rate": 5e-4,
            "evaluation.every": 0.5,
            "objective.reward": paid,
            "objective.credit": 1.0,
            "objective.beta": 0.0,
            "seed": seed,
        }
        hook = octavo.Hook(every=max(1, steps // LOOKS), work=watched.look, first=True)
        octavo.train("pidgin-wishes-rl", out=out / name, overrides=overrides, hooks=[hook], quiet=True)
        kept.write_text(json.dumps(watched.rows), encoding="utf-8")
    return list(json.loads(kept.read_text("utf-8")))


def page(found: dict[str, Any]) -> str:
    """The results for people."""
    said = [
        "# Over-optimisation: a learned reward, and the gold one",
        "",
        f"`python benchmarks/overoptimisation.py`: {found['seeds']} seeds of comparisons and reward model,",
        f"{found['prompts']} held-out wishes, {found['texts']} stories of each. Gold is at most 1.5; the base has",
        f"{found['base']:.3f}. {found['tied']:.0%} of the pairs tied and taught nothing. Intervals: 95 %, seeds and",
        "prompts drawn again. The proxy's gain is in deviations of the base's stories.",
        "",
    ]
    for count, rows in found["curves"].items():
        right = found["accuracy"].get(count)
        named = "Best-of-n by the gold itself" if count == "gold" else f"Best-of-n, {count} comparisons"
        said += [f"## {named}" + (f" (right in {right:.1%} of held-out pairs)" if right else ""), ""]
        said += ["| n | KL | proxy | gold | gained, from | to |", "| --- | --- | --- | --- | --- | --- |"]
        said += [
            f"| {row['n']} | {row['kl']:.2f} | {row['proxy']:+.2f} | {row['gold']:.3f} | {row['low']:+.3f} "
            f"| {row['high']:+.3f} |"
            for row in rows
        ]
        said += ["", verdict(rows), ""]
    for name, runs in found["rl"].items():
        said += [f"## Reinforcement learning, paid by {name}", ""]
        said += ["| step | KL | what pays | gold | each seed's gold |", "| --- | --- | --- | --- | --- |"]
        for rows in zip(*runs, strict=True):
            kl, proxy, gold = (np.mean([row[key] for row in rows]) for key in ("kl", "proxy", "gold"))
            each = ", ".join(f"{row['gold']:.3f}" for row in rows)
            said.append(f"| {rows[0]['step']} | {kl:.2f} | {proxy:.2f} | {gold:.3f} | {each} |")
        said += ["", *([tuning_verdict(runs)] if len(runs) > 1 else []), ""]
    return "\n".join(said) + "\n"


def verdict(rows: Sequence[dict[str, Any]]) -> str:
    """Whether the gold turns down, and where."""
    top = max(rows, key=lambda row: row["gold"])
    last = rows[-1]
    low, high = last["below_top"]
    if top is last:
        return f"The gold is highest at the last n, {last['n']}: it does not turn down here."
    lost = (
        f"from there to n = {last['n']} it loses {top['gold'] - last['gold']:.3f} ({low:.3f} to {high:.3f})"
    )
    if low > 0:
        return f"The gold turns down: it is highest at n = {top['n']} ({top['kl']:.2f} nats); {lost}."
    return f"Whether the gold turns down is not known: it is highest at n = {top['n']}; {lost}."


def asked_for() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pairs", type=int, nargs="+", default=[64, 512])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--prompts", type=int, default=32)
    parser.add_argument("--texts", type=int, default=128)
    parser.add_argument("--rl", type=int, default=0, help="steps of reinforcement learning; 0: none")
    parser.add_argument("--results", type=Path)
    return parser.parse_args()


def tuning_verdict(runs: Sequence[Sequence[dict[str, float]]]) -> str:
    """How gold and proxy change from the first look to the last, by the scatter of the seeds."""
    said = []
    for name in ("proxy", "gold"):
        changes = [rows[-1][name] - rows[0][name] for rows in runs]
        half = student(len(changes) - 1, 0.05) * statistics.stdev(changes) / len(changes) ** 0.5
        said.append(f"the {name} by {statistics.mean(changes):+.3f} ± {half:.3f}")
    return f"From the first look to the last {said[0]}, and {said[1]} (95 %, Student's t over the seeds)."


def main() -> None:
    """Write, learn, choose and print."""
    options = asked_for()
    out = options.out
    out.mkdir(parents=True, exist_ok=True)
    base, most = Run.open(options.base), max(options.pairs)
    asked = wished(base.tokenizer, options.prompts, seed=5)

    @cache
    def found() -> list[list[Sample]]:
        return stories(base.model, base, asked, options.texts, seed=3)

    def judged(name: str, plain: object) -> np.ndarray:
        kept = out / f"{name}.npy"
        if not kept.is_file():
            rewards = judged_by_prompt(reward_of(plain).build(), asked, found()).rewards
            # A story that fills the context leaves a reward model no room: it is never the best.
            np.save(kept, np.where(np.isfinite(rewards), rewards, np.nanmin(rewards)))
        return np.load(kept, allow_pickle=False)

    tied = []
    for seed in options.seeds:
        pairs, share = out / f"pairs-{seed}.jsonl", out / f"pairs-{seed}.tied"
        if not share.is_file():
            share.write_text(str(comparisons(base, pairs, most, seed)), encoding="utf-8")
        tied.append(float(share.read_text("utf-8")))
    gold = judged("gold", GOLD)
    numbers = [2**k for k in range(int(math.log2(options.texts)) + 1)]
    result: dict[str, Any] = {"curves": {"gold": curves([gold], gold, numbers)}, "accuracy": {}}
    for count in options.pairs:
        runs = [
            learned(options.base, out, out / f"pairs-{seed}.jsonl", count, seed) for seed in options.seeds
        ]
        proxies = [judged(run.name, {"kind": "model", "run": str(run)}) for run in runs]
        result["curves"][count] = curves(proxies, gold, numbers)
        right = [json.loads((run / "evaluation.json").read_text("utf-8")) for run in runs]
        result["accuracy"][count] = float(np.mean([one["preferences"]["accuracy"]["mean"] for one in right]))
    result["rl"] = {}
    for name in ("the reward of the most comparisons", "the gold itself: a control") if options.rl else ():
        learns = [{"kind": "model", "run": str(out / f"reward-{seed}-{most}")} for seed in options.seeds]
        paid = [GOLD] * len(learns) if "gold" in name else learns
        result["rl"][name] = [
            tuned(options.base, out, one, asked, options.rl, seed)
            for seed, one in zip(options.seeds, paid, strict=True)
        ]
    result |= {"seeds": len(options.seeds), "prompts": len(asked), "texts": options.texts}
    result |= {"base": float(gold.mean()), "tied": float(np.mean(tied))}
    text = page(result)
    print(text)
    if options.results is not None:
        options.results.write_text(text, encoding="utf-8")
    finish({**result, "load": load()})


if __name__ == "__main__":
    main()
