"""How the symbols of a vocabulary are written in units of 8 bits, for context mixing: one unit, or two.

What a text has often takes one unit, and a character of ASCII the unit of its own number, so that bits mean what they
mean there: a capital, a digit, a mark. The rest begins with units that stand for nothing else. V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

UNITS = 256
ASCII = 128
MOST_SYMBOLS = 1 + (UNITS - 1) * UNITS
"""That have codes."""
CODE = 16
"""Bits of the longest code."""
FIRST_OF_TWO, LOWER, UPPER, DIGIT, SPACE, LINE, CONTROL, END, PAUSE, QUOTE, OTHER = range(11)
"""Kinds of units, as mixing.c numbers them: the first of two; and kinds of characters."""
MARKS = {
    "\n": LINE,
    **dict.fromkeys(" \t", SPACE),
    **dict.fromkeys(".!?", END),
    **dict.fromkeys(",;:", PAUSE),
    **dict.fromkeys("\"'", QUOTE),
}
BRANCH = np.dtype(
    [
        *((name, np.int32) for name in ("bit", "code", "low", "middle", "high", "left", "right")),
        ("share", np.float32),
    ]
)
"""`Branch` of mixing.c."""
CODES = ("units", "lengths", "kinds", "folds")
"""What a checkpoint has of `Codes`; the rest comes from its text."""
UNSEEN = 0.1
"""How often a symbol that the text has not counts as had, where symbols share by how often it has them."""


def kind_of(text: str) -> int:
    """What kind of character a text begins with."""
    first = text[:1]
    if first in MARKS:
        return MARKS[first]
    if first.isalpha():
        return UPPER if first.isupper() else LOWER
    return DIGIT if first.isdigit() else CONTROL if first < " " else OTHER


def refuse_codes(
    units: np.ndarray, lengths: np.ndarray, kinds: np.ndarray, folds: np.ndarray, *, vocab_size: int
) -> None:
    """Raise ValueError for codes of a checkpoint that the kernel cannot trust; see `Codes`."""
    shapes = ((vocab_size, 2), (vocab_size,), (UNITS,), (UNITS,))
    found = (units, lengths, kinds, folds)
    if any(each.dtype != np.uint8 or each.shape != shape for each, shape in zip(found, shapes, strict=True)):
        raise ValueError(f"{', '.join(CODES)} must be numbers of 8 bits, for {vocab_size} tokens")
    if not ((lengths == 1) | (lengths == 2)).all():
        raise ValueError("lengths must be 1 or 2")
    first, two = units[:, 0].astype(np.int64), lengths == 2
    # Sorted, for np.unique would import numpy.ma.
    whole = np.sort(first << 9 | np.where(two, units[:, 1].astype(np.int64) << 1 | 1, 0))
    if (whole[1:] == whole[:-1]).any() or np.bincount(first[two], minlength=UNITS)[first[~two]].any():
        raise ValueError("units must be a code of its own for each token, of which none begins another")


@dataclass(frozen=True)
class Codes:
    """A vocabulary's.

    Attributes:
        units: (V, 2) uint8 of each symbol.
        lengths: (V,) uint8, 1 or 2.
        kinds, folds: (256,) uint8 of each unit the kind, and the unit that stands for it in words.
        counts: (V,) how often the text has each symbol.
    """

    units: np.ndarray
    lengths: np.ndarray
    kinds: np.ndarray
    folds: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, counts: np.ndarray, texts: Sequence[str]) -> Codes:
        """From how often the text has each symbol (V,), and what each is as text. Raises ValueError for more than
        MOST_SYMBOLS."""
        size = len(counts)
        if size > MOST_SYMBOLS:
            raise ValueError(f"{size:,} symbols have no codes of two units; {MOST_SYMBOLS:,} are the most")
        firsts = max(0, -(-(size - UNITS) // (UNITS - 1)))
        by_count = np.lexsort((np.arange(size), -counts))
        alone, others = by_count[: UNITS - firsts], by_count[UNITS - firsts :]
        units, lengths = np.zeros((size, 2), np.uint8), np.ones(size, np.uint8)
        free = set(range(UNITS - firsts))
        plain = {
            ord(texts[s]): s for s in reversed(alone.tolist()) if len(texts[s]) == 1 and texts[s] < "\x80"
        }
        plain = {code: symbol for code, symbol in plain.items() if code in free}
        for code, symbol in plain.items():
            units[symbol, 0] = code
        rest = sorted(set(alone.tolist()) - set(plain.values()), key=lambda s: (texts[s], s))
        values = sorted(free - plain.keys(), key=lambda value: (value < ASCII, value))
        for value, symbol in zip(values, rest, strict=False):
            units[symbol, 0] = value
        for place, symbol in enumerate(sorted(others.tolist(), key=lambda s: (texts[s], s))):
            units[symbol] = UNITS - firsts + place // UNITS, place % UNITS
            lengths[symbol] = 2
        return cls(units, lengths, *_characters(units, alone.tolist(), texts, firsts), counts)

    @classmethod
    def of_bytes(cls) -> Codes:
        """Of the 256 bytes of UTF-8; those beyond ASCII are taken for letters."""
        texts = [chr(byte) if byte < ASCII else "" for byte in range(UNITS)]
        kinds = [kind_of(text) if text else LOWER for text in texts]
        folds = [ord(text.lower()) if text else byte for byte, text in enumerate(texts)]
        units = np.stack((np.arange(UNITS), np.zeros(UNITS)), axis=1).astype(np.uint8)
        ones = np.ones(UNITS, np.uint8)
        return cls(units, ones, np.array(kinds, np.uint8), np.array(folds, np.uint8), ones)

    @property
    def size(self) -> int:
        """V."""
        return len(self.units)

    def taken_by(self, tokens: np.ndarray) -> int:
        """How many units tokens (N,) take."""
        return int(self.lengths[tokens].sum(dtype=np.int64))

    @cached_property
    def symbols(self) -> np.ndarray:
        """(V,) int32, in the order of their codes."""
        return np.argsort(self._numbers, kind="stable").astype(np.int32)

    @cached_property
    def branches(self) -> np.ndarray:
        """(K,) of `BRANCH`, the root first: the bits that tell symbols apart."""
        numbers = self._numbers[self.symbols]
        had = np.concatenate(([0], np.cumsum(self.counts[self.symbols])))
        found: list[list[float]] = []

        def grow(low: int, high: int) -> int:
            if high - low < 2:
                return -1
            bit = CODE - int(numbers[low] ^ numbers[high - 1]).bit_length()
            code = int(numbers[low]) >> (CODE - bit)
            middle = low + int(np.searchsorted(numbers[low:high], (2 * code + 1) << (CODE - 1 - bit)))
            here = len(found)
            ones, of_all = (had[high] - had[begin] + UNSEEN * (high - begin) for begin in (middle, low))
            found.append([bit, code, low, middle, high, -1, -1, ones / of_all])
            found[here][5:7] = grow(low, middle), grow(middle, high)
            return here

        grow(0, self.size)
        return np.array([tuple(each) for each in found], BRANCH)

    @cached_property
    def paths(self) -> np.ndarray:
        """(V, CODE) int32, of each symbol the branch at each bit of its code; −1: no symbols are told apart there."""
        found = np.full((self.size, CODE), -1, np.int32)
        for number, branch in enumerate(self.branches):
            found[self.symbols[branch["low"] : branch["high"]], branch["bit"]] = number
        return found

    def encode(self, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The units of tokens (N,), and of each token (N,) how many units stand up to its end."""
        lengths = self.lengths[tokens].astype(np.int64)
        ends = np.cumsum(lengths)
        if not len(tokens) or int(ends[-1]) == len(tokens):
            return np.ascontiguousarray(self.units[tokens, 0]), ends
        units = np.empty(int(ends[-1]), np.uint8)
        units[ends - lengths] = self.units[tokens, 0]
        two = lengths == 2
        units[ends[two] - 1] = self.units[tokens[two], 1]
        return units, ends

    @cached_property
    def _numbers(self) -> np.ndarray:
        return self.units[:, 0].astype(np.int64) << 8 | self.units[:, 1]


def _characters(
    units: np.ndarray, alone: list[int], texts: Sequence[str], firsts: int
) -> tuple[np.ndarray, np.ndarray]:
    """(256,) kinds and (256,) folds of units."""
    kinds, folds = np.full(UNITS, OTHER, np.uint8), np.arange(UNITS, dtype=np.uint8)
    kinds[UNITS - firsts :] = FIRST_OF_TWO
    by_text = {texts[symbol]: units[symbol, 0] for symbol in reversed(alone) if texts[symbol]}
    for symbol in alone:
        unit, text = units[symbol, 0], texts[symbol]
        kinds[unit] = kind_of(text)
        folds[unit] = by_text.get(text.lower(), unit)
    return kinds, folds
