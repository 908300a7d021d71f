"""From a recipe and a text to a finished run: compose, train, evaluate, report. Also resuming, and a run's teachers."""

from __future__ import annotations

import errno
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import octavo
from octavo.config import Recipe, stored_recipe, to_yaml
from octavo.config.parts import changed_parts
from octavo.config.schema import ASKING, TeachersConfig
from octavo.data import Dataset, open_dataset
from octavo.errors import (
    CheckpointError,
    CorpusError,
    DivergedError,
    InputError,
    Interrupted,
    MissingExtra,
    StorageError,
)
from octavo.generation import Engine
from octavo.model.base import LanguageModel, build_model, trained
from octavo.run.data import (
    Paths,
    build_batches,
    build_dataset,
    held_out_of,
    in_steps,
    steps_said,
    total_steps,
    with_rows_held_out,
)
from octavo.run.deadline import end_of, ending
from octavo.run.finetune import begun_with, keep_start
from octavo.run.folder import (
    PREPARING,
    RunFolder,
    going_on,
    in_place_of,
    keep_rows,
    progress_of,
    refuse_without_folder,
    seconds_of,
    source_of,
)
from octavo.run.manifest import run_manifest
from octavo.run.run import Run
from octavo.run.runtime import choose_runtime, decisions
from octavo.run.settings import (
    continued,
    default_recipe,
    idle_options,
    named_files,
    refuse_other_files,
    resolve,
)
from octavo.run.trainer import Hook, Trainer, Training, event_writer
from octavo.task import task_of
from octavo.tokenizers import Tokenizer
from octavo.tokenizers.base import of_sides
from octavo.training.device import Runtime
from octavo.training.distributed.parallel import ALONE, World, launched, restarts
from octavo.training.memory import refuse_beyond_memory_of
from octavo.training.recompute import recompute_blocks
from octavo.util.files import FULL, replace_text, storage_errors
from octavo.util.interruption import is_interruption
from octavo.util.records import AnyRecord, json_text, read_record
from octavo.util.runs import free_name
from octavo.util.terminal import Console


def train(
    recipe: str | Path | Mapping[str, Any] | Recipe | None = None,
    text: Paths | None = None,
    out: str | Path | None = None,
    *,
    overrides: Iterable[str] | Mapping[str, Any] = (),
    resume: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
    console: Console | None = None,
    hooks: Sequence[Hook] = (),
    metadata: Mapping[str, Any] | None = None,
) -> Run:
    """Train a model by a recipe, on a text, into a run folder; returns the finished run.

    `recipe` is a shipped name, a YAML file, plain data or a `Recipe`; without one, a run that resumes keeps its own, a
    new one takes `minute`; `text` is a path or several (files or folders; `-` is standard input); `out` defaults to the
    next free `runs/<recipe>`; `overrides` are `key=value` strings or a mapping from dotted keys. With `resume`, the run
    in `out` resumes from its newest whole checkpoint; with `overwrite`, a new one takes its place. `quiet` says nothing
    on the way. What was promised of a run is compared with what came out. `hooks` is work of your own to do every so
    many steps (see `octavo.Hook`). `metadata` is for the manifest.
    Raises InputError for what the caller can mend, Interrupted when asked to stop, DivergedError, StorageError.
    """
    with launched() as world:
        console = console or Console.in_python(quiet=quiet)
        if not world.first:  # only the first of several processes speaks
            console = Console(quiet=True)
        refuse_without_folder(out, resume=resume, overwrite=overwrite)
        place = None if out is None else Path(out)
        if recipe is None and resume and place is not None:
            recipe = RunFolder.open(place).config
        elif recipe is None:
            recipe, source = default_recipe(overrides)
            console.say(source)
        name = Path(str(recipe)).stem if isinstance(recipe, str | Path) else "run"
        metadata = {"recipe": name, **(metadata or {})}
        if not resume and place is not None and restarts() and RunFolder(place).config.is_file():
            console.say(f"restart {restarts()} by torchrun: the run resumes")
            resume = True
        earlier = stored_recipe(RunFolder.open(place).config) if resume and place is not None else None
        resolved = resolve(recipe, text, overrides, earlier=earlier)
        gather(world, resolved, console)
        if resume and place is not None:
            with world.in_turn():
                folder = RunFolder.open(place)
                resolved = continued(folder, resolved, console)
        else:
            folder = RunFolder(Path(world.broadcast(str(place or free_name(name)))))
        with in_place_of(folder.path, console.say) if overwrite and world.first else nullcontext():
            if world.first and not resume:
                folder = RunFolder.create(folder.path)
            with folder.lock() if world.first else nullcontext():
                try:
                    run = train_in(folder, resolved, console, world, hooks, metadata=metadata)
                except BaseException as error:
                    if world.first and not resume:
                        give_back(folder, error, overwrite=overwrite)
                    if isinstance(error, StorageError) and folder.config.is_file():
                        raise resumable(error, folder, resolved) from error
                    note_how_to_resume(error, folder, resolved)
                    raise
    if world.first and "auto" in (folder.made_by() or {}):
        from octavo.run.audit import audited

        try:
            audited(run, console, overrides)
        except BaseException as error:
            note_how_to_resume(error, folder, resolved)
            raise
    return run


