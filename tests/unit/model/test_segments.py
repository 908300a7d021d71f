"""Documents side by side in a row, each seeing itself alone: as if it stood there by itself."""

from __future__ import annotations

from typing import Any, Literal

import pytest
import torch
from torch import Tensor

from octavo.config import load_recipe
from octavo.config.parts import parts
from octavo.data.batch import SideInputs
from octavo.errors import ConfigError
from octavo.model.base import build_model
from octavo.model.config import GPTConfig
from octavo.model.gpt import GPT
from octavo.model.inputs import HashedNGramsConfig, NGrams, NGramsConfig
from octavo.model.positions import Positions, in_segments
from octavo.training.recompute import recompute_blocks

V, T = 11, 12
LENGTHS = (5, 1, 4, 2)
SHAPES: dict[str, dict[str, Any]] = {
    "default": {},
    "rotary": {"positions": "rotary"},
    "grouped": {"positions": "rotary", "kv_heads": 1, "qk_norm": True},
    "post-norm": {"norm_place": "post"},
    "n-grams": {"ngrams": {"kind": "hashed", "longest": 4, "buckets": 1000}},
    **{f"{room} {kind}": {room: kind} for room in ("ngrams", "positions") for kind in parts(room)},
}


def model(shape: str, *, explicit: bool = False) -> GPT:
    config = GPTConfig.model_validate({"layers": 2, "width": 16, "heads": 2, "context": T, **SHAPES[shape]})
    built = build_model(config, vocab_size=V, seed=1, explicit_attention=explicit)
    with torch.no_grad():
        for weight in built.parameters():  # tables of n-grams start at zero, which would hide mistakes
            weight.add_(torch.sin(torch.arange(weight.numel()).float()).view_as(weight), alpha=0.3)
    return built.eval()


def packed() -> tuple[Tensor, Tensor]:
    tokens = torch.randint(0, V, (3, T), generator=torch.Generator().manual_seed(2))
    segments = torch.repeat_interleave(torch.arange(len(LENGTHS)), torch.tensor(LENGTHS)).expand(3, T)
    return tokens, segments


@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_each_document_as_if_alone(shape: str, explicit: bool) -> None:
    """The slow twin: a row of its own for each document, in which it stands at the same positions."""
    gpt, (tokens, segments) = model(shape, explicit=explicit), packed()
    found = gpt(tokens, side=SideInputs(segments=segments))
    whole = gpt(tokens)
    assert torch.allclose(found[:, : LENGTHS[0]], whole[:, : LENGTHS[0]], atol=1e-5)
    assert not torch.allclose(found[:, LENGTHS[0] :], whole[:, LENGTHS[0] :], atol=1e-2)
    for number in range(len(LENGTHS)):
        own = segments == number
        alone = torch.where(own, tokens, 0)  # what stands elsewhere in the row is nothing to it
        expected = gpt(alone, side=SideInputs(segments=own.long()))
        torch.testing.assert_close(found[own], expected[own], atol=1e-5, rtol=0)


@pytest.mark.parametrize("shape", SHAPES)
def test_positions_count_from_the_beginning_of_each_document(shape: str) -> None:
    gpt, (tokens, segments) = model(shape), packed()
    found, at = gpt(tokens, side=SideInputs(segments=segments)), 0
    for length in LENGTHS:
        expected = gpt(tokens[:, at : at + length])
        torch.testing.assert_close(found[:, at : at + length], expected, atol=1e-5, rtol=0)
        at += length


@pytest.mark.parametrize("shape", ["default", "rotary", "positions sinusoidal", "n-grams"])
def test_packed_rows_and_single_ones_give_the_same_gradient(shape: str) -> None:
    tokens, segments = packed()
    together, apart = model(shape), model(shape)
    together(tokens, side=SideInputs(segments=segments)).square().sum().backward()
    at = 0
    for length in LENGTHS:
        apart(tokens[:, at : at + length]).square().sum().backward()
        at += length
    for one, other in zip(together.parameters(), apart.parameters(), strict=True):
        assert one.grad is not None and other.grad is not None
        # Tables that are looked up have sparse gradients.
        torch.testing.assert_close(one.grad.to_dense(), other.grad.to_dense(), atol=2e-4, rtol=1e-4)


def test_a_kind_of_positions_that_knows_no_segments_is_asked_one_by_one() -> None:
    class Own(Positions):
        def forward(self, x: Tensor, start: int) -> Tensor:
            return x + torch.arange(start, start + x.size(1))[:, None]

    x, places = torch.zeros(2, 4, 3), torch.tensor([[0, 1, 0, 1], [0, 0, 1, 2]])
    assert torch.equal(Own().at(x, places), places[..., None].expand(2, 4, 3).float())
    assert torch.equal(Positions().at(x, places), x)


def test_places_in_segments() -> None:
    segments = torch.tensor([[0, 0, 1, 1, 1, -1], [0, 1, 2, -1, -1, -1]])
    assert in_segments(segments).tolist() == [[0, 1, 0, 1, 2, 0], [0, 0, 0, 0, 1, 2]]


def test_ngrams_that_know_no_segments_are_refused_when_the_config_is_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A user's own part with the module's old signature came to a TypeError in the first step."""

    class OwnConfig(NGramsConfig):
        kind: Literal["own"] = "own"

        def build(self, *, width: int) -> NGrams:
            return NGrams()

    monkeypatch.setattr(HashedNGramsConfig, "takes_segments", OwnConfig.takes_segments)
    tree = {"model": {"ngrams": "hashed"}, "batches": {"kind": "documents", "attention": "document"}}
    with pytest.raises(ConfigError, match=r"model\.ngrams=hashed cannot keep a row's documents apart"):
        load_recipe(tree)
    load_recipe(tree, ["batches.attention=row"])
    load_recipe(tree, ["model.ngrams=none"])


def test_ngrams_stop_at_the_border() -> None:
    gpt, (tokens, segments) = model("n-grams"), packed()
    found, at = gpt.ngrams.rows(tokens, segments=segments), 0  # pyrefly: ignore
    for length in LENGTHS:
        assert torch.equal(found[:, at : at + length], gpt.ngrams.rows(tokens[:, at : at + length]))  # pyrefly: ignore
        at += length
    assert not torch.equal(found, gpt.ngrams.rows(tokens))  # pyrefly: ignore


@pytest.mark.parametrize("shape", SHAPES)
def test_one_segment_is_the_row(shape: str) -> None:
    gpt, (tokens, _) = model(shape), packed()
    torch.testing.assert_close(
        gpt(tokens, side=SideInputs(segments=torch.full_like(tokens, 7))), gpt(tokens), atol=1e-5, rtol=0
    )


def test_no_gradient_crosses_a_border_also_recomputed() -> None:
    tokens, segments = packed()
    gradients = []
    for recompute in (False, True):
        gpt = model("default").train()
        if recompute:
            recompute_blocks(gpt)
        x = gpt.embedding(tokens).detach().requires_grad_()
        gpt.embedding.register_forward_hook(lambda module, given, out, x=x: x)
        gpt(tokens, side=SideInputs(segments=segments))[:, LENGTHS[0] : sum(LENGTHS[:3])].sum().backward()
        assert (x.grad[:, : LENGTHS[0]] == 0).all() and (x.grad[:, sum(LENGTHS[:3]) :] == 0).all()
        assert (x.grad[:, LENGTHS[0] : sum(LENGTHS[:3])] != 0).any()
        gradients.append([x.grad, *(p.grad for p in gpt.blocks.parameters())])
    assert all(map(torch.equal, *gradients))
