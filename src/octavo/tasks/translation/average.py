"""The mean of a run's last checkpoints: what it knew a little while ago too, with less of each step's noise."""

from __future__ import annotations

import torch

from octavo.errors import CheckpointError, InputError
from octavo.run.run import Run
from octavo.training.checkpoint import fill_model, model_tensors, read_tensors
from octavo.training.checkpoint_folder import CheckpointFolder, list_checkpoints


def last_checkpoints(run: Run, count: int) -> list[CheckpointFolder]:
    """The last `count` whole checkpoints of a run. Raises InputError where there are fewer."""
    if run.folder is None:
        raise InputError(f"{run.path} is a checkpoint alone; an average is of a run's last ones.")
    whole = []
    for checkpoint in reversed(list_checkpoints(run.folder.checkpoints)):
        try:
            checkpoint.verify()
        except CheckpointError:
            continue
        whole.append(checkpoint)
        if len(whole) == count:
            return whole
    raise InputError(
        f"{run.path} has {len(whole)} whole checkpoint{'s' * (len(whole) != 1)}, and {count} were asked for.",
        remedy=f"train with training.keep={count} and a smaller training.checkpoint_every",
    )


@torch.no_grad()
def average(run: Run, count: int) -> list[int]:
    """Give a run's model the mean of its last checkpoints' weights; returns their steps, newest first."""
    chosen = last_checkpoints(run, count)
    sums = {
        name: torch.zeros_like(one, dtype=torch.float64) for name, one in model_tensors(run.model).items()
    }
    for checkpoint in chosen:
        tensors = read_tensors(checkpoint.folder / "model.safetensors")
        for name, total in sums.items():
            total += tensors[name].double()
    kept = model_tensors(run.model)
    means = {name: (total / count).to(kept[name].dtype) for name, total in sums.items()}
    fill_model(run.model, means, run.path)
    return [checkpoint.step for checkpoint in chosen]
