"""Series of numbers on disk, beside datasets of tokens: the same folder, with rows of float32 in the shards.

After each series stands a row of NaN, so that no difference or window that is taken of the whole crosses its end.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from octavo.corpus import Report
from octavo.data.shards import starts_path, tokens_path
from octavo.data.store import FORMAT, TOKENIZER, Dataset, Split, aside, open_dataset, publish, say_reused
from octavo.errors import CorpusError
from octavo.tasks.forecast.columns import Columns
from octavo.tasks.forecast.source import Series, SeriesSource, Suggested, alike, listed
from octavo.util.files import default_cache

DTYPE = "<f4"

STEADY = 1e-3
"""By what share of their mean the steps of a channel may differ, from the smallest to the largest, to be a clock's."""


def prepare_series(
    source: SeriesSource,
    *,
    validation: float,
    held_out: Sequence[str] = (),
    differences: bool = False,
    cache: Path | None = None,
    report: Report,
) -> Dataset:
    """Make the dataset of a source of series, or find the one that was made of the same numbers.

    Args:
        validation, held_out: see `split_by_person`.
        differences: these are predicted, from row to row.

    Raises:
        CorpusError: no numbers, a channel that a rule foretells, or nobody to hold out.
        StorageError: the disk is full or the cache cannot be written.
    """
    found = list(source.series())
    columns = Columns(channels=source.channels, covariates=source.covariates, rate=source.rate)
    if not found:
        raise CorpusError("There is no series.")
    learned, judged = split_by_person(found, validation, held_out, report)
    report_shared_persons(learned, judged, source.suggested_persons(), report)
    refuse_foreseen(learned, columns, differences=differences)
    sides = {"train": learned, "validation": judged}
    numbers = sum(series.rows.size for series in found)
    missing = int(sum(np.isnan(series.rows).sum() for series in found))
    if missing:
        report(f"{missing:,} of {numbers:,} numbers are missing; nothing is predicted there")
    return _dataset(sides, columns, {"split": "persons"}, cache, report)


def prepare_new(
    source: SeriesSource, columns: Columns, *, cache: Path | None = None, report: Report
) -> Dataset:
    """All series of a source as one part (`text`), to evaluate a model on. CorpusError where its columns are others."""
    if (source.channels, source.covariates) != (columns.channels, columns.covariates):
        raise CorpusError(
            f"The model knows the columns {listed([*columns.channels, *columns.covariates])}; "
            f"this has {listed([*source.channels, *source.covariates])}."
        )
    found, channels = list(source.series()), len(columns.channels)
    if not any(np.isfinite(series.rows[1:, :channels]).any() for series in found):
        raise CorpusError(
            "There is nothing to predict: no number of a channel follows a row.",
            remedy=f"series of two rows or more, with numbers in {listed(list(columns.channels))}",
        )
    return _dataset({"text": found}, columns, {"split": "none"}, cache, report)


def _dataset(
    sides: dict[str, list[Series]],
    columns: Columns,
    settings: dict[str, Any],
    cache: Path | None,
    report: Report,
) -> Dataset:
    blocks = {name: np.concatenate([_ended(series.rows) for series in part]) for name, part in sides.items()}
    digest = hashlib.sha256(json.dumps(columns._data()).encode())
    for name, part in sides.items():
        digest.update(json.dumps([name, [[s.name, s.person, len(s.rows)] for s in part]]).encode())
        digest.update(blocks[name].tobytes())
    settings = {"text": digest.hexdigest(), **settings}
    key = hashlib.sha256(json.dumps({"format": FORMAT, **settings}, sort_keys=True).encode()).hexdigest()[:32]
    cache = cache or default_cache()
    with aside(cache) as folder:
        final = cache / "datasets" / key
        if final.exists():
            say_reused(final, "numbers", report)
            return open_dataset(final)
        columns.save(folder / TOKENIZER)
        for name, part in sides.items():
            tokens_path(folder, name).write_bytes(blocks[name].data)  # tofile loses why a disk refused
            lengths = np.array([len(series.rows) + 1 for series in part], np.int64)
            starts_path(folder, name).write_bytes((np.cumsum(lengths) - lengths).astype("<u8").data)
        manifest = {
            **settings,
            "vocab_size": columns.vocab_size,
            "tokenizer_fingerprint": columns.fingerprint(),
            "dtype": DTYPE,
            "columns": columns._data(),
            "series": {name: [series.name for series in part] for name, part in sides.items()},
            "persons": {name: sorted({series.person for series in part}) for name, part in sides.items()},
            "splits": {
                name: {
                    "tokens": len(blocks[name]),
                    "bytes": blocks[name].nbytes,
                    "characters": blocks[name].size,
                    "documents": len(part),
                }
                for name, part in sides.items()
            },
        }
        return publish(folder, manifest, final, {})


def _ended(rows: np.ndarray) -> np.ndarray:
    return np.concatenate([rows, np.full((1, rows.shape[1]), np.nan, np.float32)]).astype(DTYPE)


