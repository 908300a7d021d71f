"""torch.compile, where it is worth its time: whole models on a processor, block by block on a GPU."""

from __future__ import annotations

import copy
import sys
from typing import Literal

import torch
from torch import nn
from torch.optim import Optimizer

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


def leave_compiler_out() -> None:
    """Let optimizers be made without torch's compiler, whose import takes as long as that of the rest of torch.

    Torch imports it when these are first called, to tell it that it must not translate them. Where nothing is compiled
    they can be called as they are; where they are built otherwise than here, nothing changes.
    """
    for method in (
        Optimizer.add_param_group,
        Optimizer.state_dict,
        Optimizer.load_state_dict,
        Optimizer.zero_grad,
    ):
        plain = getattr(method, "__wrapped__", None)
        if plain is not None and "torch._dynamo" not in sys.modules:
            setattr(plain, "__dynamo_disable", plain)
