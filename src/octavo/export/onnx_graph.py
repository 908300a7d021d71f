"""A transformer as an ONNX graph, written node by node: every `Shape` can be said, with a cache and without.

The graph is `octavo.export.model.Model` in ONNX's operators; tests and certificates hold the two against each other.
Lengths and batches are free, no past among them, which an exporter that follows an example cannot promise.
B batch, T positions, S positions looked at, C width, H heads, G key/value heads, D head width, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from octavo.errors import MissingExtra
from octavo.export.rewrites.positions import TABLE
from octavo.export.weights import Weights

OPSET, IR_VERSION = 18, 8  # old enough for runtimes of several years
CACHED, UNCACHED, DATA = "model.onnx", "model_without_cache.onnx", "model.onnx_data"
PAGE = 4096
TYPES = {torch.float32: "FLOAT", torch.float16: "FLOAT16", torch.bfloat16: "BFLOAT16"}
STEP, MIX = 1_000_003, 0x9E3779B97F4A7C15 - 2**64  # of octavo.model.inputs


def onnx_library() -> ModuleType:
    """The package `onnx`. Raises MissingExtra."""
    try:
        import onnx
    except ImportError as error:
        raise MissingExtra("onnx", "ship", "A model in ONNX's form") from error
    return onnx


class Graph:
    """Nodes under construction; names of values stand for the values.

    Args:
        tensors: weights by name. They stay outside: `used` says which the nodes read.
        dtype: their number type in the file; all is computed in float32.
    """

    def __init__(self, tensors: Mapping[str, Tensor], dtype: torch.dtype) -> None:
        self.onnx = onnx_library()
        self.tensors, self.dtype = tensors, dtype
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}
        self.used: dict[str, str] = {}  # weight → the value that holds it in float32

    def __call__(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node; the name of what it gives."""
        name = f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(operator, list(inputs), [name], name=name, **attributes))
        return name

    def rename(self, value: str, name: str) -> None:
        """Give a value the name of an output."""
        self.nodes.append(self.onnx.helper.make_node("Identity", [value], [name], name=name))

    def const(self, value: object, kind: Any = np.int64) -> str:
        """A number or an array of them; whole ones unless said otherwise."""
        array = np.array(value, kind)
        name = f"const_{array.dtype}_{'x'.join(map(str, array.shape))}_{array.tobytes().hex()}"
        self.constants.setdefault(name, self.onnx.numpy_helper.from_array(array, name))
        return name

    def number(self, value: float) -> str:
        """Add a float32 constant; returns its name."""
        return self.const(value, np.float32)

    def weight(self, name: str) -> str:
        """A tensor of the model, in float32."""
        if name not in self.used:
            self.used[name] = name
            if self.dtype != torch.float32:
                self.used[name] = self("Cast", name, to=self.onnx.TensorProto.FLOAT)
        return self.used[name]

    def has(self, name: str) -> bool:
        """Whether the model has this tensor."""
        return name in self.tensors

    # What models are made of

    def linear(self, name: str, x: str) -> str:
        """x · Wᵀ + b."""
        y = self("MatMul", x, self("Transpose", self.weight(f"{name}.weight"), perm=[1, 0]))
        return self("Add", y, self.weight(f"{name}.bias")) if self.has(f"{name}.bias") else y

    def normed(self, name: str, x: str, *, kind: str, eps: float) -> str:
        """Layer norm or root mean square over the last dimension, with what is trained of it."""
        if kind == "none":
            return x
        axes = self.const([-1])
        if kind == "layer":
            x = self("Sub", x, self("ReduceMean", x, axes, keepdims=1))
        square = self("ReduceMean", self("Mul", x, x), axes, keepdims=1)
        x = self("Div", x, self("Sqrt", self("Add", square, self.number(eps))))
        x = self("Mul", x, self.weight(f"{name}.weight")) if self.has(f"{name}.weight") else x
        return self("Add", x, self.weight(f"{name}.bias")) if self.has(f"{name}.bias") else x

    def cut(self, x: str, start: str, end: str, axis: int) -> str:
        """Add the slice `x[start:end]` along an axis; returns its name."""
        return self("Slice", x, start, end, self.const([axis]))

    def size(self, x: str, axis: int) -> str:
        """The length of an axis, as an array of one."""
        return self("Shape", x, start=axis, end=axis + 1)

    def activated(self, kind: str, x: str) -> str:
        """An activation by its name in `octavo.export.model`."""
        if kind == "relu":
            return self("Relu", x)
        if kind == "relu2":
            positive = self("Relu", x)
            return self("Mul", positive, positive)
        if kind == "silu":
            return self("Mul", x, self("Sigmoid", x))
        if kind == "gelu":
            gate = self("Erf", self("Mul", x, self.number(0.5**0.5)))
        else:
            assert kind == "gelu_tanh", kind
            cube = self("Mul", self("Mul", self("Mul", x, x), x), self.number(0.044715))
            gate = self("Tanh", self("Mul", self("Add", x, cube), self.number((2 / math.pi) ** 0.5)))
        return self("Mul", self("Mul", x, self.number(0.5)), self("Add", gate, self.number(1.0)))


