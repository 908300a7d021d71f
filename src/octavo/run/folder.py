"""The run folder: one definition of where everything lies, who may write, and what stands in its way; how far the run
came, and where it goes on from, by which command. Nothing here imports torch.

runs/<name>/ config.yaml · manifest.json · metrics.jsonl · log.txt · tokenizer/ · checkpoints/step-000500/
             best → · last → · samples/ · evaluation.json · report/index.html; written.safetensors by teachers,
             start.safetensors where it starts from another run, memory.json of planted passages; story/ of
             weights on the way; teachers/1 · 2 · …, each a run folder, where it trains its own
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from octavo import __version__
from octavo.config import Recipe
from octavo.config.parts import command
from octavo.errors import CheckpointError, InputError, RunFolderError
from octavo.evaluation.stored import Manifest, Row
from octavo.training.checkpoint_folder import (
    CheckpointFolder,
    follow,
    list_checkpoints,
    newest_whole,
    point,
    sweep,
)
from octavo.util.files import (
    Made,
    claim_folder,
    drop_asides,
    holder_of,
    kind_of,
    put_away,
    remove,
    replace_text,
    storage_errors,
    take_soon,
)
from octavo.util.records import Count, Number, Record, json_text, read_record, read_rows
from octavo.util.runs import found, free_name
from octavo.util.terminal import Console

if TYPE_CHECKING:
    from octavo.training.checkpoint import Checkpoint
    from octavo.training.distributed.parallel import World

PREPARING = "preparing"
"""State of a run in its manifest, until that is complete."""


def refuse_without_folder(out: str | Path | None, *, resume: bool, overwrite: bool) -> None:
    """Raise InputError where the folder is not named that a run resumes in or replaces, or where it is a part of
    something else that Octavo wrote. A study's own runs resume, too."""
    if (resume or overwrite) and out is None:
        wanted = "--resume needs the folder of the run."
        if overwrite:
            wanted = "--overwrite needs the folder of the run that it replaces."
        raise InputError(wanted, remedy="add --out DIR")
    if resume and overwrite:
        raise InputError("--resume continues a run and --overwrite replaces it: give one of them.")
    if out is None or not (resume or overwrite):
        return
    option = "--overwrite replaces" if overwrite else "--resume continues"
    if kind_of(out) == "checkpoint":
        raise RunFolderError(
            f"{out} is a checkpoint; {option} a run.", remedy="name the run's folder with --out"
        )
    holder = holder_of(Path(out))
    if holder and (overwrite or holder[1] != "study"):
        place, kind = holder
        raise RunFolderError(
            f"{out} is a part of the {kind} {place}; {option} a whole run.", remedy="choose another --out"
        )


