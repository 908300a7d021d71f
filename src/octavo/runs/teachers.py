"""The teachers of a run: finished runs whose predictions it learns from, and what they write for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file, save_file

from octavo.config import Recipe
from octavo.dataset import Dataset
from octavo.dataset.batches import Batches, Together
from octavo.errors import CheckpointError, InputError
from octavo.generation import Sampling
from octavo.generation.engine import fastest_decoder
from octavo.model.gpt import GPT
from octavo.runs.console import Console
from octavo.runs.data import batches_over
from octavo.runs.run import Run
from octavo.training.checkpoint import file_hash, read_json, storage_errors
from octavo.training.teaching import Teachers
from octavo.training.world import World

STREAMS = 64  # written side by side
WINDOWS = 16  # of the model's context that a text goes on for
OPENING = 16  # tokens of the training text that a teacher goes on from


@dataclass(frozen=True)
class Written:
    """What the teachers wrote: ids (N,), and where each text begins in them."""

    tokens: np.ndarray
    starts: np.ndarray


def open_teachers(
    recipe: Recipe, dataset: Dataset, console: Console, earlier: Mapping[str, Any] | None = None
) -> list[Run]:
    """The runs that the recipe names. `earlier` is the manifest of a run that goes on.

    Raises InputError where one cannot teach this model, CheckpointError where it is not the one that taught it before.
    """
    runs = [Run.open(path) for path in recipe.training.teachers.runs]
    before = [teacher["sha256"] for teacher in earlier["teachers"]] if earlier and runs else []
    for run, known in zip(runs, before, strict=bool(before)):
        if weights_hash(run) != known:
            raise CheckpointError(
                f"{run.checkpoint.folder} is not what taught this run when it began.",
                remedy="bring the old weights back, or start a new run with another --out",
            )
    for run, path in zip(runs, recipe.training.teachers.runs, strict=True):
        if run.tokenizer.fingerprint() != dataset.tokenizer.fingerprint():
            raise InputError(
                f"{path} has another tokenizer, so its predictions are of other tokens.",
                remedy="train it on the same text with the same tokenizer",
            )
        if run.config.model.context < recipe.model.context:
            raise InputError(
                f"{path} sees {run.config.model.context} positions; this model has {recipe.model.context}.",
                remedy=f"model.context={run.config.model.context}, or another teacher",
            )
        if not read_same_text(run, dataset):
            console.say(
                f"warning: {path} was not trained on this very text and split, so it may have read what this run is "
                "judged on"
            )
    return runs


def read_same_text(run: Run, dataset: Dataset) -> bool:
    """Whether a run is known to have learned from this dataset's training split."""
    if run.folder is None or not run.folder.manifest.is_file():
        return False
    data = read_json(run.folder.manifest)["data"]
    return all(data.get(key) == dataset.manifest.get(key) for key in ("text", "split", "validation"))


def to_ask(runs: Sequence[Run], recipe: Recipe, device: torch.device) -> Teachers | None:
    """The runs' models on a device, ready to be asked by the recipe's training."""
    models = [run.model.to(device) for run in runs]
    return Teachers(models, weight=recipe.training.teachers.weight) if models else None


