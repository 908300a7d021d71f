"""Which part of a corpus a model learns from, and which is kept to judge it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from octavo.corpus import Report
from octavo.corpus.records.turns import Turns
from octavo.data.text import PIECE, CanonicalText, Text
from octavo.errors import CorpusError

PARTS = ("train", "validation", "test")
SHORT = 1000
"""Characters below which a text with an empty part is called too short."""


@dataclass(frozen=True)
class Pieces:
    """Documents chosen from a text, or what a cut left of them: byte offsets and characters, uint64 each."""

    starts: np.ndarray
    stops: np.ndarray
    characters: np.ndarray


def split_text(
    text: CanonicalText, how: str, validation: float, folder: Path, report: Report, *, test: float = 0.0
) -> tuple[dict[str, Text], int]:
    """Write `train.txt`, `validation.txt` and, of a share above 0, `test.txt` into a folder; the text's own file is
    used up.

    Args:
        how: "contiguous" cuts the stream of characters at 1 - validation: one document exactly there, several
            at the next boundary between two. "documents" decides by each document's hash, so that a document
            keeps its side when others come and go, and takes out all but the first of those that repeat each
            other. "prompts" does the same with documents that are conversations or preferences, by the hash of
            what was asked; "sources" with pairs, so that those which share a source or a target, directly or
            through others, stand on one side. "files" keeps the end of every file: whole documents, or of a file's
            only one its last part.
        test: the share after the validation part. Both are held out together, and then cut in two the same way.

    Returns:
        The parts, and how many documents were taken out.

    Raises:
        CorpusError: a part would be empty.
    """
    removed = 0
    if how in ("documents", "prompts", "sources"):
        fresh = _fresh(text)
        if how == "sources":
            drawn = _drawn_of_pairs(text, fresh, validation, test, report)
        else:
            drawn = _uniform(_asked(text) if how == "prompts" else text.digests[:, 0])
        chosen, removed = _by_draw(text, fresh, drawn, validation, test), int((~fresh).sum())
    else:
        learned, held_out = _cut(text, how, validation + test, report)
        chosen = (learned, held_out)
        if test and len(held_out.starts):
            chosen = (learned, *_cut(_of(text, held_out), how, test / (validation + test), _unheard))
    for name, part in zip(PARTS, chosen, strict=False):
        if not part.characters.sum():
            count = f"{len(text.starts):,} document{'s' * (len(text.starts) != 1)}"
            if removed:
                count += f", of which {removed:,} repeat{'s' * (removed == 1)} others,"
            shares = f"validation={validation:g}" + (f" and test={test:g}" if test else "")
            which = "share, or test=0" if test else "validation share"
            if how in ("prompts", "sources"):
                which += f", or take split=documents, which lets a {how[:-1]} stand on both sides"
            if text.total_characters < SHORT and not removed and how not in ("prompts", "sources"):
                raise CorpusError(
                    f"This text is too short ({text.total_characters:,} characters).",
                    remedy=f"Give more text, or another {which} (it is {shares}).",
                )
            raise CorpusError(
                f"With {count} of {text.total_characters:,} characters in all, split={how} and "
                f"{shares}, the {name} part would be empty.",
                remedy=f"Give more text, or another {which}.",
            )
    if removed:
        what = "document that repeats" if removed == 1 else "documents that repeat"
        report(f"removed {removed:,} {what} an earlier one")
    paths = [folder / f"{name}.txt" for name in PARTS]
    kept = [_write(text, part, path) for part, path in zip(chosen[1:], paths[1:], strict=False)]
    if how == "contiguous":
        begun = _begin(text, chosen[0], paths[0])
    else:
        begun = _write(text, chosen[0], paths[0])
        text.path.unlink()
    return dict(zip(PARTS, (begun, *kept), strict=False)), removed


def _cut(text: CanonicalText, how: str, share: float, report: Report) -> tuple[Pieces, Pieces]:
    """What stays, and the share that is held out."""
    if how == "files":
        return _ends_of_files(text, share)
    if text.several:
        return _at_boundary(text, share, report)
    return _inside_last(text, int((1 - share) * int(text.characters[0])))


def _of(text: CanonicalText, part: Pieces) -> CanonicalText:
    """A part as a text of its own. Of a document that was cut it has the end, so their ends tell which they are."""
    files = text.files[np.searchsorted(text.stops, part.stops)]
    return replace(text, starts=part.starts, stops=part.stops, characters=part.characters, files=files)


def _unheard(sentence: str) -> None:
    """Nobody is told where the held-out text is cut."""


def _asked(text: CanonicalText) -> np.ndarray:
    """A hash of what was asked in each conversation, uint64; of one that answers nothing, of all of it."""
    keys = text.digests[:, 0].copy()
    for at, document in enumerate(_documents(text)):
        if prompt := Turns.of(document).prompt:
            keys[at] = _hash("\0".join(f"{one.role} {_bare(one.content)}" for one in prompt))
    return keys


def _bare(text: str) -> str:
    """Spaces and line breaks make no other prompt and no other sentence."""
    return "".join(text.split())


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def _documents(text: CanonicalText) -> Iterator[str]:
    with text.path.open("rb", buffering=PIECE) as file:
        for start, stop in zip(text.starts.tolist(), text.stops.tolist(), strict=True):
            file.seek(start)
            yield file.read(stop - start).decode()


def _fresh(text: CanonicalText) -> np.ndarray:
    """Which documents (N,) repeat no earlier one."""
    high, low = text.digests.T
    order = np.lexsort((low, high))  # stable, so of equal documents the earliest comes first
    first = np.ones(len(order), bool)
    first[1:] = (high[order][1:] != high[order][:-1]) | (low[order][1:] != low[order][:-1])
    fresh = np.zeros(len(order), bool)
    fresh[order[first]] = True
    return fresh


def _drawn_of_pairs(
    text: CanonicalText, fresh: np.ndarray, validation: float, test: float, report: Report
) -> np.ndarray:
    """A number from 0 to 1 for each pair (N,), the same for all of a group that sources or targets link. A group that
    alone is larger than a held-out part gets 1, and so is learned from: else one draw would decide the parts' sizes.
    """
    sides = np.empty((len(fresh), 2), np.uint64)
    for at, document in enumerate(_documents(text)):
        source, _, target = map(_bare, document.partition("\n"))
        # What has one side alone shares nothing with others.
        sides[at] = [_hash(source), _hash(target)] if target else [_hash(document)] * 2
    groups = _linked(sides)
    least = np.full(len(fresh), np.iinfo(np.uint64).max)
    np.minimum.at(least, groups, sides[:, 0])  # so a group's number hangs on no order
    sizes = np.bincount(groups[fresh], minlength=len(fresh))
    large = sizes > min(filter(None, (validation, test))) * fresh.sum()
    drawn = np.where(large, 1.0, _uniform(_mixed(least)))[groups]
    linked, largest = int(sizes[sizes > 1].sum()), int(sizes.max())
    if linked:
        linkage = f"{linked:,} of {int(fresh.sum()):,} pairs share a source or a target with another: no such sentence "
        linkage += "stands on both sides of the split"
        if large.any():
            linkage += f"; the largest group of them, {largest:,} pairs, stays in training"
        report(linkage)
    return drawn


def _linked(sides: np.ndarray) -> np.ndarray:
    """For each pair of hashes (N, 2) the number of the first pair that it is linked with, through common sources and
    targets (N,)."""
    ends = [np.unique(sides[:, side], return_inverse=True)[1] for side in (0, 1)]
    groups = np.arange(len(sides))
    while True:
        before = groups
        for end in ends:
            first = np.full(len(sides), len(sides))
            np.minimum.at(first, end, groups)
            groups = first[end]
        groups = groups[groups]  # halves the way to the first of a long chain
        if np.array_equal(groups, before):
            return groups


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """Other uint64, one for one (the finaliser of splitmix64): the least of several hashes is no even draw."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
    return numbers ^ (numbers >> np.uint64(31))


