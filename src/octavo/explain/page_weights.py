"""Weights as they travel in a page: float16, or int8 with a scale for each row; and what they are there, in float32.

A page unpacks them into float32 and computes in that. `unpacked` gives the same numbers, so what packing costs can be
measured, and what a page computes can be compared with torch.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

WeightType = Literal["float32", "float16", "int8"]
LEAST_PACKED = 256
"""Numbers of a tensor that is packed; smaller ones stay as they are."""


@dataclass(frozen=True)
class Packed:
    """A tensor's bytes, and for int8 the scale of each of its rows."""

    type: str
    shape: tuple[int, ...]
    data: np.ndarray
    scales: np.ndarray | None = None

    @property
    def unpacked(self) -> np.ndarray:
        """float32, as the page has it."""
        plain = self.data.astype(np.float32)
        if self.scales is not None:
            plain = plain * self.scales[:, None]
        return plain.reshape(self.shape)


def pack(tensor: np.ndarray, kind: WeightType) -> Packed:
    """A tensor as it travels: whole numbers as they are. One whose numbers float16 does not hold stays in float32."""
    if tensor.dtype.kind in "iu":
        return Packed(str(tensor.dtype), tensor.shape, tensor)
    tensor = np.ascontiguousarray(tensor, np.float32)
    if kind == "float32" or tensor.ndim < 2 or tensor.size < LEAST_PACKED:
        return Packed("float32", tensor.shape, tensor)
    if kind == "float16":
        with np.errstate(over="ignore"):
            short = tensor.astype(np.float16)
        held = bool(np.isfinite(short).all())
        return Packed("float16", tensor.shape, short) if held else Packed("float32", tensor.shape, tensor)
    rows = tensor.reshape(len(tensor), -1)
    scales = (np.abs(rows).max(axis=1) / 127).astype(np.float32)
    whole = np.divide(rows, scales[:, None], out=np.zeros_like(rows), where=scales[:, None] > 0)
    return Packed("int8", tensor.shape, np.rint(whole).astype(np.int8), scales)


def unpacked(tensors: Mapping[str, np.ndarray], kind: WeightType) -> dict[str, np.ndarray]:
    """The tensors as a page has them."""
    return {name: pack(tensor, kind).unpacked for name, tensor in tensors.items()}


def listed(tensors: Iterable[tuple[str, Packed]]) -> tuple[list[dict[str, Any]], bytes]:
    """Where each tensor stands in one deflated piece, and that piece."""
    entries, pieces, end = [], [], 0

    def put(array: np.ndarray) -> int:
        nonlocal end
        raw = np.ascontiguousarray(array).tobytes()
        raw += bytes(-len(raw) % 4)
        pieces.append(raw)
        end += len(raw)
        return end - len(raw)

    for name, tensor in tensors:
        entry = {"name": name, "shape": list(tensor.shape), "type": tensor.type, "offset": put(tensor.data)}
        if tensor.scales is not None:
            entry["scales"] = put(tensor.scales)
        entries.append(entry)
    return entries, zlib.compress(b"".join(pieces), 9)
