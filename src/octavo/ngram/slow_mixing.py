"""The slow twin of mixing.c, in numpy: a kilobyte a second, to be read and to be compared with.

It takes the place of the kernel where there is no compiler. Names are those of mixing.c, which says what they mean.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field, replace

import numpy as np

from octavo.ngram.codes import FIRST_OF_TWO, LINE, LOWER, SPACE, UPPER, Codes

ORDERS, CONTEXTS, MATCHES, DIRECT, INPUTS, SETS, ROWS = 8, 22, 2, 3, 64, 7, 2048
STEPS, ESTIMATES, LONGEST, WINDOW, FORGETS, DIRECT_FORGETS, WAYS, STRETCHED = (
    32,
    2,
    64,
    256,
    400,
    250,
    4,
    4096,
)
LENGTH_KINDS = (*range(16), 16, 20, 24, 28, 32, 40, 48, 64)
MATCH_LEAST, MOST_COUNTED = (12, 5), (41, 24, 12, 7, 5, 5)
RATE, FIRST_RATE, RATE_FALLS, FINAL_RATE, CORRECTED = 0.003, 0.02, 2048.0, 0.001, 0.02
CERTAINTY, FIRST_WEIGHT, BIAS, LARGEST, LEAST = 3.0, 0.22, 0.3, 12.0, 1 / 65536
UNLIKELY = -10
WORD = (1 << 64) - 1
ONES = (1 << 22) - 1


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


def histories() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(H, 2) the history after a 0 and after a 1; (H,) of how many bits; (H,) the first estimate of a 1."""
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
    counts = np.array(known)[:, :2]
    return (
        np.array(after),
        counts.sum(axis=1),
        ((counts[:, 1] + 0.4) / (counts.sum(axis=1) + 0.8)).astype(np.float32),
    )


def lessened(n: int) -> int:
    """The count of a bit after the other one came."""
    return next((less for most, less in ((2, n), (3, 2), (5, 3), (8, 4), (13, 5), (25, 6)) if n <= most), 7)


class Counts:
    """Probabilities of any shape, each corrected by what came."""

    def __init__(self, p: np.ndarray, forgets: int) -> None:
        self.p, self.n, self.forgets = p.astype(np.float32), np.zeros(p.shape, np.int64), forgets

    def learn(self, at: tuple[np.ndarray, ...] | tuple[int, ...], bit: int) -> None:
        """A bit came."""
        p, n = self.p[at], self.n[at]
        self.p[at] = p + (np.float32(bit) - p) * (1 / (n + 1.5)).astype(np.float32)
        self.n[at] = np.minimum(n + 1, self.forgets)


@dataclass
class Place:
    """Where a text stands."""

    text: bytearray
    last: int = 0
    word: int = 0
    before: tuple[int, int] = (0, 0)
    gap: int = 0
    kinds: int = 0
    line: int = 0
    above: int = -1
    column: int = 0
    indent: int = 0
    first: int = 0
    second: bool = False

    def passed(self, unit: int, codes: Codes) -> Place:
        """The place after one more unit."""
        self.text.append(unit)
        kind = int(codes.kinds[unit])
        starts = not self.second and kind == FIRST_OF_TWO
        kind = LOWER if self.second or starts else kind
        now = replace(
            self,
            second=starts,
            last=(self.last << 8 | unit) & WORD,
            kinds=(self.kinds << 4 | kind) & 0xFFFFFFFF,
        )
        if kind <= UPPER:
            now.gap = self.gap if self.word else 0
            now.word = hashed(self.word, int(codes.folds[unit])) >> 16 & 0xFFFFFFFF | 1
        else:
            if self.word:
                now.before, now.word, now.gap = (self.word, self.before[0]), 0, 0
            now.gap = hashed(now.gap, unit) >> 16 & 0xFFFFFFFF
        if kind == LINE:
            now.above, now.line, now.column, now.indent, now.first = self.line, len(self.text), 0, 0, 0
        else:
            now.column += 1
            if not self.first:
                now.indent, now.first = (self.indent + 1, 0) if kind == SPACE else (self.indent, unit)
        return now


@dataclass
class Next:
    """A prediction on its way to the next unit."""

    hashes: list[int]
    matches: list[tuple[int, int]]
    """How long, and where what follows stands in the text that was read."""
    expected: int
    chosen: tuple[int, ...]
    node: int = 1
    bit: int = 0
    slots: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    halves: list[int] = field(default_factory=list)


@dataclass
class Predicted:
    """What a prediction was made of."""

    p: float
    x: np.ndarray
    rows: np.ndarray
    mixed: np.ndarray
    together: float
    histories: np.ndarray
    matched: list[tuple[int, int, int]]
    estimates: tuple[int, int]
    step: int
    between: float


