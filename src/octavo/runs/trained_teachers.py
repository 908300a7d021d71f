"""Teachers that a run trains itself, before it begins: each an ordinary run in the run's folder, but without a page.

Of a run by the clock, they take as much of its time as their steps are of all steps; one that is taught takes longer by
its teacher's forward pass.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from octavo.config import Recipe
from octavo.config.teachers import ASKING, TeachersConfig
from octavo.dataset import Dataset
from octavo.errors import CheckpointError, Interrupted
from octavo.ground.console import Console
from octavo.runs.begin import add_to_manifest, begin, fresh_model, note_down
from octavo.runs.clock import end_of
from octavo.runs.data import build_batches, total_steps, with_rows_held_out
from octavo.runs.folder import RunFolder
from octavo.runs.next_step import going_on
from octavo.runs.progress import Progress, progress_of, seconds_of
from octavo.runs.resuming import followed, keep_rows, source_of
from octavo.runs.run import Run
from octavo.runs.session import Session
from octavo.runs.teachers import described, known_as_before
from octavo.training.recompute import recompute_blocks
from octavo.training.runtime import Runtime

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
