"""The distributions of a head, beside closed forms and scipy's."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from octavo.model.families import Bins, Family, Gaussian, Mixture, Quantiles, StudentT

stats = pytest.importorskip("scipy.stats")

FLOOR = 1e-3
FAMILIES: dict[str, Family] = {
    "gaussian": Gaussian(floor=FLOOR),
    "student-t": StudentT(floor=FLOOR),
    "mixture": Mixture(components=3, floor=FLOOR),
    "quantiles": Quantiles(levels=9, floor=FLOOR),
    "bins": Bins(bins=32, limit=6.0),
}


def raw_of(family: Family) -> torch.Tensor:
    return 0.5 * torch.randn(family.size, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("name", FAMILIES)
def test_a_density_integrates_to_one_and_is_what_is_drawn(name: str) -> None:
    family = FAMILIES[name]
    raw = raw_of(family).double()
    places = torch.linspace(-60, 60, 240_001, dtype=torch.float64)
    density = family.log_prob(raw.expand(len(places), -1), places).exp()
    below = torch.cumulative_trapezoid(density, places)
    missing = 0.01 if name == "student-t" else 1e-3  # heavy tails beyond ±60
    assert abs(below[-1].item() - 1) < missing
    drawn = family.draw(raw.expand(20_000, -1), torch.Generator().manual_seed(0)).sort().values
    expected = torch.from_numpy(np.interp(drawn.numpy(), places[1:].numpy(), below.numpy()))
    found = (torch.arange(len(drawn)) + 0.5) / len(drawn)
    assert (found - expected).abs().max() < 1.95 / math.sqrt(
        len(drawn)
    ) + missing  # Kolmogorov's bound at 0.1 %


@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_learned_leads_to_the_best_density(name: str) -> None:
    """By the slope of their density quantiles ran together, and the loss rose."""
    family = FAMILIES[name]
    u = torch.from_numpy(0.7 + 0.4 * stats.norm.ppf((np.arange(1000) + 0.5) / 1000)).float()
    raw = raw_of(family).requires_grad_()
    optimizer = torch.optim.Adam([raw], lr=0.1)
    for step in range(200):
        optimizer.param_groups[0]["lr"] = 0.1 * (1 - step / 200)
        optimizer.zero_grad()
        family.penalty(raw.expand(len(u), -1), u).mean().backward()
        optimizer.step()
    entropy = 0.5 * math.log(2 * math.pi * math.e) + math.log(0.4)
    assert -family.log_prob(raw.expand(len(u), -1), u).mean().item() < entropy + 0.06


def test_densities_are_scipys() -> None:
    u = torch.linspace(-4, 4, 9, dtype=torch.float64)
    raw = torch.tensor([0.3, -0.7, 0.2], dtype=torch.float64)
    spread = FLOOR + math.log1p(math.exp(-0.7 + math.log(math.e - 1)))
    found = FAMILIES["gaussian"].log_prob(raw[:2].expand(9, -1), u)
    np.testing.assert_allclose(found, stats.norm.logpdf(u, 0.3, spread), rtol=1e-9)
    freedom = 1 + math.log1p(math.exp(4.2))
    found = FAMILIES["student-t"].log_prob(raw.expand(9, -1), u)
    np.testing.assert_allclose(found, stats.t.logpdf(u, freedom, 0.3, spread), rtol=1e-9)


def test_a_mixture_is_the_sum_of_its_parts() -> None:
    family = Mixture(components=2, floor=FLOOR)
    raw = torch.tensor([0.0, 1.0, 0.5, -0.5, 0.0, 0.3], dtype=torch.float64)
    weights = np.exp([0.0, 1.0]) / np.exp([0.0, 1.0]).sum()
    spreads = FLOOR + np.log1p(np.exp(np.array([0.0, 0.3]) + math.log(math.e - 1)))
    expected = (weights * stats.norm.pdf(0.7, [-1.0, 1.0], spreads)).sum()  # begun at −1.5 and 1.5
    assert family.log_prob(raw, torch.tensor(0.7, dtype=torch.float64)).exp().item() == pytest.approx(
        expected
    )


def test_quantiles_at_rest_are_those_of_a_normal() -> None:
    family = Quantiles(levels=19, floor=1e-6)
    places, _ = family._parts(torch.zeros(family.size))
    np.testing.assert_allclose(places, stats.norm.ppf((np.arange(19) + 0.5) / 19), atol=1e-4)


def test_the_pinball_loss_is_the_crps_of_many_quantiles() -> None:
    family = Quantiles(levels=999, floor=1e-6)
    found = family.pinball(torch.zeros(family.size), torch.tensor(0.8)).item()
    closed = 0.8 * (2 * stats.norm.cdf(0.8) - 1) + 2 * stats.norm.pdf(0.8) - 1 / math.sqrt(math.pi)
    assert found == pytest.approx(closed, rel=5e-3)


@pytest.mark.parametrize("bins", [4, 5, 64, 255])
def test_bins_there_and_back(bins: int) -> None:
    """An index one off is the classic mistake here."""
    family = Bins(bins=bins, limit=6.0)
    index = torch.arange(bins)
    for share in (0.01, 0.5, 0.99):
        assert torch.equal(family.encode(family.decode(index, share)), index)
    u = torch.linspace(-5.99, 5.99, 1001)
    again = family.decode(family.encode(u))
    assert ((again - u).abs() <= 0.5001 * family.widths[family.encode(u)]).all()
    far = torch.tensor([-1e9, -6.0, 6.0, 1e9])
    assert family.encode(far).tolist() == [0, 0, bins - 1, bins - 1]


def test_a_spread_never_falls_below_its_floor() -> None:
    raw = torch.tensor([0.0, -1e4])
    assert FAMILIES["gaussian"].log_prob(raw, torch.tensor(0.0)).item() == pytest.approx(
        -math.log(FLOOR) - 0.5 * math.log(2 * math.pi), rel=1e-5
    )
