"""The slow twin of mixing.c, in numpy: a kilobyte a second, to be read and to be compared with.

It takes the place of the kernel where there is no compiler. Names are those of mixing.c, which says what they mean.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import NamedTuple

import numpy as np

from octavo.ngram.codes import CODE, DIGIT, FIRST_OF_TWO, LINE, LOWER, QUOTE, SPACE, UPPER, Codes

ORDERS, FOUR, SPELT, CONTEXTS, MATCHES, DIRECT, STEPS, ESTIMATES = 8, 4, 8, 50, 2, 4, 32, 3
CONSTANT = CONTEXTS + 2 * MATCHES + DIRECT
AGREED = CONSTANT + 1
HEARD, INPUTS = AGREED + CONTEXTS, 112
SHARED, FINALS = 2048, 3
ROWS = (256, 256, 2048, 144, 257 * 8, 256, 256, 256, SHARED, SHARED, SHARED)
FIRST_ROW, SETS, SETS_PADDED = np.concatenate(([0], np.cumsum(ROWS[:-1]))), len(ROWS), 16
LONGEST, STRAYED, WINDOW, FORGETS, DIRECT_FORGETS, WAYS = 64, 16, 256, 1000, 250, 4
NESTED = INDENTS = 32
STRETCHED, FOLLOWS, KEPT, NEAR = 4096, 1024, 1 << 16, 10
LENGTH_KINDS = (*range(16), 16, 20, 24, 28, 32, 40, 48, 64)
MATCH_LEAST, MOST_COUNTED = (12, 5), (41, 24, 12, 7, 5, 5)
LINES_PER_UNIT, MOST_LINES = 12, 1 << 22
RATE, FIRST_RATE, RATE_FALLS, FINAL_RATE, CORRECTED = 0.002, 0.02, 32768.0, 0.002, 0.02
CERTAINTY, FIRST_WEIGHT, FIRST_HEARD, BIAS, LARGEST, LEAST, MOST_HEARD = (
    3.0,
    0.08,
    0.2,
    0.3,
    12.0,
    1 / 65536,
    10,
)
WEIGHTS = sum(ROWS) * INPUTS + FINALS * 256 * SETS_PADDED
MIXER = 2
"""Which mixer saved weights are of: one more with each change of what they weigh."""
UNLIKELY = -10
WORD, PART = (1 << 64) - 1, (1 << 32) - 1
ONES = (1 << 22) - 1


def refuse_mixer(version: np.ndarray) -> None:
    """Raise ValueError for weights of another mixer, which weigh something else."""
    if version.shape != () or version.dtype != np.uint8 or int(version) != MIXER:
        raise ValueError(
            f"mixer_version must be {MIXER}: the run was made with another context mixer; train it anew"
        )


def hashed(a: int, b: int) -> int:
    """64 bits of two numbers."""
    h = (a + 0x9E3779B97F4A7C15) * 0xD6E8FEB86659FD93 & WORD
    h = ((h ^ h >> 32) + b) * 0xD6E8FEB86659FD93 & WORD
    return h ^ h >> 29


def bits_for(n: int, least: int, most: int) -> int:
    """Of a table for n, within limits."""
    return min(max((n - 1).bit_length(), least), most)


def squash(x: np.ndarray | float) -> np.ndarray:
    """The logistic function."""
    return 1 / (1 + np.exp(-np.asarray(x, np.float32)))


def half_octave(n: int) -> int:
    """Of a number from 1 on."""
    octave = n.bit_length() - 1
    return 2 * octave + (n >> octave - 1 & 1) if octave else 0


def histories() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(H, 2) the history after a 0 and after a 1; (H, 2) how many of each; (H,) the first estimate of a 1."""
    known: list[tuple[int, int, int]] = [(0, 0, 0)]
    after: list[tuple[int, int]] = []
    for state in known:  # which grows
        next_ones = []
        for bit in (0, 1):
            n = [state[0], state[1]]
            n[bit], n[1 - bit] = n[bit] + 1, lessened(n[1 - bit])
            while not (min(n) < 6 and max(n) <= MOST_COUNTED[min(n)]):
                n[bit if n[bit] >= n[1 - bit] else 1 - bit] -= 1
            found = (n[0], n[1], bit if min(n) else 0)
            if found not in known:
                known.append(found)
            next_ones.append(known.index(found))
        after.append((next_ones[0], next_ones[1]))
    counts = np.array(known, np.float32)[:, :2]
    first = (counts[:, 1] + np.float32(0.4)) / (counts.sum(axis=1) + np.float32(0.8))
    return np.array(after), counts, first


def lessened(n: int) -> int:
    """The count of a bit after the other one came."""
    return next((less for most, less in ((2, n), (3, 2), (5, 3), (8, 4), (13, 5), (25, 6)) if n <= most), 7)


