"""`octavo.train`: by a recipe, or in so many minutes. Choosing is imported where minutes are given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from octavo.config import Recipe, override_words
from octavo.corpus.files import kept_pipes
from octavo.errors import InputError
from octavo.run.data import Paths, in_memory
from octavo.run.folder import RunFolder, refuse_without_folder
from octavo.run.run import Run
from octavo.run.train import train as train_by_recipe
from octavo.run.trainer import Hook
from octavo.util.terminal import Console


def train(
    recipe: str | Path | Mapping[str, Any] | Recipe | None = None,
    text: Paths | None = None,
    out: str | Path | None = None,
    *,
    minutes: float | None = None,
    documents: str | Iterable[str] | None = None,
    ids: Any = None,
    overrides: Iterable[str] | Mapping[str, Any] = (),
    resume: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
    console: Console | None = None,
    hooks: Sequence[Hook] = (),
) -> Run:
    """Train a model by a recipe, on a text, into a run folder; returns the finished run.

    `recipe` is a shipped name, a YAML file, plain data or a `Recipe`; without one, a run that resumes keeps its own, a
    new one takes `minute`; `text` is a path or several (files or folders; `-` is standard input); `out` defaults to the
    next free `runs/<recipe>`; `overrides` are `key=value` strings or a mapping from dotted keys. With `resume`, the run
    in `out` resumes from its newest whole checkpoint; with `overwrite`, a new one takes its place. `quiet` says nothing
    on the way. `hooks` is work of your own to do every so many steps (see `octavo.Hook`).

    In the place of `text`: `documents`, a text in memory or several; or `ids`, (N,) or rows of them, as a list, an
    array or a tensor, which become symbols (`tokenizer.kind=symbols`). Both are kept in the cache, where the run finds
    them again.

    With `minutes` there is no recipe to name: the best model that so many minutes on this machine allow is chosen. Why,
    and what was promised, stand in the run's manifest and on its page, next to what came out on the test split, which
    nothing was chosen on. With `resume`, the run in `out` gets so many minutes more.

    Raises InputError for what the caller can mend, Interrupted when asked to stop, DivergedError, StorageError.
    """
    console = console or Console.in_python(quiet=quiet)
    text, ours = in_memory(text, documents, ids)
    overrides = [*ours, *override_words(overrides)]
    how: dict[str, Any] = {"overwrite": overwrite, "console": console, "hooks": hooks}
    if minutes is None:
        return train_by_recipe(recipe, text, out, overrides=overrides, resume=resume, **how)
    from octavo.auto.train import foretell, refuse_no_number, refuse_recipe, said

    refuse_no_number(minutes)
    refuse_without_folder(out, resume=resume, overwrite=overwrite)
    place = None if out is None else Path(out)
    if resume:
        from octavo.run.deadline import with_more_minutes

        more = [*with_more_minutes(place, minutes), *override_words(overrides)]
        return train_by_recipe(recipe, text, place, overrides=more, resume=True, **how)
    if recipe is not None:
        refuse_recipe(recipe)
    if text is None:
        raise InputError("--minutes needs a text to choose for.", remedy="add --text PATH")
    if place is not None and not overwrite:
        RunFolder.refuse_taken(place)
    elif place is not None and place.exists():
        RunFolder.open(place)
    with kept_pipes():
        (found,) = foretell(text, [minutes], overrides=overrides, console=console)
        for line in said(found):
            console.say(line)
        metadata = {"recipe": "minutes", "auto": found.as_plain()}
        return train_by_recipe(found.recipe(text, overrides), out=out, metadata=metadata, **how)
