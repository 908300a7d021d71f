"""From a recipe and a text to a finished run: compose, train, evaluate, report. Also resuming, and repeating."""

from __future__ import annotations

import errno
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from octavo.config import Recipe, stored_recipe, to_yaml
from octavo.config.plugins import changed_parts
from octavo.config.teachers import ASKING, TeachersConfig
from octavo.data import Dataset, open_dataset
from octavo.data.batches import Batches
from octavo.errors import (
    CheckpointError,
    ConfigError,
    CorpusError,
    DivergedError,
    InputError,
    Interrupted,
    MissingExtra,
    StorageError,
)
from octavo.generation import Engine
from octavo.model.base import LanguageModel, build_model, trained
from octavo.run import dependencies
from octavo.run.audit import audited
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
from octavo.run.finetune import Start, begun_with, keep_start
from octavo.run.finish import finish, finish_diverged
from octavo.run.folder import RunFolder, free_name, in_place_of, refuse_without_folder
from octavo.run.manifest import run_manifest
from octavo.run.next_step import going_on
from octavo.run.precision import precision_here
from octavo.run.progress import Progress, progress_of, seconds_of
from octavo.run.resume import followed, keep_rows, source_of
from octavo.run.run import Run
from octavo.run.settings import continued, default_recipe, idle_options, resolve
from octavo.run.teachers import described, known_as_before, open_teachers, with_written
from octavo.run.trainer import Hook, Session, writer
from octavo.task import task_of
from octavo.tokenizers import Tokenizer
from octavo.tokenizers.base import of_sides
from octavo.training.device import (
    Runtime,
    accelerator,
    choose_device,
    choose_threads,
    keep_memory,
    set_threads,
)
from octavo.training.distributed.world import ALONE, World, launched, restarts
from octavo.training.memory import Fit, attempted, open_ways, refuse_beyond_memory_of, try_out
from octavo.training.recompute import recompute_blocks
from octavo.util.console import Console
from octavo.util.files import FULL, replace_text, storage_errors
from octavo.util.records import AnyRecord, json_text, read_record

# What there is when a training begins: the run's folder, its manifest, and a model with its first weights.


def fresh_model(recipe: Recipe, dataset: Dataset, held_out: np.ndarray | None) -> LanguageModel:
    """The recipe's model with its first weights and its adapters. Raises where it could not write after the recipe's
    prompts: now, not after the training."""
    model = build_model(recipe.model, vocab_size=dataset.tokenizer.vocab_size, seed=recipe.seed)
    model.take_text(dataset.train.tokens, held_out)
    for prompt in task_of(recipe).prompts(recipe, dataset, model.context)[0]:
        Engine(model, dataset.tokenizer).prompt_ids(prompt)
    recipe.training.adapters.attach(model, added=len(dataset.tokenizer.added), seed=recipe.seed)
    return model


def begin(
    folder: RunFolder, recipe: Recipe, told: Mapping[str, Any] | None = None
) -> Mapping[str, Any] | None:
    """Make the folder a run; returns what is told of it for the manifest, which is kept until that is written, for a
    process that is killed before. A run that resumes keeps its recipe until nothing refuses the new one (`note_down`).
    Raises MissingExtra."""
    if recipe.logging.tensorboard:
        writer()
    if not folder.manifest.is_file():
        if folder.config.is_file():
            told = read_record(folder.told, AnyRecord) if folder.told.is_file() else told
        elif told or folder.told.is_file():  # before the recipe, with which the run can be resumed
            replace_text(folder.made.file(folder.told), json_text(told or {}))
        replace_text(folder.made.file(folder.config), to_yaml(recipe))
    with storage_errors(folder.path):
        folder.made.folder(folder.samples)
    return told


def note_down(
    folder: RunFolder, recipe: Recipe, dataset: Dataset, runtime: Runtime, told: Mapping[str, Any] | None
) -> None:
    """Save the recipe and the tokenizer, and of a run that begins, the manifest with what else is `told` of it."""
    replace_text(folder.config, to_yaml(recipe))
    with storage_errors(folder.path):
        dataset.tokenizer.save(folder.tokenizer)
    if told is not None:
        _write_manifest(folder, run_manifest(recipe, dataset, runtime, told=told))
        with storage_errors(folder.path):
            folder.told.unlink(missing_ok=True)  # `begin` wrote it


def add_to_manifest(folder: RunFolder, told: Mapping[str, Any]) -> None:
    """What is known only after the run has begun."""
    _write_manifest(folder, {**(folder.made_by() or {}), **told})


