"""Decoding by a small native kernel: decode.c, compiled once by the machine's own C compiler.

Where there is no compiler, or the model is not in single precision on the CPU, `NativeDecoder.fits` says no and torch
decodes. H heads, G key/value heads, D head width, V vocabulary.
"""

from __future__ import annotations

import ctypes
import functools
import math
import mmap
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, MutableMapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.weak import WeakTensorKeyDictionary

from octavo.generation.decoder import Decoder, Span
from octavo.generation.int8 import in_bytes
from octavo.generation.sampling import Precision, Window
from octavo.model.attention import Attention, ExplicitAttend, FusedAttend
from octavo.model.base import LanguageModel
from octavo.model.dropout import Dropout
from octavo.model.feedforward import ACTIVATIONS, FeedForward, SwiGLU
from octavo.model.gpt import GPT, Block, PostNormBlock
from octavo.model.grid import GridPositions, GridRotary
from octavo.model.ngram_vectors import HashedNGrams, NGrams
from octavo.model.norms import RootMeanSquareNorm
from octavo.model.positions import LearnedPositions, Positions, RotaryPositions, SinusoidalPositions
from octavo.ngram.kernel import GateStruct
from octavo.ngram.mixing import ContextMixing
from octavo.ngram.mixing_counts import MixingCounts
from octavo.ngram.mixture import Counts, KneserNeyCounts
from octavo.ngram.recent import Recent
from octavo.util.kernels import Floats, address, kernel

# A GPT as decode.c reads it: the structs that cross to C, and which modules and options the kernel knows.

NORMS: dict[type[nn.Module], int] = {nn.Identity: 0, nn.LayerNorm: 1, RootMeanSquareNorm: 2}
KINDS = ("none", "relu", "gelu", "gelu_tanh", "relu2", "swiglu")  # as decode.c numbers them
MOST = 2**31 - 1  # of C's int


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
_WORDS = ("short_words", "bytes", "before", "buckets")


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


_NORM = tuple(NORMS)
_DROPOUT = (Dropout, nn.Dropout)  # which do nothing when a model writes
_PLACES: dict[str, tuple[type[nn.Module], ...]] = {
    "": (GPT,),
    "embedding": (nn.Embedding,),
    "ngrams": (NGrams, HashedNGrams),
    "positions": (
        Positions,
        LearnedPositions,
        SinusoidalPositions,
        RotaryPositions,
        GridPositions,
        GridRotary,
    ),
    "embedding_norm": _NORM,
    "dropout": _DROPOUT,
    "blocks": (nn.ModuleList,),
    "blocks.N": (Block, PostNormBlock),
    "blocks.N.attention_norm": _NORM,
    "blocks.N.attention": (Attention,),
    "blocks.N.attention.qkv": (nn.Linear,),
    "blocks.N.attention.attend": (FusedAttend, ExplicitAttend),
    "blocks.N.attention.attend.weights": (nn.Identity,),
    "blocks.N.attention.attend.drop": _DROPOUT,
    "blocks.N.attention.project": (nn.Linear, nn.Identity),
    "blocks.N.attention.dropout": _DROPOUT,
    "blocks.N.feed_forward_norm": _NORM,
    "blocks.N.feed_forward": (FeedForward, SwiGLU),
    "blocks.N.feed_forward.up_proj": (nn.Linear,),
    "blocks.N.feed_forward.gate_up_proj": (nn.Linear,),
    "blocks.N.feed_forward.down_proj": (nn.Linear,),
    "blocks.N.feed_forward.dropout": _DROPOUT,
    "norm": _NORM,
    "lm_head": (nn.Linear,),
    "counts": (Counts, KneserNeyCounts, MixingCounts),
    "counts.from_state": (nn.Linear,),
    "counts.from_known": (nn.Linear,),
    "counts.out": (nn.Linear,),
    "counts.recent": (Recent,),
}
"""What may stand where; nothing else may stand anywhere."""


