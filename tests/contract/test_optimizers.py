"""What holds for every registered optimizer under every registered schedule."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from octavo.config import PartConfig
from octavo.config.parts import parts
from octavo.data.batch import Batch
from octavo.model.base import build_model
from octavo.model.config import GPTConfig
from octavo.model.gpt import GPT
from octavo.training import optimizers
from octavo.training.checkpoint import model_tensors, optimizer_tensors, save_checkpoint
from octavo.training.loop import StepInfo, training_steps
from octavo.training.optimizers import Muon, RowAdagrad, matrices_and_rest, orthogonalize

V, T, B = 11, 8, 8
MODEL = GPTConfig.model_validate(
    {
        "layers": 2,
        "width": 16,
        "heads": 2,
        "context": T,
        "qkv_bias": True,
        "dropout": 0.1,
        "ngrams": {"kind": "hashed", "longest": 3, "buckets": 16},
    }
)

# Every kind as it comes, and with options that change what it remembers.
OPTIMIZERS = {kind: config() for kind, config in parts("optimizer").items()}
OPTIMIZERS["sgd with momentum"] = parts("optimizer")["sgd"](momentum=0.9)
SCHEDULES = {kind: config() for kind, config in parts("schedule").items()}
SCHEDULES |= {f"{kind} warmed": config(warmup=3) for kind, config in parts("schedule").items()}


@pytest.fixture(params=OPTIMIZERS)
def optimizer(request: pytest.FixtureRequest) -> PartConfig:
    torch.set_num_threads(1)
    return OPTIMIZERS[request.param]


@pytest.fixture(params=SCHEDULES)
def schedule(request: pytest.FixtureRequest) -> PartConfig:
    return SCHEDULES[request.param]


def batch(step: int, micro: int) -> Batch[np.ndarray]:
    """Each token is followed by the next number."""
    inputs = np.random.default_rng([step, micro]).integers(V, size=(B, T))
    return Batch(inputs, (inputs + 1) % V)


def train(
    model: GPT, built: list[Optimizer], schedule: PartConfig, *, start: int, stop: int, steps: int
) -> Iterator[StepInfo]:
    """Steps start … stop of a run of `steps`."""
    factor = schedule.build(steps=steps)
    return training_steps(model, built, batch, steps=range(start, stop), seed=7, schedule=factor)


def test_the_loss_falls(optimizer: PartConfig, schedule: PartConfig) -> None:
    model = build_model(MODEL, vocab_size=V, seed=0)
    infos = list(train(model, optimizer.build(model), schedule, start=0, stop=40, steps=40))
    losses = [info.loss for info in infos]
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.05
    base = optimizer.learning_rate
    assert [info.learning_rate / base for info in infos] == pytest.approx(
        [schedule.build(steps=40)(step) for step in range(40)]
    )


def test_ten_steps_are_five_and_five(optimizer: PartConfig, schedule: PartConfig, tmp_path: Path) -> None:
    whole = build_model(MODEL, vocab_size=V, seed=0)
    built = optimizer.build(whole)
    expected = list(train(whole, built, schedule, start=0, stop=10, steps=10))

    first = build_model(MODEL, vocab_size=V, seed=0)
    half = optimizer.build(first)
    found = list(train(first, half, schedule, start=0, stop=5, steps=10))
    (tmp_path / "tokenizer").mkdir()
    checkpoint = save_checkpoint(
        tmp_path / "checkpoints",
        5,
        weights=model_tensors(first),
        memory=optimizer_tensors(half),
        state={},
        config="",
        tokenizer=tmp_path / "tokenizer",
        version="0",
    )
    second = build_model(MODEL, vocab_size=V, seed=99)
    resumed = optimizer.build(second)
    checkpoint.verify()
    checkpoint.load_model(second)
    checkpoint.load_optimizers(resumed)
    found += train(second, resumed, schedule, start=5, stop=10, steps=10)

    assert found == expected
    for (name, a), b in zip(second.named_parameters(), whole.parameters(), strict=True):
        assert torch.equal(a, b), name
    states, wanted = optimizer_tensors(resumed), optimizer_tensors(built)
    assert states.keys() == wanted.keys()
    assert all(torch.equal(states[key], wanted[key]) for key in wanted)


@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
def test_the_state_is_as_large_as_said(optimizer: PartConfig, tied: bool) -> None:
    config = MODEL.model_copy(update={"tied": tied})
    model = build_model(config, vocab_size=V, seed=0)
    built = optimizer.build(model)
    list(train(model, built, SCHEDULES["constant"], start=0, stop=1, steps=1))
    counters = {"step"}
    held = sum(
        tensor.numel()
        for name, tensor in optimizer_tensors(built).items()
        if name.rsplit(".", 1)[-1] not in counters
    )
    dense = config.parameters(vocab_size=V) - config.ngrams.parameters(width=config.width)
    said = optimizer.state_size(parameters=dense, matrices=config.block_matrix_parameters())
    assert held == said + config.ngrams.rows


def test_every_parameter_is_in_one_group_and_moves(optimizer: PartConfig) -> None:
    model = build_model(MODEL, vocab_size=V, seed=0)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    built = optimizer.build(model)
    listed = [id(p) for each in built for group in each.param_groups for p in group["params"]]
    assert sorted(listed) == sorted(id(p) for p in model.parameters())
    list(train(model, built, SCHEDULES["constant"], start=0, stop=2, steps=2))
    assert not [name for name, parameter in model.named_parameters() if torch.equal(parameter, before[name])]


def test_sparse_gradients_of_tables_do_what_dense_ones_do(
    optimizer: PartConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The two sum in other orders. In bfloat16 a last bit of that can turn a rounding, and Muon's update with it.
    monkeypatch.setattr(optimizers, "fast_bfloat16", lambda _: False)
    sparse, dense = (build_model(MODEL, vocab_size=V, seed=0) for _ in range(2))
    dense.ngrams.sparse = False  # pyrefly: ignore
    losses = [
        [
            info.loss
            for info in train(model, optimizer.build(model), SCHEDULES["linear"], start=0, stop=5, steps=5)
        ]
        for model in (sparse, dense)
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    for (name, found), wanted in zip(sparse.named_parameters(), dense.parameters(), strict=True):
        torch.testing.assert_close(found, wanted, msg=name)
    assert sparse.ngrams.weight.any()


def test_adagrad_moves_each_row_by_its_own_size() -> None:
    table = nn.Parameter(torch.zeros(3, 2))
    built = RowAdagrad([table], lr=0.1)
    gradient = torch.tensor([[3.0, -3.0], [0.0, 0.0], [1.0, 7.0]])
    for squares, total in ((1.0, 1.0), (2.0, 1.0 + 2**-0.5)):
        table.grad = gradient.clone()
        built.step()
        assert built.state[table]["squares"][:, 0].tolist() == [9.0 * squares, 0.0, 25.0 * squares]
        expected = -0.1 * total * gradient / torch.tensor([[3.0], [1.0], [5.0]])
        torch.testing.assert_close(table.detach(), expected)


def test_scales_and_biases_do_not_decay(optimizer: PartConfig) -> None:
    model = build_model(MODEL, vocab_size=V, seed=0)
    decaying = [
        p
        for each in optimizer.build(model)
        for group in each.param_groups
        if group.get("weight_decay", 0) > 0
        for p in group["params"]
    ]
    assert all(p.ndim >= 2 for p in decaying)


@pytest.mark.parametrize("warmup", [0, 1, 7])
@pytest.mark.parametrize("steps", [10, 11, 100, 1000])
def test_schedules_stay_between_0_and_1_and_end_at_the_floor(steps: int, warmup: int) -> None:
    for kind, config in parts("schedule").items():
        for floor in (0.0, 0.1, 1.0) if "floor" in config.model_fields else (1.0,):
            options = {"floor": floor} if "floor" in config.model_fields else {}
            factor = config(warmup=warmup, **options).build(steps=steps)
            factors = [factor(step) for step in range(steps)]
            assert min(factors) >= 0 and max(factors) <= 1, (kind, floor)
            ends = kind == "constant" or "floor" in config.model_fields  # others fall for ever
            assert not ends or factors[-1] == pytest.approx(floor, abs=1e-12), (kind, floor)
            assert factors[warmup:] == sorted(factors[warmup:], reverse=True), (kind, floor)
            if 10 * warmup <= steps:
                assert factors[:warmup] == sorted(factors[:warmup]), (kind, floor)
            if ends:
                assert factor(steps + 5) == pytest.approx(floor, abs=1e-12), "beyond the end it stays"


# Muon against a slow twin


def twin_step(weight: Tensor, momentum: Tensor, gradient: Tensor, muon: Muon) -> tuple[Tensor, Tensor]:
    """One update of one matrix, written down anew."""
    options = muon.defaults
    momentum = options["momentum"] * momentum + (1 - options["momentum"]) * gradient
    ahead = options["momentum"] * momentum + (1 - options["momentum"]) * gradient
    x = ahead / (ahead.norm() + 1e-7)
    for _ in range(options["rounds"]):
        gram = x @ x.T if len(x) <= x.size(1) else x.T @ x
        mix = -4.7750 * gram + 2.0315 * gram @ gram
        x = 3.4445 * x + (mix @ x if len(x) <= x.size(1) else x @ mix)
    rate = options["lr"] * max(1.0, weight.size(0) / weight.size(1)) ** 0.5
    return weight * (1 - options["lr"] * options["weight_decay"]) - rate * x, momentum


def test_muon_in_batches_is_muon_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimizers, "fast_bfloat16", lambda device: False)
    generator = torch.Generator().manual_seed(0)
    shapes = [((6, 6), None), ((6, 6), None), ((12, 4), None), ((4, 12), None), ((14, 6), (6, 4, 4))]
    weights = [nn.Parameter(torch.randn(shape, generator=generator)) for shape, _ in shapes]
    for weight, (_, blocks) in zip(weights, shapes, strict=True):
        if blocks:
            weight.row_blocks = blocks
    muon = Muon(weights, lr=0.1, momentum=0.9, weight_decay=0.2, rounds=5)
    twins = [
        [(piece, torch.zeros_like(piece)) for piece in w.detach().clone().split(blocks or len(w))]
        for w, (_, blocks) in zip(weights, shapes, strict=True)
    ]
    for _ in range(4):
        for weight in weights:
            weight.grad = torch.randn(weight.shape, generator=generator)
        gradients = [w.grad.split(b or len(w)) for w, (_, b) in zip(weights, shapes, strict=True)]
        twins = [
            [twin_step(*pair, g, muon) for pair, g in zip(pairs, pieces, strict=True)]
            for pairs, pieces in zip(twins, gradients, strict=True)
        ]
        muon.step()
    for weight, pairs in zip(weights, twins, strict=True):
        assert (weight - torch.cat([piece for piece, _ in pairs])).abs().max() <= 1e-5
        momentum = torch.cat([momentum for _, momentum in pairs])
        assert (muon.state[weight]["momentum"] - momentum).abs().max() <= 1e-6


def test_muon_takes_queries_keys_and_values_apart() -> None:
    config = MODEL.model_copy(update={"kv_heads": 1})
    matrices, rest = matrices_and_rest(build_model(config, vocab_size=V, seed=0))
    assert {getattr(p, "row_blocks", None) for p in matrices} == {(16, 8, 8), None}
    assert sum(p.numel() for p in matrices) == config.block_matrix_parameters()
    assert all(p.ndim == 1 or p.shape in {(V, 16), (T, 16)} for p in rest)


@pytest.mark.parametrize(("rows", "columns"), list(product((1, 8, 33), (1, 8, 64))))
@pytest.mark.parametrize("short", [False, True], ids=["float32", "bfloat16"])
def test_orthogonalized_matrices_have_singular_values_near_1(
    rows: int, columns: int, short: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(optimizers, "fast_bfloat16", lambda device: short)
    for scale in (1e-4, 1.0, 1e4):
        stack = scale * torch.randn(5, rows, columns, generator=torch.Generator().manual_seed(0))
        values = torch.linalg.svdvals(orthogonalize(stack))
        assert values.max() < 1.3
        ratio = torch.linalg.svdvals(stack)
        ordinary = ratio > 0.02 * ratio.norm(dim=-1, keepdim=True)  # five rounds do not lift the tiniest
        assert values[ordinary].min() > 0.6


def test_bfloat16_points_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = torch.randn(3, 16, 24, generator=torch.Generator().manual_seed(0))
    found = []
    for short in (False, True):
        monkeypatch.setattr(optimizers, "fast_bfloat16", lambda device, short=short: short)
        found.append(orthogonalize(stack))
    assert found[0].dtype == found[1].dtype == torch.float32
    along = (found[0] * found[1]).sum(dim=(1, 2)) / (found[0].norm(dim=(1, 2)) * found[1].norm(dim=(1, 2)))
    assert along.min() > 0.99 and not torch.equal(*found)


def test_orthogonalize_leaves_a_zero_gradient_zero() -> None:
    assert torch.equal(orthogonalize(torch.zeros(2, 4, 3)), torch.zeros(2, 4, 3))


def test_a_gate_is_pulled_back_the_more_the_less_it_learns_from() -> None:
    """By a pull that is shared out among the tokens held out for it; nothing else of it decays."""
    found = {}
    for length in (20, 200, 2000):
        counts = {"kind": "kneser-ney", "orders": 3, "hidden": 4}
        model = build_model(GPTConfig.model_validate({"counts": counts}), vocab_size=V, seed=0)
        held_out = np.arange(length) % 20 == 0
        model.take_text(np.arange(length) * 7 % V, held_out)
        *_, gate = parts("optimizer")["adamw"](gate_decay=25.0).build(model)
        found[length] = [(group["weight_decay"], group["params"][0].ndim) for group in gate.param_groups]
    pulls = {length: pull for length, ((pull, ndim), plain) in found.items() if (ndim, *plain) == (2, 0.0, 1)}
    assert pulls == {20: 5.0, 200: 2.5, 2000: 0.25}


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (lambda p: optimizers.AdamW(p, fused=True), lambda p: torch.optim.AdamW(p, fused=True)),
        (lambda p: optimizers.SGD(p, momentum=0.9), lambda p: torch.optim.SGD(p, momentum=0.9)),
    ],
)
def test_without_what_is_for_the_compiler_it_moves_as_torchs_own(ours: Any, theirs: Any) -> None:
    found = []
    for make in (ours, theirs):
        weight = nn.Parameter(torch.ones(3, 4))
        optimizer = make([weight])
        for step in range(4):
            weight.grad = torch.linspace(-1, 1 + step, 12).view(3, 4)
            optimizer.step()
            optimizer.zero_grad()
        state = {name: value for name, value in optimizer.state[weight].items() if value is not None}
        found.append((weight.detach(), state))
        assert weight.grad is None
        assert not next(iter(state.values())).requires_grad
    assert torch.equal(found[0][0], found[1][0])
    assert found[0][1].keys() == found[1][1].keys()
    assert all(torch.equal(found[0][1][name], found[1][1][name]) for name in found[0][1])