def _uniform(numbers: np.ndarray) -> np.ndarray:
    """Even draws from 0 to below 1, of hashes."""
    return (numbers >> np.uint64(11)) * 2.0**-53


def _by_draw(
    text: CanonicalText, kept: np.ndarray, drawn: np.ndarray, validation: float, test: float
) -> tuple[Pieces, ...]:
    """Of the documents that are kept, those on each side by their draws (N,): the lowest are validated on."""
    borders = (0.0, validation, validation + test) if test else (0.0, validation)
    sides = [drawn >= borders[-1]]
    sides += [(drawn >= low) & (drawn < high) for low, high in pairwise(borders)]
    return tuple(_chosen(text, kept & side) for side in sides)


def _chosen(text: Text, documents: np.ndarray | slice) -> Pieces:
    return Pieces(text.starts[documents], text.stops[documents], text.characters[documents])


def _at_boundary(text: CanonicalText, validation: float, report: Report) -> tuple[Pieces, Pieces]:
    point = int((1 - validation) * text.total_characters)
    begins = np.cumsum(text.characters + np.uint64(1)) - text.characters - np.uint64(1)
    first = int(np.searchsorted(begins, point))
    if first == len(begins):
        report("the split falls inside the last document, which is cut in two")
        return _inside_last(text, point - int(begins[-1]))
    again = int(np.isin(text.digests[first:, 0], text.digests[:first, 0]).sum())
    if again:
        report(
            f"{again:,} of {len(begins) - first:,} held-out documents stand in the training part too, "
            "so the model can know them by heart; split=documents keeps them apart"
        )
    return _chosen(text, slice(first)), _chosen(text, slice(first, None))


