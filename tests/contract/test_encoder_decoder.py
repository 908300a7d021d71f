"""What holds for every encoder–decoder that the registered parts can be put together to."""

from __future__ import annotations

from copy import deepcopy
from itertools import product

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from octavo.config.parts import PartOf, parts
from octavo.data.batch import SideInputs
from octavo.model.base import build_model
from octavo.tasks.translation.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from octavo.tokenizers.base import Vocabulary

V, T, B = 11, 8, 2
OWN = Vocabulary(V + 5, source=5)
"""Each side's own: the source has the five ids after the target's."""
SHAPE = {"layers": 2, "width": 16, "heads": 2, "context": T}
SWITCHES: dict[str, dict[str, object]] = {
    "tied three ways": {"tied": True},
    "two tables, tied": {"tied": True, "shared_embedding": False},
    "two tables": {"shared_embedding": False},
    "deep encoder": {"encoder_layers": 3},
    "head bias": {"head_bias": True},
    "grouped": {"heads": 4, "kv_heads": 2},
    "free head width": {"head_width": 6},
    "q/k/v bias": {"qkv_bias": True},
    "q/k norm with a scale": {"qk_norm": True, "qk_norm_scale": True, "qk_norm_eps": 1e-3},
    "no projection": {"output_projection": False},
    "no projection bias": {"output_bias": False},
    "model scale": {"attention_scale": "model"},
    "soft-cap": {"logit_softcap": 3.0},
    "no final norm": {"final_norm": False},
    "embedding norm": {"embedding_norm": True, "positions": "sinusoidal"},
    "n-grams": {"ngrams": {"kind": "hashed", "longest": 3, "buckets": 7}},
    "no residual": {"residual": False, "norm_place": "post"},
}


def architectures() -> list[dict[str, object]]:
    """Every positions with every norm and feed-forward, pre and post in turn; and each switch."""
    starts = list(parts("initialization"))
    every = product(parts("positions"), parts("norm"), parts("feed_forward"))
    rest = [
        SHAPE
        | {
            "positions": positions,
            "norm": norm,
            "feed_forward": feed_forward,
            "norm_place": ("pre", "post")[index % 2],
            "initialization": starts[index % len(starts)],
        }
        for index, (positions, norm, feed_forward) in enumerate(every)
    ]
    return rest[::3] + [SHAPE | {"positions": "rotary"} | changes for changes in SWITCHES.values()]


def config(options: dict[str, object]) -> EncoderDecoderConfig:
    return EncoderDecoderConfig.model_validate(options)


@pytest.fixture(scope="module")
def models() -> list[tuple[dict[str, object], EncoderDecoder]]:
    torch.set_num_threads(1)
    found = []
    for options in architectures():
        model = build_model(config(options), vocab_size=V, seed=1)
        torch.manual_seed(2)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.2)
        found.append((options, model.eval()))
    return found


def tokens(seed: int = 0) -> Tensor:
    return torch.randint(V, (B, T), generator=torch.Generator().manual_seed(seed))


def source() -> Tensor:
    """Of different lengths."""
    ids = tokens(3)[:, :6]
    ids[0, 4:] = -1
    return ids


def same(found: Tensor, expected: Tensor, what: object) -> None:
    bound = 2e-5 if expected.dtype == torch.float32 else 1e-11
    assert (found - expected).abs().max() <= bound * max(1.0, expected.abs().max().item()), what


Models = list[tuple[dict[str, object], EncoderDecoder]]


@torch.no_grad()
def test_a_target_sees_the_source_and_nothing_later(models: Models) -> None:
    for options, model in models:
        before = model(tokens(), side=SideInputs(source=source()))
        assert before.shape == (B, T, V) and torch.isfinite(before).all(), options
        changed = tokens()
        changed[:, 4] = (changed[:, 4] + 1) % V
        after = model(changed, side=SideInputs(source=source()))
        assert torch.equal(after[:, :4], before[:, :4]) and not torch.equal(after, before), options
        for place in (0, 3):  # the encoder sees in both directions
            other = source()
            other[:, place] = (other[:, place] + 1) % V
            moved = model(tokens(), side=SideInputs(source=other))
            assert not torch.equal(moved[:, 0], before[:, 0]), (place, options)


@torch.no_grad()
def test_every_part_of_a_gpt_is_built_or_refused() -> None:
    refused = set()
    for name, field in EncoderDecoderConfig.model_fields.items():
        part = PartOf.of(field)
        for kind in parts(part.room) if part else ():
            try:
                found = config(SHAPE | {name: kind})
            except ValidationError:
                refused.add((name, kind))
                continue
            assert not found.held_out, "its batches hold nothing out"
            logits = build_model(found, vocab_size=V, seed=1)(tokens(), side=SideInputs(source=source()))
            assert torch.isfinite(logits).all(), (name, kind)
    assert {("counts", "kneser-ney"), ("input", "linear")} <= refused
    assert {room for room, _ in refused} <= {"counts", "input", "output", "positions"}, refused


@torch.no_grad()
def test_padding_changes_nothing(models: Models) -> None:
    for options, model in models:
        exact = deepcopy(model).double()
        alone = exact(tokens()[:1], side=SideInputs(source=source()[:1, :4]))
        same(exact(tokens(), side=SideInputs(source=source()))[:1], alone, options)