def train_in(
    folder: RunFolder,
    recipe: Recipe,
    console: Console,
    world: World,
    hooks: Sequence[Hook] = (),
    *,
    metadata: Mapping[str, Any] | None = None,
    replay_of: RunFolder | None = None,
) -> Run:
    """Begin or resume the run in a locked folder; returns it finished. `replay_of`: a run whose start and pace it
    takes."""
    training = compose(folder, recipe, console, world, metadata=metadata, replay_of=replay_of)
    announce(training)
    if replay_of is None:
        training = replace(training, reserve=reserve_for_the_end(training))
    if recipe.training.teachers.trained:
        training = replace(training, teachers=train_teachers(training))
    try:
        trainer = fit(training, hooks)
    except DivergedError as error:
        if world.first:
            with world.apart("saving", "the report"):
                from octavo.run.finish import finish_diverged

                finish_diverged(folder, recipe, training.dataset, error, console)
        raise
    with world.in_turn():
        if world.first:
            with world.apart("saving", "the report"):
                from octavo.run.finish import finish  # with all that a page needs

                alone = replace(training.runtime, world=ALONE)
                return finish(folder, training.dataset, alone, console, earlier=trainer.earlier)
    return Run.open(folder.path, dataset=training.dataset)


def compose(
    folder: RunFolder,
    recipe: Recipe,
    console: Console,
    world: World,
    *,
    metadata: Mapping[str, Any] | None = None,
    replay_of: RunFolder | None = None,
    parent: Training | None = None,
) -> Training:
    """What trains in a locked folder, from its first step or from where it stopped. `metadata` is for the manifest of a
    new run. A teacher learns from the text of its `parent`, and computes as that does."""
    began = time.monotonic()
    if world.first:
        metadata = begin(folder, recipe, metadata or {})
        console.keep_log(folder.made.file(folder.log))
    earlier = world.broadcast(folder.made_by() if world.first else None)
    start = None
    if recipe.training.start_from is not None:
        start = begun_with(folder, recipe, console.say, goes_on=earlier is not None, like=replay_of)

    if parent is not None:
        dataset, held_out = parent.dataset, parent.held_out
    else:
        dataset = prepared(recipe, console, world, start.tokenizer if start else None)
        held_out = held_out_of(recipe, dataset)
    batches = build_batches(recipe, dataset, console, held_out)
    steps = total_steps(recipe, batches)

    refuse_beyond_memory_of(recipe, vocab_size=dataset.tokenizer.vocab_size, processes=world.size)
    model = fresh_model(recipe, dataset, held_out)
    taken = time.monotonic() - began
    objective = recipe.objective.build()
    objective.refuse(recipe, dataset, model, processes=world.size)
    compare_with(replay_of.made_by() if replay_of else earlier, recipe, dataset, console)

    teachers: list[Run] = []
    taught: dict[str, Any] = {}
    if recipe.training.teachers.runs:
        from octavo.run.teachers import described, open_teachers, with_written

        teachers = open_teachers(recipe, dataset, console, earlier)
        batches = with_written(batches, teachers, recipe, dataset, folder, console, world, earlier)
        taught = described(teachers, folder.written) if world.first and earlier is None else {}
    batches = with_rows_held_out(batches, held_out, recipe, dataset)

    if parent is None:
        decided = decisions(earlier, world, console)
        runtime = choose_runtime(recipe, objective, model, batches, console, decided, world)
    else:
        runtime = parent.runtime
        if runtime.recompute:
            recompute_blocks(model)

    source = source_of(folder, console, world)
    if start is not None and (source is None or recipe.training.adapters.kind != "none"):
        start.fill(model)  # else the checkpoint holds all weights
        model.take_text(dataset.train.tokens, held_out, learned=True, spelt=dataset.tokenizer.spelt)
    if world.first:
        if earlier is None:
            metadata = {**(metadata or {}), **taught}
            if start is not None:
                metadata |= keep_start(folder, model, start)
            metadata |= named_files(recipe)
        note_down(folder, recipe, dataset, runtime, metadata if earlier is None else None)
    return Training(
        recipe=recipe,
        folder=folder,
        dataset=dataset,
        held_out=held_out,
        batches=batches,
        steps=steps,
        model=model,
        objective=objective,
        runtime=runtime,
        console=console,
        source=source,
        before=seconds_of(folder),
        prepared=taken,
        replay_of=replay_of,
        teachers=teachers,
    )


