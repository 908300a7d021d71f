"""Context mixing: what comes next, from many contexts at once, decided bit by bit.

The strongest of what only counts, as compressors do it: contexts other than the last symbols alone, counts that adapt,
mixed in the logistic domain by weights that learn from each bit after it was predicted. What a network says of each bit
may be mixed in. The kernel is mixing.c, which says how; its twin is in slow_mixing.py.
"""

from __future__ import annotations

import ctypes
import mmap
import time
import weakref
from collections import deque
from typing import Any, NamedTuple, Self

import numpy as np

from octavo.ngram.codes import CODE, Codes
from octavo.ngram.kernel import Tables
from octavo.ngram.kneser_ney import tables_of_text
from octavo.ngram.slow_mixing import SlowMixing
from octavo.util.kernels import kernel
from octavo.util.memory import own_pages
from octavo.util.processes import threads

WINDOW = 256
"""Units before a position that its prediction depends on, as in mixing.c."""
FEWEST = 32
"""Tokens of a text."""
ORDERS, MOST_COUNTED = 8, 1_000_000
"""Of the n-grams that write drafts, and beside which the share of what a text has said is learned; and the tokens that
they are counted in at most."""
ALIGNED = 64
"""Bytes: a line of a processor's cache."""
SPARES, ROOM = 2, 1 << 21
"""How much memory of copies that nobody holds any more is kept, as long as what they were copied from: new pages take
ten times as long as filling them. And the bytes by which it may be too large for the next copy, which reads another
text on."""
_spare: deque[mmap.mmap] = deque(
    maxlen=SPARES
)  # whose calls are atomic: a copy may be collected at any moment
READING, COPYING = 10e-6, 0.5e-9
"""Seconds, on a slow processor, for each unit that is read, and for each byte of memory that is copied."""
TELLING = 50_000
"""Units that tell what one takes here."""


