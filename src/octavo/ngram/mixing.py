"""Context mixing: what comes next, from many contexts at once, decided bit by bit.

The strongest of what only counts, as compressors do it: contexts other than the last symbols alone, counts that adapt,
mixed in the logistic domain by weights that learn from each bit after it was predicted. The kernel is mixing.c, which
says how; its twin is in slow_mixing.py.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, Self

import numpy as np

from octavo.ngram.codes import Codes
from octavo.ngram.slow_mixing import SlowMixing
from octavo.util.kernels import library

WINDOW = 256
"""Units before a position that its prediction depends on, as in mixing.c."""
ALIGNED = 64
"""Bytes: a line of a processor's cache."""


class ContextMixing:
    """What was learned of a text of units (see `Codes`); it is one array of bytes, `memory`.

    Args:
        capacity: units that it may read in all.
    """

    def __init__(self, codes: Codes, *, capacity: int) -> None:
        native = compiled()
        assert native is not None
        size = native.mixing_bytes(capacity)
        if size < 0:
            raise MemoryError(f"there is no memory for {capacity:,} units")
        self.codes, self.capacity, self.length = codes, capacity, 0
        self.memory = _aligned(size)
        native.mixing_start(_address(self.memory), capacity, *map(_address, (codes.kinds, codes.folds)))

    def read(self, units: np.ndarray) -> np.ndarray:
        """(N,) −ln of the probability that each of units (N,), uint8, had before it was learned; what was read before
        stands before them. Raises ValueError where there is no room for them."""
        native = compiled()
        assert native is not None
        if self.length + len(units) > self.capacity:
            raise ValueError(
                f"{len(units):,} units do not fit: there is room for {self.capacity - self.length:,}"
            )
        units, nats = np.ascontiguousarray(units, np.uint8), np.empty(len(units), np.float32)
        native.mixing_read(_address(self.memory), _address(units), len(units), _address(nats))
        self.length += len(units)
        return nats

    def predict(self, text: np.ndarray, spans: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(N, V) ln p of each symbol after each of the spans (N, 2) of a text of units, of which WINDOW at most are
        looked at; and (N, 2) how long the longest match is, and how many of the shorter contexts were seen. Nothing is
        learned."""
        native = compiled()
        assert native is not None
        codes = self.codes
        logs, known = np.empty((len(spans), codes.size), np.float32), np.empty((len(spans), 2), np.float32)
        text, spans = np.ascontiguousarray(text, np.uint8), np.ascontiguousarray(spans, np.int64)
        native.mixing_predict(
            _address(self.memory),
            _address(codes.branches),
            len(codes.branches),
            _address(codes.symbols),
            codes.size,
            _address(text),
            _address(spans),
            len(spans),
            _address(logs),
            _address(known),
        )
        return logs, known

    def copy(self) -> Self:
        """Another that knows the same."""
        made = object.__new__(type(self))
        made.__dict__ = self.__dict__ | {"memory": _aligned(len(self.memory))}
        made.memory[:] = self.memory
        return made


def context_mixing(codes: Codes, *, capacity: int) -> ContextMixing | SlowMixing:
    """By the kernel, or where there is none by its twin."""
    return (SlowMixing if compiled() is None else ContextMixing)(codes, capacity=capacity)


def _aligned(size: int) -> np.ndarray:
    """Bytes, all zero, that begin where a line of a processor's cache does."""
    room = np.zeros(size + ALIGNED, np.uint8)
    skipped = -room.ctypes.data % ALIGNED
    return room[skipped : skipped + size]


def _address(array: np.ndarray) -> int:
    assert array.flags.c_contiguous
    return array.ctypes.data


@cache
def compiled() -> ctypes.CDLL | None:
    """The kernel, where it can be had."""
    native = library("octavo.ngram", "mixing")
    if native is None:
        return None
    pointer, number, count = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
    takes: dict[str, tuple[tuple[Any, ...], Any]] = {
        "mixing_bytes": ((number,), number),
        "mixing_start": ((pointer, number, pointer, pointer), None),
        "mixing_read": ((pointer, pointer, number, pointer), count),
        "mixing_predict": (
            (pointer, pointer, count, pointer, count, *[pointer] * 2, number, *[pointer] * 2),
            None,
        ),
    }
    for name, (arguments, result) in takes.items():
        function = getattr(native, name)
        function.argtypes, function.restype = arguments, result
    return native
