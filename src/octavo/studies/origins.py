"""What a run of a study came from that its settings only name: code of the user's own, weights of other
runs, files."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from octavo.config import Recipe, flatten
from octavo.config.own import changed_parts
from octavo.errors import OctavoError
from octavo.ground.files import file_hash
from octavo.runs import materials
from octavo.runs.folder import RunFolder
from octavo.runs.run import Run
from octavo.runs.start import find_start
from octavo.runs.teachers import weights_hash


class Origins:
    """Compares what runs came from with what has these names now. What is gone has not changed."""

    def __init__(self) -> None:
        self._start, self._teacher = cache(_start_of), cache(_teacher_of)  # as many runs have the same

    def changed(self, folder: RunFolder, recipe: Recipe) -> Iterator[str]:
        """What is another one now, in words; nothing of a run that has not begun."""
        manifest = folder.made_by() or {}
        used = {value for key, value in flatten(recipe).items() if key.endswith("kind")}
        mine = [
            own
            for own in manifest.get("parts", ())
            if used & {name.partition(".")[2] for name in own.get("parts", ())} or not own.get("parts")
        ]
        for path in changed_parts(mine):
            yield f"{path} as it was before"
        start, named = manifest.get("start_from"), recipe.training.start_from
        if start and named is not None and self._start(named) not in (None, start["sha256"]):
            yield f"other weights of {named}"
        for teacher, path in zip(manifest.get("teachers", ()), recipe.training.teachers.runs, strict=False):
            if self._teacher(Path(path)) not in (None, teacher["sha256"]):
                yield f"other weights of its teacher {path}"
        for setting in materials.changed(recipe, manifest):
            yield f"something else behind {setting}"


def _start_of(path: Path) -> str | None:
    try:
        return file_hash(find_start(path).folder / "model.safetensors")
    except (OctavoError, OSError):
        return None


def _teacher_of(path: Path) -> str | None:
    try:
        return weights_hash(Run.open(path))
    except (OctavoError, OSError):
        return None