def knows(model: nn.Module) -> bool:
    """Whether the kernel computes what every module of this model does, with the options that it has."""
    return (
        type(model) is GPT
        and all(_known(name, module) for name, module in model.named_modules(remove_duplicate=False))
        and len({_alike(block) for block in model.blocks}) == 1
        and model.blocks[0].attention.causal
        and kind_of(model.blocks[0].feed_forward) is not None
        and model.embedding.max_norm is None
        and getattr(model.ngrams, "buckets", 0) <= MOST
    )


def _known(name: str, module: nn.Module) -> bool:
    listened = module._forward_hooks or module._forward_pre_hooks  # to them the kernel tells nothing
    return type(module) in _PLACES.get(re.sub(r"\d+", "N", name), ()) and not listened


def _alike(block: Block) -> tuple[object, ...]:
    """What the kernel knows only once, for all blocks."""
    attention, inner = block.attention, block.feed_forward
    heads = (attention.heads, attention.kv_heads, attention.head_width, attention.qk_norm)
    heads += (attention.qk_norm_eps, attention.causal)
    matrices = (attention.qkv, attention.project, *(() if inner is None else inner.children()))
    shapes = tuple(layer.weight.shape for layer in matrices if isinstance(layer, nn.Linear))
    return type(block), block.residual, heads, attention.attend.scale, kind_of(inner), shapes


def kind_of(layer: nn.Module | None) -> str | None:
    """What the kernel calls a feed-forward layer; None for one that it does not know."""
    if layer is None:
        return "none"
    if isinstance(layer, SwiGLU):
        return "swiglu"
    function = getattr(layer, "activation", None)
    return next((name for name in KINDS if function is not None and ACTIVATIONS.get(name) is function), None)


def checked(native: ctypes.CDLL) -> None:
    """Be sure that both sides mean the same memory."""
    structs = {"linear": LinearStruct, "norm": NormStruct, "layer": LayerStruct, "model": ModelStruct}
    for name, struct in structs.items():
        there = ctypes.c_size_t.in_dll(native, f"{name}_size").value
        assert there == ctypes.sizeof(struct), f"{name}: {there} bytes in C, {ctypes.sizeof(struct)} here"


# Counts beside a network that the kernel decodes: what the gate takes from the network's last state comes out of the
# same product as the logits, and a context mixer takes the logits; the rest is a call of counting.c, or of mixing.c.
# The twins are `ngram.mixture.KneserNeyCounts` and `ngram.mixing_counts.MixingCounts`.


class Mixture(ABC):
    """What is counted, as the kernels read it."""

    @abstractmethod
    def head(self, model: GPT) -> nn.Linear:
        """What gives the logits, and below them what else is asked of the network's state."""

    @abstractmethod
    def __call__(self, logits: Tensor, text: np.ndarray, spans: Sequence[Span]) -> Tensor:
        """(n, V) logits from those of `head` after each of the spans of a text (slots, T)."""

    @staticmethod
    def of(model: GPT, precision: Precision) -> Mixture | None:
        """That of a model, if it has one."""
        counts = model.counts
        if isinstance(counts, KneserNeyCounts) and counts.has_text:
            return GatedMixture(counts, precision)
        return Heard(counts.tables) if isinstance(counts, MixingCounts) and counts.has_text else None


class GatedMixture(Mixture):
    """Tables of n-grams, and the gate."""

    def __init__(self, counts: KneserNeyCounts, precision: Precision) -> None:
        self._tables, self._counts = counts.tables, counts
        self._held = [
            _rounded(counts.from_known.weight, precision),
            counts.from_known.bias.detach().float().contiguous(),
            _rounded(counts.out.weight, precision),
            counts.out.bias.detach().float().contiguous(),
        ]
        self._gate = GateStruct(counts.from_state.out_features, *(each.data_ptr() for each in self._held))

    def head(self, model: GPT) -> nn.Linear:
        own, more = model.lm_head, self._counts.from_state
        with torch.device("meta"):  # drawing weights would move the run's random numbers on
            head = nn.Linear(own.in_features, own.out_features + more.out_features, bias=own.bias is not None)
        head.weight = nn.Parameter(torch.cat((own.weight, more.weight)).detach(), requires_grad=False)
        if own.bias is not None:
            bias = torch.cat((own.bias, own.bias.new_zeros(more.out_features)))
            head.bias = nn.Parameter(bias.detach(), requires_grad=False)
        return head

    def __call__(self, logits: Tensor, text: np.ndarray, spans: Sequence[Span]) -> Tensor:
        mixed = torch.empty(len(logits), self._counts.vocab_size)
        where = np.array(spans, dtype=np.int32)
        self._tables.predict_gated(self._gate, text, where, logits.numpy(), mixed.numpy())
        return mixed


