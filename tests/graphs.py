"""A GPU's graphs, played on the processor: what is recorded is done again on the same memory when it is replayed.

So what is trained and written on a GPU is checked where there is none. As there, nothing happens while it is recorded,
numbers of Python stay what they were, and to ask a tensor for its value is to wait.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

ASKS = ("_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_dim", "is_nonzero")
"""Operations that need to know what stands in a tensor."""


def asks(operation: Any, arguments: Any) -> bool:
    """Whether it makes a GPU wait."""
    name = operation._schema.name.split("::")[1]
    by_mask = name in ("index", "index_put", "index_put_", "_index_put_impl_") and any(
        each is not None and each.dtype in (torch.bool, torch.uint8) for each in arguments[1]
    )
    return by_mask or name in ASKS


class Strict(TorchDispatchMode):
    """Waiting is an error."""

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if asks(operation, args):
            raise RuntimeError("called a synchronizing CUDA operation")
        return operation(*args, **kwargs or {})


class Recording(TorchDispatchMode):
    """Operations are noted; what stood in memory before stands there again afterwards."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph, self.before, self.own = graph, {}, set()

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        assert not asks(operation, args), f"{operation} waits while it is recorded"
        for argument, given in zip(operation._schema.arguments, args, strict=False):
            if argument.alias_info is not None and argument.alias_info.is_write:
                for tensor in tensors(given):
                    self.keep(tensor)
        for tensor in tensors(kwargs.get("out")):
            self.keep(tensor)
        found = operation(*args, **kwargs)
        self.own |= {memory(each) for each in tensors(found)} - {
            memory(each) for each in tensors((args, kwargs))
        }
        self.graph.done.append((operation, args, kwargs, found))
        return found

    def keep(self, tensor: Tensor) -> None:
        """What stands in memory that is not the graph's own."""
        if memory(tensor) not in self.own and memory(tensor) not in self.before:
            held = tensor.untyped_storage()
            self.before[memory(tensor)] = (held, held.clone())

    def restore(self) -> None:
        """Nothing has happened; what the graph makes is not there yet."""
        for held, kept in self.before.values():
            held.copy_(kept)
        for *_, found in self.graph.done:
            for each in tensors(found):
                if memory(each) in self.own and each.is_floating_point():
                    each.detach().fill_(float("nan"))


class Graph:
    """In the place of `torch.cuda.CUDAGraph`."""

    def __init__(self) -> None:
        self.done: list[tuple[Any, Any, Any, Any]] = []
        self.replays = 0

    def replay(self) -> None:
        """All of it again, in the same memory."""
        self.replays += 1
        with torch.no_grad():
            for operation, args, kwargs, expected in self.done:
                given = {memory(each) for each in tensors((args, kwargs))}
                found = operation(*args, **kwargs)
                for one, other in zip(tensors(found), tensors(expected), strict=True):
                    if memory(other) not in given:
                        other.detach().copy_(one)


def memory(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


def tensors(given: Any) -> list[Tensor]:
    return [each for each in tree_leaves(given) if isinstance(each, Tensor)]


@contextmanager
def recording(graph: Graph, **_: Any) -> Iterator[None]:
    """In the place of `torch.cuda.graph`."""
    drawn, mode = torch.get_rng_state(), Recording(graph)
    with mode:
        yield
    mode.restore()
    torch.set_rng_state(drawn)


class Event:
    """In the place of `torch.cuda.Event`."""

    def record(self) -> None: ...

    def synchronize(self) -> None: ...


class Debug:
    """In the place of the mode in which waiting is an error."""

    def __init__(self) -> None:
        self.strict: Strict | None = None

    def __call__(self, mode: str) -> None:
        if self.strict is not None:
            self.strict.__exit__(None, None, None)
            self.strict = None
        if mode == "error":
            self.strict = Strict()
            self.strict.__enter__()


def play_graphs(patch: pytest.MonkeyPatch) -> list[Graph]:
    """Let the processor stand for a GPU until the test is over; the graphs that it makes."""
    made: list[Graph] = []

    def graph() -> Graph:
        made.append(Graph())
        return made[-1]

    cuda: dict[str, Any] = {
        "CUDAGraph": graph,
        "Event": Event,
        "graph": recording,
        "graph_pool_handle": lambda: None,
        "synchronize": lambda device=None: None,
        "get_rng_state": lambda device=None: torch.get_rng_state(),
        "set_rng_state": lambda state, device=None: torch.set_rng_state(state),
        "set_sync_debug_mode": Debug(),
    }
    for name, stands in cuda.items():
        patch.setattr(torch.cuda, name, stands)
    patch.setattr(Tensor, "pin_memory", lambda self: self.clone())
    adam = importlib.import_module("torch.optim.adam")
    patch.setattr(adam, "_get_capturable_supported_devices", lambda *_, **__: ["cpu"])
    patch.setattr("octavo.training.step.has_graphs", lambda device: True)
    patch.setattr("octavo.model.attention.fits", lambda *_: False)  # torch sees nothing of a kernel's work
    return made
