"""Tensors of which each process holds a part (PyTorch's DTensor, under fully_shard), and the whole of them."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor, gathered from the processes that hold its parts; all must call it. Else the tensor."""
    parts: Any = tensor
    return parts.full_tensor() if is_part(tensor) else tensor


def is_part(tensor: Tensor) -> bool:
    """Whether this process holds only a part of the tensor."""
    return hasattr(tensor, "full_tensor")


def held(tensor: Tensor) -> Tensor:
    """What this process holds of a tensor."""
    parts: Any = tensor
    return parts.to_local() if is_part(tensor) else tensor


def part_of(tensor: Tensor, like: Tensor) -> Tensor:
    """This process's part of a tensor that is whole in every process, cut as `like` is; `like` whole: all of it."""
    if not is_part(like):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    parts: Any = like
    mesh = parts.device_mesh
    return distribute_tensor(tensor.to(mesh.device_type), mesh, parts.placements, src_data_rank=None)
