"""One stream decoded by a small native kernel: decode.c, compiled once by the machine's own C compiler.

Where there is no compiler, or the model is not in single precision on the CPU, `NativeDecoder.fits` says no and torch
decodes. H heads, G key/value heads, D head width, V vocabulary.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from importlib import resources
from pathlib import Path

import torch
from torch import Tensor, nn

from octavo.dataset import default_cache
from octavo.model.feedforward import ACTIVATIONS, SwiGLU
from octavo.model.gpt import GPT, PostNormBlock
from octavo.model.norms import RootMeanSquareNorm
from octavo.model.positions import RotaryPositions

Floats = ctypes.POINTER(ctypes.c_float)
NORMS: dict[type[nn.Module], int] = {nn.Identity: 0, nn.LayerNorm: 1, RootMeanSquareNorm: 2}
WEIGHTS_PER_THREAD = 2_000_000
"""Below that threads wait for each other longer than they work, above all on a machine that others use too."""
KINDS = ("none", "relu", "gelu", "gelu_tanh", "relu2", "swiglu")  # as decode.c numbers them


class _Linear(ctypes.Structure):
    _fields_ = (("weight", Floats), ("bias", Floats), ("rows", ctypes.c_int), ("columns", ctypes.c_int))


class _Norm(ctypes.Structure):
    _fields_ = (("weight", Floats), ("bias", Floats), ("kind", ctypes.c_int), ("eps", ctypes.c_float))


class _Layer(ctypes.Structure):
    _fields_ = (
        *((name, _Norm) for name in ("attention_norm", "feed_forward_norm")),
        *((name, _Linear) for name in ("qkv", "project", "into", "out")),
        *((name, Floats) for name in ("keys", "values")),
    )


_COUNTS = ("layers", "width", "heads", "groups", "head_width", "context", "vocabulary")
_SWITCHES = ("post_norm", "residual", "qk_norm", "turned", "activation")


class _Model(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int) for name in (*_COUNTS, *_SWITCHES)),
        *((name, ctypes.c_float) for name in ("scale", "softcap")),
        *((name, Floats) for name in ("embedding", "positions", "cosines", "sines")),
        *((name, _Norm) for name in ("embedding_norm", "norm")),
        ("head", _Linear),
        ("layer", ctypes.POINTER(_Layer)),
        *((name, Floats) for name in ("x", "normed", "wide", "heads_out", "scores")),
    )


class _Matrices:
    """One stretch of memory for all matrices, in large pages where the system has them: a third faster to read."""

    def __init__(self, model: GPT) -> None:
        sizes = [layer.weight.numel() for layer in model.modules() if isinstance(layer, nn.Linear)]
        memory = mmap.mmap(-1, 4 * sum(sizes))
        if hasattr(mmap, "MADV_HUGEPAGE"):
            memory.madvise(mmap.MADV_HUGEPAGE)
        self._free = torch.frombuffer(memory, dtype=torch.float32)

    def take(self, matrix: Tensor) -> Tensor:
        """A copy of the matrix, next to the one before."""
        place, self._free = self._free[: matrix.numel()], self._free[matrix.numel() :]
        return place.view_as(matrix).copy_(matrix.detach())


class NativeDecoder:
    """The same as `CachedDecoder` for one stream. Its weights are copies, in the order in which they are read."""

    def __init__(self, model: GPT, *, batch: int) -> None:
        library = compiled()
        assert batch == 1 and library is not None, "see `fits`"
        self._decode = library.decode
        self.model = model
        self.keep = model.context - max(1, model.context // 4)
        self.text: list[int] = []
        # What the kernel points to, which must stay.
        self._matrices = _Matrices(model)
        self._held: list[Tensor] = []
        self._logits = torch.empty(model.head.out_features)
        self._native = self._described(model)
        self._out = self._point(self._logits)
        weights = sum(weight.numel() for weight in model.parameters())
        self._threads = max(1, min(torch.get_num_threads(), weights // WEIGHTS_PER_THREAD))

    @staticmethod
    def fits(model: GPT, *, batch: int) -> bool:
        """Whether the kernel can take this model, and is there."""
        weights = list(model.parameters())
        plain = all(weight.dtype == torch.float32 and weight.device.type == "cpu" for weight in weights)
        plain = plain and not model.ngrams.before
        return batch == 1 and plain and not model.training and compiled() is not None

    @torch.no_grad()
    def __call__(self, tokens: Tensor) -> Tensor:
        new = tokens[0].tolist()
        held = len(self.text)
        self.text += new
        if len(self.text) > self.model.context:
            keep = self.model.context if held == 0 else max(1, self.keep)
            self.text = new = self.text[-keep:]
        for position, token in enumerate(new, start=len(self.text) - len(new)):
            self._decode(ctypes.byref(self._native), token, position, self._out, self._threads)
        return self._logits[None].clone()

    def _point(self, tensor: Tensor | None) -> ctypes._Pointer[ctypes.c_float] | None:
        if tensor is None:
            return None
        tensor = tensor.detach().float().contiguous()
        self._held.append(tensor)
        return ctypes.cast(tensor.data_ptr(), Floats)

    def _linear(self, layer: nn.Module | None) -> _Linear:
        if not isinstance(layer, nn.Linear):
            return _Linear(None, None, 0, 0)
        weight = self._matrices.take(layer.weight)
        return _Linear(self._point(weight), self._point(layer.bias), *layer.weight.shape)

    def _norm(self, norm: nn.Module) -> _Norm:
        values = [self._point(getattr(norm, name, None)) for name in ("weight", "bias")]
        return _Norm(*values, NORMS[type(norm)], float(getattr(norm, "eps", 0.0)))

    def _described(self, model: GPT) -> _Model:
        first, context = model.blocks[0], model.context
        attention, inner = first.attention, first.feed_forward
        kind = "none" if inner is None else "swiglu" if isinstance(inner, SwiGLU) else _name(inner)
        layers = (_Layer * len(model.blocks))()
        for layer, block in zip(layers, model.blocks, strict=True):
            cached = torch.empty(2, block.attention.kv_heads, context, block.attention.head_width)
            layer.attention_norm, layer.feed_forward_norm = (
                self._norm(norm) for norm in (block.attention_norm, block.feed_forward_norm)
            )
            layer.qkv, layer.project = map(self._linear, (block.attention.qkv, block.attention.project))
            into = getattr(block.feed_forward, "gate_into", getattr(block.feed_forward, "into", None))
            layer.into, layer.out = map(self._linear, (into, getattr(block.feed_forward, "out", None)))
            layer.keys, layer.values = (self._point(part) for part in cached)
        self._layers = layers
        width, joined = model.embedding.embedding_dim, attention.heads * attention.head_width
        widest = max(layers[0].qkv.rows, layers[0].into.rows)
        positions = model.positions
        added = getattr(positions, "weight", getattr(positions, "table", None))
        return _Model(
            len(model.blocks),
            width,
            attention.heads,
            attention.kv_heads,
            attention.head_width,
            context,
            model.head.out_features,
            isinstance(first, PostNormBlock),
            first.residual,
            attention.qk_norm,
            positions.cos.size(1) if isinstance(positions, RotaryPositions) else 0,
            KINDS.index(kind),
            attention.attend.scale,
            model.logit_softcap or 0.0,
            self._point(model.embedding.weight),
            self._point(added),
            self._point(getattr(positions, "cos", None)),
            self._point(getattr(positions, "sin", None)),
            self._norm(model.embedding_norm),
            self._norm(model.norm),
            self._linear(model.head),
            layers,
            *(
                self._point(torch.empty(size))
                for size in (width, width, widest, joined, attention.heads * context)
            ),
        )


def _name(layer: nn.Module) -> str:
    return next(name for name, function in ACTIVATIONS.items() if function is layer.activation)


# Tried in this order until one works: not every compiler has OpenMP, or knows the processor it runs on.
FLAGS = (
    ("-march=native", "-fopenmp"),
    ("-mcpu=native", "-fopenmp"),
    ("-march=native",),
    ("-mcpu=native",),
    (),
)


@cache
def compiled() -> ctypes.CDLL | None:
    """The kernel as a library, from the cache or compiled now (about half a second). None where that cannot be done."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None or os.environ.get("OCTAVO_NATIVE", "1") == "0":
        return None
    source = resources.files("octavo.generation").joinpath("decode.c").read_bytes()
    key = hashlib.sha256(source + repr((compiler, FLAGS, platform.uname().machine, _processor())).encode())
    library = default_cache() / "native" / f"decode-{key.hexdigest()[:16]}.so"
    try:
        if library.is_file() and (kept := _loaded(library)) is not None:
            return kept
        return _loaded(library) if _compile(compiler, source, library) else None
    except OSError:  # a cache that cannot be written
        return None