def described(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """For the manifest: which weights teach."""
    return [
        {"checkpoint": str(run.checkpoint.folder), "step": run.step, "sha256": weights_hash(run)}
        for run in runs
    ]


def weights_hash(run: Run) -> str:
    """SHA-256 of a run's weights."""
    return file_hash(run.checkpoint.folder / "model.safetensors")


def with_written(
    batches: Batches,
    runs: Sequence[Run],
    recipe: Recipe,
    dataset: Dataset,
    path: Path,
    console: Console,
    world: World,
) -> Batches:
    """The batches, and beside them what the teachers write; `path` holds that from one session of a run to the next.

    Of several processes the first one sees to the writing.
    """
    tokens = recipe.training.teachers.written
    if not tokens:
        return batches
    if world.first and not path.is_file():
        with world.apart("busy", "the teachers' text"):
            keep(write([run.model for run in runs], dataset, tokens, seed=recipe.seed, console=console), path)
    world.tell(None)
    held = load_file(path)
    written = Written(held["tokens"], held["starts"])
    rows = recipe.training.batch - recipe.training.text_rows
    return Together(batches, batches_over(written, recipe, dataset.tokenizer, rows=rows))


def keep(written: Written, path: Path) -> None:
    """Save it whole or not at all."""
    aside = path.with_name(f".{path.name}")
    with storage_errors(path.parent):
        save_file({"tokens": written.tokens, "starts": written.starts}, aside)
        aside.replace(path)


def write(models: Sequence[GPT], dataset: Dataset, tokens: int, *, seed: int, console: Console) -> Written:
    """At least so many tokens, the models in turn, each text going on from a piece of the training split.

    Where that has documents between marks, texts are documents and end like these.
    """
    mark = end_mark(dataset)
    texts: list[np.ndarray] = []
    count, turn = 0, 0
    with console.working("the teachers write", tokens):
        while count < tokens:
            random = np.random.Generator(np.random.Philox(key=[seed, turn]))
            opening = openings(dataset, random, documents=mark is not None)
            before = (
                mark if mark == dataset.tokenizer.start else None
            )  # one mark for both stands once between texts
            new = texts_of(models[turn % len(models)], opening, random, before=before, end=mark)
            texts += new
            count, turn = count + sum(map(len, new)), turn + 1
            console.advance(min(count, tokens), f"{count:,} tokens")
    console.say(f"the teachers wrote {count:,} tokens in {len(texts):,} texts")
    starts = np.cumsum([0, *map(len, texts[:-1])])
    return Written(np.concatenate(texts).astype(np.uint32), starts.astype(np.uint64))


def end_mark(dataset: Dataset) -> int | None:
    """What ends each document of the training split, where something does."""
    end = dataset.tokenizer.end
    return end if end is not None and dataset.train.tokens[-1] == end else None


def openings(dataset: Dataset, random: np.random.Generator, *, documents: bool) -> torch.Tensor:
    """Pieces of the training split, (STREAMS, ≤ OPENING): the beginnings of documents, or from anywhere."""
    tokens = np.asarray(dataset.train.tokens)
    length = min(OPENING, len(tokens) - 1)
    begins = np.arange(len(tokens) - length)
    if documents:
        starts = dataset.train.starts.astype(np.int64)
        sizes = np.diff(np.append(starts, len(tokens)))
        length = min(length, int(sizes.max()) - 1)  # without its end
        begins = starts[sizes > length]
    chosen = begins[random.integers(0, len(begins), STREAMS)]
    return torch.from_numpy(tokens[chosen[:, None] + np.arange(length)].astype(np.int64))


@torch.no_grad()
def texts_of(
    model: GPT, opening: torch.Tensor, random: np.random.Generator, *, before: int | None, end: int | None
) -> list[np.ndarray]:
    """What a model makes of each opening (B, P), drawn at temperature 1: to the `end` mark, or for WINDOWS contexts.

    It reads the `before` mark first, which is no part of the text.
    """
    device = next(model.parameters()).device
    step, sampling = fastest_decoder(model.eval())(model, batch=len(opening)), Sampling()
    rows, fresh = [opening], opening
    if before is not None:
        fresh = torch.cat((torch.full((len(opening), 1), before), opening), dim=1)
    unfinished = torch.ones(len(opening), dtype=torch.bool)
    for _ in range(WINDOWS * model.context):
        uniform = torch.from_numpy(random.random(len(opening)))
        fresh = sampling.choose(step(fresh.to(device)).cpu(), uniform)[:, None]
        rows.append(fresh)
        unfinished &= fresh[:, 0] != (-1 if end is None else end)
        if not unfinished.any():
            break
    written = torch.cat(rows, dim=1).numpy()
    return list(written) if end is None else [ended(row, end) for row in written]


def ended(row: np.ndarray, end: int) -> np.ndarray:
    """A row up to its first end mark; one that has none gets it."""
    found = np.flatnonzero(row == end)
    return row[: found[0] + 1] if len(found) else np.append(row, end)