def _write_manifest(folder: RunFolder, manifest: Mapping[str, Any]) -> None:
    replace_text(folder.manifest, json_text(manifest, indent=1, ensure_ascii=False))


# Where and how a run computes: device, threads, precision, and how much of a batch at once.


def choose_runtime(
    recipe: Recipe,
    model: LanguageModel,
    batches: Batches,
    console: Console,
    decided: Mapping[str, Any] | None = None,
    world: World = ALONE,
) -> Runtime:
    """Where and how to compute. What an earlier session of the same run `decided` is kept."""
    decided = decided or {}
    training = recipe.training
    most, asked = torch.get_num_threads(), training.threads or decided.get("threads")
    threads = set_threads(asked)
    keep_memory()
    if decided.get("threads") not in (None, threads):
        console.say(
            f"the run began with {decided['threads']} threads, now {threads}: results may differ in the last bits"
        )
    first = batches.batch(0, 0).to("cpu")
    if wrong := recipe.unread(name for name, _ in first.items()):
        raise ConfigError(f"{wrong[:1].upper()}{wrong[1:]}.")
    small = first.corner(2, 64)
    wanted = decided.get("device", "auto") if training.device == "auto" else training.device
    if wanted == "auto":
        wanted = accelerator() or "cpu"
    objective = recipe.objective.build()
    device = choose_device(world.place(wanted), model, small, console.say, objective=objective)
    if decided and device.type != decided["device"].partition(":")[0]:
        console.say(
            f"the run began on {decided['device']}, now {device}: results will differ in the last bits"
        )
    world.connect(device)
    if world.size == 1:
        threads = choose_threads(asked, model, first, device, console.say, objective=objective)
    rows = -(-training.batch // world.size)
    training = training.model_copy(update={"batch": rows})  # of this process

    def attempt(way: Fit) -> Runtime:
        if way.recompute:
            recompute_blocks(model)
        probe = first.rows_at(slice(min(way.micro_batch or rows, rows)))
        wanted = decided.get("precision", training.precision)
        precision = precision_here(wanted, recipe, model, probe, device, console, objective=objective)
        runtime = Runtime(device, precision, threads, way.micro_batch, way.recompute, world, most)
        if device.type == "cuda" and len(left) > 1:
            try_out(model, training, probe, runtime, objective=objective)
        if training.compile is True:
            refuse_to_compile(runtime)
        return runtime

    if not world.first:
        precision, micro_batch, recompute = world.broadcast(None)
        if recompute:
            recompute_blocks(model)
        return Runtime(device, precision, threads, micro_batch, recompute, world)
    left = open_ways(model, recipe, training, decided=decided, device=device, report=console.say)
    runtime = attempted(left, attempt, console.say)
    world.broadcast([runtime.precision, runtime.micro_batch, runtime.recompute])
    return runtime


def refuse_to_compile(runtime: Runtime) -> None:
    """Raise ConfigError if torch cannot compile the run."""
    if (runtime.recompute, runtime.device.type, runtime.precision) == (True, "cpu", "bfloat16"):
        raise ConfigError(
            "torch cannot compile blocks that recompute in bfloat16 on a CPU.",
            remedy="training.compile=false, or training.precision=float32",
        )


# What the processes of one training do together: one speaks, one prepares the text, all keep what was
# decided.


def heard(console: Console, world: World) -> Console:
    """The console of a process. Only the first of several processes speaks."""
    return console if world.first else Console(quiet=True)


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


def decisions(earlier: Mapping[str, Any] | None, world: World, console: Console) -> dict[str, Any]:
    """What the run's first session decided about device, precision and threads, if it holds for this world."""
    if earlier is None:
        return {}
    before = earlier.get("processes", 1)
    if before == world.size:
        return earlier["runtime"]
    console.say(
        f"number of processes: {before} when the run began, {world.size} now; results may differ in the last bits"
    )
    return {key: value for key, value in earlier["runtime"].items() if key != "threads"}


# Teachers that a run trains itself, before it begins: each an ordinary run in the run's folder, but without a
# page.

SEEDS = 2**32
"""How many there are."""


def folder_of(run: RunFolder, number: int) -> RunFolder:
    """Where a run's own teacher stands, counted from 0."""
    return RunFolder(run.teachers / str(number + 1))


def recipe_of(recipe: Recipe, number: int, steps: int, minutes: float | None) -> Recipe:
    """That of a run's teacher, counted from 0: the run's own, with another seed, and nobody teaches it."""
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


@dataclass
class OwnTeachers:
    """Trains the teachers of a run.

    Attributes:
        steps: of the run itself.
        finish: seconds that its end takes, where it goes by the clock, as of its `Session`.
        like: a run that it repeats.
        before: seconds that the run has taken in earlier sessions.
        end: when its training must be over (monotonic seconds), where it goes by the clock.
    """

    folder: RunFolder
    recipe: Recipe
    steps: int
    dataset: Dataset
    held_out: np.ndarray | None
    runtime: Runtime
    console: Console
    finish: float | None = None
    like: RunFolder | None = None

    def __post_init__(self) -> None:
        self.before = seconds_of(self.folder)
        self.end: float | None = None
        if self.finish is not None:
            self.end = end_of(self.recipe, self.console, self.before) - self.finish

    def trained(self, earlier: Mapping[str, Any] | None) -> list[Run]:
        """All of them, which the run's manifest names from then on; those are trained that are not there yet. `earlier`
        is the manifest of a run that resumes. Raises Interrupted, when asked to stop, and CheckpointError where others
        taught it before."""
        found = known_as_before(self._trained(), earlier)
        if found and self.runtime.world.first:
            add_to_manifest(self.folder, described(found, self.folder.written))
        return found

    def _trained(self) -> list[Run]:
        runs = []
        for number, minutes, after in self._turns():
            teacher = folder_of(self.folder, number)
            try:
                with self.console.part(after):
                    if not progress_of(teacher).finished:  # also where the run itself gets more steps later
                        self._train(teacher, number, minutes)
            except Interrupted as stopped:
                said = (
                    f"This was teacher {number + 1} of {self.recipe.training.teachers.trained}, which can be used from "
                    f"{teacher.path}."
                )
                remedy = going_on(self.folder, self.recipe, processes=self.runtime.world.size)
                raise Interrupted(f"{stopped.what} {said}", remedy=remedy) from None
            finally:
                if self.runtime.world.first:
                    self.console.keep_log(self.folder.log)
            runs.append(Run.open(teacher.path))
        return runs

    def _turns(self) -> Iterator[tuple[int, float | None, float]]:
        """Of each teacher its number, the minutes that it has in all, and the seconds that come after it."""
        teachers = self.recipe.training.teachers
        each = teachers.steps_of_each(self.steps)
        for number in range(teachers.trained):
            done = progress_of(folder_of(self.folder, number))
            if self.end is None:
                yield number, None, 0.0
                continue
            mine = 0 if done.finished else max(0, each - done.step)
            rest = each * (teachers.trained - number - 1) + (1 + ASKING) * self.steps
            left = max(0.0, self.end - time.monotonic())
            share = left * mine / (mine + rest)
            yield number, max(1e-3, (done.elapsed + share) / 60), left - share

    def _train(self, teacher: RunFolder, number: int, minutes: float | None) -> None:
        world, console = self.runtime.world, self.console
        console.say(f"teacher {number + 1} of {self.recipe.training.teachers.trained} is trained first")
        recipe = recipe_of(self.recipe, number, self.steps, minutes)
        if world.first:
            teacher.made.folder(teacher.path)
            begin(teacher, recipe)
            console.keep_log(teacher.made.file(teacher.log))
        batches = build_batches(recipe, self.dataset, console, self.held_out)
        batches = with_rows_held_out(batches, self.held_out, recipe, self.dataset)
        source = source_of(teacher, console, world)
        if world.first:
            told = None if teacher.manifest.is_file() else {"recipe": "teacher"}
            note_down(teacher, recipe, self.dataset, self.runtime, told)
        model = fresh_model(recipe, self.dataset, self.held_out)
        if self.runtime.recompute:
            recompute_blocks(model)
        session = Session(
            recipe=recipe,
            steps=total_steps(recipe, batches),
            folder=teacher,
            dataset=self.dataset,
            batches=batches,
            model=model,
            runtime=self.runtime,
            console=console,
            source=source,
            like=None if self.like is None else self._followed(number),
            finish=None if minutes is None else 0.0,
        )
        if world.first:
            keep_rows(teacher, session.progress.step if source else -1)
        session.run()

    def _followed(self, number: int) -> Progress:
        """That of the same teacher of the run that is repeated. Raises CheckpointError where it is gone."""
        assert self.like is not None
        before = folder_of(self.like, number)
        if not before.checkpoints.is_dir():
            raise CheckpointError(f"{before.path} is gone, which taught the run that is to be repeated.")
        return followed(before)


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
        told |= dependencies.described(recipe)
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
    known = task_of(recipe).vocabulary_words(size, own)
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
    return ending(prepared, task_of(recipe).baseline_seconds(dataset, recipe, console))


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
    dependencies.refuse_others(recipe, earlier)
