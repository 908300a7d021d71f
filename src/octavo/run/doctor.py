"""What this machine has for Octavo, and what could be installed."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from octavo.config import load_recipe
from octavo.data import default_cache
from octavo.data.batch import Batch
from octavo.model.base import build_model
from octavo.run.manifest import machine, versions
from octavo.training.device import Runtime, accelerator, device_check, fast_bfloat16, step_seconds
from octavo.util.kernels import in_use
from octavo.util.memory import available_memory

SHIP = ("transformers", "gguf", "onnx", "onnxscript", "onnxruntime", "llama-cpp-python")
MODULES = {"llama-cpp-python": "llama_cpp", "pillow": "PIL", "scikit-learn": "sklearn"}
"""How packages are imported that are called otherwise."""

EXTRAS = {
    "gpt2": (("tiktoken",), "GPT-2's tokenizer"),
    "tensorboard": (("tensorboard",), "TensorBoard event files"),
    "documents": (("pypdfium2", "selectolax", "striprtf"), "PDF, HTML and RTF as texts"),
    "data": (("pyarrow", "datasketch", "py3langid"), "Parquet, near duplicates, languages"),
    "cluster": (("ray",), "studies on several machines"),
    "images": (("pillow",), "folders of PNG files"),
    "digits": (("scikit-learn",), "the recipe of that name"),
    "correct": (("rapidfuzz",), "corrections by the closest word"),
    "translate": (("sacrebleu",), "BLEU and chrF of translations"),
    "serve": (("starlette", "uvicorn"), "a server of models"),
    "ship": (SHIP, "models for transformers, llama.cpp and ONNX Runtime"),
}
"""What pyproject.toml offers beyond the core: each extra's packages, and what they are for."""


@dataclass(frozen=True)
class Check:
    """Something that is right or not. `needed`: it must hold; others are suggestions."""

    what: str
    ok: bool
    needed: bool
    remedy: str | None


@dataclass(frozen=True)
class Examination:
    """A machine's facts, and what was checked."""

    machine: dict[str, Any]
    checks: list[Check]


def examine() -> Examination:
    """Facts of this machine, and what is missing on it."""
    free = shutil.disk_usage(Path.cwd()).free
    memory = available_memory()
    facts = {
        **machine(),
        "threads": torch.get_num_threads(),
        "memory_free": f"{memory / 2**30:.1f} GiB" if memory is not None else "unknown",
        "disk_free": f"{free / 2**30:.1f} GiB",
        "cache": str(default_cache()),
        **versions(),
    }
    return Examination(facts, [_python(), _disk(free), _kernels(), _accelerator(), _bfloat16(), *_extras()])


def _check(what: str, ok: bool, remedy: str | None = None, *, needed: bool = False) -> Check:
    return Check(what, ok, needed, None if ok else remedy)


def _python() -> Check:
    name = ".".join(map(str, sys.version_info[:3]))
    return _check(
        f"Python {name}", sys.version_info >= (3, 11), "Octavo needs Python 3.11 or later", needed=True
    )


def _disk(free: int) -> Check:
    return _check(
        f"{free / 2**30:.1f} GiB free in this folder",
        free > 2**30,
        "runs of small models take up to a gigabyte",
    )


def _kernels() -> Check:
    found = in_use()
    if found.native is None:
        remedy = "install a C compiler, or a wheel that brings kernels for this processor"
        return _check(f"no kernels ({found.why}): torch does their work, slower", False, remedy)
    return _check(f"kernels: {found.name} ({found.why})", True)


def _probe() -> tuple[torch.nn.Module, Batch[torch.Tensor]]:
    recipe = load_recipe({"model": {"layers": 2, "width": 128, "heads": 4, "context": 64}})
    model = build_model(recipe.model, vocab_size=64, seed=0)
    window = torch.arange(16 * 65).remainder(61).view(16, 65)
    return model, Batch(window[:, :-1].contiguous(), window[:, 1:].contiguous())


def _accelerator() -> Check:
    name = accelerator()
    if name is None:
        return _check("no accelerator: training runs on the CPU", True)
    model, probe = _probe()
    complaint = device_check(model, probe, torch.device(name))
    if complaint is None:
        return _check(f"{name} gives the same results as the CPU", True)
    return _check(
        f"{name} gives other results than the CPU ({complaint})", False, "train with training.device=cpu"
    )


def _bfloat16() -> Check:
    if not fast_bfloat16(torch.device("cpu")):
        return _check("the CPU has no bfloat16 arithmetic; float32 is used", True)
    model, probe = _probe()
    cpu = torch.device("cpu")
    seconds = {name: step_seconds(model, probe, Runtime(cpu, name, 0)) for name in ("float32", "bfloat16")}
    gain = seconds["float32"] / seconds["bfloat16"]
    return _check(f"the CPU has bfloat16 arithmetic: {gain:.2f} times float32's speed on a tiny model", True)


def _extras() -> list[Check]:
    return [
        _check(
            f"{purpose} ({', '.join(packages)})",
            all(importlib.util.find_spec(MODULES.get(package, package)) is not None for package in packages),
            f"pip install 'octavo[{extra}]'",
        )
        for extra, (packages, purpose) in EXTRAS.items()
    ]
