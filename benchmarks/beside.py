"""Counting beside a network: mixed in by a gate, told as features, or given as a prior that the network corrects.

    python benchmarks/beside.py --text TEXT --out beside.jsonl [--budgets "5 seconds" "1 minute"] [--seeds 0 1 2]
        [--keep FOLDER] [--device cuda]
    python benchmarks/beside.py --out beside.jsonl --table results/beside.md

Characters of a text, nanoGPT's split; nats of the whole validation split, each token scored once, after the last step;
mean and standard deviation over seeds. Budgets are steps: what two cores of a laptop take about so long for. What is in
the file is not done again, and other work on the machine spoils nothing; the steps may be taken on a GPU (`--device`).
With a folder to keep them in, runs that were stopped resume.

*alone*: the network without counts.
*features*: logarithms of what the best n-gram predicts, as inputs beside each token (a matrix from the vocabulary to
the width, which begins at zero).
*prior*: the same logarithms, times a number that is learned and begins at 1, are added to the network's logits
(Li et al. 2022).
*gate*: `model.counts=kneser-ney`: all orders and the network, mixed in probability by a gate that learns on text that
is new to both.
*gate, text so far*: the same run with `recent=2000`, a cache (Kuhn and De Mori 1990).

Features and prior learn from counts of the nine other tenths of the training text, for those of all of it know each
token by having seen it; when they are judged, all of the training text is counted.
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

import octavo
from common import above, keep_row, parser_of, run_missing
from octavo.auto.family import SIZES, dropout_for, parameters_of, recipe_of
from octavo.config import Recipe, check, load_recipe, to_yaml
from octavo.data import Dataset
from octavo.data.batch import Batch
from octavo.data.store import TOKENIZER
from octavo.model.base import build_model
from octavo.ngram.kneser_ney import KneserNey, best_order, tables_of
from octavo.run.data import build_dataset
from octavo.run.evaluate import evaluate_split
from octavo.run.folder import RunFolder
from octavo.run.train import train
from octavo.training.checkpoint import Checkpoint, learning_tensors, model_tensors, save_checkpoint
from octavo.training.checkpoint_folder import newest_whole, prune
from octavo.training.device import Runtime, keep_memory
from octavo.training.loop import training_steps
from octavo.training.objective import NEXT_TOKEN
from octavo.training.optimizers import RestConfig, with_base_rates
from octavo.training.step import StepOptions
from octavo.util.terminal import Console

BUDGETS = ("5 seconds", "1 minute", "10 minutes", "60 minutes")
WAYS = ("alone", "features", "prior", "gate")
LONG = {BUDGETS[2]: 2000, BUDGETS[3]: 12_000}
"""Steps of the longer budgets, for a model of the dial's family, with the dropout that so many passes ask for."""
SIZE = SIZES[3]
VOCABULARY = 65  # of TinyShakespeare; others change the number of parameters little
PARTS, HIGHEST, AT_ONCE = 10, 8, 4096
EVERY = 250
"""Steps after which a run that is kept may be stopped."""
SCALE = 4.0
"""Logarithms of probabilities are divided by it, so that features are about as large as a token's vector."""
QUIET = Console(quiet=True)
Row = dict[str, Any]


def settings(budget: str, text: Path, seed: int, device: str = "cpu") -> dict[str, Any]:
    """The recipe of a budget, as plain data, without counts."""
    if budget in LONG:
        steps, tokens = LONG[budget], 0.9 * len(text.read_text(encoding="utf-8"))
        worn = parameters_of(SIZE, VOCABULARY) / tokens
        dropout = dropout_for(steps * SIZE.step_tokens / tokens, worn)
        tree = recipe_of(SIZE, steps=steps, dropout=dropout, tokenizer={"kind": "char"})
        tree["model"]["counts"] = "none"
        del tree["test"]
    else:
        name = "shakespeare-char-quick" if budget == BUDGETS[0] else "shakespeare-char-modern"
        tree = load_recipe(name).model_dump(mode="json")
    tree |= {"seed": seed, "corpus": {"kind": "files", "paths": [str(text)]}}
    tree |= {"split": "contiguous", "validation": 0.1}
    steps = tree["training"]["steps"]
    tree["evaluation"] |= {"every": steps, "tokens": None}
    tree["training"] |= {"precision": "float32", "threads": 1, "keep": 1, "checkpoint_every": EVERY}
    tree["training"]["device"] = device
    return tree


