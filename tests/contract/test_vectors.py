"""What holds for every model of rows of numbers: all heads, with and without a mass at zero, chained or not."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import save_file
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from octavo.config.parts import parts
from octavo.data.batch import Batch, SideInputs
from octavo.model.base import build_model
from octavo.model.config import GPTConfig
from octavo.model.gpt import GPT
from octavo.model.heads import VectorOutputConfig
from octavo.model.vectors import calibrate
from octavo.tasks.forecast.batches import SeriesBatchesConfig
from octavo.tasks.forecast.objective import Forecast, ForecastConfig, Pinball, head_of
from octavo.training.checkpoint import Checkpoint, model_tensors
from octavo.training.estimate import estimate_step
from octavo.training.optimizers import AdamWConfig

D, T, B = 3, 8, 2
HEADS = [kind for kind, config in parts("output").items() if issubclass(config, VectorOutputConfig)]
SWITCHES = list(product(["independent", "chained"], [False, True], ["difference", "value"]))


def rows(seed: int = 0) -> Tensor:
    """A walk with a gap and with zeros, (B, T + 1, D)."""
    found = torch.randn(B, T + 1, D, generator=torch.Generator().manual_seed(seed)).cumsum(dim=1) + 5
    found[0, 3, 1] = float("nan")
    found[1, 4:6, 2] = 0.0
    return found


def built(kind: str, channels: str, zero: bool, predict: str, seed: int = 1) -> tuple[GPTConfig, GPT]:
    head = {"kind": kind, "channels": channels, "zero": zero, "predict": predict}
    shape = {"layers": 1, "width": 16, "heads": 2, "context": T, "input": {"kind": "linear", "lags": 3}}
    config = GPTConfig.model_validate(shape | {"output": head})
    model = build_model(config, vocab_size=D, seed=seed)
    with torch.no_grad():
        torch.manual_seed(2)
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    calibrate(model, rows(9).flatten(0, 1).numpy())
    return config, model.eval()


def batch_of(found: Tensor) -> Batch[Tensor]:
    return Batch(found[:, :-1], torch.zeros(B, T, dtype=torch.long), values=found[:, 1:].clone())


@pytest.mark.parametrize("kind", HEADS)
def test_losses_gradients_and_counts(kind: str) -> None:
    for channels, zero, predict in SWITCHES:
        config, model = built(kind, channels, zero, predict)
        loss = Forecast().loss(model, batch_of(rows())).total
        loss.backward()
        assert torch.isfinite(loss)
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None and torch.isfinite(parameter.grad).all(), name
        count = sum(parameter.numel() for parameter in model.parameters())
        assert config.parameters(vocab_size=D) == count
        outside = count - sum(p.numel() for p in model.lm_head.parameters())
        assert config.parameters(vocab_size=D, head=False) == outside
        matrices = [p for n, p in model.named_parameters() if p.ndim > 1 and not n.startswith("positions")]
        assert config.matrix_parameters(vocab_size=D) == sum(p.numel() for p in matrices)


@torch.no_grad()
@pytest.mark.parametrize("kind", HEADS)
def test_flops_are_those_that_torch_counts(kind: str) -> None:
    for channels, zero, predict in SWITCHES:
        config, _ = built(kind, channels, zero, predict)
        model = build_model(config, vocab_size=D, seed=0, explicit_attention=True)
        batch = batch_of(rows())
        with FlopCounterMode(display=False) as counter:
            model(batch.inputs, side=SideInputs(values=batch.values))
        assert counter.get_total_flops() == B * T * config.forward_flops(vocab_size=D), (
            channels,
            zero,
            predict,
        )


@pytest.mark.parametrize("kind", HEADS)
@torch.no_grad()
def test_no_output_depends_on_a_later_row_and_a_cache_changes_nothing(kind: str) -> None:
    for channels, zero, predict in SWITCHES:
        _, model = built(kind, channels, zero, predict)
        whole, changed = rows()[:, :-1], rows()[:, :-1].clone()
        changed[:, 5] += 1
        expected = model(whole)
        assert torch.equal(model(changed)[:, :5], expected[:, :5])
        cache = model.new_cache(B)
        found = torch.cat([model(piece, cache) for piece in whole.split([3, 1, 4], dim=1)], dim=1)
        assert (found - expected).abs().max() < 1e-5


@torch.no_grad()
@pytest.mark.parametrize("kind", HEADS)
def test_a_channel_sees_those_before_it_alone(kind: str) -> None:
    _, model = built(kind, "chained", True, "difference")
    before, after = batch_of(rows()), batch_of(rows())
    assert before.values is not None and after.values is not None
    after.values[:, :, 1] += 0.5
    losses = [Forecast().each(model, batch) for batch in (before, after)]
    moved = [(losses[0][..., channel] - losses[1][..., channel]).abs().max().item() for channel in range(D)]
    assert moved[0] < 1e-5 < 1e-3 < min(moved[1:]), moved


@torch.no_grad()
@pytest.mark.parametrize("kind", HEADS)
def test_what_is_drawn_has_the_density_that_is_said(kind: str) -> None:
    """Mean and spread of draws, beside the density on a grid; chained channels too, and the mass at zero."""
    for channels in ("independent", "chained"):
        _, model = built(kind, channels, True, "difference")
        head, many = head_of(model), 4000
        seen = rows()[:1, :-1].expand(many, -1, -1)
        pieces = model(rows()[:1, :-1])[:, -1].expand(many, -1)
        drawn = head.draw(pieces, seen, torch.Generator().manual_seed(0))
        zero = (drawn[:, 0] == 0).double().mean().item()
        grid = torch.full((1, T, D), float("nan")).repeat(2001, 1, 1)
        reach = 15 * head.scale[0].item()
        places = seen[0, -1, 0] + torch.linspace(-reach, reach, 2001)
        grid[:, -1, 0] = places
        inputs = rows()[:1, :-1].expand(2001, -1, -1)
        batch = Batch(inputs, torch.zeros(2001, T, dtype=torch.long), values=grid)
        density = (-Forecast().each(model, batch)[:, -1, 0].double()).exp()
        mass = torch.trapezoid(density, places.double()).item()
        assert abs(mass + zero - 1) < 0.05, (channels, mass, zero)
        inside = (drawn[:, 0] != 0) & (drawn[:, 0] < places[1000])
        below = torch.trapezoid(density[:1001], places[:1001].double()).item()
        assert abs(inside.double().mean().item() - below) < 0.05


@pytest.mark.parametrize("kind", HEADS)
def test_constants_are_saved_with_the_weights(kind: str, tmp_path: Path) -> None:
    _, model = built(kind, "chained", True, "difference")
    config, other = built(kind, "chained", True, "difference", seed=5)
    calibrate(other, 100 * np.random.default_rng(0).normal(size=(50, D)))
    save_file(model_tensors(model), tmp_path / "model.safetensors")
    Checkpoint(tmp_path).load_model(other)
    assert torch.equal(other.lm_head.scale, model.lm_head.scale)
    assert torch.equal(other(rows()[:, :-1]), model(rows()[:, :-1]))
    assert config.takes_vectors


def test_a_number_that_is_missing_costs_nothing() -> None:
    _, model = built("gaussian", "independent", False, "difference")
    batch = batch_of(rows())
    assert batch.values is not None
    losses = Forecast().each(model, batch)
    assert losses[0, 2, 1] == 0 and (losses[:, :, 0] != 0).all()


@torch.no_grad()
@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("units", [(1e-6, 1.0, 1000.0), (1e-15, 1e12, 1.0)])
def test_losses_and_draws_are_in_each_channels_own_unit(kind: str, units: tuple[float, ...]) -> None:
    """Numbers a thousand times as large are ln 1000 less likely each, whatever the model, and where zero lies does not
    matter."""
    scale = torch.tensor(units, dtype=torch.float64)
    shift = torch.tensor([3.0, -20.0, 7.0], dtype=torch.float64) * scale

    def told(found: Tensor) -> Tensor:
        return (found.double().where(found != 0, 0.5) * scale + shift).float()  # a zero would have a meaning

    for channels, _, predict in SWITCHES:
        _, model = built(kind, channels, False, predict)
        calibrate(model, rows(9).where(rows(9) != 0, 0.5).flatten(0, 1).numpy())
        seen = rows().where(rows() != 0, 0.5)
        losses, drawn = Forecast().each(model, batch_of(seen)), one_row(model, seen)
        calibrate(model, told(rows(9)).flatten(0, 1).numpy())
        moved = Forecast().each(model, batch_of(told(rows()))) - losses
        expected = scale.log().float().expand_as(moved)
        there = losses != 0
        assert torch.allclose(moved[there], expected[there], atol=0.01), (channels, predict)
        again = (one_row(model, told(rows())).double() - shift) / scale
        assert torch.allclose(again, drawn.double(), atol=0.01), (channels, predict)


def one_row(model: GPT, seen: Tensor) -> Tensor:
    """What is drawn after the rows (B, T + 1, D) but the last."""
    head, before = head_of(model), seen[:, :-1]
    return head.draw(model(before)[:, -1], before, torch.Generator().manual_seed(3))


def test_the_pinball_loss_learns_too() -> None:
    _, model = built("quantiles", "independent", False, "difference")
    Pinball().loss(model, batch_of(rows())).total.backward()
    assert model.lm_head.weight.grad is not None and model.lm_head.weight.grad.abs().max() > 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"input": "linear"},
        {"output": "gaussian"},
        {"input": "linear", "output": "gaussian", "tied": True},
        {"input": "linear", "output": "gaussian", "logit_softcap": 3.0},
        {"input": "linear", "output": "gaussian", "ngrams": "hashed"},
    ],
    ids=str,
)
def test_what_does_not_go_together_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="tokens"):
        GPTConfig.model_validate(wrong)


@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("zero", [False, True])
def test_a_plan_knows_what_a_step_needs(kind: str, zero: bool) -> None:
    """Without a value of any tensor, for none is made."""
    model = built(kind, "chained", zero, "difference")[0]
    memory = estimate_step(
        model, AdamWConfig(), vocab_size=1, rows=B, objective=ForecastConfig(), batches=SeriesBatchesConfig()
    ).memory
    assert memory.total > memory.weights > 0


@pytest.mark.parametrize("kind", HEADS)
def test_a_channel_that_is_never_there_twice_in_a_row_is_learned(kind: str) -> None:
    _, model = built(kind, "independent", False, "difference")
    walk = np.random.default_rng(0).normal(size=(400, D)).cumsum(axis=0).astype(np.float32)
    walk[::2, 0] = np.nan
    walk[200, 0] = walk[201, 0]  # once it is, and this step of zero is no scale
    calibrate(model, walk)
    head = head_of(model)
    assert 0.5 < float(head.scale[0] / head.scale[1]) < 3
    block = torch.from_numpy(walk[: B * (T + 1)].reshape(B, T + 1, D))
    loss = Forecast().loss(model, batch_of(block)).total / (B * T)
    loss.backward()
    assert all(p.grad is None or bool(p.grad.isfinite().all()) for p in model.parameters()) and loss < 100
