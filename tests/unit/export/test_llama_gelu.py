"""llama.cpp's own GELU, asked directly: it is as far off as the plan says."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from octavo.export.rewrites.activations import HALF

llama = pytest.importorskip(
    "llama_cpp", reason="llama-cpp-python is not installed: pip install 'octavo[ship]'"
)
pytestmark = pytest.mark.slow


class Memory(ctypes.Structure):
    _fields_ = (("size", ctypes.c_size_t), ("buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool))


def theirs(x: np.ndarray) -> np.ndarray:
    """`ggml_gelu` of numbers."""
    folder = Path(llama.__file__).parent / "lib"
    base, cpu = (ctypes.CDLL(str(next(folder.glob(f"libggml-{part}.*")))) for part in ("base", "cpu"))
    address, number = ctypes.c_void_p, ctypes.c_int

    def function(library: Any, name: str, result: Any, *arguments: Any) -> Any:
        found = getattr(library, name)
        found.restype, found.argtypes = result, arguments
        return found

    data = function(base, "ggml_get_data_f32", ctypes.POINTER(ctypes.c_float), address)
    function(cpu, "ggml_cpu_init", None)()
    context = function(base, "ggml_init", address, Memory)(Memory(16 * x.size + (1 << 20), None, False))
    tensor = function(base, "ggml_new_tensor_1d", address, address, number, ctypes.c_int64)(
        context, 0, x.size
    )
    np.ctypeslib.as_array(data(tensor), x.shape)[:] = x
    result = function(base, "ggml_gelu", address, address, address)(context, tensor)
    graph = function(base, "ggml_new_graph", address, address)(context)
    function(base, "ggml_build_forward_expand", None, address, address)(graph, result)
    function(cpu, "ggml_graph_compute_with_ctx", number, address, address, number)(context, graph, 1)
    return np.array(np.ctypeslib.as_array(data(result), x.shape))


def test_the_table_is_off_by_what_the_plan_says() -> None:
    x = np.linspace(-12, 12, 1_000_001, dtype=np.float32)
    exact = torch.nn.functional.gelu(torch.from_numpy(x).double()).numpy()
    off = np.abs(theirs(x) - exact)
    assert 2e-3 < off[np.abs(x) < 8].max() <= 2.5e-3
    assert 3e-3 < off.max() <= HALF.error