@torch.no_grad()
def test_cached_decoding_is_full_decoding(models: Models) -> None:
    for options, shared in models:
        model = deepcopy(shared).double()
        cache = model.remember(source())
        found = torch.cat([model(piece, cache) for piece in tokens().split([1, 3, 4], dim=1)], dim=1)
        same(found, model(tokens(), side=SideInputs(source=source())), options)


@torch.no_grad()
def test_rows_of_a_cache_are_chosen_again(models: Models) -> None:
    rows = torch.tensor([1, 0, 1])
    for options, shared in models[:: len(models) // 8]:
        model = deepcopy(shared).double()
        cache = model.remember(source())
        model(tokens()[:, :3], cache)
        cache.select(rows)
        found = model(tokens()[rows, 3:], cache)
        same(found, model(tokens(), side=SideInputs(source=source()))[rows, 3:], options)


def test_gradients_reach_every_parameter(models: Models) -> None:
    for options, model in models:
        logits = model(tokens(), side=SideInputs(source=source()))
        F.cross_entropy(logits.flatten(0, 1), tokens(1).flatten()).backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None and parameter.grad.to_dense().abs().max() > 0, (name, options)
        model.zero_grad(set_to_none=True)


def test_costs_are_counted_from_the_config(models: Models) -> None:
    for options, model in models:
        counted = config(options)
        assert counted.parameters(vocab_size=V) == sum(p.numel() for p in model.parameters()), options
        matrices = sum(p.numel() for p in model.encoder.blocks.parameters() if p.ndim == 2)
        matrices += sum(p.numel() for p in model.writer.blocks.parameters() if p.ndim == 2)
        assert counted.block_matrix_parameters() == matrices, options
        cache = model.remember(tokens())
        held = [tensor for layer in cache.layers for tensor in (layer.keys, layer.values)]
        held += [tensor for memory in cache.memories for tensor in (memory.keys, memory.values)]
        assert counted.cache_bytes(batch=B) == sum(tensor.nbytes for tensor in held), options


@torch.no_grad()
def test_flops_are_those_that_torch_counts(models: Models) -> None:
    for options, _ in models[-len(SWITCHES) :: 2]:
        model = build_model(config(options), vocab_size=V, seed=0, explicit_attention=True)
        with FlopCounterMode(display=False) as counter:
            model(tokens(), side=SideInputs(source=tokens(3)))
        assert counter.get_total_flops() == B * T * config(options).forward_flops(vocab_size=V), options


@torch.no_grad()
def test_fused_attention_is_explicit_attention(models: Models) -> None:
    for options, model in models[::2]:
        explicit = build_model(config(options), vocab_size=V, seed=9, explicit_attention=True).eval().double()
        explicit.load_state_dict(model.state_dict())
        same(
            explicit(tokens(), side=SideInputs(source=source())),
            deepcopy(model).double()(tokens(), side=SideInputs(source=source())),
            options,
        )


@pytest.mark.parametrize("kind", parts("optimizer"))
def test_every_optimizer_takes_all_of_it(kind: str, models: Models) -> None:
    """Muon takes the matrices of both sides' blocks, and those alone."""
    model = deepcopy(models[-1][1])
    optimizers = parts("optimizer")[kind]().build(model)  # pyrefly: ignore
    taken = [p for one in optimizers for group in one.param_groups for p in group["params"]]
    assert sorted(map(id, taken)) == sorted(map(id, model.parameters()))
    inside = {
        id(p) for p in [*model.encoder.blocks.parameters(), *model.writer.blocks.parameters()] if p.ndim == 2
    }
    muon = [
        p for one in optimizers if type(one).__name__ == "Muon" for g in one.param_groups for p in g["params"]
    ]
    assert not muon or {id(p) for p in muon} == inside


@pytest.mark.parametrize("tied", [True, False])
def test_each_side_may_have_a_vocabulary_of_its_own(tied: bool) -> None:
    counted = config(SHAPE | {"shared_embedding": False, "tied": tied})
    model = build_model(counted, vocab_size=OWN, seed=1, explicit_attention=True).eval()
    assert (model.encoder.embedding.num_embeddings, model.writer.embedding.num_embeddings) == (5, V)
    assert counted.parameters(vocab_size=OWN) == sum(p.numel() for p in model.parameters())
    same_ids = source() % 5
    own = torch.where(source() < 0, -1, V + same_ids)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(tokens(), side=SideInputs(source=V + tokens(3) % 5))
    assert counter.get_total_flops() == B * T * counted.forward_flops(vocab_size=OWN)
    with torch.no_grad():
        found = model(tokens(), side=SideInputs(source=own))
        cached = model(tokens(), model.remember(own))
    assert found.shape == (B, T, V)
    same(cached, found, tied)
    # The same weights with one vocabulary for both give the same, where ids of the source are counted from 0.
    other = build_model(counted, vocab_size=V, seed=2).eval()
    weights = dict(model.state_dict())
    rows = other.encoder.embedding.weight.detach().clone()
    rows[:5] = weights["encoder.embedding.weight"]
    other.load_state_dict(weights | {"encoder.embedding.weight": rows})
    with torch.no_grad():
        same(found, other(tokens(), side=SideInputs(source=torch.where(source() < 0, -1, same_ids))), tied)