def fit(training: Training, hooks: Sequence[Hook] = ()) -> Trainer:
    """Train what is left of it. Raises Interrupted, DivergedError or StorageError."""
    trainer = Trainer(training, hooks)
    if trainer.world.first:  # step 0 has a row, but no checkpoint
        keep_rows(training.folder, trainer.progress.step if training.source else -1)
    if trainer.progress.finished:
        training.console.say(finished_before(trainer))
    else:
        trainer.fit()
    return trainer


def begin(folder: RunFolder, recipe: Recipe, metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Make the folder a run: a manifest that says that it is being prepared, and the recipe, with which it can be
    resumed. Returns what the manifest says of it besides, as it was first told. A run that resumes keeps its recipe
    until nothing refuses the new one (`note_down`). Raises MissingExtra."""
    if recipe.logging.tensorboard:
        event_writer()
    if not folder.begun:
        if folder.config.is_file() and folder.manifest.is_file():
            kept = read_record(folder.manifest, AnyRecord)
            metadata = {key: value for key, value in kept.items() if key not in ("octavo", "state")}
        else:
            folder.made.file(folder.manifest)
            _write_manifest(folder, {"octavo": octavo.__version__, "state": PREPARING, **metadata})
        replace_text(folder.made.file(folder.config), to_yaml(recipe))
    with storage_errors(folder.path):
        folder.made.folder(folder.samples)
    return metadata


def note_down(
    folder: RunFolder,
    recipe: Recipe,
    dataset: Dataset,
    runtime: Runtime,
    metadata: Mapping[str, Any] | None,
) -> None:
    """Save the recipe and the tokenizer, and of a run that begins, the manifest with this `metadata`."""
    replace_text(folder.config, to_yaml(recipe))
    with storage_errors(folder.path):
        dataset.tokenizer.save(folder.tokenizer)
    if metadata is not None:
        _write_manifest(folder, run_manifest(recipe, dataset, runtime, metadata=metadata))


def _write_manifest(folder: RunFolder, manifest: Mapping[str, Any]) -> None:
    replace_text(folder.manifest, json_text(manifest, indent=1, ensure_ascii=False))


def fresh_model(recipe: Recipe, dataset: Dataset, held_out: np.ndarray | None) -> LanguageModel:
    """The recipe's model with its first weights and its adapters. Raises where it could not write after the recipe's
    prompts: now, not after the training."""
    model = build_model(recipe.model, vocab_size=dataset.tokenizer.vocab_size, seed=recipe.seed)
    model.take_text(dataset.train.tokens, held_out, spelt=dataset.tokenizer.spelt)
    for prompt in task_of(recipe).prompts(recipe, dataset, model.context)[0]:
        Engine(model, dataset.tokenizer).prompt_ids(prompt)
    recipe.training.adapters.attach(model, added=len(dataset.tokenizer.added), seed=recipe.seed)
    return model


def gather(world: World, recipe: Recipe, console: Console) -> None:
    """Connect the processes that train the recipe. Raises ConfigError if it does not suit them."""
    parallel = recipe.parallel
    world.admit(parallel.kind, recipe.training.batch)
    if world.size > 1:
        machines = world.meet(parallel.timeout)
        console.say(
            f"parallel={parallel.kind}: {world.size} processes on {machines} machine{'s' * (machines > 1)}, "
            f"{recipe.training.batch // world.size} of a batch's {recipe.training.batch} sequences each"
        )
    elif parallel.kind != "none":
        console.say(f"parallel={parallel.kind} with one process: torchrun starts several")


def prepared(recipe: Recipe, console: Console, world: World, tokenizer: Tokenizer | None = None) -> Dataset:
    """The dataset (see `build_dataset`); of several processes the first one makes it, and the others open it."""
    if world.first:
        with world.apart("busy", "the text"):
            dataset = build_dataset(recipe, console, tokenizer)
        world.broadcast(str(dataset.folder.absolute()))
        return dataset
    folder = Path(world.broadcast(None))
    here = folder.is_dir()  # or in the cache of another machine
    dataset = open_dataset(folder) if here else build_dataset(recipe, console, tokenizer)
    if dataset.folder.name != folder.name:
        raise CorpusError(
            f"Rank {world.rank} found another text than rank 0.", remedy="give all machines the same"
        )
    return dataset


def announce(training: Training) -> None:
    """Say what is about to be trained, and which options change nothing."""
    recipe, dataset, model, say = training.recipe, training.dataset, training.model, training.console.say
    size = dataset.tokenizer.vocab_size
    count, sources = recipe.model.parameters(vocab_size=size), of_sides(size)[0]
    own = "" if sources == size else f" ({sources:,} of them the source's own)"
    learned = sum(weights.numel() for weights in trained(model.parameters()))
    adapted = recipe.training.adapters.kind != "none"
    beside = f" and {learned:,} that are trained" if adapted else ""
    known = task_of(recipe).vocabulary_words(size, own)
    say(
        f"{count:,} parameters{beside}, {len(dataset.train.tokens):,} training {known}, "
        f"{steps_said(recipe, training.batches)} on {training.runtime.device} in {training.runtime.precision}"
    )
    # Adapters are no part of the model that is stated.
    wrong = None if adapted else recipe.model.miscounted(vocab_size=size, built=model)
    idle = idle_options(in_steps(recipe, training.batches, training.steps), training.steps)
    for sentence in [*filter(None, [wrong]), *idle]:
        say(f"warning: {sentence}")


def reserve_for_the_end(training: Training) -> float | None:
    """Seconds that the end of a run with a deadline takes, without its evaluation, by those of its preparation; None of
    other runs. Count the baselines of the validation split now; an audit on the test split needs none."""
    recipe, dataset = training.recipe, training.dataset
    if recipe.training.minutes is None:
        return None
    import octavo.report.figure  # noqa: F401 — how long matplotlib takes to load is told by nothing else
    from octavo.evaluation.reading_on import seconds_to_read_on
    from octavo.run.explain import holds_model, seconds_to_explain

    explaining = seconds_to_explain(recipe) if holds_model(recipe, dataset.tokenizer) else 0.0
    task_of(recipe).find_baselines(dataset, recipe, training.console)
    test = None if dataset.test is None else dataset.test.tokens
    reading_on = seconds_to_read_on(training.model, dataset.validation.tokens, test)
    return ending(training.prepared) + explaining + reading_on


def compare_with(
    earlier: Mapping[str, Any] | None, recipe: Recipe, dataset: Dataset, console: Console
) -> None:
    """Of a run that goes on, raise CorpusError or InputError when text or materials are not those that it began with;
    say which of the user's parts changed."""
    if earlier is None:
        return
    for path in changed_parts(earlier.get("parts", ())):
        console.say(f"warning: {path} has changed since the run began: results may differ")
    if earlier["data"].get("text") != dataset.manifest["text"]:
        raise CorpusError(
            "The text has changed since this run began, so it cannot be resumed or repeated.",
            remedy="bring the old text back, or start a new run with another --out",
        )
    refuse_other_files(recipe, earlier)


SEEDS = 2**32
"""Seeds are below this."""


def teacher_folder(run: RunFolder, number: int) -> RunFolder:
    """The folder of a run's own teacher, counted from 0."""
    return RunFolder(run.teachers / str(number + 1))


def teacher_recipe(recipe: Recipe, number: int, steps: int, minutes: float | None) -> Recipe:
    """The recipe of a run's own teacher, counted from 0: the run's, with another seed, and nobody teaches it."""
    training, model = recipe.training, recipe.model
    if (dropout := training.teachers.trained_dropout) is not None:
        model = model.model_copy(update={"dropout": type(model.dropout).model_validate(dropout)})
    own = training.teachers.steps_of_each(steps)
    passes = None if training.passes is None else training.passes * own / steps
    changed = {
        "teachers": TeachersConfig(),
        "steps": own,
        "epochs": None,
        "passes": passes,
        "minutes": minutes,
    }
    return recipe.model_copy(
        update={
            "description": f"It teaches the run above it. {recipe.description}".strip(),
            "seed": (recipe.seed + number + 1) % SEEDS,
            "model": model,
            "training": training.model_copy(update=changed),
        }
    )


def train_teachers(training: Training) -> list[Run]:
    """Train those of the run's own teachers that are not there yet, each an ordinary run in the run's folder without a
    page; from then on the run's manifest names all of them. Raises Interrupted when asked to stop, and CheckpointError
    where others taught the run before."""
    folder, console, world = training.folder, training.console, training.runtime.world
    count, runs = training.recipe.training.teachers.trained, []
    for number, minutes, after in turns(training):
        teacher = teacher_folder(folder, number)
        try:
            with console.part(after):
                if not progress_of(teacher).finished:  # also where the run itself gets more steps later
                    console.say(f"teacher {number + 1} of {count} is trained first")
                    train_teacher(training, teacher, number, minutes)
        except Interrupted as stopped:
            sentence = f"This was teacher {number + 1} of {count}, which can be used from {teacher.path}."
            remedy = going_on(folder, training.recipe, processes=world.size)
            raise Interrupted(f"{stopped.what} {sentence}", remedy=remedy) from None
        finally:
            if world.first:
                console.keep_log(folder.log)
        runs.append(Run.open(teacher.path))
    from octavo.run.teachers import described, known_as_before

    known_as_before(runs, world.broadcast(folder.made_by() if world.first else None))
    if world.first:
        _write_manifest(folder, {**(folder.made_by() or {}), **described(runs, folder.written)})
    return runs


def train_teacher(training: Training, teacher: RunFolder, number: int, minutes: float | None) -> None:
    """Train one of them, new or resumed."""
    recipe = teacher_recipe(training.recipe, number, training.steps, minutes)
    before = None if training.replay_of is None else teacher_folder(training.replay_of, number)
    if before is not None and not before.checkpoints.is_dir():
        raise CheckpointError(f"{before.path} is gone, which taught the run that is to be repeated.")
    if training.runtime.world.first:
        teacher.made.folder(teacher.path)
    own = compose(
        teacher,
        recipe,
        training.console,
        training.runtime.world,
        metadata={"recipe": "teacher"},
        replay_of=before,
        parent=training,
    )
    fit(replace(own, reserve=None if minutes is None else 0.0))


def turns(training: Training) -> Iterator[tuple[int, float | None, float]]:
    """The number of each of the run's own teachers, the minutes that it has in all, and the seconds after it."""
    teachers, end = training.recipe.training.teachers, None
    if training.reserve is not None:
        end = end_of(training.recipe, training.console, training.before) - training.reserve
    each = teachers.steps_of_each(training.steps)
    for number in range(teachers.trained):
        done = progress_of(teacher_folder(training.folder, number))
        if end is None:
            yield number, None, 0.0
            continue
        mine = 0 if done.finished else max(0, each - done.step)
        rest = each * (teachers.trained - number - 1) + (1 + ASKING) * training.steps
        left = max(0.0, end - time.monotonic())
        share = left * mine / (mine + rest)
        yield number, max(1e-3, (done.elapsed + share) / 60), left - share


def finished_before(trainer: Trainer) -> str:
    """What is said of a run that resumes and has nothing left to train."""
    sentence = f"the run was finished after step {trainer.progress.step:,}: nothing is trained, its page is made again"
    if trainer.recipe.training.minutes is not None:
        return f"{sentence}; add --minutes 5 to train it for five more minutes"
    if trainer.recipe.training.schedule.kind == "constant":
        return f"{sentence}; training.steps={2 * trainer.progress.step} trains it longer"
    return sentence


def note_how_to_resume(error: BaseException, folder: RunFolder, recipe: Recipe) -> None:
    """To an interruption while a run is prepared, judged or reported on, add the command that resumes it."""
    if is_interruption(error) and folder.config.is_file():
        error.add_note(going_on(folder, recipe))


def give_back(folder: RunFolder, error: BaseException, *, overwrite: bool) -> None:
    """If a new run failed before it was prepared, delete what this process made, so that the mended command can use the
    name, or the run that was to be replaced gets it back. What else stops a run leaves one that can be resumed."""
    mendable = isinstance(error, (InputError, MissingExtra))
    if (overwrite or mendable) and not folder.begun:
        folder.made.take_back()


def resumable(error: StorageError, folder: RunFolder, recipe: Recipe) -> StorageError:
    """What a full or failing disk stopped, with how the run resumes; any other error as it is."""
    cause = error.__cause__
    if not isinstance(cause, OSError) or cause.errno not in (*FULL, errno.EIO):
        return error
    saved = " Earlier checkpoints are whole." if any(folder.checkpoints.glob("step-*")) else ""
    first = "check the disk" if cause.errno == errno.EIO else "free some space"
    return StorageError(f"{error.what}{saved}", remedy=f"{first}, then {going_on(folder, recipe)}")