class Counts:
    """Probabilities of 22 bits, of any shape, each corrected by what came."""

    def __init__(self, p: np.ndarray, forgets: int) -> None:
        self.p, self.n, self.forgets = p.astype(np.int32), np.zeros(p.shape, np.int16), forgets

    def learn(self, at: tuple[np.ndarray, ...] | tuple[int, ...], bit: int) -> None:
        """A bit came."""
        p, n = self.p[at], self.n[at]
        wrong = np.float32((ONES if bit else 0) - p) / (n.astype(np.float32) + np.float32(1.5))
        self.p[at] = p + np.trunc(wrong).astype(np.int32)
        self.n[at] = np.minimum(n + 1, self.forgets)


@dataclass
class Kept:
    """Where each whole word ended last, the last units that followed each two units and each part of a word, and where
    lines with each first field went on last."""

    words: dict[int, tuple[int, int]] = field(default_factory=dict)
    pairs: dict[int, int] = field(default_factory=dict)
    parts: dict[int, int] = field(default_factory=dict)
    like: dict[int, int] = field(default_factory=dict)

    def like_line(self, field: bytes, end: int) -> int:
        """Where a line with such a first field went on last, −1: nowhere; from now on at `end`."""
        key = reduce(hashed, field, 0) >> 48
        at, self.like[key] = self.like.get(key, -1), end
        return at


class Beside(NamedTuple):
    """Where a line before goes on, and how many units there were the same."""

    at: int
    same: int = 0


NOWHERE = Beside(-1)


@dataclass
class Place:
    """Where a text stands."""

    text: bytearray
    last: int = 0
    earlier: int = 0
    word: int = 0
    before: tuple[int, int, int] = (0, 0, 0)
    gap: int = 0
    opening: int = 0
    shape: int = 0
    begins: int = 0
    letters: int = 0
    kinds: int = 0
    follows: list[int] = field(default_factory=lambda: [0] * FOLLOWS)
    line: int = 0
    above: int = -1
    column: int = 0
    indent: int = 0
    first: int = 0
    length: int = 0
    mark: int = 0
    brackets: tuple[tuple[int, int, int], ...] = ((0, 0, 0),)
    headings: tuple[int, ...] = (0,) * INDENTS
    heading: int = 0
    parent: int = 0
    beside: Beside = NOWHERE
    like: Beside = NOWHERE
    in_fields: bool = False
    trail: int = 0
    strayed: int = 0
    agreed: int = 0
    second: bool = False

    @property
    def pair(self) -> int:
        """Where what followed the last two units is kept."""
        return self.last & 0xFFFF

    @property
    def part(self) -> int:
        """Where what followed such a part of a word is kept."""
        return (hashed(self.word or self.gap, 77) >> 20) % KEPT

    def passed(self, unit: int, codes: Codes, into: Kept | None = None) -> Place:
        """The place after one more unit; it takes this one's text and what followed each unit and word with it."""
        self.text.append(unit)
        kind = int(codes.kinds[unit])
        starts = not self.second and kind == FIRST_OF_TWO
        kind = LOWER if self.second or starts else kind
        if into is not None:
            into.pairs[self.pair] = (into.pairs.get(self.pair, 0) << 8 | unit) & PART
            into.parts[self.part] = (into.parts.get(self.part, 0) << 8 | unit) & 0xFFFF
            if self.word and kind > UPPER:
                into.words[self.word >> 16] = self.word, len(self.text)
        now = replace(
            self,
            second=starts,
            last=(self.last << 8 | unit) & WORD,
            earlier=(self.earlier << 8 | self.last >> 56) & WORD,
            kinds=(self.kinds << 4 | kind) & PART,
        )
        if kind >= QUOTE and unit != ord("'"):
            now.mark = 0 if self.mark == unit else unit
        if kind > UPPER and not (kind == SPACE and self.kinds & 15 == SPACE):
            now.shape = (self.shape << 8 | unit) & PART
        if kind <= UPPER:
            if not self.word:
                now.begins = (self.begins << 8 | int(codes.folds[unit])) & PART
            now.gap = self.gap if self.word else 0
            now.word = hashed(self.word, int(codes.folds[unit])) >> 16 & PART | 1
            now.letters += 1
        else:
            if self.word:
                if not self.opening:
                    now.opening, now.headings = self.word, self._headed(self.word)
                self.follows[self.before[0] % FOLLOWS] = self.word
                now.before, now.word, now.gap, now.letters = (self.word, *self.before[:2]), 0, 0, 0
            now.gap = hashed(now.gap, unit) >> 16 & PART
        if kind > DIGIT:
            now.brackets = self._nested(unit, now.before[0])
        now.beside, now.like = (self._aligned(each, unit, kind, codes) for each in (self.beside, self.like))
        if kind == SPACE and self.first and not self.in_fields:
            now.in_fields = True
            if into is not None:
                now.like = Beside(into.like_line(bytes(self.text[self.line :]), len(self.text)))
        if kind == LINE:
            now.beside, now.like, now.in_fields = Beside(self.line), NOWHERE, False
            now.above, now.line, now.column, now.indent, now.first = self.line, len(self.text), 0, 0, 0
            now.heading, now.opening, now.length = now.opening, 0, now.line - self.line
        else:
            now.column += 1
            if not self.first:
                if kind == SPACE:
                    now.indent += 1
                else:
                    deep = min(self.indent, INDENTS - 1)
                    now.first, now.headings = unit, now.headings[: deep + 1] + (0,) * (INDENTS - 1 - deep)
                    now.parent = next(filter(None, reversed(now.headings[:deep])), 0)
        return now

    def _headed(self, word: int) -> tuple[int, ...]:
        """`headings` after a line's first word."""
        deep = min(self.indent, INDENTS - 1)
        return (*self.headings[:deep], word, *self.headings[deep + 1 :])

    def _nested(self, unit: int, before: int) -> tuple[tuple[int, int, int], ...]:
        """`brackets` after a unit that is neither letter nor digit, and a word."""
        brackets, (word, kind, commas) = self.brackets, self.brackets[-1]
        if unit in b"([{":
            return (*brackets[: NESTED - 1], (before, unit, 0))
        if len(brackets) == 1:
            return brackets
        if unit in b")]}":
            return brackets[:-1]
        return (*brackets[:-1], (word, kind, min(commas + (unit == ord(",")), 255)))

    def _aligned(self, beside: Beside, unit: int, kind: int, codes: Codes) -> Beside:
        """What stands beside a unit, and has then passed it."""
        text, (at, same), end = self.text, beside, self.line - 1
        if at < 0:
            return beside
        seeks = kind > DIGIT and text[at] != unit
        while (there := int(codes.kinds[text[at]]) if at < end else LINE) <= DIGIT and seeks:
            at, same = at + 1, 0
        if there == LINE:
            return Beside(at)
        if text[at] == unit:
            return Beside(at + 1, same + 1)
        return Beside(at + int(kind > DIGIT or there <= DIGIT))

    def following(self, unit: int, known: bytearray, match: tuple[int, int]) -> Place:
        """This place, past a unit on its trail in what is known; `match`: where the longest goes on, its length."""
        trail, strayed, agreed = self.trail, self.strayed, self.agreed
        at, length = match
        if length >= MATCH_LEAST[0] and at != trail and (not trail or strayed) and length > agreed:
            trail, strayed, agreed = at, 0, length
        if trail:
            strayed, agreed = (strayed, agreed + 1) if known[trail] == unit else (strayed + 1, 0)
            trail += 1
        if strayed > STRAYED:
            trail = strayed = agreed = 0
        return replace(self, trail=trail, strayed=strayed, agreed=agreed)