class RunFolder:
    """Paths of one run; `made` is what this process made of it, as far as an input error takes it back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.made = Made()
        self.config = path / "config.yaml"
        self.manifest = path / "manifest.json"
        self.metrics = path / "metrics.jsonl"
        self.log = path / "log.txt"
        self.tokenizer = path / "tokenizer"
        self.checkpoints = path / "checkpoints"
        self.best = path / "best"
        self.last = path / "last"
        self.samples = path / "samples"
        self.written = path / "written.safetensors"
        self.start = path / "start.safetensors"
        self.story = path / "story"
        self.evaluation = path / "evaluation.json"
        self.memory = path / "memory.json"
        self.teachers = path / "teachers"
        self.report = path / "report"

    @classmethod
    def create(cls, path: Path) -> RunFolder:
        """A new run folder; raises RunFolderError where something stands already."""
        cls.refuse_taken(path)
        folder = cls(path)
        with storage_errors(path):
            folder.made.folder(path)
        return folder

    @classmethod
    def refuse_taken(cls, path: Path) -> None:
        """Raise RunFolderError where something stands already."""
        config = path / "config.yaml"
        # One that ended before its recipe was written is in nobody's way.
        passing = () if config.is_file() or cls(path).begun else ("manifest.json",)
        claim_folder(path, "a run", is_one=lambda path: config.is_file(), passing=passing)
        if config.is_file():
            remedy = "choose another --out"
            if kind_of(path) != "checkpoint" and not holder_of(path):
                remedy = f"resume it with --resume, replace it with --overwrite, or {remedy}"
            raise RunFolderError(f"{path} holds a run already.", remedy=remedy)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """An existing run folder; raises RunFolderError where there is none."""
        if not (path / "config.yaml").is_file():
            what = "is not a run folder (it has no config.yaml)" if path.exists() else "does not exist"
            remedy = "octavo runs lists the runs here; octavo train RECIPE --text PATH --out DIR makes one"
            if (other := found(path)) != path:
                remedy = f"there is {other}"
            raise RunFolderError(f"{path} {what}.", remedy=remedy)
        return cls(path)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder for writing; a second writer gets RunFolderError. The system lets go when a process dies."""
        with storage_errors(self.path):
            handle = os.open(self.made.file(self.path / ".lock"), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if not take_soon(handle):
                raise RunFolderError(
                    f"{self.path} is being written by another process.", remedy="wait until it ends"
                )
            yield
        finally:
            os.close(handle)

    def checkpoint(self, which: str = "best") -> tuple[CheckpointFolder | None, list[str]]:
        """The whole checkpoint that `which` (best, last, or a step) leads to, or the newest whole one.

        Also what was found damaged on the way. Raises RunFolderError for a step that is not there.
        """
        if which in ("best", "last"):
            wanted = follow(self.best if which == "best" else self.last)
        else:
            number = which.removeprefix("step-")
            wanted = (
                CheckpointFolder(self.checkpoints / f"step-{int(number):06d}") if number.isdecimal() else None
            )
            if wanted is None or not wanted.folder.is_dir():
                there = ", ".join(folder.name for folder in sorted(self.checkpoints.glob("step-*"))) or "none"
                raise RunFolderError(
                    f"{self.path} has no checkpoint '{which}' (there are: best, last, {there})."
                )
        complaints: list[str] = []
        if wanted is not None:
            try:
                wanted.verify()
                return wanted, []
            except CheckpointError as error:
                complaints.append(error.what)
        newest, more = newest_whole(self.checkpoints)
        return newest, complaints + [text for text in more if text not in complaints]

    def own_teachers(self) -> list[RunFolder]:
        """Those that the run trains itself, as far as they have begun, the first one first."""
        folders = [entry for entry in self.teachers.glob("*") if entry.name.isdecimal()]
        return [RunFolder(entry) for entry in sorted(folders, key=lambda entry: int(entry.name))]

    def settings_as_saved(self) -> bool:
        """Whether config.yaml is as this version of Octavo wrote it, going by the newest checkpoint: then it was
        checked, and need not be checked again, for which all parts would be imported, and torch with them.
        """
        newest = list_checkpoints(self.checkpoints)[-1:]
        return bool(newest) and newest[0].as_saved(self.config, version=__version__)

    def rows(self) -> list[dict[str, Any]]:
        """All whole rows of metrics.jsonl."""
        return read_rows(self.metrics, Row)

    @property
    def begun(self) -> bool:
        """Whether all was ready to train once: until then there is no manifest, or it says that the run is being
        prepared."""
        if not self.manifest.exists():
            return False
        with suppress(CheckpointError):
            return read_record(self.manifest).get("state") != PREPARING
        return True

    def made_by(self) -> dict[str, Any] | None:
        """manifest.json of a run that has begun. Raises CheckpointError if it is damaged."""
        return read_record(self.manifest, Manifest, of="the run") if self.begun else None


OF_A_RUN = (
    "config.yaml",
    ".told.json",
    "manifest.json",
    "metrics.jsonl",
    "log.txt",
    "evaluation.json",
    "words.json",
    "memory.json",
    "written.safetensors",
    "start.safetensors",
    ".lock",
    "best",
    "last",
    "tokenizer/*",
    "checkpoints/*step-*/*",
    "samples/step-*.txt",
    "story/step-*.safetensors",
    "samples/judged.jsonl",
    "prompts/*.json",
    "speakers/*.json",
    "report/index.html",
    "report/*.svg",
)
WRITTEN = (*OF_A_RUN, *(f"teachers/*/{each}" for each in OF_A_RUN))
"""The files of a run folder that Octavo writes."""


@contextmanager
def in_place_of(path: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Put the run in `path` aside; within the context its name is free. Where a new run has begun there in the end, the
    old run's files are removed, and what is not Octavo's is kept; else the old one gets its name back.

    Raises RunFolderError if `path` holds something else than a run, or another process writes there.
    """
    if not path.exists():
        yield
        return
    with RunFolder.open(path).lock(), storage_errors(path.parent):
        old = put_away(path, "replaced")
    try:
        yield
    finally:
        if not path.exists():
            with storage_errors(path.parent):
                old.rename(path)
        elif not RunFolder(path).begun:
            say(f"the run that was to be replaced is kept in {old}")
        elif not remove(old, WRITTEN):
            say(f"{old} keeps what Octavo did not write")


class State(Record):
    """state.json, which holds no infinity."""

    step: Count
    tokens: Count
    seconds: Number
    elapsed: Number = 0.0
    best_loss: Number | None
    best_step: Count
    evaluations_since_best: Count
    finished: bool
    minutes: Number | None = None
    planned: Count | None = None
    thread_changes: list[tuple[Count, Annotated[int, Field(ge=1, le=1024)]]] = Field(default_factory=list)
    pace: list[tuple[Count, Count, Number]] = Field(default_factory=list)


@dataclass
class Progress:
    """The run's own numbers, saved with every checkpoint. `thread_changes`: (step, threads), see `training.device`;
    `pace`: (step, total, place), see `run.deadline`."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    """Of training alone."""
    elapsed: float = 0.0
    """All seconds of the sessions whose work a checkpoint kept."""
    best_loss: float = math.inf
    best_step: int = 0
    evaluations_since_best: int = 0
    finished: bool = False
    minutes: float | None = None
    """Of the recipe: a run that has ended by the clock goes on for other minutes alone."""
    planned: int | None = None
    """Steps that the schedule had at first."""
    thread_changes: list[list[int]] = field(default_factory=list)
    pace: list[list[float]] = field(default_factory=list)

    @classmethod
    def of(cls, checkpoint: CheckpointFolder) -> Progress:
        """From a checkpoint's state.json. Raises CheckpointError if it holds something else."""
        state = checkpoint.state(State)
        known: dict[str, Any] = {each.name: state[each.name] for each in fields(cls) if each.name in state}
        if known["best_loss"] is None:
            known["best_loss"] = math.inf
        return cls(**known)

    def plan(self, steps: int, *, anew: bool, like: Progress | None) -> int:
        """The steps that the schedule has: those of the run's beginning, so long as it goes by the clock, whatever its
        recipe says by now; else (`anew`) these. `like`: of a run that is repeated, whose pace is taken."""
        if like is not None:
            self.pace, self.planned = like.pace, like.planned
        self.planned = steps if anew or self.planned is None else self.planned
        return self.planned

    def state(self) -> dict[str, Any]:
        """As it is saved; JSON has no infinity."""
        return {key: None if value == math.inf else value for key, value in asdict(self).items()}


def progress_of(folder: RunFolder) -> Progress:
    """How far a run has come. Raises CheckpointError if its state is damaged."""
    newest, _ = folder.checkpoint("last")
    return Progress() if newest is None else Progress.of(newest)


def seconds_of(folder: RunFolder) -> float:
    """All that a run has taken; of one that has not begun itself, all that its own teachers have."""
    begun = progress_of(folder)
    return begun.elapsed or sum(progress_of(teacher).elapsed for teacher in folder.own_teachers())


def in_between(checkpoint: CheckpointFolder, *, steps: int, every: int) -> bool:
    """Whether it was saved by time or for a stop: it is no regular one, not the last of so many steps, no new best."""
    if checkpoint.step == steps or checkpoint.step % every == 0:
        return False
    try:
        return Progress.of(checkpoint).best_step != checkpoint.step
    except CheckpointError:
        return False


def source_of(folder: RunFolder, console: Console, world: World) -> Checkpoint | None:
    """The checkpoint to resume from, which the first process finds for all."""
    from octavo.training.checkpoint import Checkpoint

    checkpoint = checkpoint_to_go_on_from(folder, console) if world.first else None
    place = world.broadcast(checkpoint and str(checkpoint.folder))
    return Checkpoint(Path(place)) if place else None


def checkpoint_to_go_on_from(folder: RunFolder, console: Console) -> CheckpointFolder | None:
    """The newest whole checkpoint; damaged newer ones are named and set aside, so that they can be written again.

    Raises CheckpointError when there are checkpoints and none is whole.
    """
    sweep(folder.checkpoints)
    for place in (folder.path, folder.samples):
        drop_asides(place)
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
            with storage_errors(folder.checkpoints):
                kept = put_away(damaged.folder, "damaged")
            console.say(f"{damaged.folder.name} is kept as {kept.name}")
    console.say(f"resuming after step {checkpoint.step}")
    point(folder.last, checkpoint)
    best = folder.checkpoints / f"step-{Progress.of(checkpoint).best_step:06d}"
    if best.is_dir():
        point(folder.best, CheckpointFolder(best))
    return checkpoint


def followed(like: RunFolder) -> Progress:
    """How far a run came, and how it changed its number of steps on its way."""
    newest = follow(like.last)
    return Progress() if newest is None else Progress.of(newest)


def keep_rows(folder: RunFolder, step: int) -> None:
    """Drop the metrics of steps after `step`: these steps are done again."""
    rows = [row for row in folder.rows() if row["step"] <= step]
    if folder.metrics.is_file():
        replace_text(folder.metrics, "".join(json_text(row) + "\n" for row in rows))


def ends_before(planned: int, pace: Sequence[Sequence[float]]) -> set[int]:
    """The steps at which a run of so many `planned` steps had ended before it got more: there it did what is done at an
    end. `pace`: its changes, see `run.deadline`."""
    ends, total = set(), float(planned)
    for since, until, _ in pace:
        if since == total:
            ends.add(int(since))
        total = until
    return ends


ON_THE_WAY = ("training.steps=", "evaluation.every=")
"""Settings that a run can take on when it resumes, if its learning rate is constant: they change nothing before."""
BY_THE_CLOCK = ("training.minutes=", "training.passes=", "evaluation.every=")
"""Settings that a run by the clock can take on when it resumes, whatever its learning rate does."""


@dataclass(frozen=True)
class NextStep:
    """What a verdict asks for, in words, and the command for it, which may `resume` the run."""

    remedy: str
    resume: bool
    command: str


def next_step(folder: RunFolder, recipe: Recipe, diagnostics: Sequence[Mapping[str, Any]]) -> NextStep | None:
    """None if it asks nothing.

    The command names the run's own config.yaml, which holds its recipe, text and settings; one that adds minutes to a
    run finds it there.
    """
    settings = diagnostics[0]["settings"] if diagnostics else []
    if not settings or (recipe.training.start_from and any(one.startswith("model.") for one in settings)):
        return None  # it has another run's model, and keeps it
    minutes, constant = recipe.training.minutes, recipe.training.schedule.kind == "constant"
    may = BY_THE_CLOCK if minutes else ON_THE_WAY if constant else ()
    resume = all(setting.startswith(may) for setting in settings)
    out = folder.path if resume else free_name(folder.path.name, folder.path.parent)
    words = ["octavo", "train", str(folder.config), "--out", str(out), *["--resume"] * resume, *settings]
    if resume and minutes:
        others = [setting for setting in settings if not setting.startswith(BY_THE_CLOCK[:2])]
        words = ["octavo", "train", "--out", str(out), "--resume", "--minutes", f"{minutes:g}", *others]
    return NextStep(diagnostics[0]["remedy"], resume, _command(words, recipe))


def going_on(folder: RunFolder, recipe: Recipe, *, processes: int = 1) -> str:
    """The command by which a run that was stopped goes on; its config.yaml holds all else."""
    resumes = _command(["octavo", "train", "--out", str(folder.path), "--resume"], recipe)
    if processes > 1:  # only who started them knows how
        return f"torchrun … -m {resumes} continues it, with as many processes as before"
    if recipe.training.minutes is None:
        return f"{resumes}    continues it"
    return f"{resumes}    uses the time that is left; with --minutes 5 added, five minutes from then on"


def _command(words: Sequence[str], recipe: Recipe) -> str:
    piped = "cat TEXT | " if getattr(recipe.corpus, "paths", None) == ("-",) else ""
    return piped + command(*words)


def next_lines(step: Mapping[str, Any] | None) -> list[str]:
    """The same as lines for a console."""
    if step is None:
        return []
    how = "this resumes the run" if step["resume"] else "this starts a new run"
    return [f"  → {step['remedy']}; {how}:", f"    {step['command']}"]
