"""Blocks that keep only their input and compute the rest again when the backward pass asks for it (Chen et al. 2016).

A third more work for a small part of the memory. Attached from outside: the model does not know.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils.checkpoint import checkpoint

from octavo.model.base import LanguageModel, blocks_of


def recompute_blocks(model: LanguageModel) -> None:
    """From now on every block of `model` is computed twice in training; losses and gradients stay what they are.

    Dropout draws the same masks both times, and the arithmetic (see `precision.autocast`) is the same.
    """
    for block in blocks_of(model):
        block.forward = partial(_forward, block)  # an instance's own


def _forward(block: nn.Module, *inputs: Any, **named: Any) -> Tensor:
    if not (block.training and torch.is_grad_enabled()):
        return type(block).forward(block, *inputs, **named)
    modes = (
        _get_current_function_mode_stack()
    )  # which torch does not bring back by itself, as it does its autocast
    return checkpoint(_computed, modes, block, *inputs, use_reentrant=False, **named)


def _computed(modes: list[TorchFunctionMode], block: nn.Module, *inputs: Any, **named: Any) -> Tensor:
    with ExitStack() as stack:
        for mode in modes[len(_get_current_function_mode_stack()) :]:  # all, the second time
            stack.enter_context(mode)
        return type(block).forward(block, *inputs, **named)