def _ends_of_files(text: CanonicalText, validation: float) -> tuple[Pieces, Pieces]:
    """Of every file the documents after 1 - validation of its characters; where none begins there, the end of the
    last. Both parts keep the text's order.
    """
    order = np.argsort(text.files, kind="stable")
    borders = np.flatnonzero(np.diff(text.files[order])) + 1
    held_out = np.zeros(len(order), bool)
    stays = np.zeros(len(order), np.uint64)  # characters that stay in training, of documents that are cut
    for documents in np.split(order, borders):
        sizes = text.characters[documents].astype(np.int64) + 1
        begins = np.cumsum(sizes) - sizes
        point = int((1 - validation) * int(sizes.sum()))
        late = documents[begins >= point]
        if len(late):
            held_out[late] = True
        else:
            stays[documents[-1]] = point - int(begins[-1])
    cut = np.flatnonzero(stays)
    middles = [_byte_offset(text, int(text.starts[at]), int(stays[at])) for at in cut.tolist()]
    train, kept = np.flatnonzero(~held_out), np.sort(np.r_[np.flatnonzero(held_out), cut])
    learned, judged = _chosen(text, train), _chosen(text, kept)
    into, out_of = np.searchsorted(train, cut), np.searchsorted(kept, cut)
    learned.stops[into] = judged.starts[out_of] = np.array(middles, np.uint64)
    learned.characters[into] = stays[cut]
    judged.characters[out_of] -= stays[cut]
    filled = judged.characters > 0  # a document of one character leaves nothing
    return learned, Pieces(judged.starts[filled], judged.stops[filled], judged.characters[filled])


def _inside_last(text: Text, characters: int) -> tuple[Pieces, Pieces]:
    """Cut the last document after so many characters."""
    characters = min(characters, int(text.characters[-1]))
    cut = _byte_offset(text, int(text.starts[-1]), characters)
    before, after = (
        Pieces(text.starts.copy(), text.stops.copy(), text.characters.copy()),
        Pieces(text.starts[-1:].copy(), text.stops[-1:].copy(), text.characters[-1:].copy()),
    )
    before.stops[-1] = after.starts[-1] = cut
    before.characters[-1] = characters
    after.characters[-1] -= np.uint64(characters)
    return before, after


def _byte_offset(text: Text, start: int, characters: int) -> int:
    """Where a character stands, counted from the one that stands at byte `start`."""
    with text.path.open("rb") as file:
        file.seek(start)
        while True:
            chunk = np.frombuffer(file.read(PIECE), np.uint8)
            if not chunk.size:
                return start
            # Every byte of a character but its first is 10xxxxxx.
            firsts = (chunk & 0xC0) != 0x80
            inside = int(np.count_nonzero(firsts))
            if characters < inside:
                return start + int(np.flatnonzero(firsts)[characters])
            characters -= inside
            start += chunk.size


def _write(text: Text, part: Pieces, path: Path) -> Text:
    """Copy the chosen documents, those that stand side by side at one go."""
    sizes = part.stops - part.starts
    gaps = np.flatnonzero(part.starts[1:] != part.stops[:-1] + np.uint64(1)) + 1
    firsts, lasts = np.r_[0, gaps], np.r_[gaps, len(sizes)] - 1
    with text.path.open("rb") as source, path.open("wb", buffering=PIECE) as target:
        for start, stop in zip(part.starts[firsts].tolist(), part.stops[lasts].tolist(), strict=True):
            source.seek(start)
            while start < stop:
                chunk = source.read(min(PIECE, stop - start))
                target.write(chunk)
                start += len(chunk)
            if text.several:
                target.write(b"\n")
    stops = np.cumsum(sizes + np.uint64(text.several)) - np.uint64(text.several)
    return Text(path, stops - sizes, stops, part.characters, text.several)


def _begin(text: Text, part: Pieces, path: Path) -> Text:
    """Make the text's own file the part that it begins with, which saves copying nearly all of it."""
    with text.path.open("r+b") as file:
        file.truncate(int(part.stops[-1]))
        file.seek(0, os.SEEK_END)
        file.write(b"\n" * text.several)
    text.path.rename(path)
    return Text(path, part.starts, part.stops, part.characters, text.several)
