"""Weights kept on the way, at steps on a log scale, so that it can be seen how a model learned: most is learned early.

story/step-000010.safetensors    the weights after 10 steps, float16
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors.torch import load_file, save_file
from torch import Tensor

from octavo.errors import CheckpointError
from octavo.util.files import storage_errors, written_aside

NAME = re.compile(r"step-(\d+)\.safetensors")


def story_steps(steps: int, count: int) -> frozenset[int]:
    """About so many steps of a run on a log scale, the first and the last among them."""
    if count < 1:
        return frozenset()
    spread = np.geomspace(1, max(1, steps), count) if count > 1 else np.array([steps])
    return frozenset(int(step) for step in spread.round())


def keep_chapter(folder: Path, step: int, weights: Mapping[str, Tensor]) -> None:
    """Write the weights of a step, not what is counted beside them. Raises StorageError."""
    short = {
        name: tensor.detach().cpu().half().contiguous()
        for name, tensor in weights.items()
        if tensor.is_floating_point()
    }
    with storage_errors(folder):
        folder.mkdir(exist_ok=True)
        with written_aside(folder / f"step-{step:06d}.safetensors") as aside:
            save_file(short, aside)


def chapters(folder: Path) -> list[tuple[int, Path]]:
    """The steps that were kept, in their order."""
    found = ((NAME.fullmatch(path.name), path) for path in folder.glob("step-*.safetensors"))
    return sorted((int(match[1]), path) for match, path in found if match)


def read_chapter(path: Path) -> dict[str, Tensor]:
    """Weights that were kept, in float32. Raises CheckpointError for a damaged file."""
    try:
        held = load_file(path)
    except Exception as error:  # whatever a file that was altered leads to
        raise CheckpointError(f"{path} is damaged ({error}).") from error
    return {name: tensor.float() for name, tensor in held.items()}
