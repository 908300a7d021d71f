"""A promise, and what came out: looked at once, when a run that was promised has ended."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Annotated, Any

from pydantic import Field

from octavo.config import Recipe, override_key, override_words
from octavo.config.parts import command
from octavo.errors import CheckpointError, OctavoError, StorageError
from octavo.report.promised import audit, written_like
from octavo.report.test_looks import is_to_be_audited, reached
from octavo.run.run import Run
from octavo.run.test_split import look
from octavo.task import read_evaluation
from octavo.util.files import default_cache, storage_errors
from octavo.util.records import Number, Record, json_text, parse_json, read_rows
from octavo.util.terminal import Console

# The account of a user's promises: how far each was off, which calibrates the next ones.

KEPT = 200
"""The newest promises that count."""


class KeptPromise(Record):
    """A promise that was audited, in standard deviations: (came out − promised) / error. `of`: hashes that tell its
    text from others."""

    missed: Number
    of: tuple[str, ...] = ()


def promises_file() -> Path:
    """Where a user's audited promises stand: no text, no name, only how far each was off, and hashes of its text."""
    return default_cache() / "promises.jsonl"


def earlier_promises() -> list[float]:
    """How far the newest audited promises were off, in standard deviations: the median of each text, for many trainings
    of one text are all alike, and say little of the next. Those of which the text is not known count as one's."""
    try:
        rows = read_rows(promises_file(), KeptPromise)[-KEPT:]
    except OSError:
        return []
    texts: dict[str, str] = {}
    missed: dict[str, list[float]] = {}
    for row in rows:
        marks = row.get("of") or [""]
        text = next((texts[mark] for mark in marks if mark in texts), marks[0])
        texts |= dict.fromkeys(marks, text)
        missed.setdefault(text, []).append(row["missed"])
    return [median(each) for each in missed.values()]


def keep(*, law_bits: float, law_error: float, came_out: float, of: Sequence[str]) -> None:
    """Note how far a promise was off, for the next ones; `of` tells its text from others: what it holds, and where it
    stands. Raises StorageError."""
    row = {"missed": round((came_out - law_bits) / law_error, 3), "of": [_mark(each) for each in of]}
    path = promises_file()
    with storage_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+") as file:
            file.seek(max(0, file.tell() - 1))
            cut = file.read(1) not in (b"", b"\n")  # by a process that was killed while it wrote
            file.write(b"\n" * cut + json_text(row).encode() + b"\n")


def _mark(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:16]


KNOWN = (
    *("corpus", "cleaning", "split", "validation", "test", "seed", "sampling", "logging", "evaluation"),
    *("training.keep", "training.checkpoint_every", "training.checkpoint_minutes", "training.threads"),
    *("training.keep_for_story", "report"),
)
"""Settings that a promise is made with, or that do not change what a run learns."""


class Kept(Record):
    """A promise in a manifest; one without the law's own figures teaches the next ones nothing."""

    minutes: Number
    bits: Number
    within: Number
    law_bits: Number
    law_error: Annotated[Number, Field(gt=0)]


class Auto(Record):
    """The part of a manifest that `octavo train --minutes` writes."""

    promise: Kept
    longer: Kept | None = None
    own: tuple[str, ...] = ()


def own_settings(overrides: Iterable[str] | Mapping[str, Any]) -> list[str]:
    """The settings among `overrides` that the law behind a promise knows nothing of."""
    keys = map(override_key, override_words(overrides))
    return [key for key in keys if not any(f"{key}.".startswith(f"{known}.") for known in KNOWN)]


def text_of(manifest: Mapping[str, Any], recipe: Recipe) -> list[str]:
    """What tells a run's text from others: what it holds, and where it stands, for a diary grows. Standard input is no
    such place: any text may come from there."""
    places = [path for path in getattr(recipe.corpus, "paths", ()) if path != "-"]
    held = manifest.get("data", {}).get("text")
    return [*([f"text {held}"] if held else []), *(["paths " + "\n".join(places)] if places else [])]


def audited(run: Run, console: Console, overrides: Iterable[str] | Mapping[str, Any] = ()) -> None:
    """Say what came out beside what was promised, and note it for the next promises.

    Nothing is done for a run that was not promised, has no test split, was looked at before, or got other minutes than
    it was promised for. Of one with settings of the user's own, from its beginning or now (`overrides`), nothing is
    noted. A training that has ended is not undone by what cannot be looked at: that is said.
    """
    manifest = (run.folder.made_by() if run.folder is not None else None) or {}
    try:
        auto = parse_json(json.dumps(manifest.get("auto")), Auto)
    except ValueError:
        return
    promised = auto["promise"]
    if not is_to_be_audited(manifest, run.config):
        return
    try:
        found = look(run, Console(quiet=True), run.dataset, audits=True)
    except OctavoError as error:
        console.say(f"What was promised could not be compared with what came out: {error.what}")
        console.say(f"  → {command('octavo', 'eval', run.path, '--test')}    says what came out")
        return
    came_out = reached(found)
    assert came_out is not None, "a loss that is finite"
    console.say(audit(**promised, came_out=came_out, reads_on="reading_on" in found))
    with suppress(CheckpointError):
        evaluation = read_evaluation(run.path / "evaluation.json", run.config, of="the run")
        if like := written_like(evaluation, promised, auto.get("longer"), came_out):
            console.say(like)
    if auto.get("own") or own_settings(overrides):
        return
    try:
        law = {"law_bits": promised["law_bits"], "law_error": promised["law_error"]}
        keep(**law, came_out=came_out, of=text_of(manifest, run.config))
    except StorageError as error:
        console.say(f"What came of this promise could not be noted for the next ones: {error.what}")
