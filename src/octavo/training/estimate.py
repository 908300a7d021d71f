"""A training step without numbers: what it will hold, move and start, known before a byte is taken.

The step is the real one (model, loss, optimizer) on tensors that have shapes but no content, and every operation is
watched; so the figures follow every part and every option without a formula of their own, on any machine.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from octavo.config import PartConfig
from octavo.data.batch import Batch
from octavo.data.batches import WindowsConfig
from octavo.model.adapters import NoAdaptersConfig
from octavo.model.base import (
    FLOAT_BYTES,
    LanguageModel,
    ModelConfig,
    table_parameters,
    table_parts,
    trained,
    without_tables,
)
from octavo.training.device import autocast
from octavo.training.objective import NextTokenConfig
from octavo.training.recompute import recompute_blocks
from octavo.util.memory import KEPT_BY_ALLOCATOR

CPU = torch.device("cpu")
WINDOWS, NEXT_TOKEN, ALL_TRAINED = WindowsConfig(), NextTokenConfig(), NoAdaptersConfig()


def _attention_flops(q: Tensor, k: Tensor, v: Tensor, *args: Any, **kwargs: Any) -> int:
    """Two products, of all heads of the queries."""
    return 2 * q.shape[:3].numel() * k.shape[2] * (q.shape[3] + v.shape[3])


def _attention_backward_flops(
    gradient: Tensor, q: Tensor, k: Tensor, v: Tensor, *args: Any, **kwargs: Any
) -> int:
    """Five: the scores anew, and the gradients of scores, values, queries and keys."""
    return 2 * q.shape[:3].numel() * k.shape[2] * (3 * q.shape[3] + 2 * v.shape[3])


PRODUCTS: dict[Any, Callable[..., int]] = {
    **flop_registry,  # which leaves out the CPU's attention; torch 2.9 counts none of grouped queries
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention_flops,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward_flops,
}


@dataclass(frozen=True)
class Memory:
    """Bytes that training holds at its peak, part by part.

    Attributes:
        activations: what the worst moment of a step holds next to the other three: what the forward pass keeps for the
            backward pass, and what is being computed just then.
        allocator: freed memory that the C library keeps, on a CPU.
        reference: weights of the model that the run started from, where the objective asks it too.
    """

    weights: int
    gradients: int
    optimizer: int
    activations: int
    allocator: int = 0
    reference: int = 0

    @property
    def total(self) -> int:
        learned = self.weights + self.gradients + self.optimizer
        return learned + self.activations + self.allocator + self.reference


@dataclass(frozen=True)
class Work:
    """What a processor is asked for.

    Attributes:
        flops: floating-point operations of the matrix products, those that recomputing repeats included.
        moved: bytes that all other operations read and write.
        operations: of both kinds, each of which has to be started; views are none.
    """

    flops: int
    moved: int
    operations: int


@dataclass(frozen=True)
class StepEstimate:
    """What one optimizer step takes.

    Attributes:
        part: forward and backward pass over one part of a batch.
        update: the optimizer's update, after all parts.
    """

    memory: Memory
    part: Work
    update: Work


# Half a second each, and a plan asks for its memory what its prediction asked for its time.
@lru_cache(maxsize=64)
def estimate_step(
    config: ModelConfig,
    optimizer: PartConfig,
    *,
    vocab_size: int,
    rows: int,
    accumulates: bool = False,
    recompute: bool = False,
    precision: str = "float32",
    device: torch.device = CPU,
    objective: PartConfig = NEXT_TOKEN,
    batches: PartConfig = WINDOWS,
    adapters: PartConfig = ALL_TRAINED,
    added: int = 0,
) -> StepEstimate:
    """One step, with `rows` sequences of T positions at once; `accumulates` where a step has more than one such part.
    What a batch holds besides, such as segments, for which attention needs a mask, `batches` tell.

    The tensors pretend to lie on the CPU also where `device` is an accelerator, whose fused attention keeps no weights
    even with dropout, and whose bfloat16 is autocast's. A CPU's kernel keeps none either.
    """
    example = batches.example(rows, config.context).widened(vocab_size).to(CPU)
    config = config.as_estimated(device, segments=(example.segments, example.prefix) != (None, None))
    tables = tables_of(config, rows=rows, stay=adapters.kind != "none")
    learns, start = objective.build(), FLOAT_BYTES * config.parameters(vocab_size=vocab_size)
    config = without_tables(config)
    with FakeTensorMode():
        model = _built(config, adapters, vocab_size=vocab_size, added=added, recompute=recompute)
        parameters, optimizers, batch = list(model.parameters()), optimizer.build(model), _zeros_like(example)
        weights = _bytes(parameters)
        for parameter in trained(parameters) if accumulates else ():
            parameter.grad = torch.zeros_like(parameter)
        part, update = OperationCounter(), OperationCounter()
        part.hold([*parameters, *model.buffers(), *_gradients(parameters)])
        with part:
            with arithmetic(precision, device):
                loss = learns.loss(model, batch).total / batch.targets.numel()
            loss.backward()
        del loss
        gradients = _gradients(parameters)
        _update(optimizers)  # the first one makes the state
        state = _bytes(_state(optimizers))
        update.hold([*parameters, *gradients, *_state(optimizers)])
        before, learned = update.held, _bytes(gradients)
        with update:
            _update(optimizers)
    activations = max(part.peak - weights - learned, update.peak - before)
    return StepEstimate(
        memory=Memory(
            weights=weights + tables.weights,
            gradients=learned + tables.gradients,
            optimizer=state + tables.optimizer,
            activations=activations,
            allocator=min(activations, KEPT_BY_ALLOCATOR) if device.type == "cpu" else 0,
            reference=start * learns.asks_start,
        ),
        part=part.work,
        update=update.work,
    )


def _built(
    config: ModelConfig, adapters: PartConfig, *, vocab_size: int, added: int, recompute: bool
) -> LanguageModel:
    model = config.build(vocab_size=vocab_size).train()
    adapters.attach(model, added=added, seed=0)
    if recompute:
        recompute_blocks(model)
    return model


def _update(optimizers: Iterable[torch.optim.Optimizer]) -> None:
    for one in optimizers:
        one.step()


def _zeros_like(batch: Batch[Tensor]) -> Batch[Tensor]:
    """The same fields, by the rules of the mode that is on: without content, in a fake one."""
    shapes = [(name, value.shape, value.dtype) for name, value in batch.items()]
    return Batch(**{name: torch.zeros(shape, dtype=dtype) for name, shape, dtype in shapes})


def _gradients(parameters: Iterable[Tensor]) -> list[Tensor]:
    return [p.grad for p in parameters if p.grad is not None]


def tables_of(config: ModelConfig, *, rows: int, stay: bool = False) -> Memory:
    """What tables take: their gradients are sparse, which shapes alone cannot be, so they are counted. `stay`: they are
    not trained."""
    parts = table_parts(config).values()
    looked_up = rows * config.context * sum(part.tables * config.width for part in parts)
    return Memory(
        weights=FLOAT_BYTES * table_parameters(config),
        gradients=0 if stay else FLOAT_BYTES * looked_up,
        optimizer=0 if stay else FLOAT_BYTES * sum(part.rows for part in parts),
        activations=0,
    )


def arithmetic(precision: str, device: torch.device) -> AbstractContextManager[Any]:
    """What `precision` means on `device`, for tensors that pretend to lie on the CPU."""
    if device.type == "cpu" or precision == "float32":
        return autocast(precision, CPU)
    return torch.autocast("cpu", dtype=torch.bfloat16)


class OperationCounter(TorchDispatchMode):
    """Counts what the operations within hold at most, move and are."""

    def __init__(self) -> None:
        super().__init__()
        self.held = self.peak = self.flops = self.moved = self.operations = 0
        self._alive: dict[int, weakref.ref[torch.UntypedStorage]] = {}

    @cached_property
    def work(self) -> Work:
        """The sums, once it is over."""
        return Work(flops=self.flops, moved=self.moved, operations=self.operations)

    def hold(self, tensors: Iterable[Tensor]) -> None:
        """Count the memory behind `tensors`, each piece once, until it is let go."""
        for tensor in tensors:
            storage = tensor.untyped_storage()
            known = self._alive.get(storage._cdata)
            if known is not None and known() is not None:
                continue
            size = storage.nbytes()
            self._alive[storage._cdata] = weakref.ref(storage, lambda _, size=size: self._let_go(size))
            self.held += size
        self.peak = max(self.peak, self.held)

    def _let_go(self, size: int) -> None:
        self.held -= size

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Do the operation and note it."""
        result = func(*args, **(kwargs or {}))
        read, written = _tensors((args, kwargs)), _tensors(result)
        self.hold(written)
        own = {tensor.untyped_storage()._cdata for tensor in read}
        if func.namespace == "aten" and (
            func._schema.is_mutable or any(tensor.untyped_storage()._cdata not in own for tensor in written)
        ):
            self.operations += 1
            count = PRODUCTS.get(func._overloadpacket)
            if count is not None:
                self.flops += count(*args, **(kwargs or {}), out_val=result)
            else:
                changed = [
                    value for value, spec in zip(args, func._schema.arguments, strict=False) if _writes(spec)
                ]
                self.moved += sum(_touched(tensor) for tensor in [*read, *(_tensors(changed) or written)])
        return result


def _writes(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def _touched(tensor: Tensor) -> int:
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum({(s := tensor.untyped_storage())._cdata: s.nbytes() for tensor in tensors}.values())


def _state(optimizers: Iterable[torch.optim.Optimizer]) -> list[Tensor]:
    return [tensor for one in optimizers for tensor in _tensors(dict(one.state))]