def _loaded(library: Path) -> ctypes.CDLL | None:
    try:
        native = ctypes.CDLL(str(library))
    except OSError:  # damaged, or in a folder from which nothing may be run
        return None
    native.decode.argtypes = (ctypes.POINTER(_Model), ctypes.c_int, ctypes.c_int, Floats, ctypes.c_int)
    native.decode.restype = None
    return native


def _compile(compiler: str, source: bytes, library: Path) -> bool:
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=library.parent, prefix=".compiling-") as folder:
        code, built = Path(folder) / "decode.c", Path(folder) / "decode.so"
        code.write_bytes(source)
        for flags in FLAGS:
            command = [compiler, "-O3", "-fno-math-errno", *flags, "-shared", "-fPIC"]
            command += ["-o", str(built), str(code), "-lm"]
            done = subprocess.run(command, capture_output=True, timeout=60, check=False)
            if done.returncode == 0:
                built.replace(library)
                return True
    return False


def _processor() -> str:
    """What tells processors apart: a library made for one may not run on another that shares the cache."""
    path = Path("/proc/cpuinfo")
    if not path.is_file():
        return platform.processor()
    lines = path.read_text(encoding="utf-8").splitlines()
    return "\n".join(sorted({line for line in lines if line.startswith(("flags", "Features", "model name"))}))
