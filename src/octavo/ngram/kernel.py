"""The kernel that counts n-grams and mixes what they predict, counting.c, with its slow twins in numpy.

Where there is no C compiler, the twins do the work.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from octavo.util.kernels import kernel
from octavo.util.processes import threads

MOST_ORDERS = 20
"""That can be counted."""
MOST_HIDDEN = 256
"""Features of a gate that the kernel has room for."""
IDS = (np.uint16, np.int32, np.int64)
"""Kinds of numbers that a text's tokens may have in a checkpoint."""
AT_ONCE = 1 << 22
"""Numbers of a table that is made to ask for single probabilities; 16 MB."""


class LevelStruct(ctypes.Structure):
    """`Level` of counting.c."""

    _fields_ = tuple(
        (name, ctypes.c_void_p)
        for name in ("start", "token", "share", "lower_share", "left", "lower_left", "known")
    )


class GateStruct(ctypes.Structure):
    """`Gate` of counting.c."""

    _fields_ = (
        ("hidden", ctypes.c_int),
        *((name, ctypes.c_void_p) for name in ("from_known", "bias", "out", "out_bias")),
    )


def refuse_text(tokens: np.ndarray, *, fewest: int, vocab_size: int) -> None:
    """Raise ValueError unless a checkpoint's tokens are a text, or none: the kernels trust them."""
    if tokens.ndim != 1 or tokens.dtype not in IDS or 0 < len(tokens) < fewest:
        raise ValueError(f"tokens must be a text of at least {fewest} tokens")
    if len(tokens) and not 0 <= int(tokens.min()) <= int(tokens.max()) < vocab_size:
        raise ValueError(f"tokens has ids outside of the vocabulary of {vocab_size}")


@dataclass(frozen=True)
class Table:
    """The n-grams of one order, those with the same context side by side. float32 and int32.

    Attributes:
        start: (contexts + 1,) of each context its first n-gram.
        token: (n-grams,) the last token of each.
        share, left: see `kneser_ney.Estimate`, by occurrences.
        lower_share, lower_left: the same by predecessors, for the orders above; None at the highest order.
        known: (contexts, 2) ln(1 + occurrences) and ln(1 + kinds of tokens that follow).
    """

    start: np.ndarray
    token: np.ndarray
    share: np.ndarray
    left: np.ndarray
    lower_share: np.ndarray | None
    lower_left: np.ndarray | None
    known: np.ndarray


def table_bytes(kinds: Sequence[int]) -> int:
    """Bytes of all orders' tables, of which each has so many different n-grams."""
    ngrams, contexts = np.array(kinds), np.array([1, *kinds[:-1]])
    below = np.arange(len(kinds)) < len(kinds) - 1  # orders with others above them
    by_order = 4 * ((2 + below) * ngrams + (4 + below) * contexts + 1)
    return int(by_order.sum())


