"""Decoding by a small native kernel: decode.c, built with the package or compiled once by the machine's own C compiler.
Nothing here needs torch; `native.py` is the same for a model of modules.

H heads, G key/value heads, D head width, V vocabulary.
"""

from __future__ import annotations

import ctypes
import functools
import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, get_args

import numpy as np

from octavo.generation.decoder import Decoder, Logits, Span
from octavo.generation.int8 import in_bytes
from octavo.generation.network import KINDS, NORMS, Layer, Matrix, Network, Norm
from octavo.generation.sampling import Precision, Window
from octavo.util.kernels import Floats, kernel
from octavo.util.memory import own_pages
from octavo.util.processes import threads

if TYPE_CHECKING:
    from octavo.model.base import LanguageModel

# A network as decode.c reads it: the structs that cross to C.


class LinearStruct(ctypes.Structure):
    """A matrix."""

    _fields_ = (
        *((name, Floats) for name in ("panels", "bias", "scales")),
        *((name, ctypes.c_int) for name in ("rows", "columns")),
    )


class NormStruct(ctypes.Structure):
    """A norm."""

    _fields_ = (("weight", Floats), ("bias", Floats), ("kind", ctypes.c_int), ("eps", ctypes.c_float))


class LayerStruct(ctypes.Structure):
    """A block."""

    _fields_ = (
        *((name, NormStruct) for name in ("attention_norm", "feed_forward_norm")),
        *((name, LinearStruct) for name in ("qkv", "project", "into", "out")),
        *((name, Floats) for name in ("q_scale", "k_scale", "keys", "values")),
    )


_COUNTS = ("layers", "width", "heads", "groups", "head_width", "context", "vocabulary")
_SWITCHES = ("post_norm", "residual", "qk_norm", "turned", "activation")
_WORDS = ("kind", "before", "buckets")


class ModelStruct(ctypes.Structure):
    """A model, with the room that the kernel works in."""

    _fields_ = (
        *((name, ctypes.c_int) for name in (*_COUNTS, *_SWITCHES, *_WORDS)),
        *((name, ctypes.c_float) for name in ("scale", "softcap", "qk_eps")),
        *((name, Floats) for name in ("embedding", "ngrams", "positions", "cosines", "sines")),
        *((name, NormStruct) for name in ("embedding_norm", "norm")),
        ("head", LinearStruct),
        ("layer", ctypes.POINTER(LayerStruct)),
        *((name, Floats) for name in ("x", "normed", "wide", "heads_out", "scores", "rounded")),
        ("room", ctypes.c_ssize_t),
        ("text", ctypes.c_void_p),
        ("text_width", ctypes.c_ssize_t),
    )


def checked(native: ctypes.CDLL) -> None:
    """Be sure that both sides mean the same memory."""
    structs = {"linear": LinearStruct, "norm": NormStruct, "layer": LayerStruct, "model": ModelStruct}
    for name, struct in structs.items():
        there = ctypes.c_size_t.in_dll(native, f"{name}_size").value
        assert there == ctypes.sizeof(struct), f"{name}: {there} bytes in C, {ctypes.sizeof(struct)} here"


# Weights as the kernel reads them.


def in_short(numbers: np.ndarray) -> np.ndarray:
    """float32 as the bits of bfloat16, to the nearest, of two equally near the even one; uint16."""
    bits = np.ascontiguousarray(numbers, np.float32).view(np.uint32)
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1))) >> 16
    return np.where(np.isnan(numbers), 0x7FC0, rounded).astype(np.uint16)


def padded(numbers: np.ndarray, *more: int) -> np.ndarray:
    """With so many zeros at the end of each dimension."""
    return np.pad(numbers, [(0, each) for each in more]) if any(more) else numbers


ITEMS = 64
"""Tokens that are decoded together where so many are known: of a prompt, or of all streams."""
WEIGHTS_PER_THREAD = 2_000_000
"""From that on all threads work. With fewer they may wait for each other longer than they work, above all on a machine
that others use too: there it is tried."""
FEWEST_PER_THREAD = 300_000
"""Below that one thread works."""