class Heard(Mixture):
    """A context mixer, which hears the network."""

    def __init__(self, mixer: ContextMixing) -> None:
        self._mixer = mixer

    def head(self, model: GPT) -> nn.Linear:
        return model.lm_head

    def __call__(self, logits: Tensor, text: np.ndarray, spans: Sequence[Span]) -> Tensor:
        where = np.array(spans, dtype=np.int64)
        row = where[:, 0] * text.shape[1]
        flat = np.stack((row, row + where[:, 2]), axis=1)  # all that stands there, and not the new ids alone
        return torch.from_numpy(self._mixer.predict(text.ravel(), flat, logits.numpy()))


def _rounded(weight: Tensor, precision: Precision) -> Tensor:
    weight = weight.detach().float().contiguous()
    if precision != "int8":
        return weight
    whole, scales = in_bytes(weight)
    return whole * scales[:, None]


ITEMS = 64
"""Tokens that are decoded together where so many are known: of a prompt, or of all streams."""
WEIGHTS_PER_THREAD = 2_000_000
"""From that on all threads work. With fewer they may wait for each other longer than they work, above all on a machine
that others use too: there it is tried."""
FEWEST_PER_THREAD = 300_000
"""Below that one thread works."""


_PACKED: MutableMapping[Tensor, tuple[tuple[object, ...], Tensor, Tensor | None]] = WeakTensorKeyDictionary()
"""Matrices as the kernel reads them, after the state of the weights at that time, for as long as the weights live."""


class _Memory:
    """Zeros, some after each other in large pages where the system has them: a third faster to read."""

    AT_LEAST = 2**21
    """Words of a stretch; what is not used of it costs nothing."""

    def __init__(self) -> None:
        self._free = torch.empty(0)

    def take(self, words: int) -> Tensor:
        """So many words of 4 bytes, next to those before if they fit there."""
        if words > self._free.numel():
            stretch = mmap.mmap(-1, 4 * max(words, self.AT_LEAST))
            if hasattr(mmap, "MADV_HUGEPAGE"):
                stretch.madvise(mmap.MADV_HUGEPAGE)
            self._free = torch.frombuffer(stretch, dtype=torch.float32)
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


