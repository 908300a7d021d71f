"""Context mixing: what comes next, from many contexts at once, decided bit by bit.

The strongest of what only counts, as compressors do it: contexts other than the last symbols alone, counts that adapt,
mixed in the logistic domain by weights that learn from each bit after it was predicted. The kernel is mixing.c, which
says how; its twin is in slow_mixing.py.
"""

from __future__ import annotations

import ctypes
from typing import Any, Self

import numpy as np
import torch

from octavo.ngram.codes import Codes
from octavo.ngram.slow_mixing import SlowMixing
from octavo.util.kernels import kernel

WINDOW = 256
"""Units before a position that its prediction depends on, as in mixing.c."""
ALIGNED = 64
"""Bytes: a line of a processor's cache."""


class VocabularyStruct(ctypes.Structure):
    """`Vocabulary` of mixing.c."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("branches", "symbols", "units", "lengths")),
        *((name, ctypes.c_int32) for name in ("branch_count", "vocabulary")),
    )

    @classmethod
    def of(cls, codes: Codes) -> Self:
        """Of codes, which have to be held as long."""
        arrays = (codes.branches, codes.symbols, codes.units, codes.lengths)
        return cls(*map(_address, arrays), len(codes.branches), codes.size)


class GateStruct(ctypes.Structure):
    """`Gate` of mixing.c."""

    _fields_ = (
        ("hidden", ctypes.c_int),
        *((name, ctypes.c_void_p) for name in ("from_known", "bias", "out", "out_bias")),
    )


class ContextMixing:
    """What was learned of a text of units (see `Codes`); it is one array of bytes, `memory`.

    Args:
        capacity: units that it may read in all.
    """

    def __init__(self, codes: Codes, *, capacity: int) -> None:
        native = _native()
        size = native.mixing_bytes(capacity)
        if size < 0:
            raise MemoryError(f"there is no memory for {capacity:,} units")
        self.codes, self.capacity, self.length = codes, capacity, 0
        self.memory = _aligned(size)
        self._vocabulary = VocabularyStruct.of(codes)
        native.mixing_start(_address(self.memory), capacity, *map(_address, (codes.kinds, codes.folds)))

    def read(self, units: np.ndarray) -> np.ndarray:
        """(N,) −ln of the probability that each of units (N,), uint8, had before it was learned; what was read before
        stands before them. Raises ValueError where there is no room for them."""
        native = _native()
        self._refuse(len(units))
        units, nats = np.ascontiguousarray(units, np.uint8), np.empty(len(units), np.float32)
        native.mixing_read(_address(self.memory), _address(units), len(units), _address(nats))
        self.length += len(units)
        return nats

    def predict(self, text: np.ndarray, spans: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(N, V) ln p of each symbol after each of the spans (N, 2) of a text of symbols (M,), of which so many are
        looked at as have WINDOW units; and (N, 2) how long the longest match is, and how many of the shorter contexts
        were seen. Nothing is learned."""
        native = _native()
        text, spans = np.ascontiguousarray(text, np.int32), np.ascontiguousarray(spans, np.int64)
        logs, known = self._room(len(spans))
        where = (_address(self.memory), ctypes.byref(self._vocabulary), _address(text), _address(spans))
        native.mixing_predict(*where, len(spans), _address(logs), _address(known), torch.get_num_threads())
        return logs, known

    def follow(self, text: np.ndarray, before: int) -> tuple[np.ndarray, np.ndarray]:
        """The same before each symbol of a text (M,) but the first `before`, which were read; each is read after that.
        Raises ValueError where there is no room for them."""
        native, text = _native(), np.ascontiguousarray(text, np.int32)
        units = int(self.codes.lengths[text[before:]].sum())
        self._refuse(units)
        logs, known = self._room(len(text) - before)
        where = (_address(self.memory), ctypes.byref(self._vocabulary), _address(text), before)
        native.mixing_follow(*where, len(text) - before, _address(logs), _address(known))
        self.length += units
        return logs, known

    def predict_gated(
        self, gate: GateStruct, text: np.ndarray, spans: np.ndarray, logits: np.ndarray, out: np.ndarray
    ) -> None:
        """Put into `out` (n, V) ln p of network and mixture together after each of the spans (n, 3) of a text (slots,
        T), from `logits` (n, V + H); see mixing.c."""
        where = (_address(self.memory), ctypes.byref(self._vocabulary), ctypes.byref(gate))
        rows = (_address(text), text.shape[1], _address(spans), len(spans))
        _native().mixing_gated(*where, *rows, _address(logits), _address(out), torch.get_num_threads())

    def _room(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        return np.empty((count, self.codes.size), np.float32), np.empty((count, 2), np.float32)

    def _refuse(self, units: int) -> None:
        if self.length + units > self.capacity:
            raise ValueError(f"{units:,} units do not fit: there is room for {self.capacity - self.length:,}")

    def copy(self, more: int = 0) -> Self:
        """Another that knows the same, and may read so many units more."""
        made = object.__new__(type(self))
        made.__dict__ = self.__dict__ | {"memory": _aligned(len(self.memory) + more)}
        made.memory[: len(self.memory)] = self.memory
        made.capacity += more
        _native().mixing_widen(_address(made.memory), more)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Models share what they count by, which stays as it is; `copy` is for what goes on."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Addresses are of this process alone."""
        return _again, (self.codes, self.memory, self.capacity, self.length)


def context_mixing(codes: Codes, *, capacity: int) -> ContextMixing | SlowMixing:
    """By the kernel, or where there is none by its twin."""
    return (SlowMixing if compiled() is None else ContextMixing)(codes, capacity=capacity)


def _again(codes: Codes, memory: np.ndarray, capacity: int, length: int) -> ContextMixing:
    made = object.__new__(ContextMixing)
    made.codes, made.capacity, made.length, made.memory = codes, capacity, length, _aligned(len(memory))
    made.memory[:] = memory
    made._vocabulary = VocabularyStruct.of(codes)
    return made


def _aligned(size: int) -> np.ndarray:
    """Bytes, all zero, that begin where a line of a processor's cache does."""
    room = np.zeros(size + ALIGNED, np.uint8)
    skipped = -room.ctypes.data % ALIGNED
    return room[skipped : skipped + size]


def _address(array: np.ndarray) -> int:
    assert array.flags.c_contiguous
    return array.ctypes.data


def _native() -> ctypes.CDLL:
    native = compiled()
    assert native is not None, "see `context_mixing`"
    return native


@kernel
def compiled(native: ctypes.CDLL) -> None:
    """The kernel, where it can be had."""
    pointer, number, count = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
    takes: dict[str, tuple[tuple[Any, ...], Any]] = {
        "mixing_bytes": ((number,), number),
        "mixing_start": ((pointer, number, pointer, pointer), None),
        "mixing_widen": ((pointer, number), None),
        "mixing_read": ((pointer, pointer, number, pointer), count),
        "mixing_predict": ((*[pointer] * 4, number, pointer, pointer, count), None),
        "mixing_follow": ((*[pointer] * 3, number, number, pointer, pointer), count),
        "mixing_gated": ((*[pointer] * 4, number, pointer, number, pointer, pointer, count), None),
    }
    for name, (arguments, result) in takes.items():
        function = getattr(native, name)
        function.argtypes, function.restype = arguments, result