class VocabularyStruct(ctypes.Structure):
    """`Vocabulary` of mixing.c."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("branches", "symbols", "paths", "units", "lengths")),
        *((name, ctypes.c_int32) for name in ("branch_count", "vocabulary")),
    )

    @classmethod
    def of(cls, codes: Codes) -> Self:
        """Of codes, which have to be held as long."""
        arrays = (codes.branches, codes.symbols, codes.paths, codes.units, codes.lengths)
        return cls(*map(_address, arrays), len(codes.branches), codes.size)


class Scored(NamedTuple):
    """What was foretold of N symbols that came.

    Attributes:
        logs: (N,) ln p.
        shares: (N,) of all that was said, the network's.
        first: (N,) whether no other symbol had more.
    """

    logs: np.ndarray
    shares: np.ndarray
    first: np.ndarray


class Beside(NamedTuple):
    """What is mixed into N predictions after the mixer, float32.

    Attributes:
        kept: (N,) the share of its probabilities that is kept.
        added: (N, V) what is added to them.
    """

    kept: np.ndarray
    added: np.ndarray


class ContextMixing:
    """What was learned of a text of symbols: `memory`, an array of bytes, and `weights`, by which predictions are
    mixed.

    Args:
        capacity: units that it may read in all (see `Codes`).

    Attributes:
        nats: whoever has it read a text may keep here what `read` gave.
        unit_seconds: that each unit of the last longer text took here.
        byte_seconds: that each byte of memory took to copy here.
    """

    def __init__(self, codes: Codes, *, capacity: int) -> None:
        native = _native()
        size = native.mixing_bytes(capacity)
        if size < 0:
            raise MemoryError(f"there is no memory for {capacity:,} units")
        self.codes, self.capacity, self.length = codes, capacity, 0
        self.unit_seconds, self.byte_seconds = READING, COPYING
        self.nats = np.zeros(0, np.float32)
        self.memory = _zeros(size)
        weakref.finalize(self.memory, _spare.clear)
        self.weights = _zeros(4 * native.mixing_weights()).view(np.float32)
        self._vocabulary = VocabularyStruct.of(codes)
        own = map(_address, (self.memory, self.weights))
        native.mixing_start(*own, capacity, *map(_address, (codes.kinds, codes.folds)))

    def read(self, tokens: np.ndarray, heard: np.ndarray | None = None) -> np.ndarray:
        """(N,) −ln of the probability that each of `tokens` (N,) had before it was learned; what was read before stands
        before them. `heard` (N, CODE) is what a network says of them, see `hear`. Raises ValueError where there is no
        room for them."""
        tokens, nats = np.ascontiguousarray(tokens, np.int32), np.empty(len(tokens), np.float32)
        units = self.codes.taken_by(tokens)
        self._refuse(units)
        told, began = None if heard is None else _address(heard), time.monotonic()
        _whole(_native().mixing_read(*self._own(), _address(tokens), len(tokens), told, _address(nats)))
        self.length += units
        if units >= TELLING:
            self.unit_seconds = (time.monotonic() - began) / units
        return nats

    def hear(self, logits: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """(N, CODE) the probability that each bit of tokens (N,) is 1, by logits (N, ≥ V) of a network, float32; below
        0 where no symbols are told apart."""
        logits, tokens = np.ascontiguousarray(logits, np.float32), np.ascontiguousarray(tokens, np.int32)
        heard = np.empty((len(tokens), CODE), np.float32)
        given = (_address(logits), logits.shape[1], _address(tokens), len(tokens), _address(heard))
        _whole(_native().mixing_hear(ctypes.byref(self._vocabulary), *given))
        return heard

    def walk(self, logits: np.ndarray | None = None) -> Walk:
        """Set out for the token that comes next, of which a network says `logits` (≥ V,), float32. Raises ValueError
        where there is no room for it."""
        self._refuse(int(self.codes.lengths.max()))
        return Walk(self, logits)

    def predict(self, text: np.ndarray, spans: np.ndarray, logits: np.ndarray | None = None) -> np.ndarray:
        """(N, V) ln p of each symbol after each of the spans (N, 2) of a text of symbols (M,), of which so many are
        looked at as have WINDOW units; `logits` (N, ≥ V), float32, are a network's. Nothing is learned."""
        logs = np.empty((len(spans), self.codes.size), np.float32)
        self._predict(text, spans, logits, None, None, None, logs, None, None)
        return logs

    def score(
        self,
        text: np.ndarray,
        spans: np.ndarray,
        tokens: np.ndarray,
        logits: np.ndarray | None = None,
        beside: Beside | None = None,
    ) -> Scored:
        """Score only the `tokens` (N,) that came, as `predict` does, in a fraction of its time; `beside`: what is mixed
        in after that."""
        count = len(spans)
        found = Scored(np.empty(count, np.float32), np.empty(count, np.float32), np.empty(count, np.uint8))
        kept, added = (None, None) if beside is None else map(np.ascontiguousarray, beside)
        self._predict(text, spans, logits, tokens, kept, added, *found)
        return found

    def _predict(
        self,
        text: np.ndarray,
        spans: np.ndarray,
        logits: np.ndarray | None,
        tokens: np.ndarray | None,
        *out: np.ndarray | None,
    ) -> None:
        text, spans = np.ascontiguousarray(text, np.int32), np.ascontiguousarray(spans, np.int64)
        if logits is not None:
            logits = np.ascontiguousarray(logits, np.float32)
        if tokens is not None:
            tokens = np.ascontiguousarray(tokens, np.int32)
        stride = 0 if logits is None else logits.shape[1]
        where = (_address(text), _address(spans), len(spans))
        given = (None if each is None else _address(each) for each in (tokens, *out))
        told = None if logits is None else _address(logits)
        _whole(_native().mixing_predict(*self._own(), *where, told, stride, *given, threads()))

    def _own(self) -> tuple[Any, ...]:
        return _address(self.memory), _address(self.weights), ctypes.byref(self._vocabulary)

    def _refuse(self, units: int) -> None:
        if self.length + units > self.capacity:
            raise ValueError(f"{units:,} units do not fit: there is room for {self.capacity - self.length:,}")

    def copy(self, more: int = 0) -> Self:
        """Another that knows the same, and may read so many units more."""
        made, began = self.weighing(self.weights), time.monotonic()
        made.memory = _borrowed(len(self.memory) + more)
        made.memory[: len(self.memory)] = self.memory
        made.byte_seconds = max(COPYING, (time.monotonic() - began) / len(self.memory))
        made.capacity += more
        _native().mixing_widen(_address(made.memory), more)
        return made

    def weighing(self, weights: np.ndarray) -> Self:
        """One that knows the same, for it has the same memory, and weighs it by a copy of other weights. Before it
        reads on it has to be copied."""
        made = object.__new__(type(self))
        made.__dict__ = self.__dict__ | {"weights": _zeros(weights.nbytes).view(np.float32)}
        made.weights[:] = weights
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Models share what they count by, which stays as it is; `copy` is for what goes on."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Addresses are of this process alone."""
        return _again, (self.codes, self.memory, self.weights, self.capacity, self.length)