def series_in(split: Split | tuple[np.ndarray, np.ndarray]) -> list[tuple[int, int]]:
    """Where each series of a split begins and ends in its rows, without the row of NaN after it."""
    tokens, starts = split if isinstance(split, tuple) else (split.tokens, split.starts)
    edges = [*starts.astype(np.int64).tolist(), len(tokens)]
    return [(begin, end - 1) for begin, end in pairwise(edges)]


def refuse_foreseen(learned: Sequence[Series], columns: Columns, *, differences: bool) -> None:
    """Raise CorpusError for all channels that have no numbers to learn from, never change in them, or, where
    differences are predicted, go on by the same amount from row to row, as a clock does: their scale would be zero, or
    nearly so."""
    names = listed([series.name for series in learned], 3)
    faults, clocks = {}, []
    for place, channel in enumerate(columns.channels):
        each = [series.rows[:, place].astype(np.float64) for series in learned]
        held = np.concatenate(each)
        held = held[~np.isnan(held)]
        steps = np.concatenate([np.diff(rows) for rows in each])
        steps = steps[~np.isnan(steps)]
        if not len(held):
            what = "has no numbers"
        elif held.min() == held.max():
            what = f"is {held[0]:g} in all {len(held):,} rows"
        elif differences and len(steps) > 1 and np.ptp(steps) <= STEADY * abs(steps.mean()):
            what = f"changes by {steps.mean():.3g} from each row to the next"
            clocks.append(channel)
        else:
            continue
        faults[channel] = what
    if faults:
        parts = [
            f"{'channel' if at else 'Channel'} {name!r} {what}"
            for at, (name, what) in enumerate(faults.items())
        ]
        clock = f"if {clocks[0]!r} is a clock, corpus.time={clocks[0]}; or " if clocks else ""
        raise CorpusError(
            f"{'; '.join(parts)} of what is learned from ({names}): there is nothing to predict.",
            remedy=f"{clock}leave them out: 'corpus.without=[{','.join(faults)}]', or name the others in "
            "corpus.channels",
        )


def split_by_person(
    found: list[Series], validation: float, held_out: Sequence[str], report: Report
) -> tuple[list[Series], list[Series]]:
    """Series to learn from, and series of other persons to evaluate on: those `held_out`, or a share of all persons by
    the hash of their names. Of one person alone, the end of each series."""
    persons = sorted({series.person for series in found})
    strangers = [name for name in held_out if name not in persons]
    if strangers:
        raise CorpusError(f"Nobody is called {strangers[0]!r}; there are {listed(persons)}.")
    if len(persons) == len(set(held_out)):
        raise CorpusError("Everybody is held out, so nobody is left to learn from.")
    if len(persons) == 1:
        report(f"all series are of one person ({persons[0]}): their ends, {validation:.0%}, are held out")
        cuts = [round((1 - validation) * len(series.rows)) for series in found]
        pairs = list(zip(found, cuts, strict=True))
        if max(len(s.rows) - cut for s, cut in pairs) < 2:
            raise CorpusError(
                "So little is held out that no end of a series has two rows.",
                remedy="a larger validation, or longer series",
            )
        return (
            [Series(s.name, s.person, s.rows[:cut]) for s, cut in pairs],
            [Series(f"{s.name}, its end", s.person, s.rows[cut:]) for s, cut in pairs],
        )
    chosen = set(held_out)
    if not chosen:
        by_hash = sorted(persons, key=lambda name: hashlib.sha256(name.encode()).digest())
        chosen = set(by_hash[: min(max(1, round(validation * len(persons))), len(persons) - 1)])
    if max(len(s.rows) for s in found if s.person in chosen) < 2:
        raise CorpusError(
            f"Who is held out ({listed(sorted(chosen))}) has no series of two rows.",
            remedy="name others: corpus.held_out=[…]",
        )
    report(f"held out: {listed(sorted(chosen))}; learned from: {listed(sorted(set(persons) - chosen))}")
    return [s for s in found if s.person not in chosen], [s for s in found if s.person in chosen]


def report_shared_persons(
    learned: Sequence[Series], judged: Sequence[Series], suggested: Suggested | None, report: Report
) -> None:
    """Say where somebody may stand on both sides: by names that look alike, or by those of the files."""
    sides = [{series.person for series in side} for side in (learned, judged)]
    if groups := alike(set.union(*sides)):
        torn = any(all(side & set(names) for side in sides) for names in groups)
        where = ", on both sides of the split" * (torn and not sides[0] & sides[1])
        which = listed([" and ".join(map(repr, names)) for names in groups], 3)
        report(f"names that look alike count as different persons{where}: {which}")
    if suggested is None or sides[0] & sides[1]:
        return
    by_name = [{suggested.of[person] for person in side if person in suggested.of} for side in sides]
    if torn := sorted(by_name[0] & by_name[1]):
        report(
            f"each file counts as another person's, but by the files' names {listed(torn)} "
            f"may stand on both sides of the split; if so: 'corpus.pattern={suggested.pattern}'"
        )
