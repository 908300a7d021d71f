"""How much of a text stands word for word in the training text: copied runs by length, and the longest of them.

The training text is streamed past an index of the generated texts, which are short: memory does not grow with it, and
each length costs a few passes of numpy over every character. A run of L characters is looked up by its fingerprint,
64 bits made by doubling: that of 2m characters from those of the two halves, any other length from the two powers of
two that cover it from both ends (as in Karp, Miller and Rosenberg 1972, without the sorting).

A number alone says little, because honest texts of a kind repeat each other too: names, verses, set phrases. So the
same is measured on held-out text of the same size, the control.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

LENGTHS = (10, 20, 50, 100, 200)
"""Characters of a run: a common turn, a phrase, a sentence, some lines, a paragraph."""

CHUNK = 1 << 19
"""Bytes of the training text at once; needs some 150 times as much memory at most."""

LIMIT = 64 << 20
"""Bytes of training text that are searched; of a longer one, chunks spread evenly over all of it."""

SHOWN = 200
"""Characters of the longest run that are kept to be shown."""


@dataclass(frozen=True)
class Run:
    """A passage that stands in both texts, character for character."""

    length: int
    text: str
    """Its first `SHOWN` characters."""
    byte: int
    """Where it first stands in the training text's file."""
    line: int
    """The line of that file, counted from 1."""


@dataclass(frozen=True)
class Copied:
    """What of some texts stands in the training text.

    Attributes:
        shares: by length L, the share of characters that lie in a copied run of at least L.
        longest: None if nothing of the shortest length is copied.
    """

    characters: int
    shares: dict[int, float]
    longest: Run | None


@dataclass(frozen=True)
class Copying(Copied):
    """The same with the shares text by text."""

    by_text: dict[int, list[float]]

    @property
    def together(self) -> Copied:
        """Of all texts, as evaluation.json has it."""
        return Copied(self.characters, self.shares, self.longest)


class Fingerprints:
    """64 bits for any run of a text, given as code points (N,)."""

    def __init__(self, codes: np.ndarray) -> None:
        self._levels = [_mixed(codes.astype(np.uint64))]  # level k: of the 2^k characters from each position

    def of(self, positions: np.ndarray, length: int) -> np.ndarray:
        """Of the runs of `length` ≥ 1 that begin at `positions`; all must lie within the text."""
        level = length.bit_length() - 1
        while len(self._levels) <= level:
            half, size = self._levels[-1], 1 << (len(self._levels) - 1)
            self._levels.append(_joined(half[:-size], half[size:]))
        halves = self._levels[level]
        return _joined(halves[positions], halves[positions + length - (1 << level)])