@dataclass
class Next:
    """A prediction on its way to the next unit."""

    hashes: list[int]
    matches: list[tuple[int, int]]
    """How long, and the unit that follows."""
    last: int
    chosen: tuple[int, ...]
    rate: float
    node: int = 1
    bit: int = 0
    opened: tuple[int, int] = (-1, 0)
    slots: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    counted: list[int] = field(default_factory=list)


@dataclass
class Predicted:
    """What a prediction was made of."""

    p: float
    x: np.ndarray
    rows: np.ndarray
    mixed: np.ndarray
    finals: np.ndarray
    together: np.ndarray
    """By each of the final sets."""
    histories: np.ndarray
    matched: list[tuple[int, int, int]]
    estimates: tuple[int, ...]
    step: int
    between: float


class SlowMixing:
    """As `mixing.ContextMixing`."""

    def __init__(self, codes: Codes, *, capacity: int) -> None:
        self.codes, self.capacity, self.length, self.decided = codes, capacity, 0, 0
        self.nats = np.zeros(0, np.float32)
        self.direct_bits = bits_for(capacity // 4, 10, 18)
        self.lines = min(4096 + int(LINES_PER_UNIT * capacity), MOST_LINES)
        self.head_bits = bits_for(capacity, 12, 26)
        self.after, known, first = histories()
        self.bits, self.agree = known.sum(axis=1), (known.min(axis=1) == 0) & (known.max(axis=1) > 0)
        p = (np.arange(STRETCHED) + 0.5) / STRETCHED
        self.stretched = np.log(p / (1 - p)).astype(np.float32)
        self.by_history = Counts(np.tile(np.trunc(first * np.float32(ONES)), (CONTEXTS, 1)), FORGETS)
        self.matched = Counts(np.full((MATCHES, len(LENGTH_KINDS)), int(0.75 * ONES)), FORGETS)
        self.direct = Counts(np.full((DIRECT, 1 << self.direct_bits, 16), 1 << 21), DIRECT_FORGETS)
        sizes = ((sum(ROWS), INPUTS), (FINALS, 256, SETS_PADDED))
        sets, final = (np.zeros(size, np.float32) for size in sizes)
        sets[:, :CONTEXTS], sets[:, HEARD], final[..., :SETS] = FIRST_WEIGHT, FIRST_HEARD, 1 / SETS
        self.weights = np.concatenate((sets.ravel(), final.ravel()))
        line = (squash((np.arange(STEPS) - STEPS // 2) * 0.5) * 65535).astype(np.uint16)
        self.estimated = np.tile(line, (ESTIMATES, 65536, 1))
        # The last histories are those of contexts that were never seen.
        self.check = np.zeros(self.lines * WAYS + 1, np.uint8)
        self.history = np.zeros((len(self.check), 15), np.uint8)
        self.heads = np.zeros((MATCHES, 1 << self.head_bits), np.int64)
        self.text, self.place, self.kept = bytearray(), Place(bytearray()), Kept()

    @property
    def _sets(self) -> np.ndarray:
        return self.weights[: sum(ROWS) * INPUTS].reshape(-1, INPUTS)

    @property
    def _final(self) -> np.ndarray:
        return self.weights[sum(ROWS) * INPUTS :].reshape(FINALS, 256, SETS_PADDED)

    def read(self, tokens: np.ndarray, heard: np.ndarray | None = None) -> np.ndarray:
        """See `mixing.ContextMixing.read`."""
        codes, nats = self.codes, np.zeros(len(tokens), np.float32)
        self._refuse(int(codes.lengths[tokens].sum(dtype=np.int64)))
        for at, token in enumerate(tokens.tolist()):
            log_p = 0.0
            for number in range(int(codes.lengths[token])):
                now, unit = self._look(self.place), int(codes.units[token, number])
                for bit in range(8):
                    branch = int(codes.paths[token, 8 * number + bit])
                    if branch < 0:
                        continue
                    came = unit >> (7 - bit) & 1
                    self._ready(now, (256 | unit) >> (8 - bit), bit, write=True)
                    told = -1.0 if heard is None else float(heard[at, 8 * number + bit])
                    found = self._predict(now, told)
                    p = found.p if log_p > UNLIKELY else float(codes.branches[branch]["share"])
                    log_p += math.log(p if came else 1 - p)
                    self._learn(now, found, came)
                self._append(unit)
            nats[at] = -log_p
        return nats

    def _append(self, unit: int) -> None:
        match = 0, 0
        for which, least in enumerate(MATCH_LEAST):
            if self.length >= least:
                head = self._head(self.place, which)
                if not which:
                    at = int(self.heads[which, head])
                    match = at, _alike(self.text, at, self.text)
                self.heads[which, head] = self.length
        place = self.place.following(unit, self.text, match)
        self.text.append(unit)
        self.length += 1
        self.place = place.passed(unit, self.codes, self.kept)

    def walk(self, logits: np.ndarray | None = None) -> SlowWalk:
        """See `mixing.ContextMixing.walk`."""
        self._refuse(int(self.codes.lengths.max()))
        return SlowWalk(self, logits)

    def _refuse(self, units: int) -> None:
        if self.length + units > self.capacity:
            raise ValueError(f"{units:,} units do not fit: there is room for {self.capacity - self.length:,}")

    def hear(self, logits: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """See `mixing.ContextMixing.hear`."""
        found = np.full((len(tokens), CODE), -1, np.float32)
        for row, (said, token) in enumerate(zip(logits, tokens.tolist(), strict=True)):
            sums = self._sums(said)
            for bit, branch in enumerate(self.codes.paths[token].tolist()):
                if branch >= 0:
                    found[row, bit] = _heard_at(self.codes.branches[branch], sums)
        return found

    def predict(self, text: np.ndarray, spans: np.ndarray, logits: np.ndarray | None = None) -> np.ndarray:
        """See `mixing.ContextMixing.predict`."""
        logs = np.empty((len(spans), self.codes.size), np.float32)
        for row, (begin, end) in enumerate(spans.tolist()):
            spread = _Spread(self, self._after(text[begin:end]), None if logits is None else logits[row])
            spread.to_all(logs[row])
        return logs

    def score(
        self,
        text: np.ndarray,
        spans: np.ndarray,
        tokens: np.ndarray,
        logits: np.ndarray | None = None,
        beside: Sequence[np.ndarray] | None = None,
    ) -> Sequence[np.ndarray]:
        """See `mixing.ContextMixing.score`; a tuple in the same order."""
        logs, shares, first = [], [], []
        for row, ((begin, end), token) in enumerate(zip(spans.tolist(), tokens.tolist(), strict=True)):
            spread = _Spread(self, self._after(text[begin:end]), None if logits is None else logits[row])
            log_p, share = spread.to_one(token)
            everything = np.empty(self.codes.size, np.float32)
            spread.to_all(everything)
            if beside is not None:
                kept, added = beside[0][row], beside[1][row]
                everything = np.log(kept * np.exp(everything) + added)
                log_p = math.log(kept * math.exp(log_p) + added[token])
            logs.append(log_p)
            shares.append(share)
            first.append(int(everything.argmax()) == token)
        return np.array(logs, np.float32), np.array(shares, np.float32), np.array(first, np.uint8)

    def copy(self, more: int = 0) -> SlowMixing:
        """See `mixing.ContextMixing.copy`."""
        made = copy.deepcopy(self)
        made.capacity += more
        return made

    def weighing(self, weights: np.ndarray) -> SlowMixing:
        """See `mixing.ContextMixing.weighing`."""
        made = copy.copy(self)
        made.weights = weights.copy()
        return made

    def _after(self, text: np.ndarray) -> Place:
        """After another text than the one that was read."""
        units, ends = self.codes.encode(text[-WINDOW:])
        skipped = int(ends[np.searchsorted(ends, len(units) - WINDOW)]) if len(units) > WINDOW else 0
        place = Place(bytearray(), follows=list(self.place.follows))
        for unit in units[skipped:].tolist():
            place = place.passed(unit, self.codes)
        return place

    def _sums(self, logits: np.ndarray) -> np.ndarray:
        said = logits[: self.codes.size][self.codes.symbols]
        return np.concatenate(([0.0], np.cumsum(np.exp(said - said.max()).astype(np.float64))))

    def _head(self, w: Place, which: int) -> int:
        key = w.last << 24 & WORD if which else w.last ^ (w.earlier << 32 & WORD) * 0x9E3779B97F4A7C15 & WORD
        return hashed(70, key) >> (64 - self.head_bits)

    def _look(self, w: Place) -> Next:
        matches = []
        for which, least in enumerate(MATCH_LEAST):
            found, at, known = 0, 0, w.text
            if len(known) >= least:
                if w is not self.place:
                    at = known.rfind(known[-least:], 0, len(known) - 1) + least
                if at < least:
                    at, known = int(self.heads[which, self._head(w, which)]), self.text
                found = _alike(known, at, w.text)
            matches.append((found, known[at]) if found >= least else (0, 0))
        if not matches[0][0]:
            matches[0] = matches[1]
        length, unit = matches[0]
        expected = unit + 1 if length else 0
        last, (before, earlier, earliest), one = w.last, w.before, w.last & 0xFF
        inside = w.above >= 0 and w.above + w.column < w.line
        up, column = w.text[w.above + w.column] + 1 if inside else 0, min(w.column, 255)
        here = hashed(20, w.word) if w.word else hashed(21, before << 32 ^ w.gap)
        some = length if length < 16 else 16 + (length > 32)
        is_own, (word, ended) = w is self.place, self.kept.words.get(w.word >> 16, (0, 0))
        is_whole = w.word > 0 and word == w.word
        ago = 1 + half_octave((0 if is_own else self.length) + len(w.text) - ended) if is_whole else 0
        this_part = 1 + (len(w.text) >> NEAR) if is_own else 0
        form = min(w.letters, 6) << 2 | is_whole << 1 | (w.kinds & 15 == UPPER)
        (at, same), (like_at, like_same) = w.beside, w.like
        beside = w.text[at] + 1 if at >= 0 else 0
        after_it = w.text[at + 1] + 1 if 0 <= at < w.line - 1 else 0
        like = w.text[like_at] + 1 if like_at >= 0 else 0
        leads = length >= MATCH_LEAST[0] and (not w.trail or (w.strayed > 0 and length > w.agreed))
        led, strayed, agreed = (expected, 0, length) if leads else (0, w.strayed, w.agreed)
        if w.trail and not leads:
            led = w.text[w.trail] + 1
        trust = min(strayed, 8) << 4 | min(agreed, 15)
        bracketed, bracket, commas = w.brackets[-1]
        part, after_two = self.kept.parts.get(w.part, 0), self.kept.pairs.get(w.pair, 0) & 0xFFFFFF
        hashes = [hashed(order + 1, last & ((1 << 8 * order) - 1)) for order in range(7)]
        hashes += [
            hashed(9, last),
            hashed(here, 0),
            hashed(here, hashed(22, before)),
            hashed(here, hashed(23, earlier)),
            hashed(here, hashed(24, before << 32 | earlier)),
            hashed(41, (w.indent << 16 | w.first << 8) << 32 & WORD | one << 32 | w.word),
            hashed(42, column << 16 | up),
            hashed(43, column << 8 | one),
            hashed(50, expected << 16 | some << 8 | one),
            hashed(51, (w.kinds & 0xFFFFFFF) << 8 | one),
            hashed(here, hashed(25, earliest)),
            hashed(here, hashed(26, w.follows[before % FOLLOWS])),
            hashed(here, hashed(27, w.opening)),
            hashed(here, hashed(28, column)),
            hashed(33, last & 0xFFFF00),
            hashed(34, last & 0xF0F0F0FFFF),
            hashed(hashed(10, last), w.earlier & 0xFFFFFF),
            hashed(hashed(29, last & 0xFFFF), before),
            hashed(hashed(here, hashed(81, earliest)), before << 32 | earlier),
            hashed(hashed(82, w.shape), one),
            hashed(hashed(83, w.shape & 0xFFFF), w.word),
            hashed(85, w.kinds),
            hashed(hashed(87, w.kinds & 0xFFF), before << 32 | w.word),
            hashed(hashed(88, w.begins & 0xFFFF), last & 0xFFFF),
            hashed(hashed(89, w.gap), before << 8 | one),
            hashed(hashed(92, w.indent << 8 | w.first), last & 0xFFFF),
            hashed(hashed(120, part), form),
            hashed(hashed(121, part & 0xFF), form << 8 | one),
            hashed(hashed(122, part & 0xFF), last & 0xFFFF),
            hashed(hashed(123, this_part), w.word),
            hashed(hashed(124, ago), w.word),
            hashed(hashed(125, form), one),
            hashed(hashed(126, w.mark), w.word),
            hashed(hashed(127, w.mark << 8 | one), int(is_whole)),
            hashed(hashed(128, after_two), one),
            hashed(hashed(129, column), w.length),
            hashed(hashed(130, beside << 9 | after_it), min(same, 15) << 8 | one),
            hashed(hashed(131, led << 8 | trust), beside),
            hashed(hashed(132, beside << 9 | after_it), here),
            hashed(hashed(136, like << 8 | min(like_same, 15)), beside),
            hashed(hashed(133, led << 8 | trust), last & 0xFFFF),
            hashed(hashed(134, bracketed << 16 | commas << 8 | bracket), one),
            hashed(hashed(135, w.parent << 32 | w.heading), (w.indent << 8 | w.first) << 8 | one),
        ]
        chosen = (one, w.kinds & 0xFFF, int(w.word > 0), expected, column, form)
        return Next(hashes, matches, last, chosen, RATE + FIRST_RATE / (1 + self.decided / RATE_FALLS))

    def _find(self, hash: int, *, write: bool) -> int:
        line, check = ((hash >> 32) * self.lines >> 32) * WAYS, hash % 255 + 1
        ways = range(line, line + WAYS)
        for way in ways:
            if self.check[way] == check:
                return way
        if not write:
            return len(self.check) - 1
        least = min(ways, key=lambda way: 1 + self.bits[self.history[way, 0]] if self.check[way] else 0)
        self.history[least], self.check[least] = 0, check
        return least

    def _ready(self, now: Next, node: int, bit: int, *, write: bool) -> None:
        opened = node >> bit % 4
        now.node, now.bit = node, bit
        if now.opened == (bit // 4, opened):
            return
        now.opened = (bit // 4, opened)
        hashes = now.hashes if bit < 4 else [_lower(each, opened) for each in now.hashes]
        now.slots = np.array([self._find(each, write=write) for each in hashes])
        keys = [(now.last & ((1 << 8 * order) - 1)) << 8 | opened for order in range(1, DIRECT + 1)]
        now.counted = [hashed(60, key) >> (64 - self.direct_bits) for key in keys]

    def _predict(self, now: Next, heard: float) -> Predicted:
        at = _in_half(now)
        x, contexts = np.zeros(INPUTS, np.float32), np.arange(CONTEXTS)
        states = self.history[now.slots, at].astype(np.int64)
        p = self.by_history.p[contexts, states]
        x[:CONTEXTS] = np.where(states > 0, self.stretched[p >> 10], 0)
        x[AGREED:HEARD] = np.where(self.agree[states], x[:CONTEXTS], 0)
        matched, place = [], CONTEXTS
        for which, (length, unit) in enumerate(now.matches):
            if length and (unit | 256) >> (8 - now.bit) == now.node:
                kind = _length_kind(length)
                bit, right = unit >> (7 - now.bit) & 1, self.matched.p[which, kind]
                sign = np.float32(1 if bit else -1)
                x[place], x[place + 1] = sign * self.stretched[right >> 10], sign * _sure(right)
                matched.append((which, kind, bit))
            place += 2
        x[place : place + DIRECT] = self.stretched[
            self.direct.p[np.arange(DIRECT), now.counted, at + 1] >> 10
        ]
        x[CONSTANT] = BIAS
        if heard >= 0:
            said = math.log(heard / (1 - heard)) if 0 < heard < 1 else math.copysign(math.inf, heard - 0.5)
            x[HEARD] = min(max(said, -MOST_HEARD), MOST_HEARD)
            x[HEARD + 1] = CERTAINTY * (heard - 0.5)
        known = int(np.count_nonzero(states[:ORDERS]))
        (one, kinds, in_word, expected, column, form), bit = now.chosen, now.bit
        several = (
            hashed(61, now.last & 0xFFFF),
            hashed(hashed(62, form), now.node),
            hashed(hashed(63, kinds), now.node),
        )
        first = (now.node, one, (kinds & 255) * 8 + bit, (in_word * 9 + known) * 8 + bit)
        last = (expected * 8 + bit, column, states[FOUR], states[SPELT], *(each % SHARED for each in several))
        rows = FIRST_ROW + np.array((*first, *last))
        mixed = (self._sets[rows] @ x).clip(-LARGEST, LARGEST)
        finals = np.array((now.node, one, _length_kind(now.matches[0][0]) * 8 + bit))
        parts = (self._final[np.arange(FINALS), finals, :SETS] @ mixed).clip(-LARGEST, LARGEST)
        together = float(parts.mean())
        scale = min(max(together, -(STEPS - 2) / 4), (STEPS - 2) / 4) * 2 + STEPS // 2
        step = min(int(scale), STEPS - 2)
        between = scale - step
        estimates = (
            (now.last & 0xFF) << 8 | now.node,
            ((now.last & 0xFFFF) << 8 | now.node) * 0x9E3779B97F4A7C15 % (1 << 64) >> 48,
            ((now.last & 0xFFFFFF) << 8 | now.node) * 0xD6E8FEB86659FD93 % (1 << 64) >> 48,
        )
        p_out = float(squash(together))
        for which, line in enumerate(estimates):
            low, high = self.estimated[which, line, step : step + 2].tolist()
            p_out += (low * (1 - between) + high * between) / 65535
        p_out = min(max(p_out / (1 + ESTIMATES), LEAST), 1 - LEAST)
        return Predicted(p_out, x, rows, mixed, finals, parts, states, matched, estimates, step, between)

    def _learn(self, now: Next, found: Predicted, bit: int) -> None:
        at = _in_half(now)
        self.decided += 1
        wrong = (bit - squash(found.mixed)) * np.float32(now.rate)
        self._sets[found.rows] += wrong[:, None] * found.x
        wrong = (bit - squash(found.together)) * np.float32(FINAL_RATE)
        self._final[np.arange(FINALS), found.finals, :SETS] += wrong[:, None] * found.mixed
        contexts = np.arange(CONTEXTS)
        self.by_history.learn((contexts, found.histories), bit)
        for slot in now.slots.tolist():  # two contexts may have the same
            self.history[slot, at] = self.after[self.history[slot, at], bit]
        for which, kind, expected in found.matched:
            self.matched.learn((which, kind), int(expected == bit))
        for order, place in enumerate(now.counted):
            self.direct.learn((order, place, at + 1), bit)
        for which, line in enumerate(found.estimates):
            cell = self.estimated[which, line]
            for more, share in ((0, 1 - found.between), (1, found.between)):
                old = float(cell[found.step + more])
                cell[found.step + more] = int(old + ((65535 if bit else 0) - old) * CORRECTED * share + 0.5)


class SlowWalk:
    """As `mixing.Walk`."""

    def __init__(self, mixing: SlowMixing, logits: np.ndarray | None) -> None:
        self._mixing, self._sums = mixing, None if logits is None else mixing._sums(logits)
        self._at, self._low, self._unit, self._log_p = 0 if len(mixing.codes.branches) else -1, 0, 0, 0.0
        self._now = mixing._look(mixing.place)
        self.p: float | None = None
        self.token: int | None = None
        self._ask()

    def go(self, bit: int) -> None:
        """See `mixing.Walk.go`."""
        assert self.p is not None
        branch = self._mixing.codes.branches[self._at]
        self._log_p += math.log(self.p if bit else 1 - self.p)
        self._mixing._learn(self._now, self._found, bit)
        self._at, self._low = (
            int(branch[name]) for name in (("right", "middle") if bit else ("left", "low"))
        )
        self._ask()

    def _ask(self) -> None:
        mixing, codes = self._mixing, self._mixing.codes
        self.p = None
        if self._at < 0:
            self.token = int(codes.symbols[self._low])
            for unit in codes.units[self.token, self._unit : int(codes.lengths[self.token])].tolist():
                mixing._append(unit)
            return
        branch = codes.branches[self._at]
        code, (unit, bit) = int(branch["code"]), divmod(int(branch["bit"]), 8)
        if unit > self._unit:
            mixing._append(code >> bit)
            self._unit, self._now = unit, mixing._look(mixing.place)
        mixing._ready(self._now, 1 << bit | code & ((1 << bit) - 1), bit, write=True)
        heard = -1.0 if self._sums is None else _heard_at(branch, self._sums)
        self._found = mixing._predict(self._now, heard)
        self.p = self._found.p if self._log_p > UNLIKELY else float(branch["share"])


class _Spread:
    """What follows a place, and what a network says of it; nothing is learned."""

    def __init__(self, mixing: SlowMixing, place: Place, logits: np.ndarray | None) -> None:
        self.mixing, self.place = mixing, place
        self.sums = None if logits is None else mixing._sums(logits)
        self.spoken = self.rest = 0.0

    def to_all(self, logs: np.ndarray) -> None:
        """ln p (V,) of each symbol."""
        self._down(0 if len(self.mixing.codes.branches) else -1, 0, 0.0, logs)

    def to_one(self, token: int) -> tuple[float, float]:
        """ln p of a symbol, and which share of what was said was the network's."""
        codes, log_p = self.mixing.codes, 0.0
        self.spoken = self.rest = 0.0
        for bit, number in enumerate(codes.paths[token].tolist()):
            if number < 0:
                continue
            branch = codes.branches[number]
            p = float(branch["share"]) if log_p <= UNLIKELY else self._at(branch)
            log_p += math.log(p if codes.units[token, bit // 8] >> (7 - bit % 8) & 1 else 1 - p)
        return log_p, self.spoken / (self.spoken + self.rest) if self.spoken else 0.0

    def _down(self, at: int, low: int, log_p: float, logs: np.ndarray) -> None:
        codes = self.mixing.codes
        if at < 0:
            logs[codes.symbols[low]] = log_p
            return
        branch = codes.branches[at]
        p = float(branch["share"]) if log_p <= UNLIKELY else self._at(branch)
        self._down(int(branch["left"]), low, log_p + math.log(1 - p), logs)
        self._down(int(branch["right"]), int(branch["middle"]), log_p + math.log(p), logs)

    def _at(self, branch: np.void) -> float:
        mixing, code = self.mixing, int(branch["code"])
        unit, bit = divmod(int(branch["bit"]), 8)
        place = self.place
        if unit:
            place = replace(place, text=bytearray(place.text), follows=list(place.follows))
            place = place.passed(code >> bit, mixing.codes)
        now = mixing._look(place)
        mixing._ready(now, 1 << bit | code & ((1 << bit) - 1), bit, write=False)
        found = mixing._predict(now, -1.0 if self.sums is None else _heard_at(branch, self.sums))
        final = np.abs(mixing._final[np.arange(FINALS), found.finals, :SETS]).sum(axis=0)
        said = final @ np.abs(mixing._sets[found.rows] * found.x)
        self.spoken += float(said[HEARD:].sum())
        self.rest += float(said[:HEARD].sum())
        return found.p


def _sure(p: np.ndarray) -> np.ndarray:
    return np.float32(CERTAINTY) * (p.astype(np.float32) / np.float32(ONES) - np.float32(0.5))


def _heard_at(branch: np.void, sums: np.ndarray) -> float:
    all_of_it = sums[branch["high"]] - sums[branch["low"]]
    return float(np.float32((sums[branch["high"]] - sums[branch["middle"]] + 1e-12) / (all_of_it + 2e-12)))


def _alike(known: bytearray, at: int, text: bytearray) -> int:
    """How many units before a place are those at the end of a text."""
    length, most = 0, min(at, len(text), LONGEST)
    while length < most and known[at - 1 - length] == text[-1 - length]:
        length += 1
    return length


def _length_kind(length: int) -> int:
    return sum(length >= least for least in LENGTH_KINDS) - 1


def _lower(hash: int, node: int) -> int:
    h = (hash + node) * 0x9E3779B97F4A7C15 & WORD
    return h ^ h >> 31


def _in_half(now: Next) -> int:
    """Place of the next bit's history."""
    return now.node - 1 if now.bit < 4 else (now.node & ((1 << now.bit - 4) - 1) | 1 << now.bit - 4) - 1