class Walk:
    """The way of a mixer to one token, which others decide: each bit is predicted, and then learned, as `read` does.

    Attributes:
        p: probability that the next bit is 1; None where the token is known.
        token: None before that.
    """

    def __init__(self, mixer: ContextMixing, logits: np.ndarray | None) -> None:
        native, vocabulary = _native(), ctypes.byref(mixer._vocabulary)
        self._mixer = mixer
        self.p: float | None = None
        self.token: int | None = None
        self._memory = _aligned(native.mixing_walk_bytes(vocabulary))
        said = None if logits is None else np.ascontiguousarray(logits, np.float32)
        told = None if said is None else _address(said)
        self._take(native.mixing_set_out(_address(self._memory), *mixer._own(), told))

    def go(self, bit: int) -> None:
        """Decide the next bit."""
        self._take(_native().mixing_go(_address(self._memory), *self._mixer._own(), bit))

    def _take(self, p: float) -> None:
        self.p = None if p < 0 else p
        if self.p is None:
            vocabulary = ctypes.byref(self._mixer._vocabulary)
            self.token = token = int(_native().mixing_arrived(_address(self._memory), vocabulary))
            self._mixer.length += int(self._mixer.codes.lengths[token])


def context_mixing(codes: Codes, *, capacity: int) -> ContextMixing | SlowMixing:
    """By the kernel, or where there is none by its twin."""
    return (SlowMixing if compiled() is None else ContextMixing)(codes, capacity=capacity)


def ngrams_beside(tokens: np.ndarray, *, vocab_size: int) -> Tables:
    """The n-grams, from which texts are drafted, of what a mixer has read; of the last part of a long text, for it is
    counted once more."""
    text = tokens[-MOST_COUNTED:].astype(np.int32)
    return tables_of_text(text, vocab_size=vocab_size, orders=ORDERS)


def _again(
    codes: Codes, memory: np.ndarray, weights: np.ndarray, capacity: int, length: int
) -> ContextMixing:
    made = object.__new__(ContextMixing)
    made.codes, made.capacity, made.length, made.nats = codes, capacity, length, np.zeros(0, np.float32)
    made.unit_seconds, made.byte_seconds = READING, COPYING
    made.memory, made.weights = _zeros(len(memory)), _zeros(weights.nbytes).view(np.float32)
    made.memory[:], made.weights[:] = memory, weights
    made._vocabulary = VocabularyStruct.of(codes)
    return made


def _zeros(size: int) -> np.ndarray:
    """Bytes that begin where a line of a processor's cache does."""
    return _aligned(size) if size < mmap.PAGESIZE else np.frombuffer(own_pages(size), np.uint8)


def _aligned(size: int) -> np.ndarray:
    room = np.zeros(size + ALIGNED, np.uint8)
    skipped = -room.ctypes.data % ALIGNED
    return room[skipped : skipped + size]


def _borrowed(size: int) -> np.ndarray:
    """Bytes that hold anything, for a copy; who asks next gets them again, once nobody holds them."""
    memory = _spare_of(size) or own_pages(size + ROOM)
    array = np.frombuffer(memory, np.uint8)
    weakref.finalize(array, _spare.append, memory)
    return array[:size]


def _spare_of(size: int) -> mmap.mmap | None:
    for _ in range(SPARES):
        try:
            memory = _spare.popleft()
        except IndexError:
            break
        if size <= len(memory) <= size + 2 * ROOM:
            return memory
        _spare.append(memory)
    return None


def _address(array: np.ndarray) -> int:
    assert array.flags.c_contiguous
    return array.ctypes.data


def _whole(done: int) -> None:
    if not done:
        raise MemoryError("there is no memory for mixing contexts")


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
        "mixing_weights": ((), number),
        "mixing_start": ((pointer, pointer, number, pointer, pointer), None),
        "mixing_widen": ((pointer, number), None),
        "mixing_read": ((*[pointer] * 4, number, pointer, pointer), count),
        "mixing_hear": ((pointer, pointer, number, pointer, number, pointer), count),
        "mixing_walk_bytes": ((pointer,), number),
        "mixing_set_out": ((pointer,) * 5, ctypes.c_float),
        "mixing_go": ((*[pointer] * 4, count), ctypes.c_float),
        "mixing_arrived": ((pointer,) * 2, ctypes.c_int32),
        "mixing_predict": ((*[pointer] * 5, number, pointer, number, *[pointer] * 6, count), count),
    }
    for name, (arguments, result) in takes.items():
        function = getattr(native, name)
        function.argtypes, function.restype = arguments, result
