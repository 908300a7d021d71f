"""Small kernels in C: compiled once by the machine's own compiler, kept in the cache, never needed.

Where there is no compiler, `library` gives None and torch does the work. `OCTAVO_NATIVE=0` asks for that.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from importlib import resources
from pathlib import Path

from torch import Tensor

from octavo.corpus.cache import default_cache

Floats = ctypes.POINTER(ctypes.c_float)

# Tried in this order until one works: not every compiler has OpenMP, or knows the processor it runs on.
MACHINES = (
    ("-march=native", "-fopenmp"),
    ("-mcpu=native", "-fopenmp"),
    ("-march=native",),
    ("-mcpu=native",),
    (),
)
OPTIONS = ("-O3", "-fno-math-errno", "-fno-trapping-math")


@cache
def library(package: str, name: str) -> ctypes.CDLL | None:
    """The kernel `name`.c of a package, from the cache or compiled now (a second). None where that cannot be done."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None or os.environ.get("OCTAVO_NATIVE", "1") == "0":
        return None
    source = resources.files(package).joinpath(f"{name}.c").read_bytes()
    told = repr((compiler, MACHINES, OPTIONS, platform.uname().machine, _processor()))
    key = hashlib.sha256(source + told.encode()).hexdigest()[:16]
    path = default_cache() / "native" / f"{name}-{key}.so"
    try:
        if path.is_file() and (kept := _loaded(path)) is not None:
            return kept
        return _loaded(path) if _compile(compiler, source, path) else None
    except OSError:  # a cache that cannot be written
        return None


def address(tensor: Tensor | None) -> ctypes._Pointer[ctypes.c_float] | None:
    """Where a contiguous float32 tensor lies; whoever holds the address has to hold the tensor."""
    return None if tensor is None else ctypes.cast(tensor.data_ptr(), Floats)


def _loaded(path: Path) -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(str(path))
    except OSError:  # damaged, or in a folder from which nothing may be run
        return None


def _compile(compiler: str, source: bytes, path: Path) -> bool:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".compiling-") as folder:
        code, built = Path(folder) / "kernel.c", Path(folder) / "kernel.so"
        code.write_bytes(source)
        for machine in MACHINES:
            command = [compiler, *OPTIONS, *machine, "-shared", "-fPIC", "-o", str(built), str(code), "-lm"]
            done = subprocess.run(command, capture_output=True, timeout=60, check=False)
            if done.returncode == 0:
                built.replace(path)
                return True
    return False


def _processor() -> str:
    """What tells processors apart: a library made for one may not run on another that shares the cache."""
    path = Path("/proc/cpuinfo")
    if not path.is_file():
        return platform.processor()
    lines = path.read_text(encoding="utf-8").splitlines()
    return "\n".join(sorted({line for line in lines if line.startswith(("flags", "Features", "model name"))}))
