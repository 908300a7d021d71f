"""From a recipe and a text to a finished run: compose, train, evaluate, report. Also resuming, and repeating."""

from __future__ import annotations

import errno
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from octavo.config import Recipe, stored_recipe
from octavo.config.own import changed_parts
from octavo.dataset import Dataset
from octavo.dataset.batches import Batches
from octavo.errors import CorpusError, DivergedError, InputError, MissingExtra, StorageError
from octavo.ground.console import Console
from octavo.ground.files import FULL
from octavo.model.kind import LanguageModel, trained
from octavo.runs import materials
from octavo.runs.advice import idle_options
from octavo.runs.audit import audited
from octavo.runs.baselines import cached_baselines, seconds_counted
from octavo.runs.begin import begin, fresh_model, note_down
from octavo.runs.clock import baselines_of, ending
from octavo.runs.data import (
    Paths,
    build_batches,
    held_out_of,
    in_steps,
    steps_said,
    total_steps,
    with_rows_held_out,
)
from octavo.runs.evaluate import whole_split
from octavo.runs.finish import finish, finish_diverged
from octavo.runs.folder import RunFolder, free_name, refuse_without_folder
from octavo.runs.hooks import Hook
from octavo.runs.next_step import going_on
from octavo.runs.replacing import in_place_of
from octavo.runs.resuming import followed, keep_rows, source_of
from octavo.runs.run import Run
from octavo.runs.runtime import choose_runtime
from octavo.runs.session import Session
from octavo.runs.settings import continued, default_recipe, resolve
from octavo.runs.start import Start, begun_with, keep_start
from octavo.runs.teachers import described, open_teachers, with_written
from octavo.runs.together import decisions, gather, heard, prepared
from octavo.runs.trained_teachers import OwnTeachers
from octavo.tokenizers.columns import Columns
from octavo.tokenizers.vocabulary import of_sides
from octavo.training.fitting import refuse_beyond_memory_of
from octavo.training.runtime import Runtime
from octavo.training.world import ALONE, World, launched, restarts


def train(
    recipe: str | Path | Mapping[str, Any] | None = None,
    text: Paths | None = None,
    out: str | Path | None = None,
    *,
    overrides: Iterable[str] | Mapping[str, Any] = (),
    resume: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
    console: Console | None = None,
    hooks: Sequence[Hook[Session]] = (),
    told: Mapping[str, Any] | None = None,
) -> Run:
    """Train a model by a recipe, on a text, into a run folder; returns the finished run.

    `recipe` is a shipped name, a YAML file or plain data; without one, a run that resumes keeps its own and a new one
    takes `minute`; `text` is a path or several (files or folders; `-` is standard input); `out` defaults to the next
    free `runs/<recipe>`; `overrides` are `key=value` strings or a mapping from dotted keys. With `resume`, the run in
    `out` resumes from its newest whole checkpoint; with `overwrite`, a new one takes its place. `quiet` says nothing on
    the way. What was promised of a run is compared with what came out. `hooks` is work of your own to do every so many
    steps (see `octavo.Hook`). `told` is for the manifest.
    Raises InputError for what the caller can mend, Interrupted when asked to stop, DivergedError, StorageError.
    """
    with launched() as world:
        console = heard(console or Console.in_python(quiet=quiet), world)
        refuse_without_folder(out, resume=resume, overwrite=overwrite)
        place = None if out is None else Path(out)
        if recipe is None and resume and place is not None:
            recipe = RunFolder.open(place).config
        elif recipe is None:
            recipe, said = default_recipe(overrides)
            console.say(said)
        name = Path(str(recipe)).stem if isinstance(recipe, str | Path) else "run"
        told = {"recipe": name, **(told or {})}
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
                    run = train_in(folder, resolved, console, world, hooks, told=told)
                except BaseException as error:
                    if world.first and not resume:
                        give_back(folder, error, overwrite=overwrite)
                    if isinstance(error, StorageError) and folder.config.is_file():
                        raise resumable(error, folder, resolved) from error
                    note_how_to_resume(error, folder, resolved)
                    raise
    if world.first:
        try:
            audited(run, console, overrides)
        except KeyboardInterrupt as error:
            note_how_to_resume(error, folder, resolved)
            raise
    return run


