"""From a recipe and a text to a finished run: compose, train, judge, report. Also going on, and repeating."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from octavo.config import (
    Recipe,
    apply_override,
    check,
    flatten,
    parse_yaml,
    recipe_text,
    to_yaml,
)
from octavo.dataset import Dataset
from octavo.dataset.batches import Batches
from octavo.errors import CheckpointError, ConfigError, CorpusError, DivergedError, InputError
from octavo.generation import Writer
from octavo.model.build import build_model
from octavo.model.gpt import GPT
from octavo.runs.advice import idle_options
from octavo.runs.console import Console
from octavo.runs.data import Paths, absolute, build_batches, in_steps, total_steps
from octavo.runs.finish import finish, finish_diverged
from octavo.runs.folder import RunFolder
from octavo.runs.hooks import Hook
from octavo.runs.manifest import run_manifest
from octavo.runs.run import Run
from octavo.runs.session import Session
from octavo.runs.teachers import described, open_teachers, with_written
from octavo.runs.together import decisions, gather, heard, prepared
from octavo.training.checkpoint import (
    Checkpoint,
    list_checkpoints,
    newest_whole,
    point,
    read_json,
    replace_text,
    storage_errors,
    sweep,
)
from octavo.training.fitting import Fit, attempted, open_ways, try_out
from octavo.training.recompute import recompute_blocks
from octavo.training.runtime import (
    Runtime,
    accelerator,
    choose_device,
    choose_precision,
    keep_memory,
    set_threads,
)
from octavo.training.world import ALONE, World, launched, restarts

# What a run may change when it goes on; anything else would make it another run.
RESUMABLE = (
    "training.steps",
    "training.checkpoint_every",
    "training.keep",
    "training.patience",
    "training.device",
    "training.micro_batch",
    "training.recompute",
)
RESUMABLE_TREES = ("evaluation.", "sampling.", "logging.", "parallel.")


def train(
    recipe: str | Path | Mapping[str, Any] = "shakespeare-char-cpu",
    text: Paths | None = None,
    out: str | Path | None = None,
    *,
    overrides: Iterable[str] | Mapping[str, Any] = (),
    resume: bool = False,
    console: Console | None = None,
    hooks: Sequence[Hook] = (),
) -> Run:
    """Train a model by a recipe, on a text, into a run folder; returns the finished run.

    `recipe` is a shipped name, a YAML file or plain data; `text` is a path or several (files or folders; `-` is
    standard input); `out` defaults to the next free `runs/<recipe>`; `overrides` are `key=value` strings or a
    mapping from dotted keys. With `resume`, the run in `out` goes on from its newest whole checkpoint. `hooks` is work
    of your own to do every so many steps (see `octavo.Hook`).
    Raises InputError for what the caller can mend, Interrupted when asked to stop, DivergedError, StorageError.
    """
    name = Path(str(recipe)).stem if isinstance(recipe, str | Path) else "run"
    with launched() as world:
        console = heard(console or Console(), world)
        resolved = resolve(recipe, text, overrides)
        gather(world, resolved, console)
        if not resume and out is not None and restarts() and RunFolder(Path(out)).config.is_file():
            console.say(f"restart {restarts()} by torchrun: the run goes on")
            resume = True
        if resume:
            if out is None:
                raise InputError(
                    "--resume needs the run folder that it goes on with.", remedy="add --out DIR"
                )
            with world.in_turn():
                folder = RunFolder.open(Path(out))
                resolved = continued(folder, resolved, console)
        else:
            path = world.tell(str(out) if out is not None else str(free_name(name)))
            folder = RunFolder.create(Path(path)) if world.first else RunFolder(Path(path))
        with folder.lock() if world.first else nullcontext():
            try:
                return train_in(folder, resolved, console, world, hooks)
            except InputError:
                # Where nothing began, the mended command can use the name.
                if world.first and not resume and not folder.manifest.is_file():
                    shutil.rmtree(folder.path, ignore_errors=True)
                raise


def resolve(
    recipe: str | Path | Mapping[str, Any],
    text: Paths | None = None,
    overrides: Iterable[str] | Mapping[str, Any] = (),
    *,
    needs_text: bool = True,
) -> Recipe:
    """The checked recipe, with the text put in and overrides on top."""
    if isinstance(recipe, Mapping):
        tree = dict(recipe)
    else:
        tree = parse_yaml(recipe_text(recipe), f"Recipe '{recipe}'")
    if not isinstance(tree, dict):
        raise ConfigError(f"Recipe '{recipe}' holds no keys; it must be a YAML mapping.")
    if text is not None:
        corpus = tree.get("corpus") if isinstance(tree.get("corpus"), dict) else {}
        files = corpus if corpus.get("kind", "files") == "files" else {}
        tree["corpus"] = {**files, "kind": "files", "paths": absolute(text)}
    if isinstance(overrides, Mapping):
        overrides = [f"{key}={json.dumps(value)}" for key, value in overrides.items()]
    for override in overrides:
        apply_override(tree, override)
    resolved = check(tree)
    if needs_text and resolved.corpus.kind == "files" and not resolved.corpus.paths:
        raise InputError(
            "This recipe needs a text.", remedy="give files or folders: --text PATH (or - for standard input)"
        )
    return resolved


def free_name(name: str, under: Path = Path("runs")) -> Path:
    """`runs/name`, or the first free `runs/name-2`, `-3`, …"""
    path, number = under / name, 2
    while path.exists():
        path, number = under / f"{name}-{number}", number + 1
    return path


def continued(folder: RunFolder, wanted: Recipe, console: Console) -> Recipe:
    """The recipe to go on with: the stored one, with the changes that a run may make on its way."""
    stored = check(parse_yaml(folder.config.read_text(encoding="utf-8"), str(folder.config)))
    before, after = flatten(stored), flatten(wanted)
    differing = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    forbidden = [key for key in differing if key not in RESUMABLE and not key.startswith(RESUMABLE_TREES)]
    forbidden = [key for key in forbidden if key != "description"]
    if forbidden:
        listed = "\n  · ".join(
            f"{key}: {before.get(key)!r} in the run, {after.get(key)!r} now" for key in forbidden
        )
        raise ConfigError(
            f"{folder.path} was started with other settings, so going on would make another run:\n  · {listed}",
            remedy="use the run's own settings, or start a new run with another --out",
        )
    for key in differing:
        console.say(f"going on with {key}={after.get(key)} (was {before.get(key)})")
    return wanted if differing else stored


def choose_runtime(
    recipe: Recipe,
    model: GPT,
    batches: Batches,
    console: Console,
    decided: Mapping[str, Any] | None = None,
    world: World = ALONE,
) -> Runtime:
    """Where and how to compute; what an earlier session of the same run `decided` stays decided."""
    decided = decided or {}
    training = recipe.training
    threads = set_threads(training.threads or decided.get("threads"))
    keep_memory()
    if decided.get("threads") not in (None, threads):
        before = decided["threads"]
        console.say(
            f"the run began with {before} threads, now {threads}: results may differ in the last bits"
        )
    inputs, targets = map(torch.from_numpy, batches.batch(0, 0))
    small = inputs[:2, :64], targets[:2, :64]
    wanted = decided.get("device", "auto") if training.device == "auto" else training.device
    if wanted == "auto":
        wanted = accelerator() or "cpu"
    device = choose_device(world.place(wanted), model, small, console.say)
    if decided and device.type != torch.device(decided["device"]).type:
        console.say(
            f"the run began on {decided['device']}, now {device}: results will differ in the last bits"
        )
    world.connect(device)
    rows = -(-training.batch // world.size)
    training = training.model_copy(update={"batch": rows})  # of this process

    def attempt(way: Fit) -> Runtime:
        if way.recompute:
            recompute_blocks(model)
        probe = inputs[: min(way.micro_batch or rows, rows)], targets[: min(way.micro_batch or rows, rows)]
        wanted = decided.get("precision", training.precision)
        precision = choose_precision(wanted, model, probe, device, console.say)
        runtime = Runtime(device, precision, threads, way.micro_batch, way.recompute, world)
        if device.type == "cuda" and len(left) > 1:
            try_out(model, training, probe, runtime)
        if training.compile and (way.recompute, device.type, precision) == (True, "cpu", "bfloat16"):
            raise ConfigError(
                "torch cannot compile blocks that recompute in bfloat16 on a CPU.",
                remedy="training.compile=false, or training.precision=float32",
            )
        return runtime

    if not world.first:
        precision, micro_batch, recompute = world.tell(None)
        if recompute:
            recompute_blocks(model)
        return Runtime(device, precision, threads, micro_batch, recompute, world)
    left = open_ways(model, recipe.model, training, decided=decided, device=device, report=console.say)
    runtime = attempted(left, attempt, console.say)
    world.tell([runtime.precision, runtime.micro_batch, runtime.recompute])
    return runtime


def train_in(
    folder: RunFolder, recipe: Recipe, console: Console, world: World, hooks: Sequence[Hook] = ()
) -> Run:
    """Begin or go on with the run in a folder that this process holds the lock of; returns it finished."""
    if world.first:
        replace_text(folder.config, to_yaml(recipe))  # first: it makes the folder a run
        with storage_errors(folder.path):
            folder.samples.mkdir(exist_ok=True)
        console.keep_log(folder.log)
    dataset = prepared(recipe, console, world)
    batches = build_batches(recipe, dataset, console)
    steps = total_steps(recipe, batches)
    model = build_model(recipe.model, vocab_size=dataset.tokenizer.vocab_size, seed=recipe.seed)
    for prompt in recipe.sampling.prompts:
        Writer(model, dataset.tokenizer).prompt_ids(prompt)  # may raise: now, not after the training
    earlier = world.tell(read_json(folder.manifest) if world.first and folder.manifest.is_file() else None)
    if earlier is not None:
        refuse_other_data(earlier, dataset)
    teachers = open_teachers(recipe, dataset, console, earlier)
    batches = with_written(batches, teachers, recipe, dataset, folder.written, console, world, earlier)
    runtime = choose_runtime(recipe, model, batches, console, decisions(earlier, world, console), world)
    source = source_of(folder, console, world)
    if world.first:
        note_down(folder, recipe, dataset, runtime, None if earlier else described(teachers, folder.written))
    count = sum(p.numel() for p in model.parameters())
    console.say(
        f"{count:,} parameters, {len(dataset.train.tokens):,} training tokens, "
        f"vocabulary {dataset.tokenizer.vocab_size:,}, {steps:,} steps on {runtime.device} in {runtime.precision}"
    )
    for sentence in idle_options(in_steps(recipe, batches), steps):
        console.say(f"warning: {sentence}")
    session = Session(
        recipe=recipe,
        steps=steps,
        folder=folder,
        dataset=dataset,
        batches=batches,
        model=model,
        runtime=runtime,
        console=console,
        source=source,
        teachers=teachers,
        hooks=hooks,
    )
    if world.first:
        keep_rows(folder, session.progress.step if source else -1)  # step 0 has a row, but no checkpoint
    if not session.progress.finished:
        try:
            session.run()
        except DivergedError as error:
            if world.first:
                with world.apart("saving", "the report"):
                    finish_diverged(folder, recipe, dataset, error, console)
            raise
    with world.in_turn():
        if world.first:
            with world.apart("saving", "the report"):
                finish(folder, dataset, replace(runtime, world=ALONE), console)
    return Run.open(folder.path)


def note_down(
    folder: RunFolder, recipe: Recipe, dataset: Dataset, runtime: Runtime, taught: Mapping[str, Any] | None
) -> None:
    """Save the tokenizer, and of a run that begins, which then says by whom it is `taught`, the manifest."""
    with storage_errors(folder.path):
        dataset.tokenizer.save(folder.tokenizer)
    if taught is not None:
        manifest = run_manifest(recipe, dataset, runtime, taught=taught)
        replace_text(folder.manifest, json.dumps(manifest, indent=1, ensure_ascii=False))


def refuse_other_data(earlier: Mapping[str, Any], dataset: Dataset) -> None:
    """Raise CorpusError when the text is not the one that the run began with."""
    if earlier["data"].get("text") != dataset.manifest["text"]:
        raise CorpusError(
            "The text has changed since this run began, so it cannot go on with it.",
            remedy="bring the old text back, or start a new run with another --out",
        )


def source_of(folder: RunFolder, console: Console, world: World) -> Checkpoint | None:
    """The checkpoint to go on from, which the first process finds for all."""
    found = checkpoint_to_go_on_from(folder, console) if world.first else None
    place = world.tell(found and str(found.folder))
    return Checkpoint(Path(place)) if place else None


def checkpoint_to_go_on_from(folder: RunFolder, console: Console) -> Checkpoint | None:
    """The newest whole checkpoint; damaged newer ones are named and set aside, so that they can be written anew.

    Raises CheckpointError when there are checkpoints and none is whole.
    """
    sweep(folder.checkpoints)
    checkpoint, complaints = newest_whole(folder.checkpoints)
    for complaint in complaints:
        console.say(f"damaged: {complaint}")
    if checkpoint is None:
        if complaints:
            raise CheckpointError(
                f"No checkpoint of {folder.path} is whole.", remedy="start a new run with another --out"
            )
        return None
    for damaged in list_checkpoints(folder.checkpoints):
        if damaged.step > checkpoint.step:
            put_away = damaged.folder.with_name(f"damaged-{damaged.folder.name}")
            shutil.rmtree(put_away, ignore_errors=True)
            with storage_errors(folder.checkpoints):
                damaged.folder.rename(put_away)
            console.say(f"{damaged.folder.name} is kept as {put_away.name}")
    console.say(f"going on after step {checkpoint.step}")
    point(folder.last, checkpoint)
    best = folder.checkpoints / f"step-{checkpoint.state()['best_step']:06d}"
    if best.is_dir():
        point(folder.best, Checkpoint(best))
    return checkpoint


def keep_rows(folder: RunFolder, step: int) -> None:
    """Drop the metrics of steps after `step`: they will be taken again."""
    rows = [row for row in folder.rows() if row["step"] <= step]
    if folder.metrics.is_file():
        replace_text(folder.metrics, "".join(json.dumps(row) + "\n" for row in rows))
