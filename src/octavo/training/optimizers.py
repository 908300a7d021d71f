"""Update rules: SGD, AdamW, Muon; row-wise Adagrad for tables that are looked up row by row.

`config.build(model)` gives a list of torch optimizers that share the parameters out among them; every parameter group
keeps its full rate in `base_lr`, which the loop multiplies by the schedule.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn, optim

from octavo.config.parts import LARGEST, PartConfig, Strict, register
from octavo.model.base import block_matrices, gate_parameters, gate_tokens, sparse_parameters, trained
from octavo.training.device import fast_bfloat16
from octavo.training.distributed.parallel import held, part_of, whole

# Newton–Schulz coefficients of Jordan et al. 2024: steep at zero, so five rounds bring all singular values near 1.
_A, _B, _C = 3.4445, -4.7750, 2.0315

MOST_GATE_DECAY = 5.0
"""Beyond this a gate forgets within a few steps what it learns."""


def orthogonalize(matrices: Tensor, *, rounds: int = 5) -> Tensor:
    """The nearest (semi-)orthogonal matrices to a stack (N, R, S), approximately: singular values in about 0.7–1.2.

    In bfloat16 where the hardware has it: the result is rough by design, and this is most of the optimizer's time.
    """
    tall = matrices.size(-2) > matrices.size(-1)
    x = (matrices.mT if tall else matrices).to(
        torch.bfloat16 if fast_bfloat16(matrices.device) else matrices.dtype
    )
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(rounds):
        gram = x @ x.mT
        x = _A * x + torch.baddbmm(_B * gram, gram, gram, alpha=_C) @ x
    return (x.mT if tall else x).to(matrices.dtype)


class Optimizer(optim.Optimizer):
    """torch's own, without what it does for torch.compile: the import of its compiler alone takes a second, which is a
    fourth of a short run."""

    add_param_group = inspect.unwrap(optim.Optimizer.add_param_group)
    zero_grad = inspect.unwrap(optim.Optimizer.zero_grad)
    state_dict = inspect.unwrap(optim.Optimizer.state_dict)
    load_state_dict = inspect.unwrap(optim.Optimizer.load_state_dict)

    def state_shapes(self, parameter: Tensor, group: Mapping[str, Any]) -> dict[str, tuple[int, ...]] | None:
        """Shapes of the tensors that are kept for a parameter of a group once it was updated; None where unknown."""
        return None


class AdamW(Optimizer, optim.AdamW):
    """The same of torch's AdamW."""

    step = torch.no_grad()(inspect.unwrap(optim.AdamW.step))

    def state_shapes(self, parameter: Tensor, group: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
        shape = tuple(parameter.shape)
        return {"step": (), "exp_avg": shape, "exp_avg_sq": shape}


class SGD(Optimizer, optim.SGD):
    """The same of torch's gradient descent."""

    step = torch.no_grad()(inspect.unwrap(optim.SGD.step))

    def state_shapes(self, parameter: Tensor, group: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
        return {"momentum_buffer": tuple(parameter.shape)} if group["momentum"] else {}


class Muon(Optimizer):
    """Momentum, orthogonalized (Jordan et al. 2024), for matrices; equal shapes are orthogonalized in one batch.

    A parameter whose `row_blocks` are set is several matrices under one name and treated as such.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        *,
        lr: float,
        momentum: float,
        weight_decay: float,
        rounds: int,
    ) -> None:
        super().__init__(
            parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "rounds": rounds}
        )

    def state_shapes(self, parameter: Tensor, group: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
        return {"momentum": tuple(parameter.shape)}

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update of all parameters that have a gradient."""
        assert closure is None
        for group in self.param_groups:
            members = [p for p in group["params"] if p.grad is not None]
            for parameter in members:
                if "momentum" not in self.state[parameter]:
                    self.state[parameter]["momentum"] = torch.zeros_like(parameter)
            gradients = [p.grad for p in members]
            momenta = [self.state[p]["momentum"] for p in members]
            torch._foreach_lerp_(momenta, gradients, 1 - group["momentum"])
            updates = [gradient.clone() for gradient in gradients]  # parts of matrices know no _foreach_lerp
            torch._foreach_lerp_(updates, momenta, group["momentum"])  # Nesterov: look ahead
            by_shape: dict[tuple[int, ...], list[tuple[Tensor, Tensor]]] = defaultdict(list)
            wholes = [whole(p) for p in members]  # a part of a matrix cannot be orthogonalized
            for parameter, full, update in zip(members, wholes, updates, strict=True):
                blocks = getattr(parameter, "row_blocks", (parameter.size(0),))
                for target, matrix in zip(full.split(blocks), whole(update).split(blocks), strict=True):
                    by_shape[tuple(matrix.shape)].append((target, matrix))
            for (rows, columns), pairs in by_shape.items():
                targets = [target for target, _ in pairs]
                straight = orthogonalize(torch.stack([matrix for _, matrix in pairs]), rounds=group["rounds"])
                torch._foreach_mul_(targets, 1 - group["lr"] * group["weight_decay"])
                # A tall matrix's update is scaled up, so that each output moves as far as in a square one.
                rate = group["lr"] * max(1.0, rows / columns) ** 0.5
                if isinstance(rate, Tensor):  # of a recorded step, which reads it anew each time
                    torch._foreach_sub_(targets, list((straight * rate).unbind()))
                else:
                    torch._foreach_add_(targets, list(straight.unbind()), alpha=-rate)
            for parameter, full in zip(members, wholes, strict=True):
                if full is not parameter:
                    parameter.copy_(part_of(full, parameter))


class RowAdagrad(Optimizer):
    """Adagrad (Duchi et al. 2011) with one step size for each row of a table, as recommender systems train theirs.

    A row that no token of the batch looked up stays as it is, and costs nothing where the gradient is sparse.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], *, lr: float, eps: float = 1e-10) -> None:
        super().__init__(parameters, {"lr": lr, "eps": eps})

    def state_shapes(self, parameter: Tensor, group: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
        return {"squares": (len(parameter), 1)}

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update of all rows that have a gradient."""
        assert closure is None
        for group in self.param_groups:
            for table in group["params"]:
                if table.grad is None:
                    continue
                state = self.state[table]
                if "squares" not in state:
                    state["squares"] = torch.zeros_like(table[:, :1])
                kept, (rows, gradient) = held(state["squares"]), rows_of(held(table.grad))
                squares = kept[rows] + gradient.square().mean(dim=1, keepdim=True)
                kept[rows] = squares
                moved = gradient / (squares.sqrt() + group["eps"])
                held(table).index_add_(0, rows, moved, alpha=-group["lr"])


def rows_of(gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Which rows of a table have a gradient (R,), and theirs (R, C)."""
    if gradient.is_sparse:
        gradient = gradient.coalesce()
        return gradient.indices()[0], gradient.values()
    rows = gradient.any(dim=1).nonzero()[:, 0]
    return rows, gradient[rows]


def tables_and_rest(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """(tables that are looked up row by row, everything else but gates) of what is trained, each parameter once."""
    tables = trained(sparse_parameters(model))
    inside = {id(p) for p in (*tables, *gate_parameters(model))}
    return tables, [p for p in trained(model.parameters()) if id(p) not in inside]


def matrices_and_rest(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """(matrices inside the blocks, everything else but tables), each parameter once."""
    _, dense = tables_and_rest(model)
    inside = {id(p) for p in block_matrices(model)}
    return [p for p in dense if id(p) in inside], [p for p in dense if id(p) not in inside]


def decay_groups(parameters: Iterable[nn.Parameter], *, weight_decay: float) -> list[dict[str, Any]]:
    """Parameter groups in which only matrices and tables decay, not scales and biases."""
    listed = list(parameters)
    groups = [
        {"params": [p for p in listed if p.ndim >= 2], "weight_decay": weight_decay},
        {"params": [p for p in listed if p.ndim < 2], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def with_base_rates(optimizers: list[Optimizer]) -> list[Optimizer]:
    """Note every group's full learning rate, which schedules multiply."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["base_lr"] = group["lr"]
    return optimizers


class OptimizerConfig(PartConfig):
    """Base of the optimizers: tables go to row-wise Adagrad, and a gate over counts to an AdamW of its own. The names
    of all learning rates end in `rate`: a ladder of studies multiplies them by one factor."""

    table_rate: float = Field(0.05, gt=0, le=LARGEST)
    """Step size of tables that are looked up row by row, such as those of n-grams, where the model has any."""

    gate_rate: float = Field(0.003, gt=0, le=LARGEST)
    """Step size of the gate that mixes counts with the network, where the model has one."""

    gate_decay: float = Field(12_000.0, ge=0, le=LARGEST)
    """Pull of the gate's matrices toward zero, divided by the tokens that it learns from: fewer tell it less."""

    def build(self, model: nn.Module) -> list[Optimizer]:
        """The optimizers; the first is the main one."""
        tables, gates = trained(sparse_parameters(model)), trained(gate_parameters(model))
        rows = [RowAdagrad(tables, lr=self.table_rate)] if tables else []
        decay = min(MOST_GATE_DECAY, self.gate_decay / max(1, gate_tokens(model)))
        mixing = AdamSettings(learning_rate=self.gate_rate, weight_decay=decay)
        return with_base_rates([*self.dense(model), *rows, *([mixing.over(gates)] if gates else [])])

    @abstractmethod
    def dense(self, model: nn.Module) -> list[Optimizer]:
        """Optimizers of everything but tables."""

    @abstractmethod
    def state_size(self, *, parameters: int, matrices: int) -> int:
        """Numbers in its state, for a model's parameters and those of them in the blocks' matrices."""


@register("optimizer")
class SGDConfig(OptimizerConfig):
    """Stochastic gradient descent (report B, without momentum)."""

    kind: Literal["sgd"] = "sgd"
    learning_rate: float = Field(0.1, gt=0, le=LARGEST)
    """Step size."""
    momentum: float = Field(0.0, ge=0, lt=1)
    """Share of the last update that is kept."""
    weight_decay: float = Field(0.0, ge=0, le=LARGEST)
    """Pull of the weights toward zero."""

    def dense(self, model: nn.Module) -> list[Optimizer]:
        groups = decay_groups(tables_and_rest(model)[1], weight_decay=self.weight_decay)
        return [SGD(groups, lr=self.learning_rate, momentum=self.momentum)]

    def state_size(self, *, parameters: int, matrices: int) -> int:
        return parameters if self.momentum else 0


Memory = Annotated[float, Field(ge=0, lt=1)]
"""The share of its old value that a moving average keeps at each step."""


class AdamSettings(Strict):
    """Adam's settings, alone or next to Muon."""

    learning_rate: float = Field(1e-3, gt=0, le=LARGEST)
    """Step size."""
    betas: tuple[Memory, Memory] = (0.9, 0.99)
    """Memory of the mean and of the square of the gradient."""
    eps: float = Field(1e-8, gt=0, le=1)
    """Added to the root of the square."""
    weight_decay: float = Field(0.1, ge=0, le=LARGEST)
    """Pull of matrices toward zero."""

    def over(self, parameters: Iterable[nn.Parameter]) -> Optimizer:
        """One optimizer over just these parameters."""
        groups = decay_groups(parameters, weight_decay=self.weight_decay)
        return AdamW(groups, lr=self.learning_rate, betas=self.betas, eps=self.eps, fused=True)


@register("optimizer")
class AdamWConfig(OptimizerConfig, AdamSettings):
    """Adam with decoupled weight decay (Loshchilov & Hutter 2017), fused."""

    kind: Literal["adamw"] = "adamw"

    def dense(self, model: nn.Module) -> list[Optimizer]:
        return [self.over(tables_and_rest(model)[1])]

    def state_size(self, *, parameters: int, matrices: int) -> int:
        """Two moments for each parameter."""
        return 2 * parameters


class RestConfig(AdamSettings):
    """AdamW next to Muon."""

    learning_rate: float = Field(3e-3, gt=0, le=LARGEST)
    """Step size."""
    weight_decay: float = Field(0.0, ge=0, le=LARGEST)
    """Pull of matrices toward zero."""


@register("optimizer")
class MuonConfig(OptimizerConfig):
    """Muon for the blocks' matrices, AdamW for embeddings, head, scales and biases."""

    kind: Literal["muon"] = "muon"
    learning_rate: float = Field(0.02, gt=0, le=LARGEST)
    """Step size of the matrices."""
    momentum: float = Field(0.95, ge=0, lt=1)
    """Memory of the matrices' gradients."""
    weight_decay: float = Field(0.0, ge=0, le=LARGEST)
    """Pull of the matrices toward zero."""
    rounds: int = Field(5, ge=1, le=10)
    """Newton–Schulz rounds."""
    rest: RestConfig = Field({}, validate_default=True)
    """AdamW for everything else."""

    def dense(self, model: nn.Module) -> list[Optimizer]:
        matrices, rest = matrices_and_rest(model)
        muon = Muon(
            matrices,
            lr=self.learning_rate,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            rounds=self.rounds,
        )
        return [muon, *([self.rest.over(rest)] if rest else [])]

    def state_size(self, *, parameters: int, matrices: int) -> int:
        """One momentum for matrices, two moments for the rest."""
        return matrices + 2 * (parameters - matrices)
