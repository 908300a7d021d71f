"""What is saved of a training as tensors: checkpoints, from which a model and its optimizers are filled, and its story,
the weights of a few steps on the way. How checkpoints lie on the disk is in `checkpoint_folder.py`.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from octavo.errors import CheckpointError
from octavo.model.adapters import adapted, apart, joined
from octavo.training.checkpoint_folder import CheckpointFolder, write_checkpoint
from octavo.training.distributed.parallel import part_of, whole
from octavo.util.files import of_the_system, storage_errors, usual_rights, written_aside
from octavo.util.terminal import shown

OTHER = "other."
"""Begins the names in state.safetensors of what is no optimizer's."""

OPTIMIZER = "optimizer."
"""Begins the names there of the optimizers' state: which optimizer, which of its parameters, which tensor."""

_STATE_NAME = re.compile(r"(\d{1,9})\.(\d{1,9})\.(.+)", re.ASCII)

TRAINED = "trained."
"""Begins the names there of weights that are trained beside frozen ones, which a checkpoint holds only joined."""


class Checkpoint(CheckpointFolder):
    """One complete checkpoint, whose tensors can be loaded."""

    def load_model(self, model: nn.Module) -> None:
        """Fill a model of the same shape with the weights."""
        fill_model(model, read_tensors(self.folder / "model.safetensors"), self.folder)

    def load_trained(self, model: nn.Module) -> None:
        """Fill a model that goes on to be trained, to the bit; one with adapters holds what it began with already."""
        if not adapted(model):
            return self.load_model(model)
        weights = self._named(TRAINED)
        expected = {name: each.shape for name, each in model.named_parameters() if each.requires_grad}
        if {name: each.shape for name, each in weights.items()} != expected:
            raise CheckpointError(f"{self.folder} does not hold the adapters of this model.")
        model.load_state_dict(weights, strict=False)
        return None

    def load_optimizers(self, optimizers: Sequence[Optimizer]) -> None:
        """Fill freshly built optimizers with their saved state. Raises CheckpointError where it is not theirs."""
        saved: list[dict[int, dict[str, Tensor]]] = [{} for _ in optimizers]
        for name, tensor in self._named(OPTIMIZER).items():
            match = _STATE_NAME.fullmatch(name)
            if not match or int(match[1]) >= len(optimizers):
                raise self._foreign(OPTIMIZER + name)
            saved[int(match[1])].setdefault(int(match[2]), {})[match[3]] = tensor
        for index, (optimizer, state) in enumerate(zip(optimizers, saved, strict=True)):
            self._load_optimizer(optimizer, state, f"{OPTIMIZER}{index}.")

    def _load_optimizer(self, optimizer: Optimizer, state: dict[int, dict[str, Tensor]], prefix: str) -> None:
        owners = [(parameter, group) for group in optimizer.param_groups for parameter in group["params"]]
        shapes_of = getattr(optimizer, "state_shapes", lambda parameter, group: None)
        for number, tensors in state.items():
            if number >= len(owners):
                raise self._foreign(f"{prefix}{number}")
            owner, group = owners[number]
            shapes = shapes_of(owner, group)
            if shapes is not None and {key: tuple(each.shape) for key, each in tensors.items()} != shapes:
                raise self._foreign(f"{prefix}{number}")
            for key, tensor in tensors.items():
                if shapes is not None and not tensor.is_floating_point():
                    raise self._foreign(f"{prefix}{number}.{key}")
                by_rows = (
                    tensor.dim() > 0 and owner.dim() > 0 and len(tensor) == len(owner)
                )  # or alike in all parts
                tensors[key] = part_of(tensor, owner) if by_rows else tensor
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})

    def _foreign(self, name: str) -> CheckpointError:
        return CheckpointError(
            f"{self.folder} does not hold the state of this recipe's optimizer ({shown(name)!r} does not fit).",
            remedy="resume with the recipe that it was saved with, or start another run from its weights: "
            "training.start_from=PATH",
        )

    def others(self) -> dict[str, Tensor]:
        """What was saved beside the optimizers' state, by name."""
        return self._named(OTHER)

    def _named(self, prefix: str) -> dict[str, Tensor]:
        return read_tensors(self.folder / "state.safetensors", prefix)


def fill_model(model: nn.Module, weights: dict[str, Tensor], source: Path) -> None:
    """Fill a model of the same shape with weights by name, which come from `source`. CheckpointError where they do not
    fit."""
    weights = apart(model, weights)
    try:
        missing, unexpected = model.load_state_dict(weights, strict=False)
    except RuntimeError as error:
        raise CheckpointError(f"{source} does not fit this model: {error}") from error
    if missing or unexpected:
        raise CheckpointError(
            f"{source} does not fit this model: missing {missing}, unexpected {unexpected}."
        )