def _mixed(values: np.ndarray) -> np.ndarray:
    """Values spread over all 64 bits (splitmix64's finalizer)."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    return values ^ (values >> np.uint64(27))


def _joined(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    joined = (left * np.uint64(0xD6E8FEB86659FD93)) ^ right
    return (joined ^ (joined >> np.uint64(32))) * np.uint64(0x94D049BB133111EB)


class _Known:
    """Fingerprints of one length of the generated texts."""

    BITS = np.uint64(20)

    def __init__(self, fingerprints: np.ndarray) -> None:
        self._sorted = np.unique(fingerprints)
        self._table = np.zeros(1 << int(self.BITS), bool)
        self._table[fingerprints >> (np.uint64(64) - self.BITS)] = True

    def among(self, fingerprints: np.ndarray) -> np.ndarray:
        """Indices of those that are known. The table sorts out most of the others, which is what takes the time."""
        likely = np.flatnonzero(self._table[fingerprints >> (np.uint64(64) - self.BITS)])
        places = np.searchsorted(self._sorted, fingerprints[likely])
        places = np.minimum(places, len(self._sorted) - 1)
        return likely[self._sorted[places] == fingerprints[likely]]


class _Group:
    """Texts that are looked up together, one after the other as code points, and what was found of them so far."""

    def __init__(self, texts: Sequence[str], lengths: Sequence[int]) -> None:
        self.texts = texts
        self.codes = np.concatenate([_codes(text) for text in texts] or [np.zeros(0, np.uint32)])
        self.sizes = np.array([len(text) for text in texts], np.int64)
        self.ends = np.repeat(np.cumsum(self.sizes), self.sizes)  # of the text that each character lies in
        self.prints = Fingerprints(self.codes)
        self.found = {length: np.zeros(len(self.codes), bool) for length in lengths}
        self.longest, self.where, self.byte = min(lengths) - 1, 0, 0

    def starts(self, length: int) -> np.ndarray:
        """Positions at which a run of this length lies within one text."""
        return np.flatnonzero(np.arange(len(self.codes)) + length <= self.ends)

    def covered(self, length: int) -> np.ndarray:
        """Which characters lie in a copied run of at least this length."""
        steps = np.zeros(len(self.codes) + 1, np.int64)
        begins = np.flatnonzero(self.found[length])
        steps[begins] += 1
        np.subtract.at(steps, begins + length, 1)
        return np.cumsum(steps[:-1]) > 0

    def by_text(self, length: int) -> list[float]:
        """The share of each text that is covered."""
        stops = np.cumsum(self.sizes)
        totals = np.concatenate(([0], np.cumsum(self.covered(length))))
        pairs = zip(stops - self.sizes, stops, strict=True)
        return [float(totals[stop] - totals[start]) / max(1, stop - start) for start, stop in pairs]


def copying(
    groups: Mapping[str, Sequence[str]],
    train_text: Path,
    *,
    lengths: Sequence[int] = LENGTHS,
    limit: int = LIMIT,
) -> tuple[dict[str, Copying], float]:
    """For each group of texts, what of it stands in a UTF-8 file; and the share of the file that was searched.

    Runs never reach from one text into the next. The groups are looked up together, in one pass over the file.
    """
    held = {name: _Group(texts, sorted(lengths)) for name, texts in groups.items()}
    longest = max((int(group.sizes.max(initial=0)) for group in held.values()), default=0)
    searched, size = 0, train_text.stat().st_size
    for begin, text, fresh in _chunks(train_text, 4 * longest, limit):
        searched += fresh
        codes = _codes(text)
        prints = Fingerprints(codes)
        for group in held.values():
            _search(group, codes, prints, text, begin)
    copied = {name: _result(group, train_text) for name, group in held.items()}
    return copied, searched / size if size else 1.0


def _search(group: _Group, codes: np.ndarray, prints: Fingerprints, text: str, begin: int) -> None:
    """Note what one chunk of the training text has of a group."""
    places, reached = np.arange(len(codes)), 0
    for length in group.found:  # what does not begin a run of one length begins none of the next
        here = _matching(group, places, prints, len(codes), length)
        if not len(here):
            break
        places, reached = here, length
        own = group.starts(length)
        known = _Known(prints.of(places, length))
        group.found[length][own[known.among(group.prints.of(own, length))]] = True
    if reached:
        _grow(group, places, prints, text, begin, reached)


def _matching(group: _Group, places: np.ndarray, prints: Fingerprints, size: int, length: int) -> np.ndarray:
    """The places, of those given, where a run of this length begins that the group has too."""
    places = places[places + length <= size]
    own = group.starts(length)
    if not len(places) or not len(own):
        return places[:0]
    return places[_Known(group.prints.of(own, length)).among(prints.of(places, length))]


def _grow(
    group: _Group, places: np.ndarray, prints: Fingerprints, text: str, begin: int, reached: int
) -> None:
    """Find the longest run that begins at one of the places, where those of `reached` do; keep it if it is longer
    than what the chunks before had."""
    low, step, size = max(group.longest, reached), 1, len(text)
    if group.longest >= reached or not len(places):
        places = _matching(group, places, prints, size, low + 1)
        low += 1
    if not len(places):
        return
    while len(here := _matching(group, places, prints, size, low + step)):
        places, low, step = here, low + step, 2 * step
    while step > 1:  # low is reached, low + step is not
        step //= 2
        if len(here := _matching(group, places, prints, size, low + step)):
            places, low = here, low + step
    own = group.starts(low)
    same = group.prints.of(own, low) == prints.of(places[:1], low)
    group.longest, group.where = low, int(own[same][0])
    group.byte = begin + len(text[: int(places[0])].encode())


def _result(group: _Group, train_text: Path) -> Copying:
    lengths = group.found
    longest = None
    if lengths[min(lengths)].any():
        passage = group.codes[group.where : group.where + min(group.longest, SHOWN)]
        text = passage.astype("<u4").tobytes().decode("utf-32-le")
        longest = Run(group.longest, text, group.byte, _line(train_text, group.byte))
    return Copying(
        characters=len(group.codes),
        shares={
            length: float(group.covered(length).mean()) if len(group.codes) else 0.0 for length in lengths
        },
        by_text={length: group.by_text(length) for length in lengths},
        longest=longest,
    )


def _codes(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


def _chunks(path: Path, overlap: int, limit: int) -> Iterator[tuple[int, str, int]]:
    """A file's text in chunks that overlap by `overlap` bytes: (byte of the first character, text, new bytes).

    Of a file larger than `limit`, as many chunks as fit into it, spread evenly.
    """
    size = path.stat().st_size
    count = -(-size // CHUNK)
    wanted = min(count, max(1, limit // CHUNK))
    with path.open("rb") as file:
        for number in range(wanted):
            begin = number * count // wanted * CHUNK
            file.seek(begin)
            data = file.read(CHUNK + overlap)
            whole = data.lstrip(_CONTINUATION)  # the first character may belong to the chunk before
            fresh = min(CHUNK, len(data))
            yield begin + len(data) - len(whole), whole.decode("utf-8", errors="ignore"), fresh


_CONTINUATION = bytes(range(0x80, 0xC0))


def _line(path: Path, byte: int) -> int:
    """The line, counted from 1, in which a byte of a file stands."""
    lines = 1
    with path.open("rb") as file:
        while byte > 0 and (data := file.read(min(byte, CHUNK))):
            lines, byte = lines + data.count(b"\n"), byte - len(data)
    return lines
