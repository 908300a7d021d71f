"""The teachers of a run: finished runs whose predictions it learns from, and what they write for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from torch import Tensor, nn

from octavo.config import Recipe
from octavo.data import Dataset
from octavo.data.batch import Batch
from octavo.data.batches import Batches, SlidingConfig, Together
from octavo.errors import CheckpointError, InputError
from octavo.generation import Precision, Sampling
from octavo.generation.engine import fastest_decoder
from octavo.generation.streams import as_array
from octavo.model.base import LanguageModel
from octavo.run.data import batches_over
from octavo.run.folder import RunFolder
from octavo.run.run import Run
from octavo.training.device import fast_bfloat16
from octavo.training.distill import Distillation
from octavo.training.distributed.parallel import World
from octavo.training.objective import Objective
from octavo.util.files import file_hash, storage_errors, written_aside
from octavo.util.terminal import Console

STREAMS = 64  # written side by side
LONGEST = 16  # of the model's contexts: where a document that does not end is ended
OPENING = 16  # tokens of the training text that a teacher continues


@dataclass(frozen=True)
class TeacherText:
    """What the teachers wrote: ids (N,), and where each text begins in them."""

    tokens: np.ndarray
    starts: np.ndarray


def teachers_of(recipe: Recipe) -> list[Run]:
    """The runs that the recipe names. Raises InputError if one has a shorter context than this model, or cannot read
    what it learns from."""
    context = recipe.model.context
    runs = [Run.open(path) for path in recipe.training.teachers.runs]
    fields = [name for name, _ in recipe.batches.example(1, 1).items()]
    for run, path in zip(runs, recipe.training.teachers.runs, strict=True):
        if wrong := run.config.unread(fields):
            raise InputError(
                f"{path} cannot teach this model: {wrong}.", remedy="a teacher of the same kind of model"
            )
        if run.config.model.context < context:
            raise InputError(
                f"{path} sees {run.config.model.context} positions; this model has {context}.",
                remedy=f"model.context={run.config.model.context}, or another teacher",
            )
    return runs


def open_teachers(
    recipe: Recipe, dataset: Dataset, console: Console, earlier: Mapping[str, Any] | None = None
) -> list[Run]:
    """The runs that teach on a dataset. `earlier` is the manifest of a run that resumes.

    Raises InputError if one cannot teach this model, CheckpointError if it is not the one that taught it before.
    """
    runs = known_as_before(teachers_of(recipe), earlier)
    for run, path in zip(runs, recipe.training.teachers.runs, strict=True):
        if run.tokenizer.fingerprint() != dataset.tokenizer.fingerprint():
            raise InputError(
                f"{path} has another tokenizer, so its predictions are of other tokens.",
                remedy="train it on the same text with the same tokenizer",
            )
        if not read_same_text(run, dataset):
            console.say(
                f"warning: {path} was not trained on this very text and split, so it may have read what this run is "
                "evaluated on"
            )
    return runs


def known_as_before(runs: list[Run], earlier: Mapping[str, Any] | None) -> list[Run]:
    """The teachers of a run. `earlier` is the manifest of one that resumes; raises CheckpointError where it names
    others."""
    before = [teacher["sha256"] for teacher in earlier.get("teachers", [])] if earlier and runs else []
    for run, known in zip(runs, before, strict=bool(before)):
        if weights_hash(run) != known:
            raise CheckpointError(
                f"{run.checkpoint.folder} is not what taught this run when it began.",
                remedy="bring the old weights back, or start a new run with another --out",
            )
    return runs


def read_same_text(run: Run, dataset: Dataset) -> bool:
    """Whether a run is known to have learned from this dataset's training split."""
    manifest = run.folder.made_by() if run.folder else None
    if manifest is None:
        return False
    data = manifest["data"]
    return all(data.get(key) == dataset.manifest.get(key) for key in ("text", "split", "validation", "test"))


def objective_of(recipe: Recipe, teachers: Sequence[nn.Module], device: torch.device) -> Objective:
    """The objective of a recipe's model, including the teachers' networks, which are then on the device."""
    own = recipe.objective.build()
    return ByNetworks(own, [model.to(device) for model in teachers], weight=recipe.training.teachers.weight)


