"""How several processes share one training: every process a copy of the model (ddp), or a part of it (fsdp).

Both are PyTorch's own. The gradients of all processes are averaged, so each process's loss has to be what, averaged,
gives the whole batch's.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from pydantic import Field
from torch import Tensor, nn

from octavo.config.parts import PartConfig, register
from octavo.model.base import blocks_of, prepare_for_processes
from octavo.training.distributed.world import World


@register("parallel")
class SingleConfig(PartConfig):
    """One process, all of the model in it."""

    kind: Literal["none"] = "none"

    def build(self, model: nn.Module, world: World) -> nn.Module:
        """The module to train."""
        return model


class SeveralConfig(PartConfig):
    """Base of the kinds for several processes."""

    timeout: float = Field(600.0, ge=1, le=1e6)
    """Seconds after which a process that the others wait for counts as lost, and ends the run; longer than the
    slowest step."""

    def build(self, model: nn.Module, world: World) -> nn.Module:
        """The module to train, on the device where `model` is; `model` itself in a world of one."""
        if world.size == 1:
            return model
        prepare_for_processes(model)
        return self.shared(model, world)

    @abstractmethod
    def shared(self, model: nn.Module, world: World) -> nn.Module:
        """The module to train in a world of several."""


@register("parallel")
class ReplicatedConfig(SeveralConfig):
    """Every process holds the whole model and learns from its rows of each batch (DistributedDataParallel)."""

    kind: Literal["ddp"] = "ddp"

    def shared(self, model: nn.Module, world: World) -> nn.Module:
        from torch.nn.parallel import DistributedDataParallel

        devices = [world.device] if world.device.type == "cuda" else None
        return DistributedDataParallel(
            model, device_ids=devices, forward_sync_buffers=False, gradient_as_bucket_view=True
        )


@register("parallel")
class ShardedConfig(SeveralConfig):
    """Every process keeps its part of each tensor, of its gradient and of the optimizer's memory of it, and gathers a
    block's weights when it computes with them (fully_shard): for models that one device cannot hold."""

    kind: Literal["fsdp"] = "fsdp"

    def shared(self, model: Any, world: World) -> nn.Module:
        """`model` itself changes."""
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        notes = {name: vars(parameter) for name, parameter in model.named_parameters()}
        mesh = init_device_mesh(world.device.type, (world.size,))
        for module in (
            *blocks_of(model),
            model,
        ):  # after an evaluation too, whoever asks for a parameter gets the part
            fully_shard(module, mesh=mesh, reshard_after_forward=True)
        for name, parameter in model.named_parameters():  # new objects, without what stood on the old ones
            vars(parameter).update(notes[name])
        return model


@contextmanager
def gradients_sent(module: nn.Module, *, now: bool) -> Iterator[None]:
    """Forward and backward within the context exchange gradients only if `now`; else they add up where they are."""
    inner: Any = getattr(module, "_orig_mod", module)  # torch.compile's wrapper
    if hasattr(inner, "set_requires_gradient_sync"):
        inner.set_requires_gradient_sync(now)
        yield
    elif hasattr(inner, "no_sync") and not now:
        with inner.no_sync():
            yield
    else:
        yield


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
