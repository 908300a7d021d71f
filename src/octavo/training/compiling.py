"""torch.compile, where it is worth its time: whole models on a processor, block by block on a GPU."""

from __future__ import annotations

import copy
from typing import Literal

import torch
from torch import nn

LONG = 1000  # steps that repay the seconds that compiling a block takes on a GPU


def compiles(wanted: bool | Literal["auto"], device: torch.device, *, steps: int) -> bool:
    """Whether a run of so many steps is compiled."""
    return device.type == "cuda" and steps >= LONG if wanted == "auto" else wanted


def compiled(model: nn.Module, device: torch.device, *, alone: bool = True) -> nn.Module:
    """The same model, compiled, with the same weights; the one that is given stays as it is.

    Blocks are alike, so that compiling one of them compiles all; the whole takes several times as long.
    """
    if device.type != "cuda" or not alone:
        return torch.compile(model)  # pyrefly: ignore  # it is a module
    twin = copy.deepcopy(model, {id(each): each for each in (*model.parameters(), *model.buffers())})
    for stack in (module for module in twin.modules() if isinstance(module, nn.ModuleList)):
        for block in stack:
            block.compile()
    return twin