class ByNetworks(Distillation):
    """Teachers that are networks alone: counts of the text know what comes in it. Of a model with counts, only the
    network is taught; the rows that its gate learns from have the text alone as their teacher."""

    @torch.no_grad()
    def soft_targets(self, batch: Batch[Tensor], *, step: int) -> Tensor:
        soft = super().soft_targets(batch, step=step)
        if batch.alone is not None:
            of_gate = batch.alone == 0
            true = batch.targets[of_gate].clamp(min=0).unsqueeze(-1)  # of padding, which weighs nothing, any
            soft[of_gate] = torch.zeros_like(soft[of_gate]).scatter(-1, true, 1.0)
        return soft


def described(runs: Sequence[Run], written: Path) -> dict[str, Any]:
    """For the manifest: which weights teach, and the hash of what they wrote."""
    if not runs:
        return {}
    teachers = [
        {"checkpoint": str(run.checkpoint.folder), "step": run.step, "sha256": weights_hash(run)}
        for run in runs
    ]
    return {"teachers": teachers, "written_sha256": file_hash(written) if written.is_file() else None}


def weights_hash(run: Run) -> str:
    """SHA-256 of a run's weights."""
    return file_hash(run.checkpoint.folder / "model.safetensors")


def with_written(
    batches: Batches,
    runs: Sequence[Run],
    recipe: Recipe,
    dataset: Dataset,
    folder: RunFolder,
    console: Console,
    world: World,
    earlier: Mapping[str, Any] | None = None,
) -> Batches:
    """The batches, and with them what the teachers write; the folder holds that from one session of a run to the next.

    Of several processes, the first one lets them write. Raises CheckpointError if it is not what `earlier`, the
    manifest of a run that resumes, says.
    """
    tokens, context = recipe.training.teachers.written, recipe.model.context
    path = folder.made.file(folder.written)
    if not tokens:
        return batches
    if world.first and not path.is_file():
        with world.apart("busy", "the teachers' text"):
            models = [run.model for run in runs]
            rough = recipe.training.precision != "float32" and fast_bfloat16(torch.device("cpu"))
            new = write(
                models,
                dataset,
                tokens,
                context=context,
                seed=recipe.seed,
                console=console,
                precision="bfloat16" if rough else "float32",
            )
            keep(new, path)
    world.broadcast(None)
    if earlier and file_hash(path) != earlier.get("written_sha256"):
        raise CheckpointError(
            f"{path} is not what the teachers wrote when this run began.",
            remedy="bring it back, or start a new run with another --out",
        )
    held = read_written(path)
    cut = recipe
    if end_token(dataset) is None:
        cut = recipe.model_copy(update={"batches": SlidingConfig(stride=context + 1)})
    rows = recipe.training.batch - recipe.training.text_rows
    written = batches_over(held["tokens"], held["starts"], cut, dataset.tokenizer, rows=rows)
    return Together(batches, written)


def read_written(path: Path) -> dict[str, np.ndarray]:
    """What `keep` saved. Raises CheckpointError if it is damaged."""
    try:
        held = load_file(path)
        tokens, starts = held["tokens"], held["starts"]
    except (OSError, SafetensorError, KeyError) as error:
        raise CheckpointError(f"{path} cannot be read ({error}); the run is damaged.") from error
    if (tokens.dtype, tokens.ndim, starts.dtype, starts.ndim) != (np.uint32, 1, np.uint64, 1):
        raise CheckpointError(f"{path} does not hold what teachers wrote; the run is damaged.")
    return held


def keep(written: TeacherText, path: Path) -> None:
    """Save it whole or not at all."""
    with storage_errors(path.parent), written_aside(path) as aside:
        save_file({"tokens": written.tokens, "starts": written.starts}, aside)


