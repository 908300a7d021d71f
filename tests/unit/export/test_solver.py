"""The solver finds the shortest chain, and what it finds says the same to the last bit but a few."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from octavo.config import check, load_recipe
from octavo.config.parts import parts
from octavo.errors import InputError
from octavo.export import solver
from octavo.export.architectures import architectures
from octavo.export.solver import NEGLIGIBLE, Solution, because, chain, solve
from octavo.export.weights import FEED_FORWARDS, _known, shape_of, weights_of
from octavo.model.base import build_model


def recipe_shape(name: str, *overrides: str):
    return shape_of(load_recipe(name, overrides).model, vocab_size=65)


@pytest.mark.parametrize(
    ("recipe", "architecture", "steps"),
    [
        ("shakespeare-char", "gpt2", 4),
        ("shakespeare-char-modern", "apertus", 5),
        ("shakespeare-char-long", "apertus", 5),
        ("pidgin-demo", "apertus", 6),
        ("pdf-folder", "gpt2", 5),
        ("tinystories-gpt2", "gpt2", 1),
    ],
)
def test_recipes_are_said_by(recipe: str, architecture: str, steps: int) -> None:
    found = solve(recipe_shape(recipe), architectures("hf").values())
    assert (found.architecture.name, found.conflicts, found.near) == (architecture, (), ())
    assert len(found.steps) == steps, [str(step) for step in found.steps]


def made_of(*errors: float, conflicts: int = 0, rank: int = 0) -> Solution:
    """A chain whose rewrites are so far off."""
    rewrites: Any = [SimpleNamespace(error=error) for error in errors]
    steps: Any = tuple(SimpleNamespace(rewrite=one) for one in rewrites)
    architecture: Any = SimpleNamespace(rank=rank)
    shape: Any = None
    return Solution(architecture, steps, shape, ("residual",) * conflicts)


def test_a_limit_that_float32_hardly_sees_counts_as_exact_and_another_does_not() -> None:
    assert len(made_of(0.0, 0.5 * NEGLIGIBLE, 2 * NEGLIGIBLE, 0.1).near) == 2


def test_the_better_solution_is_sayable_then_exact_then_short_then_preferred() -> None:
    """Each beats all that come after it."""
    ordered = [
        made_of(),
        made_of(rank=3),
        made_of(0.0),
        made_of(0.5 * NEGLIGIBLE),  # a limit, for half a rewrite more
        made_of(0.0, 0.0),
        made_of(*[0.0] * 9),
        made_of(0.1),
        made_of(0.1, 0.1),
        made_of(conflicts=1),
        made_of(conflicts=2),
    ]
    assert all(one.cost < other.cost for one, other in pairwise(ordered))


@pytest.mark.parametrize(("direct", "steps"), [(0.0, 1), (0.5 * NEGLIGIBLE, 1), (0.1, 3)])
def test_exact_steps_are_taken_before_one_that_is_not(
    monkeypatch: pytest.MonkeyPatch, direct: float, steps: int
) -> None:
    """From 0 to 9 at once, or by 1 and 2."""

    def step(before: int, after: int, error: float = 0.0) -> Any:
        return SimpleNamespace(
            error=error,
            mends=frozenset({"odd"}),
            shape=lambda shape, allowed: after if shape == before else None,
        )

    ways = (step(0, 9, direct), step(0, 1), step(1, 2), step(2, 9))
    monkeypatch.setattr(solver, "rewrites", lambda: ways)
    architecture: Any = SimpleNamespace(
        allowed=dict, conflicts=lambda shape: {} if shape == 9 else {"odd": None}, rank=0
    )
    start: Any = 0
    found = chain(start, architecture)
    assert (found.shape, len(found.steps), len(found.near)) == (9, steps, 0)


def test_what_nobody_can_say_says_why() -> None:
    found = solve(recipe_shape("tensors-only"), architectures("hf").values())
    assert "residual" in found.conflicts
    assert "needs residual connections" in because(found)


def test_odd_heads_and_the_head_bias_are_filled_up() -> None:
    found = solve(recipe_shape("shakespeare-gpt2"), architectures("hf").values())
    assert (found.shape.width, found.shape.head_width) == (100, 10)
    assert not found.shape.head_bias and "column" in " ".join(map(str, found.steps))


@torch.no_grad()
@pytest.mark.parametrize(
    "recipe", ["shakespeare-char-modern", "pidgin-demo", "script-char-small-cpu", "crusoe-char-cpu"]
)
def test_the_chain_leaves_every_logit(recipe: str) -> None:
    config = load_recipe(recipe).model
    gpt = build_model(config, vocab_size=65, seed=1)
    for parameter in gpt.parameters():
        parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(2)), alpha=0.05)
    weights = weights_of(gpt, config).to(torch.float64)
    tokens = torch.randint(65, (1, config.context), generator=torch.Generator().manual_seed(3))
    expected = gpt.eval()(tokens)
    for each in architectures("hf").values():
        found = chain(weights.shape, each)
        if not found.conflicts and not found.near:
            rewritten = found(weights)
            assert rewritten.shape == found.shape
            assert (rewritten.model()(tokens)[0] - expected).abs().max() < 1e-4
            theirs = each.tensors_of(found.shape, rewritten.tensors)
            back = each.weights_of(found.shape, theirs)
            assert back.keys() == rewritten.tensors.keys()
            assert all(torch.equal(back[name], tensor) for name, tensor in rewritten.tensors.items())
            read = each.shape_of(each.settings_of(found.shape), spare=found.shape.spare)
            assert (read.as_dict() | {"qk_eps": 0}) == (found.shape.as_dict() | {"qk_eps": 0})


def test_the_list_of_exportable_feed_forwards_is_whole() -> None:
    """It left out swiglu, which most libraries know. What is listed can be exported; what is not cannot."""
    for kind in parts("feed_forward"):
        config = check({"model": {"feed_forward": kind}}).model
        if kind in FEED_FORWARDS:
            shape = shape_of(config, vocab_size=9)
            assert (shape.activation, shape.gated) == FEED_FORWARDS[kind]
        else:
            with pytest.raises(InputError, match="no other library knows") as caught:
                shape_of(config, vocab_size=9)
            assert "swiglu" in str(caught.value) and all(
                known in str(caught.value) for known in FEED_FORWARDS
            )
    with pytest.raises(InputError) as caught:
        _known("maxout", tuple(FEED_FORWARDS), "feed_forward")
    assert "swiglu" in str(caught.value)