class Counted:
    """Logarithms (N, V) of what the best n-gram predicts after each token of both splits."""

    def __init__(self, dataset: Dataset) -> None:
        self.tokenizer = dataset.folder / TOKENIZER
        self.vocabulary = dataset.tokenizer.vocab_size
        self.train, self.held_out = (
            np.asarray(split.tokens).astype(np.int64) for split in (dataset.train, dataset.validation)
        )
        self.order = best_order(self.train, vocab_size=self.vocabulary, highest=HIGHEST)
        ends = np.linspace(0, len(self.train), PARTS + 1).astype(int)
        self.of_train = np.concatenate(
            [
                self._of(np.delete(self.train, np.s_[begin:end]), self.train[begin:end])
                for begin, end in itertools.pairwise(ends)
            ]
        )
        self.of_held_out = self._of(self.train, self.held_out)

    def _of(self, counted: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        tables = tables_of(KneserNey(counted, vocab_size=self.vocabulary, highest=self.order))
        places = tables.contexts(tokens[None])[0]
        weights = np.zeros((AT_ONCE, 1 + self.order), np.float32)
        weights[:, self.order] = 1
        found = np.empty((len(tokens), self.vocabulary), np.float32)
        for begin in range(0, len(tokens), AT_ONCE):
            some = np.ascontiguousarray(places[begin : begin + AT_ONCE])
            p = np.zeros((len(some), self.vocabulary), np.float32)
            tables.mix(some, weights[: len(some)], p)
            found[begin : begin + AT_ONCE] = np.log(np.maximum(p, 1e-9))
        return found


class Beside(nn.Module):
    """A network that is told what counting predicts: nothing of it (alone), as features, or as a prior."""

    def __init__(self, network: Any, way: str, *, width: int, vocab_size: int) -> None:
        super().__init__()
        self.network, self.way = network, way
        self.told: Tensor | None = None
        if way == "features":
            self.matrix = nn.Parameter(torch.zeros(vocab_size, width))
            network.embedding.register_forward_hook(self._with_features)
        elif way == "prior":
            self.share = nn.Parameter(torch.ones(()))

    def own(self) -> list[nn.Parameter]:
        """What is not the network's."""
        return list(self.parameters(recurse=False))

    def _with_features(self, _: nn.Module, __: Any, embedded: Tensor) -> Tensor:
        assert self.told is not None
        level = math.log(self.told.size(-1))
        return embedded + (self.told + level) / SCALE @ self.matrix

    def forward(self, tokens: Tensor, *, values: Tensor) -> Tensor:
        """Logits (B, T, V); `values` (B, T, V) are the logarithms."""
        self.told = values
        logits = self.network(tokens)
        return logits + self.share * values if self.way == "prior" else logits


def learned(recipe: Recipe, counted: Counted, way: str, kept: Path | None) -> float:
    """Nats after a training of a network that is alone, or told of counts; its checkpoints are `kept` in a folder."""
    context, rows, seed = recipe.model.context, recipe.training.batch, recipe.seed
    network = build_model(recipe.model, vocab_size=counted.vocabulary, seed=seed)
    model = Beside(network, way, width=recipe.model.width, vocab_size=counted.vocabulary)
    model.to(recipe.training.device)
    optimizers = recipe.training.optimizer.build(network)
    if own := model.own():
        optimizers += with_base_rates([RestConfig(learning_rate=0.01, weight_decay=0.0).over(own)])
    random, last = np.random.default_rng(seed), len(counted.train) - context

    def batch(step: int, micro: int) -> Batch[np.ndarray]:
        places = random.integers(0, last, rows)[:, None] + np.arange(context)
        return Batch(counted.train[places], counted.train[places + 1], values=counted.of_train[places])

    steps, done = recipe.training.steps, resumed(kept, model, optimizers)
    for _ in range(done):  # the same places as without a stop
        random.integers(0, last, rows)
    for info in training_steps(
        model,
        optimizers,
        batch,
        steps=range(done, steps),
        seed=seed,
        schedule=recipe.training.schedule.build(steps=steps),
        options=StepOptions(clip=recipe.training.clip),
    ):
        if kept and info.step % EVERY == 0:
            save_checkpoint(
                kept,
                info.step,
                weights=model_tensors(model),
                memory=learning_tensors(model, optimizers),
                state={},
                config=to_yaml(recipe),
                tokenizer=counted.tokenizer,
                version=octavo.__version__,
            )
            prune(kept, keep=1, always=())
    return judged(model, counted, context)


def resumed(kept: Path | None, model: nn.Module, optimizers: Sequence[Optimizer]) -> int:
    """Steps of the newest checkpoint there, which model and optimizers are filled with; 0 where there is none."""
    newest = newest_whole(kept)[0] if kept else None
    if newest is None:
        return 0
    checkpoint = Checkpoint(newest.folder)
    checkpoint.load_model(model)
    checkpoint.load_optimizers(optimizers)
    return newest.step


@torch.no_grad()
def judged(model: nn.Module, counted: Counted, context: int) -> float:
    """Nats a token of the validation split, in adjacent rows."""
    model.eval()
    total, device = 0.0, next(model.parameters()).device
    for batch in rows_of(counted, context):
        total += float(NEXT_TOKEN.evaluate(model, batch.to(device)).losses.sum())
    return total / (len(counted.held_out) - 1)


def rows_of(counted: Counted, context: int) -> Iterator[Batch[Tensor]]:
    """The validation split, row by row, the rest of it last."""
    tokens, values = (torch.from_numpy(each) for each in (counted.held_out, counted.of_held_out))
    whole = (len(tokens) - 1) // context
    starts = torch.arange(whole) * context
    for some in starts.split(64):
        places = some[:, None] + torch.arange(context)
        yield Batch(tokens[places], tokens[places + 1], values=values[places])
    if (begin := whole * context) < len(tokens) - 1:
        rest = slice(begin, len(tokens) - 1)
        yield Batch(tokens[None, rest], tokens[None, begin + 1 :], values=values[None, rest])


def mixed(tree: dict[str, Any], text: Path, dataset: Dataset, kept: Path | None) -> dict[str, float]:
    """Nats of a run with counts, by a gate alone and with what the text has said so far; the run may be `kept`."""
    tree["model"]["counts"] = {"kind": "kneser-ney", "recent": 2000}
    recipe = check(tree)
    with tempfile.TemporaryDirectory(prefix="octavo-beside-") as folder:
        place = kept or Path(folder) / "run"
        run = train(tree, text, place, resume=RunFolder(place).config.is_file(), quiet=True)
        model: Any = run.model
        runtime = Runtime(torch.device(recipe.training.device), "float32", 1)
        both = evaluate_split(model, dataset.validation, recipe, dataset.tokenizer, runtime).loss
        model.counts.recent = None
        gate = evaluate_split(model, dataset.validation, recipe, dataset.tokenizer, runtime).loss
    return {"gate": gate, "gate, text so far": both}


def missing(given: argparse.Namespace, rows: list[Row]) -> None:
    """Train what is not in the file."""
    there = {(row["text"], row["budget"], row["way"], row["seed"]) for row in rows}
    dataset = build_dataset(check(settings(BUDGETS[1], given.text, 0)), QUIET)
    counted: Counted | None = None
    for budget, seed, way in itertools.product(given.budgets, given.seeds, given.ways):
        if (given.text.stem, budget, way, seed) in there:
            continue
        tree = settings(budget, given.text, seed, given.device)
        name = f"{given.text.stem}, {budget}, {way}, {seed}"
        kept = given.keep / name if given.keep else None
        if way == "gate":
            found = mixed(tree, given.text, dataset, kept)
        else:
            counted = counted or Counted(dataset)
            found = {way: learned(check(tree), counted, way, kept)}
        for judge, loss in found.items():
            row = {"text": given.text.stem, "budget": budget, "way": judge, "seed": seed}
            keep_row(
                row | {"loss": loss, "steps": tree["training"]["steps"], **at(given.device)}, rows, given.out
            )


def at(device: str) -> Row:
    """Where steps were taken, if not on the processor."""
    return {"device": torch.cuda.get_device_name(device)} if device != "cpu" else {}


def table(rows: list[Row]) -> list[Row]:
    """A line for each budget and way."""
    found = []
    for text, budget, way in dict.fromkeys((row["text"], row["budget"], row["way"]) for row in rows):
        mine = [row for row in rows if (row["text"], row["budget"], row["way"]) == (text, budget, way)]
        losses = [row["loss"] for row in mine]
        found.append(
            {
                "text": text,
                "budget": budget,
                "way": way,
                "steps": mine[0]["steps"],
                "nats": f"{statistics.mean(losses):.4f}",
                "sd": round(statistics.stdev(losses), 4) if len(losses) > 1 else None,
                "runs": len(losses),
            }
        )
    order = [*WAYS, "gate, text so far"]
    return sorted(found, key=lambda line: (BUDGETS.index(line["budget"]), order.index(line["way"])))


def main() -> None:
    """The missing runs, the table, a JSON line."""
    parser = parser_of(__doc__)
    parser.add_argument("--budgets", nargs="+", choices=BUDGETS, default=BUDGETS)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--keep", type=Path, help="a folder in which runs that were stopped are found again")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="that takes the steps")
    given = parser.parse_args()
    torch.set_num_threads(1)
    keep_memory()

    def page(rows: list[Row]) -> str:
        elsewhere = [row for row in rows if "device" in row]
        where = sorted({f"{row['way']} ({row['budget']}, {row['device']})" for row in elsewhere})
        taken = f"; on a GPU {len(elsewhere)} runs of {', '.join(where)}" if where else ""
        return above("Counting beside a network", __doc__, f"one thread{taken}")

    run_missing(given, missing, table, page)


if __name__ == "__main__":
    main()
