"""What a text has said so far: counts of its last tokens, mixed with a model's predictions by a small gate.

Names, turns and odd words come again in the text that has them, far beyond a network's context, and the training text
knows nothing of them. The estimate is of all orders, interpolated (Witten and Bell 1991), and beneath the lowest stands
the model's own; it is mixed in as a cache is (Kuhn and De Mori 1990; Grave et al. 2017). The kernel is recent.c, with
its slow twins in numpy.
N positions, V vocabulary, F features.

A span (row, begin, end) is what is known of a text before a position: the next token stands at `end`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import numpy as np

from octavo.util.kernels import kernel
from octavo.util.processes import threads

LONGEST = 7
"""Tokens of the longest context; at most 16."""
FEATURES = LONGEST + 3
"""How many tokens matched (one of LONGEST + 1), how often these occurred, how many kinds of tokens followed."""
HIDDEN = 16
"""Of the gate."""
MOST_RECENT = 100_000
"""Tokens of the text so far that can be asked for."""

_APART: ContextVar[bool] = ContextVar("apart", default=False)


@contextmanager
def recent_apart() -> Iterator[None]:
    """Within the context models mix nothing in: a decoder does, which knows more of its texts than a call's tokens."""
    token = _APART.set(True)
    try:
        yield
    finally:
        _APART.reset(token)


def is_apart() -> bool:
    """Whether a decoder mixes in what a text has said."""
    return _APART.get()


