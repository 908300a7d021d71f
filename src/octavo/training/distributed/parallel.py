"""The processes that train one model together, as torchrun starts them; a run on its own is a world of one.

Every process runs the same program and calls the same methods in the same order. The first one writes; the others
help it compute: each with a copy of the model (ddp), or with a part of it (fsdp), both PyTorch's own. The gradients of
all processes are averaged, so each process's loss has to be what, averaged, gives the whole batch's.
"""

from __future__ import annotations

import json
import os
import time
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from inspect import signature
from itertools import count
from typing import Any, Literal

import numpy as np
import torch
import torch.distributed as dist
from pydantic import Field
from torch import Tensor, nn

from octavo.config.parts import PartConfig, register
from octavo.data.batch import Batch
from octavo.errors import ConfigError, EndedElsewhere, InputError, LostError, OctavoError
from octavo.model.base import blocks_of, prepare_for_processes
from octavo.training.distributed.heartbeat import Ending, Pulse, Watch
from octavo.util.interruption import is_interruption

VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
MEETING = 600.0  # seconds for all processes to come
PATIENCE = timedelta(days=1)  # the watch ends what hangs; a process may have to wait long for one that works
CONNECTION = ("gloo", "nccl", "connection", "peer", "socket")


class World:
    """Who trains together. `rank` counts the processes from 0, `local_rank` those of this machine."""

    def __init__(
        self, *, rank: int = 0, size: int = 1, local_rank: int = 0, store: dist.Store | None = None
    ) -> None:
        self.rank, self.size, self.local_rank = rank, size, local_rank
        self.device = torch.device("cpu")
        self.pulse = Pulse()
        self._store, self._broadcasts = store, 0
        self._watch: Watch | None = None

    @property
    def first(self) -> bool:
        """Whether this process is the one that writes."""
        return self.rank == 0

    @property
    def store(self) -> dist.Store:
        """The store through which the processes of a world of several exchange messages."""
        assert self._store is not None, "a world of one has no store"
        return self._store

    def admit(self, kind: str, batch: int) -> None:
        """Raise ConfigError if `parallel=kind` with so many sequences in a batch does not suit this world."""
        if self.size > 1 and kind == "none":
            raise ConfigError(
                f"{self.size} processes were started, and with parallel=none each would train by itself.",
                remedy="add parallel=ddp or parallel=fsdp, or start one process, without torchrun",
            )
        if batch % self.size:
            near = max(1, round(batch / self.size)) * self.size
            raise ConfigError(
                f"training.batch is {batch}; {self.size} processes cannot share {batch} sequences evenly.",
                remedy=f"a multiple of {self.size}, such as training.batch={near}",
            )

    def meet(self, timeout: float) -> int:
        """Begin to watch each other; returns the number of machines. `timeout`: see `Watch`."""
        if self.size == 1:
            return 1
        store: Any = self.store  # its stub knows no clone
        watch = Watch(store.clone(), rank=self.rank, size=self.size, timeout=timeout, pulse=self.pulse)
        watch.show()
        for rank in range(self.size):
            self._wait_for(f"pulse/{rank}")
        watch.start()
        self._watch = watch
        return watch.hosts

    def place(self, device: str) -> str:
        """The device of this process where all were given `device`: each has an accelerator of its own."""
        if self.size == 1:
            return device
        kind = torch.device(device).type
        if kind == "mps":
            raise InputError(
                "Several processes can train together on cpu and cuda, not on mps.",
                remedy="training.device=cpu, or one process",
            )
        return f"cuda:{self.local_rank}" if kind == "cuda" else kind

    def connect(self, device: torch.device) -> None:
        """Make ready to compute together on devices like this one. Raises InputError if they are not alike."""
        self.device = device
        if self.size == 1:
            return
        wanted = self.broadcast(device.type)
        if device.type != wanted:
            raise InputError(
                f"Rank {self.rank} computes on {device}, rank 0 on {wanted}; all must be alike.",
                remedy="training.device=cpu, or start only as many processes as there are sound accelerators",
            )
        cuda = device.type == "cuda"
        if cuda:
            torch.cuda.set_device(device)
        dist.init_process_group(
            "nccl" if cuda else "gloo",
            store=dist.PrefixStore("group", self.store),
            rank=self.rank,
            world_size=self.size,
            timeout=PATIENCE,
            device_id=device if cuda else None,
        )

    def shard(self, batch: Batch[np.ndarray]) -> Batch[np.ndarray]:
        """This process's rows of a batch; where they do not suffice for all, rows without a target fill up."""
        if self.size == 1:
            return batch
        self.beat()
        return batch.shard(self.rank, self.size)

    def all_reduce(self, *values: float) -> list[float]:
        """Each value added up over all processes."""
        if self.size == 1:
            return list(values)
        self.beat()  # whoever does not come this far is behind the others
        tensor = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor)
        return tensor.tolist()

    def mean(self, value: float) -> float:
        """The value averaged over all processes."""
        return self.all_reduce(value)[0] / self.size

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in at least one process."""
        return self.all_reduce(float(flag))[0] > 0

    def beat(self, doing: str | None = None) -> None:
        """Show that the common work makes progress."""
        self.pulse.doing = doing or self.pulse.doing
        self.pulse.state = "working"
        self.pulse.count += 1

    @contextmanager
    def apart(self, state: str, doing: str | None = None) -> Iterator[None]:
        """Within the context this process is by itself, for as long as it takes: see `Pulse.state`."""
        before = (self.pulse.state, self.pulse.doing)
        self.pulse.state, self.pulse.doing = state, doing or self.pulse.doing
        try:
            yield
        finally:
            self.pulse.state, self.pulse.doing = before

    def broadcast(self, value: Any) -> Any:
        """What the first process calls it with (plain data), in all processes."""
        if self.size == 1:
            return value
        key, self._broadcasts = f"told/{self._broadcasts}", self._broadcasts + 1
        if self.first:
            self.store.set(key, json.dumps(value))
            return value
        with self.apart("waiting"):
            self._wait_for(key)
        return json.loads(self.store.get(key))

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """The first process goes through the block, then the others."""
        if not self.first:
            self.broadcast(None)
        with self.apart("busy"):
            yield
        if self.first:
            self.broadcast(None)

    def _wait_for(self, key: str) -> None:
        """Not by the store's own waiting, which no signal interrupts."""
        pause = 0.01
        while not self.store.check([key]):
            self._anyone_failed()
            time.sleep(pause)
            pause = min(2 * pause, 0.2)

    def _anyone_failed(self) -> None:
        """Raise EndedElsewhere if a process has ended with an error."""
        for rank in range(self.size):
            if (how := Ending.of(self.store, rank)) and how.code:
                raise EndedElsewhere(how.why, code=how.code)

    def leave(self, error: BaseException | None) -> BaseException | None:
        """Tell the others how this process ends. Returns the error to end with: EndedElsewhere, where the first
        process says it for all.
        """
        if error is not None and _connection_lost(error):
            try:
                error = self._lost(error)
            except EndedElsewhere as ended:
                error = ended
        code = 0 if error is None else 130 if is_interruption(error) else 1
        code, kind = getattr(error, "exit_code", code), type(error).__name__
        why = error.what if isinstance(error, OctavoError) else f"{kind}: {error}"
        try:
            Ending(code, kind, why).tell(self.store, self.rank)
            if self._watch:
                self._watch.stop()
            if self.first and error is None:
                self._wait_for_all()
            if self.first or isinstance(error, EndedElsewhere):
                return error
            if is_interruption(error):
                return EndedElsewhere(why, code=code)
            if isinstance(error, OctavoError) and self._first_says(kind):
                return EndedElsewhere(why, code=code)
        except dist.DistError:  # the store has gone with the machine that kept it
            pass
        return error

    def _wait_for_all(self) -> None:
        """Where torchrun is not the keeper of the store, the first process is, and has to stay."""
        end = time.monotonic() + 10
        while time.monotonic() < end and not all(Ending.of(self.store, rank) for rank in range(self.size)):
            time.sleep(0.02)

    def _first_says(self, kind: str) -> bool:
        """Wait for the first process to end, while it lives; whether it ends with the same kind of error."""
        shown, since = b"", time.monotonic()
        patience = self._watch.timeout if self._watch else 60.0
        with suppress(KeyboardInterrupt):
            while time.monotonic() - since < patience:
                if how := Ending.of(self.store, 0):
                    return how.kind == kind
                now = self.store.get("pulse/0") if self.store.check(["pulse/0"]) else b""
                if now != shown:
                    shown, since = now, time.monotonic()
                time.sleep(0.05)
        return False

    def _lost(self, error: BaseException) -> LostError:
        """The connection to another process broke. It has ended with an error (raises EndedElsewhere), or the watch
        sees whose fault it is and ends this process.
        """
        if self._watch:
            end = time.monotonic() + self._watch.timeout + 2 * self._watch.every
            with self.apart("waiting"), suppress(KeyboardInterrupt, dist.DistError):
                while time.monotonic() < end:
                    self._anyone_failed()
                    time.sleep(0.05)
        return LostError(
            f"The connection to another process broke during {self.pulse.doing}: {str(error).splitlines()[0]}",
            remedy="start the run again with --resume",
        )