class SlowMixing:
    """As `mixing.ContextMixing`."""

    def __init__(self, codes: Codes, *, capacity: int) -> None:
        self.codes, self.capacity, self.length, self.decided = codes, capacity, 0, 0
        self.direct_bits = bits_for(capacity // 4, 10, 18)
        self.bucket_bits = bits_for(12 * capacity, 14, 24)
        self.head_bits = bits_for(capacity, 12, 26)
        self.after, self.bits, first = histories()
        p = (np.arange(STRETCHED) + 0.5) / STRETCHED
        self.stretched = np.log(p / (1 - p)).astype(np.float32)
        self.by_history = Counts(np.tile(first, (CONTEXTS, 1)), FORGETS)
        self.matched = Counts(np.full((MATCHES, len(LENGTH_KINDS)), 0.75), FORGETS)
        shape = (DIRECT, 1 << self.direct_bits, 16)
        self.direct_p, self.direct_n = np.full(shape, 1 << 21, np.int64), np.zeros(shape, np.int16)
        self.weights = np.zeros((SETS, ROWS, INPUTS), np.float32)
        self.weights[..., :CONTEXTS] = FIRST_WEIGHT
        self.final = np.full((256, SETS), 1 / SETS, np.float32)
        line = (squash((np.arange(STEPS) - STEPS // 2) * 0.5) * 65535).astype(np.uint16)
        self.estimated = np.tile(line, (ESTIMATES, 65536, 1))
        # The last bucket is that of contexts that were never seen.
        self.check = np.zeros((1 << self.bucket_bits) + 1, np.uint8)
        self.history = np.zeros((len(self.check), 15), np.uint8)
        self.heads = np.zeros((MATCHES, 1 << self.head_bits), np.int64)
        self.text = bytearray()

    def read(self, units: np.ndarray) -> np.ndarray:
        """See `mixing.ContextMixing.read`."""
        if self.length + len(units) > self.capacity:
            raise ValueError(
                f"{len(units):,} units do not fit: there is room for {self.capacity - self.length:,}"
            )
        place = Place(bytearray())
        for unit in self.text:
            place = place.passed(unit, self.codes)
        nats = np.zeros(len(units), np.float32)
        for at, unit in enumerate(units.tolist()):
            now = self._look(place)
            for shift in range(7, -1, -1):
                bit = unit >> shift & 1
                if now.bit % 4 == 0:
                    self._open(place, now, write=True)
                found = self._predict(place, now)
                nats[at] -= math.log(found.p if bit else 1 - found.p)
                self._learn(now, found, bit)
                now.node, now.bit = now.node << 1 | bit, now.bit + 1
            for which, least in enumerate(MATCH_LEAST):
                if len(place.text) >= least:
                    self.heads[which, self._match_hash(place, least)] = len(place.text)
            self.text.append(unit)
            place = place.passed(unit, self.codes)
        self.length += len(units)
        return nats

    def predict(self, text: np.ndarray, spans: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `mixing.ContextMixing.predict`."""
        codes = self.codes
        logs, known = np.empty((len(spans), codes.size), np.float32), np.zeros((len(spans), 2), np.float32)
        for row, (begin, end) in enumerate(spans.tolist()):
            logs[row], known[row] = self._foretell(text[begin:end])
        return logs, known

    def follow(self, text: np.ndarray, before: int) -> tuple[np.ndarray, np.ndarray]:
        """See `mixing.ContextMixing.follow`."""
        found = []
        for at in range(before, len(text)):
            found.append(self._foretell(text[:at]))
            self.read(self.codes.encode(text[at : at + 1])[0])
        logs, known = zip(*found, strict=True)
        return np.stack(logs), np.stack(known)

    def copy(self, more: int = 0) -> SlowMixing:
        """See `mixing.ContextMixing.copy`."""
        made = copy.deepcopy(self)
        made.capacity += more
        return made

    def _foretell(self, text: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        codes = self.codes
        units, ends = codes.encode(text[-WINDOW:])
        skipped = ends[np.searchsorted(ends, len(units) - WINDOW)] if len(units) > WINDOW else 0
        place = Place(bytearray())
        for unit in units[skipped:].tolist():
            place = place.passed(unit, codes)
        now, logs = self._look(place), np.empty(codes.size, np.float32)
        seen = sum(self._find(h) < len(self.check) - 1 for h in now.hashes[:ORDERS])
        self._spread(place, None, 0 if len(codes.branches) else -1, 0, 0.0, logs)
        return logs, np.array([now.matches[0][0], seen], np.float32)

    def _spread(
        self, place: Place, first: int | None, at: int, low: int, log_p: float, logs: np.ndarray
    ) -> None:
        """Share a probability out to the symbols of a branch; `first`: the unit that `place` has before it."""
        codes = self.codes
        if at < 0:
            logs[codes.symbols[low]] = log_p
            return
        branch = codes.branches[at]
        bit, code, p = int(branch["bit"]), int(branch["code"]), float(branch["share"])
        if log_p > UNLIKELY and not branch["unknown"]:
            if bit >= 8 and first is None:
                first = code >> (bit - 8)
                place = replace(place, text=bytearray(place.text)).passed(first, codes)
            now, within = self._look(place), bit % 8
            node = 1 << within | code & ((1 << within) - 1)
            now.node, now.bit = node >> within % 4, within // 4 * 4
            self._open(place, now, write=False)
            now.node, now.bit = node, within
            p = self._predict(place, now).p
        self._spread(place, first, int(branch["left"]), low, log_p + math.log(1 - p), logs)
        self._spread(place, first, int(branch["right"]), int(branch["middle"]), log_p + math.log(p), logs)

    def _match_hash(self, place: Place, least: int) -> int:
        h = 0
        for back in range(1, least + 1):
            h = (h + place.text[-back] + 1) * 0x9E3779B97F4A7C15 & WORD
        return h >> (64 - self.head_bits)

    def _look(self, w: Place) -> Next:
        matches = []
        for which, least in enumerate(MATCH_LEAST):
            length, at = 0, 0
            if len(w.text) >= least:
                at = int(self.heads[which, self._match_hash(w, least)])
                most = min(len(w.text), at, LONGEST)
                while length < most and self.text[at - 1 - length] == w.text[-1 - length]:
                    length += 1
            matches.append((length, at) if length >= least else (0, 0))
        if not matches[0][0]:
            matches[0] = matches[1]
        length, at = matches[0]
        expected = self.text[at] + 1 if length else 0
        last, (before, earlier), one = w.last, w.before, w.last & 0xFF
        inside = w.above >= 0 and w.above + w.column < w.line
        up = w.text[w.above + w.column] + 1 if inside else 0
        here = hashed(20, w.word) if w.word else hashed(21, before << 32 ^ w.gap)
        some = length if length < 16 else 16 + (length > 32)
        hashes = [hashed(order + 1, last & ((1 << 8 * order) - 1)) for order in range(7)]
        hashes += [
            hashed(9, last),
            hashed(here, 0),
            hashed(here, hashed(22, before)),
            hashed(here, hashed(23, earlier)),
            hashed(here, hashed(24, before << 32 | earlier)),
            hashed(30, last & 0xFFFF00),
            hashed(31, last & 0xFFFFFF00),
            hashed(32, last & 0xFF00FF),
            hashed(33, last & 0xFFFF0000),
            hashed(40, up << 8 | one),
            hashed(41, (w.indent << 16 | w.first << 8) << 32 & WORD | one << 32 | w.word),
            hashed(42, min(w.column, 255) << 16 | up),
            hashed(50, expected << 16 | some << 8 | one),
            hashed(51, (w.kinds & 0xFFFFFFF) << 8 | one),
            hashed(52, w.word << 32 | one << 16 | expected),
        ]
        kind = (
            0
            if not length
            else 1 + length // 2
            if length < 16
            else 9
            if length < 32
            else 10
            if length < 64
            else 11
        )
        chosen = (kind, 0, one, last >> 8 & 0xFF, w.kinds & 255, expected, int(w.word > 0))
        return Next(hashes, matches, expected, chosen)

    def _line(self, hash: int) -> int:
        return (hash >> 20 & ((1 << self.bucket_bits) // WAYS - 1)) * WAYS

    def _find(self, hash: int, *, write: bool = False) -> int:
        line, check = self._line(hash), hash % 255 + 1
        ways = range(line, line + WAYS)
        for way in ways:
            if self.check[way] == check:
                return way
        if not write:
            return len(self.check) - 1
        least = min(ways, key=lambda way: 1 + self.bits[self.history[way, 0]] if self.check[way] else 0)
        self.history[least], self.check[least] = 0, check
        return least

    def _open(self, w: Place, now: Next, *, write: bool) -> None:
        hashes = now.hashes if now.bit < 4 else [hashed(each, now.node) for each in now.hashes]
        now.slots = np.array([self._find(each, write=write) for each in hashes])
        keys = [(w.last & ((1 << 8 * order) - 1)) << 8 | now.node for order in range(1, DIRECT + 1)]
        now.halves = [hashed(60, key & WORD) >> (64 - self.direct_bits) for key in keys]

    def _logit(self, p: np.ndarray) -> np.ndarray:
        return self.stretched[(p * np.float32(STRETCHED - 1) + np.float32(0.5)).astype(np.int64)]

    def _predict(self, w: Place, now: Next) -> Predicted:
        at = _in_half(now)
        x, contexts = np.zeros(INPUTS, np.float32), np.arange(CONTEXTS)
        states = self.history[now.slots, at].astype(np.int64)
        p = self.by_history.p[contexts, states]
        x[:CONTEXTS] = np.where(states > 0, self._logit(p), 0)
        x[CONTEXTS : 2 * CONTEXTS] = np.where(states > 0, (p - np.float32(0.5)) * np.float32(CERTAINTY), 0)
        matched, place = [], 2 * CONTEXTS
        for which, (length, there) in enumerate(now.matches):
            unit = self.text[there] if length else 0
            if length and (unit | 256) >> (8 - now.bit) == now.node:
                kind = sum(length >= least for least in LENGTH_KINDS) - 1
                bit, p_match = unit >> (7 - now.bit) & 1, self.matched.p[which, kind]
                sign = np.float32(1 if bit else -1)
                x[place] = sign * self._logit(p_match)
                x[place + 1] = sign * np.float32(CERTAINTY) * (p_match - np.float32(0.5))
                matched.append((which, kind, bit))
            place += 2
        direct = self.direct_p[np.arange(DIRECT), now.halves, at + 1]
        x[place : place + DIRECT] = self.stretched[direct >> 10]
        x[place + DIRECT] = BIAS
        known = int(np.count_nonzero(states[:ORDERS]))
        c, bit = now.chosen, now.bit
        rows = [c[0] * 8 + bit, now.node, c[2], c[3], c[4] * 8 + bit, c[5], (c[6] * 9 + known) * 8 + bit]
        weights = self.weights[np.arange(SETS), rows]
        mixed = (weights @ x).clip(-LARGEST, LARGEST)
        together = float((self.final[now.node] @ mixed).clip(-LARGEST, LARGEST))
        scale = min(max(together, -(STEPS - 2) / 4), (STEPS - 2) / 4) * 2 + STEPS // 2
        step = min(int(scale), STEPS - 2)
        between = scale - step
        estimates = (w.last & 0xFF) << 8 | now.node, hashed(61, (w.last & 0xFFFF) << 8 | now.node) >> 48
        p_out = 0.5 * float(squash(together))
        for which, line in enumerate(estimates):
            low, high = self.estimated[which, line, step : step + 2].tolist()
            p_out += 0.25 / 65535 * (low * (1 - between) + high * between)
        p_out = min(max(p_out, LEAST), 1 - LEAST)
        return Predicted(p_out, x, np.array(rows), mixed, together, states, matched, estimates, step, between)

    def _learn(self, now: Next, found: Predicted, bit: int) -> None:
        rate, at = RATE + FIRST_RATE / (1 + self.decided / RATE_FALLS), _in_half(now)
        self.decided += 1
        wrong = (bit - squash(found.mixed)) * np.float32(rate)
        self.weights[np.arange(SETS), found.rows] += wrong[:, None] * found.x
        self.final[now.node] += np.float32((bit - float(squash(found.together))) * FINAL_RATE) * found.mixed
        contexts = np.arange(CONTEXTS)
        self.by_history.learn((contexts, found.histories), bit)
        for slot in now.slots.tolist():  # two contexts may have the same
            self.history[slot, at] = self.after[self.history[slot, at], bit]
        for which, kind, expected in found.matched:
            self.matched.learn((which, kind), int(expected == bit))
        for order, half in enumerate(now.halves):
            p, n = int(self.direct_p[order, half, at + 1]), int(self.direct_n[order, half, at + 1])
            self.direct_p[order, half, at + 1] = p + int(
                np.float32((ONES if bit else 0) - p) * np.float32(1 / (n + 1.5))
            )
            self.direct_n[order, half, at + 1] = min(n + 1, DIRECT_FORGETS)
        for which, line in enumerate(found.estimates):
            cell = self.estimated[which, line]
            for more, share in ((0, 1 - found.between), (1, found.between)):
                old = float(cell[found.step + more])
                cell[found.step + more] = int(old + ((65535 if bit else 0) - old) * CORRECTED * share + 0.5)


def _in_half(now: Next) -> int:
    """Place of the next bit's history in a bucket."""
    return now.node - 1 if now.bit < 4 else (now.node & ((1 << now.bit - 4) - 1) | 1 << now.bit - 4) - 1