class Tables:
    """All orders, as the kernel reads them. N positions, K orders, V vocabulary.

    The places (N, K) of the contexts of a position: of the last 0 to K − 1 tokens, −1 where those were never counted.
    """

    def __init__(self, tables: Sequence[Table], *, vocab_size: int) -> None:
        self.tables, self.orders, self.vocab_size = tables, len(tables), vocab_size
        self._array = (LevelStruct * len(tables))(*map(_struct, tables))

    def __deepcopy__(self, memo: dict[int, Any]) -> Tables:
        """They never change, and the kernel knows their addresses."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Addresses are of this process alone."""
        return partial(Tables, vocab_size=self.vocab_size), (self.tables,)

    def contexts(self, tokens: np.ndarray, fresh: np.ndarray | None = None) -> np.ndarray:
        """(B, T, K) places of the contexts that end with each of `tokens` (B, T), −1 where there is no token; nothing
        counts that stands before a row, or before a position of it that is `fresh` (B, T)."""
        tokens = np.ascontiguousarray(tokens, np.int32)
        fresh = None if fresh is None else np.ascontiguousarray(fresh, np.uint8)
        rows, length = tokens.shape
        if (native := compiled()) is None:
            return self._contexts(tokens, fresh)
        found = np.empty((rows, length, self.orders), np.int32)
        given = (_address(tokens), _address(fresh), rows, length)
        native.counting_contexts(self._array, self.orders, *given, _address(found), threads())
        return found

    def follow(self, text: Sequence[int], most: int) -> tuple[list[int], list[float]]:
        """What most often came next, token by token, in the longest context that anything followed: at most so many
        tokens, and the share (see `Table`) that each has there."""
        last = np.array(text[max(0, len(text) - self.orders + 1) :], np.int32)
        if (native := compiled()) is None:
            return self._follow(last.tolist(), most)
        tokens, shares = np.empty(most, np.int32), np.empty(most, np.float32)
        where = _address(last), len(last), most, _address(tokens), _address(shares)
        found = native.counting_follow(self._array, self.orders, *where)
        return tokens[:found].tolist(), shares[:found].tolist()

    def known(self, places: np.ndarray) -> np.ndarray:
        """(N, 2 (K − 1)): of the contexts of one token and more, `Table.known`; 0 where never counted."""
        count = len(places)
        found = np.zeros((count, 2 * (self.orders - 1)), np.float32)
        if (native := compiled()) is not None:
            where = (_address(places), count, _address(found))
            native.counting_known(self._array, self.orders, *where, threads())
            return found
        for k in range(1, self.orders):
            seen = places[:, k] >= 0
            found[seen, 2 * k - 2 : 2 * k] = self.tables[k].known[places[seen, k]]
        return found

    def mix(self, places: np.ndarray, weights: np.ndarray, p: np.ndarray) -> None:
        """Put weights[:, 0] · p + Σ weights[:, k] · (probabilities of order k) in place of p (N, V), all float32."""
        if (native := compiled()) is not None:
            given = (_address(places), _address(weights), len(p), _address(p), threads())
            native.counting_mix(self._array, self.orders, self.vocab_size, *given)
            return
        p *= weights[:, :1]
        for k, each in enumerate(self._each(places), start=1):
            p += weights[:, k : k + 1] * each

    def slopes(self, places: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """(N, K): Σ_v slope[:, v] · (probability of v by order k), for `slope` (N, V) in float32."""
        if (native := compiled()) is None:
            found = [(slope * each).sum(axis=1) for each in self._each(places)]
            return np.stack(found, axis=1).astype(np.float32)
        sums = np.empty((len(slope), self.orders), np.float32)
        given = (_address(places), _address(slope), len(slope), _address(sums), threads())
        native.counting_slopes(self._array, self.orders, self.vocab_size, *given)
        return sums

    def probabilities(self, places: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """(N, K) probabilities of `tokens` (N,) by each order; some at a time, for a row of V is made for each."""
        found = []
        for begin in range(0, len(tokens), step := max(1, AT_ONCE // self.vocab_size)):
            some = tokens[begin : begin + step]
            right = np.zeros((len(some), self.vocab_size), np.float32)
            right[np.arange(len(some)), some] = 1
            found.append(self.slopes(np.ascontiguousarray(places[begin : begin + step]), right))
        return np.concatenate(found) if found else np.empty((0, self.orders), np.float32)

    def predict_gated(
        self, gate: GateStruct, text: np.ndarray, spans: np.ndarray, logits: np.ndarray, out: np.ndarray
    ) -> None:
        """Put into `out` (n, V) logarithms of the mixture's probabilities after each of the spans (n, 3) of a text
        (slots, T), from `logits` (n, V + H); see counting.c. Only where there is a kernel."""
        native = compiled()
        assert native is not None
        rows, stride = logits.shape
        where = (_address(text), text.shape[1], _address(spans), rows, stride)
        of = (self._array, self.orders, self.vocab_size, ctypes.byref(gate))
        native.counting_predict(*of, *where, _address(logits), _address(out), threads())

    def _follow(self, text: list[int], most: int) -> tuple[list[int], list[float]]:
        written, shares = list(text), []
        while written and len(shares) < most:
            last = np.array([written[-self.orders :]], np.int32)
            for k, place in reversed([*enumerate(self._contexts(last, None)[0, -1])][1:]):
                begin, end = self.tables[k].start[place : place + 2] if place >= 0 else (0, 0)
                if begin < end:
                    best = begin + int(self.tables[k].share[begin:end].argmax())
                    written.append(int(self.tables[k].token[best]))
                    shares.append(float(self.tables[k].share[best]))
                    break
            else:
                break
        return written[len(text) :], shares

    def _contexts(self, tokens: np.ndarray, fresh: np.ndarray | None) -> np.ndarray:
        rows, length = tokens.shape
        found = np.full((rows, length, self.orders), -1, np.int32)
        found[..., 0] = 0
        for k in range(1, self.orders):
            before = np.full((rows, length), -1, np.int32)
            before[:, 1:] = found[:, :-1, k - 1]
            if k == 1:
                before[:, 0] = 0
            elif fresh is not None:
                before[fresh > 0] = -1
            found[..., k] = self._find(k - 1, before.ravel(), tokens.ravel()).reshape(rows, length)
        return found

    def _find(self, k: int, contexts: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """(N,) the places in table k of the n-grams of these contexts and tokens, or −1."""
        keys = self._keys[k]
        wanted = contexts.astype(np.int64) * self.vocab_size + tokens
        places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where((contexts >= 0) & (tokens >= 0) & (keys[places] == wanted), places, -1)

    @cached_property
    def _keys(self) -> list[np.ndarray]:
        contexts = [np.repeat(np.arange(len(table.start) - 1), np.diff(table.start)) for table in self.tables]
        return [own * self.vocab_size + table.token for own, table in zip(contexts, self.tables, strict=True)]

    def _each(self, places: np.ndarray) -> list[np.ndarray]:
        """(N, V) probabilities by each order."""
        beneath = np.full((len(places), self.vocab_size), 1 / self.vocab_size)
        found = []
        for k, table in enumerate(self.tables):
            seen = np.flatnonzero(places[:, k] >= 0)
            mine = places[seen, k]
            found.append(_over(beneath, seen, mine, table, table.share, table.left))
            if table.lower_share is not None and table.lower_left is not None:
                beneath = _over(beneath, seen, mine, table, table.lower_share, table.lower_left)
        return found


def _over(
    beneath: np.ndarray,
    seen: np.ndarray,
    places: np.ndarray,
    table: Table,
    share: np.ndarray,
    left: np.ndarray,
) -> np.ndarray:
    """An order's probabilities over those of the order beneath, at the positions that have seen its context."""
    found = beneath.copy()
    found[seen] *= left[places, None]
    counts = table.start[places + 1] - table.start[places]
    ngrams = np.repeat(table.start[places] - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
    np.add.at(found, (np.repeat(seen, counts), table.token[ngrams]), share[ngrams])
    return found


def rank_pairs(a: np.ndarray, b: np.ndarray, size_a: int, size_b: int) -> tuple[np.ndarray, np.ndarray]:
    """(n,) the rank of each pair (a, b) among all different ones, int32, and the first place of each rank.

    `a`, `b`: (n,) int32, at least 0 and below `size_a` and `size_b`.
    """
    if (native := compiled()) is None:
        _, first, rank = np.unique(a.astype(np.int64) * size_b + b, return_index=True, return_inverse=True)
        return rank.astype(np.int32), first.astype(np.int32)
    n = len(a)
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    rank, first, work = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(2 * n, np.int32)
    heads = np.empty(max(size_a, size_b) + 1, np.int64)
    arrays = (rank, first, work, heads)
    ranks = native.counting_rank_pairs(_address(a), _address(b), n, size_a, size_b, *map(_address, arrays))
    return rank, first[:ranks].copy()


def _struct(table: Table) -> LevelStruct:
    arrays = (
        table.start,
        table.token,
        table.share,
        table.lower_share,
        table.left,
        table.lower_left,
        table.known,
    )
    return LevelStruct(*map(_address, arrays))


def _address(array: np.ndarray | None) -> int | None:
    assert array is None or array.flags.c_contiguous
    return None if array is None else array.ctypes.data


@kernel
def compiled(native: ctypes.CDLL) -> None:
    """The kernel, where it can be had."""
    pointer, number, count = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
    levels: tuple[Any, ...] = (pointer, count)
    takes: dict[str, tuple[Any, ...]] = {
        "rank_pairs": (pointer, pointer, number, number, number, *[pointer] * 4),
        "contexts": (*levels, pointer, pointer, number, number, pointer, count),
        "follow": (*levels, pointer, number, number, pointer, pointer),
        "known": (*levels, pointer, number, pointer, count),
        "mix": (*levels, number, pointer, pointer, number, pointer, count),
        "slopes": (*levels, number, pointer, pointer, number, pointer, count),
        "predict": (*levels, number, pointer, pointer, number, pointer, *[number] * 2, *[pointer] * 2, count),
    }
    for name, types in takes.items():
        function = getattr(native, f"counting_{name}")
        function.argtypes, function.restype = types, number if name in ("rank_pairs", "follow") else None