def note_how_to_resume(error: BaseException, folder: RunFolder, recipe: Recipe) -> None:
    """To an interruption while a run is prepared, judged or reported on, add the command that resumes it."""
    if isinstance(error, KeyboardInterrupt) and folder.config.is_file():
        error.add_note(going_on(folder, recipe))


def give_back(folder: RunFolder, error: BaseException, *, overwrite: bool) -> None:
    """Where nothing has begun, take back what was made, so that the mended command can use the name, or the run have it
    that was to be replaced. What else stopped a new run, a kill too, leaves one that can be resumed."""
    mendable = isinstance(error, (InputError, MissingExtra))
    if (overwrite or mendable) and not folder.manifest.is_file():
        folder.made.take_back()


def resumable(error: StorageError, folder: RunFolder, recipe: Recipe) -> StorageError:
    """What a full or failing disk stopped, with how the run resumes; any other error as it is."""
    cause = error.__cause__
    if not isinstance(cause, OSError) or cause.errno not in (*FULL, errno.EIO):
        return error
    saved = " Earlier checkpoints are whole." if any(folder.checkpoints.glob("step-*")) else ""
    first = "check the disk" if cause.errno == errno.EIO else "free some space"
    return StorageError(f"{error.what}{saved}", remedy=f"{first}, then {going_on(folder, recipe)}")


def begin_with(
    start: Start | None,
    model: LanguageModel,
    recipe: Recipe,
    dataset: Dataset,
    held_out: np.ndarray | None,
    *,
    goes_on: bool,
) -> None:
    """Give the model the weights that it starts from, if there are any, unless it goes on from a checkpoint that holds
    all of them; the text is its own."""
    if start is None or (goes_on and recipe.training.adapters.kind == "none"):
        return
    start.fill(model)
    model.take_text(dataset.train.tokens, held_out, learned=True)


def train_in(
    folder: RunFolder,
    recipe: Recipe,
    console: Console,
    world: World,
    hooks: Sequence[Hook[Session]] = (),
    *,
    told: Mapping[str, Any] | None = None,
    like: RunFolder | None = None,
) -> Run:
    """Begin or resume the run in a locked folder; returns it finished. `like`: a run whose start and pace it takes."""
    began = time.monotonic()
    if world.first:
        told = begin(folder, recipe, told)
        console.keep_log(folder.made.file(folder.log))
    earlier = world.broadcast(folder.made_by() if world.first else None)
    start = begun_with(folder, recipe, console.say, goes_on=earlier is not None, like=like)
    dataset = prepared(recipe, console, world, start.tokenizer if start else None)
    held_out = held_out_of(recipe, dataset)
    batches = build_batches(recipe, dataset, console, held_out)
    steps = total_steps(recipe, batches)
    refuse_beyond_memory_of(recipe, vocab_size=dataset.tokenizer.vocab_size, processes=world.size)
    model = fresh_model(recipe, dataset, held_out)
    recipe.objective.build().refuse(recipe, dataset, model, processes=world.size)
    compare_with(like.made_by() if like else earlier, recipe, dataset, console)
    teachers = open_teachers(recipe, dataset, console, earlier)
    batches = with_written(batches, teachers, recipe, dataset, folder, console, world, earlier)
    batches = with_rows_held_out(batches, held_out, recipe, dataset)
    runtime = choose_runtime(recipe, model, batches, console, decisions(earlier, world, console), world)
    source = source_of(folder, console, world)
    begin_with(start, model, recipe, dataset, held_out, goes_on=source is not None)
    if world.first and not earlier:
        told = {**(told or {}), **described(teachers, folder.written), **keep_start(folder, model, start)}
        told |= materials.described(recipe)
    if world.first:
        note_down(folder, recipe, dataset, runtime, None if earlier else told)
    announce(recipe, dataset, batches, runtime, model, console)
    finish = None if like else end_foreseen(dataset, recipe, console, time.monotonic() - began)
    own = OwnTeachers(folder, recipe, steps, dataset, held_out, runtime, console, finish, like)
    teachers = teachers or own.trained(earlier)
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
        like=None if like is None else followed(like),
        finish=finish,
        before=own.before,
    )
    run_to_the_end(session, goes_on=source is not None)
    with world.in_turn():
        report_on(session)
    return Run.open(folder.path, dataset=dataset)