Packed = tuple[np.ndarray, np.ndarray | None]
"""A matrix as the kernel reads it, and the scales of bytes."""


class _Memory:
    """Zeros, some after each other in large pages where the system has them: a third faster to read."""

    AT_LEAST = 2**21
    """Words of a stretch; what is not used of it costs nothing."""

    def __init__(self) -> None:
        self._free = np.empty(0, np.float32)

    def take(self, words: int) -> np.ndarray:
        """So many words of 4 bytes, next to those before if they fit there."""
        if words > len(self._free):
            self._free = np.frombuffer(own_pages(4 * max(words, self.AT_LEAST), large=True), np.float32)
        taken, self._free = self._free[:words], self._free[words:]
        return taken


class Crew:
    """How many threads work on so many items: all that are worth it, or, where that is not plain, those of one and
    all that lately were the faster."""

    FIRST, EVERY = 6, 64
    """The first calls alternate; after them every so many-th is done in the other way."""

    def __init__(self, threads: int, *, weights: int, slots: int) -> None:
        self.threads, self.weights, self.slots = threads, weights, slots
        self._seconds: dict[int, dict[int, float]] = {}  # of the last call, by items and threads
        self._calls = 0

    def worth(self, items: int) -> int:
        """What so many items multiply; no more than one of each slot, though a prompt has many."""
        return self.weights * min(items, self.slots)

    def most(self, items: int) -> int:
        """Threads that so many items are worth."""
        return max(1, min(self.threads, self.worth(items) // FEWEST_PER_THREAD))

    def work(self, call: Callable[[int], None], *, items: int) -> None:
        """Do `call` by some threads; it does the same by any number."""
        most = self.most(items)
        if most == 1 or self.worth(items) >= WEIGHTS_PER_THREAD * most:
            return call(most)
        lately = self._seconds.setdefault(items, {most: 0.0, 1: 0.0})
        faster, slower = sorted(lately, key=lambda threads: lately[threads])
        if self._calls < self.FIRST:
            faster, slower = (most, 1) if self._calls % 2 else (1, most)
        self._calls += 1
        threads = slower if self._calls % self.EVERY == 0 else faster
        begin = time.perf_counter()
        call(threads)
        lately[threads] = time.perf_counter() - begin
        return None


class KernelDecoder(Decoder):
    """The same as `CachedDecoder`. Its weights are copies, in the order in which they are read.

    A stream's logits are the same to the bit whatever the number of streams, of threads, and of tokens at a call.

    Args:
        network: what the kernel is to read, where `model` is not that itself.
    """

    in_parts = True

    def __init__(
        self,
        model: Network | LanguageModel,
        *,
        slots: int,
        precision: Precision = "float32",
        window: Window = "slide",
        network: Network | None = None,
    ) -> None:
        super().__init__(model, slots=slots, precision=precision, window=window)
        native = compiled()
        described = model if network is None else network
        assert native is not None and isinstance(described, Network), "see `fits`"
        self._decode = native.decode
        self._kind = get_args(Precision).index(precision)
        self._per_word = 1 << self._kind
        self._lanes, self._panel = (ctypes.c_int.in_dll(native, name).value for name in ("lanes", "panel"))
        self._together = slots * max(1, ITEMS // slots)
        self._crew = Crew(threads(), weights=weights_of(described), slots=slots)
        self._threads = self._crew.most(slots)
        self._mixture = None if described.counts is None else described.counts.mixture()
        self._outputs = len(described.head.weight)
        # What the kernel points to, which must stay.
        self._held: list[np.ndarray] = []
        self._matrices, self._memory = _Memory(), _Memory()
        self._native = self._described(described)
        self._native.text, self._native.text_width = self.text.ctypes.data, self.context
        self._pointer = ctypes.byref(self._native)

    def foresees(self) -> bool:
        return True

    def read(self, spans: Sequence[Span]) -> Logits:
        """The last id of each span goes last, for the kernel gives logits for the last of its items."""
        items, logits = self._items(spans), np.empty((len(spans), self._outputs), np.float32)
        silent, place, first = len(items) - len(spans), logits.ctypes.data, 0
        while first < len(items):
            count = min(self._together, len(items) - first)
            wanted = max(0, min(count, first + count - silent))
            here = items.ctypes.data + first * items.strides[0]
            call = functools.partial(self._decode, self._pointer, here, count, wanted, place)
            self._crew.work(call, items=count)
            first, place = first + count, place + wanted * self._outputs * logits.itemsize
        return logits if self._mixture is None else self._mixture(logits, self.text, spans)

    def _items(self, spans: Sequence[Span]) -> np.ndarray:
        """(n, 3) token, stream and position of all ids, those of a stream in order, and the last of each at the end."""
        ends = np.array(spans, dtype=np.int32)
        ends[:, 1] = ends[:, 2] - 1
        total = sum(end - start for _, start, end in spans)
        items = np.empty((total, 3), dtype=np.int32)
        last = items[total - len(spans) :]
        last[:, 0], last[:, 1:] = self.text[ends[:, 0], ends[:, 1]], ends[:, :2]
        at = 0
        for slot, start, end in spans if total > len(spans) else ():
            before = items[at : at + end - 1 - start]
            before[:, 0], before[:, 1] = self.text[slot, start : end - 1], slot
            before[:, 2] = range(start, end - 1)
            at += len(before)
        return items

    def share(self, source: int, to: Sequence[int], length: int) -> None:
        for cached, positions in self._caches:
            rows = -(-length // positions)
            cached[list(to), :, :rows] = cached[source, :, :rows]

    def _point(self, numbers: np.ndarray | None) -> ctypes._Pointer[ctypes.c_float] | None:
        if numbers is None:
            return None
        numbers = np.ascontiguousarray(numbers)
        self._held.append(numbers)
        return ctypes.cast(numbers.ctypes.data, Floats)

    def _linear(self, matrix: Matrix | None) -> LinearStruct:
        if matrix is None:
            return LinearStruct()
        rows, columns = matrix.weight.shape
        panels, scales = self._panels(matrix)
        bias = None if matrix.bias is None else padded(matrix.bias, -rows % self._panel)
        return LinearStruct(
            panels=self._point(panels),
            bias=self._point(bias),
            scales=self._point(scales),
            rows=rows,
            columns=columns,
        )

    def _panels(self, matrix: Matrix) -> Packed:
        """A matrix as decode.c reads it."""
        return self._packed(matrix.weight)

    def _packed(self, matrix: np.ndarray) -> Packed:
        scales, pair, more = None, self._per_word, -len(matrix) % self._panel
        if self.precision == "int8":
            whole, scales = in_bytes(matrix)
            matrix, scales = whole.view(np.uint8) ^ 0x80, padded(scales, more)
        elif self.precision == "bfloat16":
            matrix = in_short(matrix)
        matrix = padded(matrix, more, -matrix.shape[1] % pair)
        panels = matrix.reshape(-1, self._panel, matrix.shape[1] // pair, pair).swapaxes(1, 2)
        place = self._matrices.take(panels.size * panels.itemsize // 4)
        place.view(panels.dtype).reshape(panels.shape)[:] = panels
        return place, scales

    def _norm(self, norm: Norm) -> NormStruct:
        return NormStruct(
            weight=self._point(norm.weight),
            bias=self._point(norm.bias),
            kind=NORMS.index(norm.kind),
            eps=norm.eps,
        )

    def _cache(self, network: Network) -> list[tuple[np.ndarray, int]]:
        """Room for keys and for values, (streams, heads, rows, words), and the positions in a row; see decode.c."""
        heads, width = network.kv_heads, network.head_width
        pair, scales = self._per_word, 2 if self.precision == "int8" else 0
        words = (
            (self._lanes, self._lanes * (-(-width // pair) + scales)),
            (pair, _filled(width, self._lanes)),
        )
        shapes = [(self.slots, heads, -(-self.context // positions), row) for positions, row in words]
        return [
            (self._memory.take(math.prod(shape)).reshape(shape), positions)
            for shape, (positions, _) in zip(shapes, words, strict=True)
        ]

    def _described(self, network: Network) -> ModelStruct:
        layers = self._layers_of(network)
        described = ModelStruct(
            layers=len(network.layers),
            width=network.width,
            heads=network.heads,
            groups=network.kv_heads,
            head_width=network.head_width,
            context=self.context,
            vocabulary=network.vocab_size,
            post_norm=network.post_norm,
            residual=network.residual,
            qk_norm=network.qk_eps is not None,
            turned=0 if network.cosines is None else network.cosines.shape[1],
            activation=KINDS.index(network.activation),
            kind=self._kind,
            before=network.before,
            buckets=network.buckets,
            scale=network.scale,
            softcap=network.softcap or 0.0,
            qk_eps=network.qk_eps or 0.0,
            embedding=self._point(network.embedding),
            ngrams=self._point(network.ngrams),
            positions=self._point(network.positions),
            cosines=self._point(network.cosines),
            sines=self._point(network.sines),
            embedding_norm=self._norm(network.embedding_norm),
            norm=self._norm(network.norm),
            head=self._linear(network.head),
            layer=layers,
        )
        self._furnish(described, layers[0])
        return described

    def _layers_of(self, network: Network) -> ctypes.Array[LayerStruct]:
        structs = (LayerStruct * len(network.layers))()
        self._caches: list[tuple[np.ndarray, int]] = []
        for struct, layer in zip(structs, network.layers, strict=True):
            self._fill(struct, layer)
            cached = self._cache(network)
            struct.keys, struct.values = (self._point(room) for room, _ in cached)
            self._caches += cached
        return structs

    def _fill(self, struct: LayerStruct, layer: Layer) -> None:
        struct.attention_norm = self._norm(layer.attention_norm)
        struct.feed_forward_norm = self._norm(layer.feed_forward_norm)
        for name in ("qkv", "project", "into", "out"):
            setattr(struct, name, self._linear(getattr(layer, name)))
        struct.q_scale, struct.k_scale = self._point(layer.q_scale), self._point(layer.k_scale)

    def _furnish(self, described: ModelStruct, layer: LayerStruct) -> None:
        """What the kernel writes into between its steps."""
        items, width, context = self._together, described.width, described.context
        joined = described.heads * described.head_width
        rows = items * (_filled(max(width, joined, layer.out.columns), 4) + 8)  # of bytes with two words more
        rounded = 0 if self.precision == "float32" else max(rows, context + 16) // 2
        sizes = {
            "x": items * width,
            "normed": items * width,
            "wide": items * max(layer.qkv.rows, layer.into.rows),
            "heads_out": items * joined,
            "scores": self._threads * _filled(context, self._lanes),
            "rounded": self._threads * rounded,
        }
        for name, size in sizes.items():
            setattr(described, name, self._point(np.empty(size, np.float32)))
        described.room = rounded


def _filled(n: int, to: int) -> int:
    return n + -n % to


def weights_of(network: Network) -> int:
    """How many numbers its products and tables have."""
    layers = [getattr(layer, name) for layer in network.layers for name in ("qkv", "project", "into", "out")]
    arrays = [network.embedding, network.ngrams, network.positions, network.head.weight]
    return sum(each.size for each in (*(one.weight for one in layers if one), *arrays) if each is not None)


@kernel
def compiled(native: ctypes.CDLL) -> None:
    """The kernel, where it can be had."""
    checked(native)
    counts, pointer = (ctypes.c_int, ctypes.c_int), ctypes.c_void_p
    native.decode.argtypes = (ctypes.POINTER(ModelStruct), pointer, *counts, pointer, ctypes.c_int)
    native.decode.restype = None