def optimizer_tensors(optimizers: Sequence[Optimizer], *, keep: bool = True) -> dict[str, Tensor]:
    """All optimizer state as named tensors; see `model_tensors`."""
    return _gathered(
        (
            (f"{OPTIMIZER}{index}.{parameter}.{key}", value)
            for index, optimizer in enumerate(optimizers)
            for parameter, entries in optimizer.state_dict()["state"].items()
            for key, value in entries.items()
            if isinstance(value, Tensor)
        ),
        keep,
    )


def model_tensors(model: nn.Module, *, keep: bool = True) -> dict[str, Tensor]:
    """The weights by name, a shared one once, and the constants (buffers) that the model saves with them; those in
    pieces joined.

    Of weights that are cut into parts every process must call it; one that does not `keep` them gives its parts, and
    gets nothing.
    """
    saved = model.state_dict().keys()
    constants = ((name, buffer) for name, buffer in model.named_buffers() if name in saved)
    return joined(model, _gathered(chain(model.named_parameters(), constants), keep))


def learning_tensors(
    model: nn.Module, optimizers: Sequence[Optimizer], *, keep: bool = True
) -> dict[str, Tensor]:
    """What else than its weights a model needs to be trained further: the optimizers' state, and where it has adapters,
    these. See `model_tensors`."""
    pieces = model.named_parameters() if adapted(model) else ()
    beside = _gathered(((TRAINED + name, each) for name, each in pieces if each.requires_grad), keep)
    return optimizer_tensors(optimizers, keep=keep) | beside


def _gathered(tensors: Iterable[tuple[str, Tensor]], keep: bool) -> dict[str, Tensor]:
    gathered = {}
    for name, tensor in tensors:
        part = tensor.detach()
        full = whole(part)
        if keep:  # a device that holds a part of the model may not have room for all of it
            gathered[name] = (full if full is part else full.cpu()).contiguous()
    return gathered


def save_checkpoint(
    checkpoints: Path,
    step: int,
    *,
    weights: Mapping[str, Tensor],
    memory: Mapping[str, Tensor],
    state: Mapping[str, Any],
    config: str,
    tokenizer: Path,
    version: str,
) -> Checkpoint:
    """Write the checkpoint of `step` durably; returns it. Raises StorageError and leaves nothing when it cannot.

    `weights` are `model_tensors`, `memory` is `learning_tensors`, and under `OTHER` what else is to be kept.
    """

    def put_tensors(folder: Path) -> None:
        for name, tensors in (("model", weights), ("state", memory)):
            write_tensors(folder / f"{name}.safetensors", tensors)

    saved = write_checkpoint(
        checkpoints,
        step,
        put_tensors=put_tensors,
        state=state,
        config=config,
        tokenizer=tokenizer,
        version=version,
    )
    return Checkpoint(saved.folder)


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Named tensors as a safetensors file. Raises OSError."""
    try:
        with usual_rights(path):
            save_file(dict(tensors), path)
    except SafetensorError as error:
        raise of_the_system(error) or OSError(errno.EIO, str(error)) from error


def read_tensors(path: Path, prefix: str = "") -> dict[str, Tensor]:
    """Named tensors from a safetensors file, of those whose names begin with `prefix`, without it; CheckpointError when
    it is damaged."""
    try:
        with safe_open(path, framework="pt") as file:
            names = [name for name in file.keys() if name.startswith(prefix)]  # noqa: SIM118 - no mapping
            return {name.removeprefix(prefix): file.get_tensor(name) for name in names}
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} cannot be read ({error}); the checkpoint is damaged.") from error


# The story: weights kept on the way, at steps on a log scale, so that it can be seen how a model learned: most is
# learned early. story/step-000010.safetensors are those after 10 steps, float16.

CHAPTER = re.compile(r"step-(\d+)\.safetensors")


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
    found = ((CHAPTER.fullmatch(path.name), path) for path in folder.glob("step-*.safetensors"))
    return sorted((int(match[1]), path) for match, path in found if match)


def read_chapter(path: Path) -> dict[str, Tensor]:
    """Weights that were kept, in float32. Raises CheckpointError for a damaged file."""
    try:
        held = load_file(path)
    except Exception as error:  # whatever a file that was altered leads to
        raise CheckpointError(f"{path} is damaged ({error}).") from error
    return {name: tensor.float() for name, tensor in held.items()}