def announce(
    recipe: Recipe,
    dataset: Dataset,
    batches: Batches,
    runtime: Runtime,
    model: LanguageModel,
    console: Console,
) -> None:
    """Say what is about to be trained, and which options change nothing."""
    size = dataset.tokenizer.vocab_size
    count, sources = recipe.model.parameters(vocab_size=size), of_sides(size)[0]
    own = "" if sources == size else f" ({sources:,} of them the source's own)"
    learned = sum(weights.numel() for weights in trained(model.parameters()))
    beside = "" if recipe.training.adapters.kind == "none" else f" and {learned:,} that are trained"
    known = f"rows of {size:,} columns" if recipe.corpus.numbers else f"tokens, vocabulary {size:,}{own}"
    console.say(
        f"{count:,} parameters{beside}, {len(dataset.train.tokens):,} training {known}, "
        f"{steps_said(recipe, batches)} on {runtime.device} in {runtime.precision}"
    )
    steps = total_steps(recipe, batches)
    adapted = recipe.training.adapters.kind != "none"  # which are no part of the model that is stated
    wrong = None if adapted else recipe.model.miscounted(vocab_size=size, built=model)
    for sentence in [*filter(None, [wrong]), *idle_options(in_steps(recipe, batches, steps), steps)]:
        console.say(f"warning: {sentence}")


def end_foreseen(dataset: Dataset, recipe: Recipe, console: Console, prepared: float) -> float | None:
    """Seconds that the end of a run by the clock takes that was prepared in so many, without its evaluation; None of
    other runs. The baselines of the validation split are counted now: so it is known what those of the test split will
    take."""
    if recipe.training.minutes is None:
        return None
    baselines = 0.0
    if recipe.objective.build().unit.text and not isinstance(dataset.tokenizer, Columns):
        began = time.monotonic()
        with console.working("counting", None):
            cached_baselines(dataset, whole_split(recipe), console)
        if dataset.test is not None:
            took = max(time.monotonic() - began, seconds_counted(dataset))
            baselines = max(took, baselines_of(dataset.train.bytes))
    return ending(prepared, baselines)


def run_to_the_end(session: Session, *, goes_on: bool) -> None:
    """Train, unless the run is finished. A run that diverges gets its page too."""
    if session.world.first:
        keep_rows(
            session.folder, session.progress.step if goes_on else -1
        )  # step 0 has a row, but no checkpoint
    if session.progress.finished:
        session.console.say(finished_before(session))
        return
    try:
        session.run()
    except DivergedError as error:
        if session.world.first:
            with session.world.apart("saving", "the report"):
                finish_diverged(session.folder, session.recipe, session.dataset, error, session.console)
        raise


def finished_before(session: Session) -> str:
    """What is said of a run that resumes and has nothing left to train."""
    said = f"the run was finished after step {session.progress.step:,}: nothing is trained, its page is made again"
    if session.recipe.training.minutes is not None:
        return f"{said}; add --minutes 5 to train it for five more minutes"
    if session.recipe.training.schedule.kind == "constant":
        return f"{said}; training.steps={2 * session.progress.step} trains it longer"
    return said


def report_on(session: Session) -> None:
    """Evaluate the finished run and write its page; of several processes the first one does."""
    world, alone = session.world, replace(session.runtime, world=ALONE)
    if world.first:
        with world.apart("saving", "the report"):
            finish(session.folder, session.dataset, alone, session.console, earlier=session.earlier)


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
    materials.refuse_others(recipe, earlier)
