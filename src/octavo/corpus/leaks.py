"""Whether what a model is judged on stands in what it learns from: whole documents, or runs of words.

Runs of 13 words are the habit of the field (Brown et al. 2020). The runs of the judged part are kept as sorted
64-bit hashes, and the training part streams by.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from octavo.corpus.cleaning.cleaned import in_portions
from octavo.corpus.cleaning.duplicates import bare
from octavo.corpus.documents import Source
from octavo.corpus.words import WORDS
from octavo.errors import CorpusError

Progress = Callable[[int, int | None], None]

MOST_RUNS = 1 << 24
"""Runs of words that are kept; of more, every second, fourth, … by hash."""

_MIX = np.uint64(0x9E3779B97F4A7C15)
_MOST_WORDS = 1 << 20  # words whose hashes are kept at hand


@dataclass(frozen=True)
class Leak:
    """A judged document that the training part knows.

    Attributes:
        document: its name.
        exact: whether a training document is the same but for white space.
        share: of its runs of words, those that stand somewhere in the training part.
        like: the training document that has most of them.
        example: a run of words of both.
    """

    document: str
    exact: bool
    share: float
    like: str
    example: str


@dataclass(frozen=True)
class LeakCheck:
    """What was found.

    Attributes:
        leaks: the worst first.
        documents: judged documents, how many were looked at.
        training_documents: what they were compared with.
        share: of all runs of words of the judged part, those that the training part has.
        words: words in a run.
        sampled: one of so many runs was looked at; 1 means all.
        too_short: judged documents with fewer words than a run, which only an exact repetition can tell.
    """

    leaks: list[Leak]
    documents: int
    training_documents: int
    share: float
    words: int
    sampled: int
    too_short: int


class _Runs:
    """Hashes of the runs of words of texts."""

    def __init__(self, words: int) -> None:
        self._words = words
        self._known: dict[str, int] = {}

    def __call__(self, text: str) -> tuple[np.ndarray, list[str]]:
        """A hash for each run, by its first word, and the words."""
        words = WORDS.findall(text.casefold())
        known = self._known
        if len(known) > _MOST_WORDS:
            known.clear()
        for word in words:
            if word not in known:
                known[word] = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")
        hashes = np.fromiter(map(known.__getitem__, words), np.uint64, len(words))
        count = max(0, len(words) - self._words + 1)
        runs = np.zeros(count, np.uint64)
        for offset in range(self._words if count else 0):
            runs = runs * _MIX + hashes[offset : offset + count]
        return runs ^ (runs >> np.uint64(29)), words


class _Judged:
    """The judged part: its runs, sorted, and what is known of each document so far."""

    def __init__(self, source: Source, runs: _Runs) -> None:
        self.names: list[str] = []
        self.digests: dict[bytes, list[int]] = {}
        self.sampled = 1
        hashes, owners = [np.empty(0, np.uint64)], [np.empty(0, np.int32)]
        held = 0
        too_short = []
        for number, document in enumerate(source.documents()):
            self.names.append(f"document {number + 1:,} ({document.name})")
            some, whole = False, hashlib.blake2b(digest_size=16)
            for text in in_portions(document.pieces):
                whole.update(bare(text))
                found = np.unique(runs(text)[0])
                some = some or len(found) > 0
                found = found[found % np.uint64(self.sampled) == 0]
                hashes.append(found)
                owners.append(np.full(len(found), number, np.int32))
                held += len(found)
            self.digests.setdefault(whole.digest(), []).append(number)
            too_short.append(not some)
            if held > MOST_RUNS:
                self.sampled *= 2
                keep = [each % np.uint64(self.sampled) == 0 for each in hashes]
                owners = [each[kept] for each, kept in zip(owners, keep, strict=True)]
                hashes = [each[kept] for each, kept in zip(hashes, keep, strict=True)]
                held = sum(map(len, hashes))
        together = np.concatenate(hashes)
        order = np.argsort(together, kind="stable")
        self.hashes, self.owners = together[order], np.concatenate(owners)[order]
        self.seen = np.zeros(len(order), bool)
        self.too_short = sum(too_short)
        self.exact: dict[int, str] = {}
        self.best: dict[
            int, tuple[int, str, str]
        ] = {}  # judged document: common runs, training document, example

    def meet(self, runs: np.ndarray, words: list[str], name: str, length: int) -> None:
        """A training text comes by."""
        first = np.searchsorted(self.hashes, runs, side="left")
        inside = first < len(self.hashes)
        hit = np.zeros(len(runs), bool)
        hit[inside] = self.hashes[first[inside]] == runs[inside]
        if not hit.any():
            return
        _, where = np.unique(runs[hit], return_index=True)
        places = np.sort(np.flatnonzero(hit)[where])
        last = np.searchsorted(self.hashes, runs[places], side="right")
        entries = np.concatenate(
            [np.arange(start, stop) for start, stop in zip(first[places], last, strict=True)]
        )
        starts = np.repeat(places, last - first[places])
        self.seen[entries] = True
        owners = self.owners[entries]
        for owner, at, count in zip(
            *np.unique(owners, return_index=True), np.unique(owners, return_counts=True)[1], strict=True
        ):
            if count > self.best.get(int(owner), (0, "", ""))[0]:
                start = int(starts[at])
                self.best[int(owner)] = int(count), name, " ".join(words[start : start + length])


def find_leaks(
    training: Source,
    judged: Source,
    *,
    words: int = 13,
    least: float = 0.5,
    progress: Progress = lambda done, total: None,
) -> LeakCheck:
    """Look for documents of `judged` in `training`.

    Args:
        words: words in a run.
        least: share of a document's runs, found in the training part, from which on it is named.

    Raises:
        CorpusError: one of the two has no documents, or cannot be read.
    """
    runs = _Runs(words)
    part = _Judged(judged, runs)
    count = done = 0
    total = training.total_bytes
    for number, document in enumerate(training.documents()):
        count += 1
        name = f"document {number + 1:,} ({document.name})"
        whole = hashlib.blake2b(digest_size=16)
        for text in in_portions(document.pieces):
            whole.update(bare(text))
            part.meet(*runs(text), name, words)
            done += len(text)
            progress(done, total)
        for same in part.digests.get(whole.digest(), ()):
            part.exact.setdefault(same, name)
    if not count or not part.names:
        raise CorpusError("One of the two parts has no documents, so there is nothing to compare.")
    return LeakCheck(
        leaks=_named(part, least),
        documents=len(part.names),
        training_documents=count,
        share=float(part.seen.mean()) if len(part.seen) else 0.0,
        words=words,
        sampled=part.sampled,
        too_short=part.too_short,
    )


def _named(part: _Judged, least: float) -> list[Leak]:
    size = len(part.names)
    all_runs = np.bincount(part.owners, minlength=size)
    common = np.bincount(part.owners[part.seen], minlength=size)
    shares = common / np.maximum(1, all_runs)
    found = sorted({*part.exact, *np.flatnonzero((shares >= least) & (common > 0)).tolist()})
    leaks = [
        Leak(
            document=part.names[number],
            exact=number in part.exact,
            share=1.0 if number in part.exact else float(shares[number]),
            like=part.exact.get(number) or part.best[number][1],
            example=part.best.get(number, (0, "", ""))[2],
        )
        for number in found
    ]
    return sorted(leaks, key=lambda leak: (not leak.exact, -leak.share))