class TransformerGraph:
    """The nodes of one model, from `input_ids` (B, T) to `logits` (B, T, V).

    With `cache` it also reads `past_key_values.N.key` and `.value` (B, G, past, D) and gives `present.N.…`, the next
    step's past; with n-grams it reads `past_ids` (B, ≤ n − 1), the last tokens before, and gives `present_ids`.
    """

    def __init__(self, weights: Weights, *, cache: bool, dtype: torch.dtype = torch.float32) -> None:
        self.shape, self.cache = weights.shape, cache
        self.tensors = dict(weights.tensors)
        if self.shape.positions == "rotary":
            angles = weights.model().angles(torch.arange(self.shape.context), torch.float32)
            self.tensors |= dict(zip(("rotary.cos", "rotary.sin"), angles, strict=True))
        self.graph = Graph(self.tensors, dtype)
        self.inputs: list[tuple[str, Sequence[str | int], bool]] = [("input_ids", ("batch", "length"), False)]
        self.outputs: list[tuple[str, Sequence[str | int], bool]] = [
            ("logits", ("batch", "length", self.shape.vocab_size), True)
        ]
        self._write()

    def model(self, places: Mapping[str, Place]) -> Any:
        """The whole as ONNX's message, whose weights lie beside it at their places."""
        onnx, helper = self.graph.onnx, self.graph.onnx.helper
        kinds = {True: onnx.TensorProto.FLOAT, False: onnx.TensorProto.INT64}
        ends = [
            [helper.make_tensor_value_info(name, kinds[floats], list(sizes)) for name, sizes, floats in each]
            for each in (self.inputs, self.outputs)
        ]
        outside = [_outside(onnx, name, *places[name]) for name in self.graph.used]
        graph = helper.make_graph(
            self.graph.nodes, "transformer", *ends, [*outside, *self.graph.constants.values()]
        )
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="octavo"
        )
        model.ir_version = IR_VERSION
        helper.set_model_props(model, {"context": str(self.shape.context)})
        return model

    def _write(self) -> None:
        graph, shape = self.graph, self.shape
        x = graph("Gather", graph.weight("embedding.weight"), "input_ids")  # (B, T, C)
        if shape.ngrams:
            x = self._ngrams(x)
        x = self._positions(x)
        if shape.embedding_norm:
            x = self._norm("embedding_norm", x)
        for layer in range(shape.layers):
            x = self._block(f"blocks.{layer}", x, layer)
        if shape.final_norm:
            x = self._norm("norm", x)
        if shape.tied:
            logits = graph("MatMul", x, graph("Transpose", graph.weight("embedding.weight"), perm=[1, 0]))
            logits = graph("Add", logits, graph.weight("head.bias")) if graph.has("head.bias") else logits
        else:
            logits = graph.linear("head", x)
        if shape.softcap is not None:
            cap = graph.number(shape.softcap)
            logits = graph("Mul", graph("Tanh", graph("Div", logits, cap)), cap)
        graph.rename(logits, "logits")

    def _norm(self, name: str, x: str) -> str:
        return self.graph.normed(name, x, kind=self.shape.norm, eps=self.shape.norm_eps)

    def _positions(self, x: str) -> str:
        """Add the positions' vectors, and remember which places these are and what may look at what."""
        graph, zero, one = self.graph, self.graph.const(0), self.graph.const(1)
        length, past = graph("Squeeze", graph.size("input_ids", 1)), zero
        if self.cache:
            past = graph("Squeeze", graph.size("past_key_values.0.key", 2))
        seen = graph("Add", past, length)
        places = graph("Range", past, seen, one)  # (T,)
        keys = graph("Range", zero, seen, one)  # (S,)
        self.hidden = graph("Greater", keys, graph("Unsqueeze", places, graph.const([1])))  # (T, S)
        if self.shape.positions == "table":
            return graph("Add", x, graph("Gather", graph.weight("positions.weight"), places))
        if self.shape.positions == "rotary":
            self.turn = tuple(
                graph("Gather", graph.weight(f"rotary.{one}"), places) for one in ("cos", "sin")
            )
        return x

    def _ngrams(self, x: str) -> str:
        """Add the vectors of the last tokens together; products wrap around at 64 bits."""
        graph, before = self.graph, self.shape.longest - 1
        recent, one = "input_ids", graph.const(1)
        if self.cache:
            self.inputs.append(("past_ids", ("batch", "recent"), False))
            self.outputs.append(("present_ids", ("batch", "recent_next"), False))
            recent = graph("Concat", "past_ids", "input_ids", axis=1)
            last = graph.cut(recent, graph.const([-before]), graph.const([2**62]), 1)
            graph.rename(last, "present_ids")
        held = graph("Pad", graph("Add", recent, one), graph.const([0, before, 0, 0]), graph.const(0))
        end, length = graph.size(held, 1), graph.size("input_ids", 1)
        hashed = graph.cut(held, graph("Sub", end, length), end, 1)
        for back in range(1, before + 1):
            last = graph("Sub", end, graph.const([back]))
            earlier = graph.cut(held, graph("Sub", last, length), last, 1)
            hashed = graph("Add", graph("Mul", hashed, graph.const(STEP)), earlier)
            mixed, high = graph("Mul", hashed, graph.const(MIX)), graph.const(2**32)
            whole = graph("Div", graph("Sub", mixed, graph("Mod", mixed, high)), high)  # >> 32, downward
            row = graph("Mod", whole, graph.const(self.shape.buckets))
            row = graph("Add", row, graph.const((back - 1) * self.shape.buckets))
            x = graph("Add", x, graph("Gather", graph.weight("ngrams.weight"), row))
        return x

    def _block(self, name: str, x: str, layer: int) -> str:
        post, there = self.shape.norm_place == "post", self.shape.activation != "none"
        parts = [("attention", lambda y: self._attention(f"{name}.attention", y, layer))]
        parts += [("feed_forward", lambda y: self._feed_forward(f"{name}.feed_forward", y))] if there else []
        for part, function in parts:
            y = function(x if post else self._norm(f"{name}.{part}_norm", x))
            x = self.graph("Add", x, y) if self.shape.residual else y
            x = self._norm(f"{name}.{part}_norm", x) if post else x
        return x

    def _feed_forward(self, name: str, x: str) -> str:
        graph, kind = self.graph, self.shape.activation
        if self.shape.gated:
            gate = graph.activated(kind, graph.linear(f"{name}.gate", x))
            return graph.linear(f"{name}.out", graph("Mul", gate, graph.linear(f"{name}.into", x)))
        return graph.linear(f"{name}.out", graph.activated(kind, graph.linear(f"{name}.into", x)))

    def _heads(self, name: str, x: str, count: int) -> str:
        """(B, count, T, D) from x (B, T, C)."""
        split = self.graph.const([0, 0, count, self.shape.head_width])
        return self.graph(
            "Transpose", self.graph("Reshape", self.graph.linear(name, x), split), perm=[0, 2, 1, 3]
        )

    def _attention(self, name: str, x: str, layer: int) -> str:
        graph, shape = self.graph, self.shape
        q, k, v = (
            self._heads(f"{name}.{part}", x, count)
            for part, count in (("q", shape.heads), ("k", shape.kv_heads), ("v", shape.kv_heads))
        )
        if shape.qk_norm:
            q = graph.normed(f"{name}.q_norm", q, kind="rms", eps=shape.qk_eps)
            k = graph.normed(f"{name}.k_norm", k, kind="rms", eps=shape.qk_eps)
        if shape.positions == "rotary":
            q, k = self._turned(q), self._turned(k)
        k, v = self._kept(k, "key", layer), self._kept(v, "value", layer)  # (B, G, S, D)
        groups = graph.const([0, shape.kv_heads, shape.heads // shape.kv_heads, -1, shape.head_width])
        q = graph("Reshape", q, groups)  # (B, G, H/G, T, D)
        k, v = (graph("Unsqueeze", each, graph.const([2])) for each in (k, v))
        scores = graph("MatMul", q, graph("Transpose", k, perm=[0, 1, 2, 4, 3]))  # (B, G, H/G, T, S)
        scores = graph("Mul", scores, graph.number(shape.attention_scale))
        scores = graph("Where", self.hidden, graph.number(-math.inf), scores)
        y = graph("MatMul", graph("Softmax", scores, axis=-1), v)
        y = graph("Reshape", y, graph.const([0, shape.heads, -1, shape.head_width]))
        y = graph("Transpose", y, perm=[0, 2, 1, 3])
        y = graph("Reshape", y, graph.const([0, 0, shape.heads * shape.head_width]))  # (B, T, H·D)
        return graph.linear(f"{name}.out", y) if shape.projects else y

    def _turned(self, x: str) -> str:
        graph, half = self.graph, self.shape.turned // 2
        places = [graph.const([place]) for place in (0, half, 2 * half, self.shape.head_width)]
        first, second = graph.cut(x, places[0], places[1], 3), graph.cut(x, places[1], places[2], 3)
        cos, sin = self.turn
        parts = [
            graph("Sub", graph("Mul", first, cos), graph("Mul", second, sin)),
            graph("Add", graph("Mul", second, cos), graph("Mul", first, sin)),
        ]
        if 2 * half < self.shape.head_width:
            parts.append(graph.cut(x, places[2], places[3], 3))
        return graph("Concat", *parts, axis=3)

    def _kept(self, x: str, what: str, layer: int) -> str:
        """Keys or values of all positions so far."""
        if not self.cache:
            return x
        before, after = f"past_key_values.{layer}.{what}", f"present.{layer}.{what}"
        ends = (self.shape.kv_heads, self.shape.head_width)
        self.inputs.append((before, ("batch", ends[0], "past", ends[1]), True))
        self.outputs.append((after, ("batch", ends[0], "seen", ends[1]), True))
        x = self.graph("Concat", before, x, axis=2)
        self.graph.rename(x, after)
        return x


def _outside(onnx: Any, name: str, kind: str, sizes: tuple[int, ...], start: int, length: int) -> Any:
    """A tensor that stands in the file beside the graph."""
    tensor = onnx.TensorProto(name=name, dims=sizes, data_type=getattr(onnx.TensorProto, kind))
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", DATA), ("offset", start), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def sayable(weights: Weights) -> Weights:
    """The same with fixed waves as a table of positions: all else of a run can be said as it is."""
    if weights.shape.positions != "sinusoidal":
        return weights
    after = TABLE.shape(weights.shape, {})
    assert after is not None
    return TABLE(weights, after)


def write_onnx(weights: Weights, folder: Path, *, dtype: torch.dtype = torch.float32) -> None:
    """Put `model.onnx` (with a cache) and `model_without_cache.onnx` into a folder, and beside them the numbers that
    both read, `model.onnx_data`. Raises MissingExtra, OSError."""
    graphs = {
        name: TransformerGraph(sayable(weights), cache=cache, dtype=dtype)
        for name, cache in ((CACHED, True), (UNCACHED, False))
    }
    places = write_data(graphs[CACHED].graph, folder / DATA)
    for name, graph in graphs.items():
        (folder / name).write_bytes(graph.model(places).SerializeToString())
    for name in graphs:
        onnx_library().checker.check_model(str(folder / name))


Place = tuple[str, tuple[int, ...], int, int]
"""Number type, shape, first byte and bytes of a tensor in the file beside the graphs."""


def write_data(graph: Graph, path: Path) -> dict[str, Place]:
    """Write the numbers of all tensors, each from a whole page on, so that they can be mapped into memory."""
    places: dict[str, Place] = {}
    with path.open("wb") as file:
        for name in sorted(graph.used):
            tensor = graph.tensors[name].to(graph.dtype).contiguous()
            content = tensor.view(torch.uint8).numpy().tobytes()
            file.write(bytes(-file.tell() % PAGE))
            places[name] = (TYPES[graph.dtype], tuple(tensor.shape), file.tell(), len(content))
            file.write(content)
    return places
