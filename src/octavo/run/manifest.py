"""What made a run: code, data, versions, machine, seed. Enough to repeat it, or to see why it cannot be."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import octavo
from octavo.config import Recipe, to_yaml
from octavo.config.parts import loaded_parts
from octavo.data import Dataset
from octavo.training.device import Runtime
from octavo.util.kernels import built_facts, commit, in_use
from octavo.util.processes import git

PACKAGES = ("torch", "numpy", "safetensors", "pydantic", "tokenizers", "tiktoken")


def run_manifest(
    recipe: Recipe, dataset: Dataset, runtime: Runtime, *, metadata: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The manifest of a run that is about to start; `metadata`: its recipe's name, its teachers, the choice."""
    parts = [{"path": own.path, "sha256": own.sha256, "parts": own.parts} for own in loaded_parts()]
    return {
        "octavo": octavo.__version__,
        "code": code_identity(),
        **({"parts": parts} if parts else {}),
        "config_sha256": hashlib.sha256(to_yaml(recipe).encode()).hexdigest(),
        "seed": recipe.seed,
        "data": dict(dataset.manifest),
        **(metadata or {}),
        "runtime": runtime.describe(),
        "processes": runtime.world.size,
        "versions": versions(),
        "machine": machine(),
        "kernels": {"name": in_use().name, "why": in_use().why},
    }


def versions() -> dict[str, str]:
    """Python and the libraries that figures depend on."""
    known = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            known[package] = version(package)
        except PackageNotFoundError:
            continue
    return known


def machine() -> dict[str, Any]:
    """The computer, as far as results and speed depend on it."""
    import torch

    described: dict[str, Any] = {
        "system": platform.system(),
        "processor": processor_name(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
    }
    if torch.cuda.is_available():
        described["accelerator"] = torch.cuda.get_device_name(0)
    elif torch.backends.mps.is_available():
        described["accelerator"] = "Apple GPU (mps)"
    return described


def processor_name() -> str:
    """What the system calls its processor."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def code_identity() -> dict[str, str | None]:
    """SHA-256 over every file of the package but hidden and compiled ones; the commit and uncommitted changes, where
    it runs from a checkout.
    """
    package = Path(octavo.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*")):
        name = path.relative_to(package)
        if path.is_file() and not any(part.startswith((".", "__pycache__")) for part in name.parts):
            digest.update(name.as_posix().encode() + b"\0" + path.read_bytes())
    found = commit()
    in_wheel = built_facts().commit is not None
    changes = git(package, "diff", "HEAD", "--", ".") if found and not in_wheel else None
    return {
        "source_sha256": digest.hexdigest(),
        "commit": found,
        "uncommitted_sha256": hashlib.sha256(changes.encode()).hexdigest() if changes else None,
    }