def write(
    models: Sequence[LanguageModel],
    dataset: Dataset,
    tokens: int,
    *,
    context: int,
    seed: int,
    console: Console,
    precision: Precision = "float32",
) -> TeacherText:
    """At least so many tokens, the models in turn, each text continuing a piece of the training split.

    Where that has documents between special tokens, texts are documents and end like these. Otherwise each is a
    window, a context and the token after it: beyond the context a model reads again what it remembers, again and again.
    """
    start, end = dataset.tokenizer.start, end_token(dataset)
    before = end if end == start else None  # one token for both stands once between texts
    texts: list[np.ndarray] = []
    count, turn = 0, 0
    with console.working("the teachers write", tokens):
        while count < tokens:
            model = models[turn % len(models)]
            random = np.random.Generator(np.random.Philox(key=[seed, turn]))
            opening = openings(dataset, random, context=context, documents=end is not None)
            length = context + 1 if end is None else LONGEST * context
            rows = [opening]
            new_tokens = goes_on(model, opening, random, before=before, end=end, precision=precision)
            for new in islice(new_tokens, length - opening.size(1)):
                rows.append(new)
                so_far = count + (opening.size(1) + len(rows) - 1) * STREAMS
                console.advance(min(so_far, tokens), f"the teachers write: {so_far:,} of {tokens:,} tokens")
            texts += [ended(row, end) for row in torch.cat(rows, dim=1).numpy()]
            count, turn = sum(map(len, texts)), turn + 1
    console.say(f"the teachers wrote {count:,} tokens in {len(texts):,} texts")
    starts = np.cumsum([0, *map(len, texts[:-1])])
    return TeacherText(np.concatenate(texts).astype(np.uint32), starts.astype(np.uint64))


def end_token(dataset: Dataset) -> int | None:
    """What ends each document of the training split, where something does."""
    end = dataset.tokenizer.end
    return end if end is not None and dataset.train.tokens[-1] == end else None


def openings(dataset: Dataset, random: np.random.Generator, *, context: int, documents: bool) -> torch.Tensor:
    """Pieces of the training split, (STREAMS, ≤ OPENING): the beginnings of documents, or from anywhere."""
    tokens = np.asarray(dataset.train.tokens)
    length = min(OPENING, context, len(tokens) - 1)
    if documents:
        starts = dataset.train.starts.astype(np.int64)
        sizes = np.diff(np.append(starts, len(tokens)))
        length = min(length, int(sizes.max()) - 1)  # without its end
        long = starts[sizes > length]
        chosen = long[random.integers(0, len(long), STREAMS)]
    else:
        chosen = random.integers(0, len(tokens) - length, STREAMS)
    return torch.from_numpy(tokens[chosen[:, None] + np.arange(length)].astype(np.int64))


@torch.no_grad()
def goes_on(
    model: LanguageModel,
    opening: torch.Tensor,
    random: np.random.Generator,
    *,
    before: int | None,
    end: int | None,
    precision: Precision,
) -> Iterator[torch.Tensor]:
    """The tokens (B, 1) that a model puts after each opening (B, P), drawn at temperature 1, until all have ended.

    It reads the `before` token first. A text that has ended repeats its `end`.
    """
    decoder = fastest_decoder(model.eval())(model, slots=len(opening), precision=precision)
    sampling = Sampling()
    start = [] if before is None else [before]
    new = {slot: [*start, *row] for slot, row in enumerate(opening.tolist())}
    fresh = torch.full((len(opening), 1), -1 if end is None else end)
    while new:
        writing = list(new)
        uniform = random.random(len(opening))  # for all, so that no text depends on another's end
        chosen = sampling.choose(as_array(decoder.feed(new)), uniform[writing])
        fresh = fresh.clone()
        fresh[writing, 0] = torch.from_numpy(chosen)
        new = {slot: [token] for slot, token in zip(writing, chosen.tolist(), strict=True) if token != end}
        yield fresh


def ended(row: np.ndarray, end: int | None) -> np.ndarray:
    """A row up to its first end token; one that has none gets it, where texts end with one."""
    if end is None:
        return row
    ends = np.flatnonzero(row == end)
    return row[: ends[0] + 1] if len(ends) else np.append(row, end)