class TextsStruct(ctypes.Structure):
    """`Texts` of recent.c."""

    _fields_ = (
        ("text", ctypes.c_void_p),
        ("width", ctypes.c_int64),
        ("spans", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("longest", ctypes.c_int),
        ("vocabulary", ctypes.c_int64),
        ("threads", ctypes.c_int),
    )


class GateStruct(ctypes.Structure):
    """`Gate` of recent.c."""

    _fields_ = (
        ("hidden", ctypes.c_int),
        *((name, ctypes.c_void_p) for name in ("from_known", "bias", "out", "out_bias")),
    )


class Gate:
    """What share a prediction has from what the text has said so far, as the kernel reads it.

    Args:
        into: (H, F + 1); the last column of each matrix is a bias.
        onto: (1, H + 1)
        most: tokens of the text so far that count.
    """

    def __init__(self, into: np.ndarray, onto: np.ndarray, *, most: int, vocab_size: int) -> None:
        self.most, self.vocab_size = most, vocab_size
        parts = (into[:, :-1], into[:, -1], onto[0, :-1], onto[0, -1:])
        self._held = [np.ascontiguousarray(each, np.float32) for each in parts]
        self.struct = GateStruct(HIDDEN, *map(_address, self._held))


class Texts:
    """Rows of tokens (B, W) and spans (N, 3) of them."""

    def __init__(self, text: np.ndarray, spans: np.ndarray, *, vocab_size: int) -> None:
        self.text, self.spans = np.ascontiguousarray(text, np.int32), np.ascontiguousarray(spans, np.int32)
        where = (_address(self.text), self.text.shape[1], _address(self.spans), len(self.spans))
        self._struct = TextsStruct(*where, LONGEST, vocab_size, threads())

    @classmethod
    def of(
        cls,
        tokens: np.ndarray,
        earlier: np.ndarray | None,
        segments: np.ndarray | None,
        *,
        most: int,
        vocab_size: int,
    ) -> Texts:
        """Of the positions of `tokens` (B, T), row by row, each with as much of the `most` tokens up to it as stand in
        its row or `earlier` (B, E), where −1 is nothing, and in its own segment of `segments` (B, T)."""
        rows, length = tokens.shape
        whole = tokens if earlier is None else np.concatenate((earlier, tokens), axis=1)
        before = whole.shape[1] - length
        begins = np.zeros((rows, length), np.int64)
        if before:
            begins += (whole[:, :before] < 0).sum(axis=1)[:, None]
        if segments is not None:
            own = np.concatenate((np.ones((rows, 1), bool), segments[:, 1:] != segments[:, :-1]), axis=1)
            begins = np.maximum.accumulate(np.where(own, np.arange(length) + before, 0), axis=1)
        ends = np.broadcast_to(np.arange(before + 1, before + length + 1), (rows, length))
        row = np.broadcast_to(np.arange(rows)[:, None], (rows, length))
        begins = np.maximum(begins, ends - most)
        return cls(whole, np.stack((row, begins, ends), axis=-1).reshape(-1, 3), vocab_size=vocab_size)

    @classmethod
    def at(cls, tokens: np.ndarray, places: np.ndarray, *, most: int, vocab_size: int) -> Texts:
        """Of one text (M,), before some places (N,) of it, each with as many as `most` tokens."""
        spans = np.stack((np.zeros_like(places), np.maximum(0, places - most), places), axis=1)
        return cls(tokens[None], spans, vocab_size=vocab_size)

    def known(self) -> np.ndarray:
        """(N, F): how many tokens matched, ln(1 + how often these occurred), ln(1 + kinds of what followed)."""
        found = np.zeros((len(self.spans), FEATURES), np.float32)
        if (native := compiled()) is not None:
            _whole(native.recent_known(self._struct, _address(found)))
            return found
        for row, look in zip(found, self._looks(), strict=True):
            row[look.longest] = 1
            row[-2:] = np.log1p((look.counted, look.kinds))
        return found

    def mix(self, weights: np.ndarray, p: np.ndarray) -> None:
        """Put (1 − weights) · p + weights · (what was said so far, beneath which stands p) in place of p (N, V);
        weights (N,), both float32."""
        if (native := compiled()) is not None:
            _whole(native.recent_mix(self._struct, _address(weights), _address(p)))
            return
        for row, weight, look in zip(p, weights.tolist(), self._looks(), strict=True):
            row *= np.float32((1 - weight) + weight * look.rest)
            added = np.bincount(look.tokens, weights=look.adds, minlength=len(row))
            row += (weight * added).astype(np.float32)

    def shares_of(self, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(N,) what was said gives to the tokens (N,), and (N,) the rest, which is the model's to share out."""
        found = np.zeros((2, len(self.spans)), np.float32)
        asked = np.ascontiguousarray(tokens, np.int32)
        if (native := compiled()) is not None:
            _whole(native.recent_said(self._struct, _address(asked), _address(found[0]), _address(found[1])))
            return found[0], found[1]
        for at, (token, look) in enumerate(zip(asked, self._looks(), strict=True)):
            found[:, at] = look.adds[look.tokens == token].sum(), look.rest
        return found[0], found[1]

    def predict(self, gate: Gate, logs: np.ndarray) -> None:
        """Put those of the mixture in place of logarithms of probabilities (N, V). Only where there is a kernel."""
        native = compiled()
        assert native is not None
        _whole(native.recent_predict(self._struct, ctypes.byref(gate.struct), _address(logs)))

    def beside(self, gate: Gate, kept: np.ndarray, added: np.ndarray) -> bool:
        """See `gate.Recent.beside`. False where there is no kernel, and nothing was done."""
        if (native := compiled()) is None:
            return False
        _whole(native.recent_beside(self._struct, ctypes.byref(gate.struct), _address(kept), _address(added)))
        return True

    def _looks(self) -> Iterator[_Look]:
        for row, begin, end in self.spans.tolist():
            yield _look(self.text[row, begin:end])


class _Look(NamedTuple):
    """`Look` of recent.c, and by token of a span what its occurrence adds to its probability."""

    longest: int
    counted: int
    kinds: int
    rest: float
    tokens: np.ndarray
    adds: np.ndarray


def _look(tokens: np.ndarray) -> _Look:
    count = len(tokens)
    if not count:
        return _Look(0, 0, 0, 1.0, tokens, np.zeros(0))
    matched, alike = np.zeros(count, np.int64), np.ones(count, bool)
    for back in range(1, min(LONGEST, count - 1) + 1):
        shifted = np.zeros(count, bool)
        shifted[back:] = tokens[:-back] == tokens[count - back]
        alike &= shifted
        if not alike.any():
            break
        matched += alike
    longest, rest, adds = int(matched.max()), 1.0, np.zeros(LONGEST + 1)
    there = [matched >= order for order in range(longest + 1)]
    counted, kinds = [int(each.sum()) for each in there], [len(np.unique(tokens[each])) for each in there]
    for order in range(longest, -1, -1):
        together = counted[order] + kinds[order]
        adds[order], rest = rest / together, rest * kinds[order] / together
    return _Look(longest, counted[-1], kinds[-1], rest, tokens, np.cumsum(adds)[matched])


def _address(array: np.ndarray) -> int:
    assert array.flags.c_contiguous
    return array.ctypes.data


def _whole(done: int) -> None:
    if not done:
        raise MemoryError("there is no memory to look at what a text has said so far")


@kernel
def compiled(native: ctypes.CDLL) -> None:
    """The kernel, where it can be had."""
    texts, pointer = ctypes.POINTER(TextsStruct), ctypes.c_void_p
    takes = {"known": 1, "mix": 2, "said": 3, "predict": 2, "beside": 3}
    for name, count in takes.items():
        function = getattr(native, f"recent_{name}")
        function.argtypes, function.restype = (texts, *[pointer] * count), ctypes.c_int
