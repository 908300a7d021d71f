"""Where each change of a study is better or worse than its baseline, token by token.

Worked out once the runs have ended, for it takes their weights, and kept beside them in where.json.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from octavo.errors import InputError, OctavoError, RunFolderError
from octavo.evaluation.compare_tokens import Where
from octavo.studies.results import RunResult, StudyResults
from octavo.studies.spec import BASELINE
from octavo.studies.verdict import sorted_out
from octavo.util.files import replace_text
from octavo.util.records import Record, json_text
from octavo.util.terminal import Console

WHERE = "where.json"


class Found(Record):
    """Of one change: where, or why that is not to be had."""

    where: Where | None = None
    why: str | None = None


class StoredWhere(Record):
    """where.json: `of` are the runs that it is of, and what they reached."""

    of: dict[str, list[float | None]]
    changes: dict[str, Found]


@dataclass(frozen=True)
class Wheres:
    """By the name of a change: where the change is better (below zero) or worse than the baseline."""

    found: Mapping[str, Where]
    why_not: Mapping[str, str]


NOWHERE = Wheres({}, {})


def write_where(results: StudyResults, console: Console) -> None:
    """Work it out for every change and keep it, unless it is kept already of these very runs."""
    good, _ = sorted_out(results)
    of = {run.folder: [run.metric, run.val_loss] for runs in good.values() for run in runs}
    path = results.folder / WHERE
    with suppress(InputError):  # a damaged one is made again
        if path.is_file() and _stored(path).of == of:
            return
    changes = {}
    with console.working("token by token", len(results.study.changes)):
        for number, change in enumerate(results.study.changes):
            console.advance(number, change.name)
            changes[change.name] = _between(results, good[BASELINE], good[change.name])
    replace_text(path, json_text(StoredWhere(of=of, changes=changes)) + "\n")


def _between(results: StudyResults, base: Sequence[RunResult], mine: Sequence[RunResult]) -> Found:
    from octavo.run.compare import between
    from octavo.run.run import Run

    if not base or not mine:
        return Found(why="no run of it ended")
    try:
        first, second = (
            [Run.open(results.folder / run.folder, checkpoint=results.study.judge) for run in runs]
            for runs in (base, mine)
        )
        return Found(where=between(first, second, Console(quiet=True)))
    except RunFolderError:
        return Found(why="the weights of its runs are not there any more")
    except OctavoError as error:
        return Found(why=error.what.rstrip("."))


def where_of(folder: Path) -> Wheres:
    """What is kept in a study's folder; nothing where nothing is. Raises InputError where it is damaged."""
    path = folder / WHERE
    changes = _stored(path).changes if path.is_file() else {}
    return Wheres(
        {name: one.where for name, one in changes.items() if one.where},
        {name: one.why or "" for name, one in changes.items() if not one.where},
    )


def _stored(path: Path) -> StoredWhere:
    try:
        return StoredWhere.read(path, of="the study", error=InputError)
    except InputError as error:
        raise InputError(
            error.what, remedy="remove it; the command that ran the study makes it again"
        ) from None