class NativeDecoder(Decoder):
    """The same as `CachedDecoder`. Its weights are copies, in the order in which they are read.

    A stream's logits are the same to the bit whatever the number of streams, of threads, and of tokens at a call.
    """

    in_parts = True

    def __init__(
        self, model: LanguageModel, *, slots: int, precision: Precision = "float32", window: Window = "slide"
    ) -> None:
        super().__init__(model, slots=slots, precision=precision, window=window)
        native = compiled()
        assert native is not None and isinstance(model, GPT), "see `fits`"
        self._decode = native.decode
        self._short = precision == "bfloat16"
        self._lanes, self._panel = (ctypes.c_int.in_dll(native, name).value for name in ("lanes", "panel"))
        self._together = slots * max(1, ITEMS // slots)
        weights = sum(weight.numel() for weight in model.parameters())
        self._crew = Crew(torch.get_num_threads(), weights=weights, slots=slots)
        self._threads = self._crew.most(slots)
        self._mixture = Mixture.of(model, precision)
        head = model.lm_head if self._mixture is None else self._mixture.head(model)
        self._outputs = head.out_features
        # What the kernel points to, which must stay.
        self._held: list[Tensor] = []
        self._matrices, self._memory = _Memory(), _Memory()
        self._native = self._described(model, head)
        self._native.text, self._native.text_width = self.text.ctypes.data, self.context
        self._pointer = ctypes.byref(self._native)

    @staticmethod
    def fits(model: LanguageModel) -> bool:
        """Whether the kernel can take this model, and is there."""
        weights = list(model.parameters())
        plain = all(weight.dtype == torch.float32 and weight.device.type == "cpu" for weight in weights)
        return plain and knows(model) and not model.training and compiled() is not None

    def foresees(self) -> bool:
        return True

    def read(self, spans: Sequence[Span]) -> Tensor:
        """The last id of each span goes last, for the kernel gives logits for the last of its items."""
        items, logits = self._items(spans), torch.empty(len(spans), self._outputs)
        silent, place, first = len(items) - len(spans), logits.data_ptr(), 0
        while first < len(items):
            count = min(self._together, len(items) - first)
            wanted = max(0, min(count, first + count - silent))
            here = items.ctypes.data + first * items.strides[0]
            call = functools.partial(self._decode, self._pointer, here, count, wanted, place)
            self._crew.work(call, items=count)
            first, place = first + count, place + wanted * self._outputs * logits.element_size()
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
            cached[list(to), :, :rows] = cached[source, :, :rows].clone()

    def _point(self, tensor: Tensor | None) -> ctypes._Pointer[ctypes.c_float] | None:
        if tensor is None:
            return None
        tensor = tensor.detach().float().contiguous()
        self._held.append(tensor)
        return address(tensor)

    def _linear(self, layer: nn.Module | None) -> LinearStruct:
        if not isinstance(layer, nn.Linear):
            return LinearStruct()
        rows, columns = layer.weight.shape
        panels, scales = self._panels(layer.weight)
        bias = None if layer.bias is None else F.pad(layer.bias, (0, -rows % self._panel))
        return LinearStruct(
            panels=self._point(panels),
            bias=self._point(bias),
            scales=self._point(scales),
            rows=rows,
            columns=columns,
        )

    def _panels(self, weight: Tensor) -> tuple[Tensor, Tensor | None]:
        """A matrix as decode.c reads it, and the scales of bytes; kept while it is unchanged."""
        state = (self.precision, weight.data_ptr(), weight._version, float(weight.detach().sum()))
        kept = _PACKED.get(weight)
        if kept is None or kept[0] != state:
            kept = _PACKED[weight] = (state, *self._packed(weight.detach()))
        return kept[1:]

    def _packed(self, matrix: Tensor) -> tuple[Tensor, Tensor | None]:
        scales, pair = None, 2 if self.precision == "bfloat16" else 1
        more = -matrix.size(0) % self._panel
        if self.precision == "int8":
            matrix, scales = in_bytes(matrix)
            scales = F.pad(scales, (0, more))
        padded = F.pad(matrix, (0, -matrix.size(1) % pair, 0, more))
        panels = padded.view(-1, self._panel, padded.size(1) // pair, pair).transpose(1, 2)
        if self.precision == "int8":  # four vectors' numbers side by side
            panels = panels.unflatten(2, (-1, self._lanes)).transpose(2, 3)
        kind = getattr(torch, self.precision)
        place = self._matrices.take(panels.numel() * kind.itemsize // 4)
        place.view(kind).view(panels.shape).copy_(panels)
        return place, scales

    def _norm(self, norm: nn.Module) -> NormStruct:
        return NormStruct(
            weight=self._point(getattr(norm, "weight", None)),
            bias=self._point(getattr(norm, "bias", None)),
            kind=NORMS[type(norm)],
            eps=getattr(norm, "eps", 0.0),
        )

    def _cache(self, layer: Attention) -> list[tuple[Tensor, int]]:
        """Room for keys and for values, (streams, heads, rows, words), and the positions in a row; see decode.c."""
        heads, width = layer.kv_heads, layer.head_width
        pair = 2 if self._short else 1
        words = ((self._lanes, self._lanes * -(-width // pair)), (pair, _filled(width, self._lanes)))
        shapes = [(self.slots, heads, -(-self.context // positions), row) for positions, row in words]
        return [
            (self._memory.take(math.prod(shape)).view(shape), positions)
            for shape, (positions, _) in zip(shapes, words, strict=True)
        ]

    def _described(self, model: GPT, head: nn.Linear) -> ModelStruct:
        first = model.blocks[0]
        attention, ngrams, positions = first.attention, model.ngrams, model.positions
        heads, kind = attention.described(), kind_of(first.feed_forward)
        assert kind is not None, "see `fits`"
        layers = self._layers_of(model)
        cosines, sines = (getattr(positions, name, None) for name in ("cos", "sin"))
        described = ModelStruct(
            layers=len(model.blocks),
            width=model.embedding.embedding_dim,
            heads=heads.heads,
            groups=heads.kv_heads,
            head_width=heads.width,
            context=self.context,
            vocabulary=model.vocab_size,
            post_norm=isinstance(first, PostNormBlock),
            residual=first.residual,
            qk_norm=heads.qk_eps is not None,
            turned=0 if cosines is None else cosines.size(1),
            activation=KINDS.index(kind),
            short_words=self._short,
            bytes=self.precision == "int8",
            before=ngrams.before,
            buckets=getattr(ngrams, "buckets", 0),
            scale=heads.scale,
            softcap=model.logit_softcap or 0.0,
            qk_eps=heads.qk_eps or 0.0,
            embedding=self._point(model.embedding.weight),
            ngrams=self._point(getattr(ngrams, "weight", None)),
            positions=self._point(getattr(positions, "weight", getattr(positions, "table", None))),
            cosines=self._point(cosines),
            sines=self._point(sines),
            embedding_norm=self._norm(model.embedding_norm),
            norm=self._norm(model.norm),
            head=self._linear(head),
            layer=layers,
        )
        self._furnish(described, layers[0])
        return described

    def _layers_of(self, model: GPT) -> ctypes.Array[LayerStruct]:
        layers = (LayerStruct * len(model.blocks))()
        self._caches: list[tuple[Tensor, int]] = []
        for layer, block in zip(layers, model.blocks, strict=True):
            inner = block.feed_forward
            layer.attention_norm = self._norm(block.attention_norm)
            layer.feed_forward_norm = self._norm(block.feed_forward_norm)
            layer.qkv, layer.project = map(self._linear, (block.attention.qkv, block.attention.project))
            layer.into = self._linear(getattr(inner, "gate_up_proj", getattr(inner, "up_proj", None)))
            layer.out = self._linear(getattr(inner, "down_proj", None))
            layer.q_scale, layer.k_scale = map(
                self._point, (block.attention.q_scale, block.attention.k_scale)
            )
            cached = self._cache(block.attention)
            layer.keys, layer.values = (self._point(room) for room, _ in cached)
            self._caches += cached
        return layers

    def _furnish(self, described: ModelStruct, layer: LayerStruct) -> None:
        """What the kernel writes into between its steps."""
        items, width, context = self._together, described.width, described.context
        joined = described.heads * described.head_width
        rounded = max(items * max(width, joined, layer.out.columns), context + 1) if self._short else 0
        sizes = {
            "x": items * width,
            "normed": items * width,
            "wide": items * max(layer.qkv.rows, layer.into.rows),
            "heads_out": items * joined,
            "scores": self._threads * _filled(context, self._lanes),
            "rounded": self._threads * rounded,
        }
        for name, size in sizes.items():
            setattr(described, name, self._point(torch.empty(size)))
        described.room = rounded


def _filled(n: int, to: int) -> int:
    return n + -n % to


@kernel
def compiled(native: ctypes.CDLL) -> None:
    """The kernel, where it can be had."""
    checked(native)
    counts, pointer = (ctypes.c_int, ctypes.c_int), ctypes.c_void_p
    native.decode.argtypes = (ctypes.POINTER(ModelStruct), pointer, *counts, pointer, ctypes.c_int)
    native.decode.restype = None