ALONE = World()
_worlds = count()  # a program may train several times; each time all processes meet again


@contextmanager
def launched() -> Iterator[World]:
    """The world that the environment speaks of (torchrun writes it), or a world of one."""
    if not several():
        yield World()
        return
    meeting = timedelta(seconds=MEETING)
    store, rank, size = next(dist.rendezvous("env://", timeout=meeting))
    store = dist.PrefixStore(f"octavo/{restarts()}/{next(_worlds)}", store)
    world = World(rank=rank, size=size, local_rank=int(os.environ.get("LOCAL_RANK", "0")), store=store)
    try:
        yield world
    except BaseException as error:
        if (ending := world.leave(error)) is error or ending is None:
            raise
        raise ending from error
    world.leave(None)
    if dist.is_initialized():
        dist.destroy_process_group()


def several() -> bool:
    """Whether this process was started together with others."""
    return all(name in os.environ for name in VARIABLES) and os.environ["WORLD_SIZE"] != "1"


def is_first() -> bool:
    """Whether this process is the first of those that were started together, or the only one."""
    return not several() or os.environ["RANK"] == "0"


def restarts() -> int:
    """How often torchrun has restarted the processes after one of them failed."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def _connection_lost(error: BaseException) -> bool:
    """Whether the error comes from the connection to another process."""
    if isinstance(error, dist.DistError):
        return True
    if not isinstance(error, RuntimeError) or isinstance(error, OctavoError):
        return False
    return any(word in str(error).lower() for word in CONNECTION)


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
        newer = "forward_sync_buffers" in signature(DistributedDataParallel).parameters
        alone: dict[str, Any] = {"forward_sync_buffers" if newer else "broadcast_buffers": False}
        return DistributedDataParallel(model, device_ids=devices, gradient_as_bucket_view=True, **alone)


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
