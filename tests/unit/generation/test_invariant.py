"""Several slots at a time on the CPU: whatever is computed together, each row has the bits that it has alone."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from octavo.generation import cached
from octavo.generation.cached import BatchInvariantLinear, CachedDecoder, agreeing, turned
from octavo.generation.full import FullDecoder
from octavo.model.base import build_model
from octavo.model.config import GPTConfig
from octavo.model.gpt import GPT
from octavo.training.device import autocast

V, T, SLOTS = 65, 48, 40
SHAPES: dict[str, dict[str, Any]] = {
    "learned, gelu": {},
    "modern": {"positions": "rotary", "norm": "rms", "qk_norm": True, "feed_forward": "relu2", "kv_heads": 2},
    "n-grams, swiglu": {
        "positions": "sinusoidal",
        "feed_forward": {"kind": "swiglu", "width": 128},
        "ngrams": {"kind": "hashed", "longest": 4, "buckets": 97},
    },
    "matrices too large to be turned": {"width": 192, "layers": 1},
}


def model_of(shape: str, seed: int = 0) -> GPT:
    torch.set_num_threads(1)
    options = {"layers": 2, "heads": 4, "width": 64, "context": T, **SHAPES[shape]}
    model = build_model(GPTConfig.model_validate(options), vocab_size=V, seed=seed).eval()
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():  # what starts at zero would hide mistakes
            weight.add_(torch.randn(weight.shape, generator=random), alpha=0.05)
    return model


def follow(model: GPT, *, steps: int, seed: int = 0, **options: Any) -> CachedDecoder:
    """Prompts of many lengths, then single ids into changing slots, each against a decoder of its own."""
    chance = random.Random(seed)
    together = CachedDecoder(model, slots=SLOTS, **options)
    alone = [CachedDecoder(model, slots=1, **options) for _ in range(SLOTS)]
    prompts = {slot: [chance.randrange(V) for _ in range(chance.randint(1, T // 2))] for slot in range(SLOTS)}
    feeds = [prompts]
    for _ in range(steps):
        slots = chance.sample(range(SLOTS), chance.choice((1, 2, 3, 5, 13, 27, SLOTS)))
        feeds.append({slot: [chance.randrange(V)] for slot in slots})
    for feed in feeds:
        logits = together.feed(feed)
        for row, (slot, ids) in enumerate(feed.items()):
            assert torch.equal(logits[row], alone[slot].feed({0: ids})[0]), (slot, len(feed))
    return together


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("shape", SHAPES)
def test_many_streams_are_computed_together_and_each_is_what_it_is_alone(shape: str, precision: Any) -> None:
    decoder = follow(model_of(shape), steps=12, precision=precision)
    assert decoder.together == SLOTS


def test_a_kind_that_takes_even_rows_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then slots that hold equally many ids are computed together."""
    monkeypatch.setattr(GPT, "takes_uneven_cache", False)
    model = model_of("modern")
    assert follow(model, steps=8).together == SLOTS
    groups = []
    decoder = CachedDecoder(model, slots=4)
    monkeypatch.setattr(model, "takes_uneven_cache", True)
    for one in (decoder, CachedDecoder(model, slots=4)):
        one.feed({slot: [1] * (1 + slot // 2) for slot in range(4)})
        groups.append(
            [
                group.slots
                for group in one._groups([(slot, 1 + slot // 2, 2 + slot // 2) for slot in range(4)])
            ]
        )
    assert groups == [[(0, 1), (2, 3)], [(0, 1, 2, 3)]]


class Crowd(nn.Module):
    """Rounds otherwise for some numbers of rows."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.rows = rows

    def forward(self, x: Tensor) -> Tensor:
        return x * (1 + 2**-20) if x.size(0) == self.rows else x


@pytest.mark.parametrize("rows", [3, SLOTS])
def test_rows_that_round_otherwise_together_are_computed_one_by_one(rows: int) -> None:
    model = model_of("learned, gelu")
    model.norm = Crowd(rows)
    assert follow(model, steps=5).together == 1


def test_weights_that_have_changed_are_laid_out_again() -> None:
    model = model_of("modern")
    before = CachedDecoder(model, slots=2).feed({0: [1, 2]})
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1.5)
    after = CachedDecoder(model, slots=2).feed({0: [1, 2]})
    assert not torch.allclose(before, after)
    torch.testing.assert_close(after, FullDecoder(model, slots=1).feed({0: [1, 2]}), rtol=1e-5, atol=1e-5)


def test_hooks_of_a_layer_are_called() -> None:
    model, seen = model_of("modern"), []
    model.blocks[0].attention.qkv.register_forward_hook(lambda *_: seen.append(1))
    CachedDecoder(model, slots=1).feed({0: [1]})
    assert seen == [1]


@settings(max_examples=60)
@given(
    inputs=st.integers(1, 300),
    outputs=st.integers(1, 300),
    biased=st.booleans(),
    short=st.booleans(),
    products=st.sampled_from(["float32", "bfloat16"]),
    rows=st.integers(1, 70),
    seed=st.integers(0, 999),
)
@example(  # of which AMD's Zen 5 rounds one row alone otherwise
    inputs=64, outputs=64, biased=False, short=False, products="bfloat16", rows=12, seed=0
)
@example(  # of which Zen 3 rounds the sum before it adds the bias
    inputs=201, outputs=78, biased=True, short=False, products="bfloat16", rows=66, seed=378
)
def test_a_layer_gives_each_row_what_it_gives_it_alone(
    inputs: int, outputs: int, biased: bool, short: bool, products: str, rows: int, seed: int
) -> None:
    torch.set_num_threads(1)
    chance = torch.Generator().manual_seed(seed)
    layer = nn.Linear(inputs, outputs, bias=biased).requires_grad_(False)
    weight, x = torch.randn(outputs, inputs, generator=chance), torch.randn(rows, 1, inputs, generator=chance)
    one, other = torch.randperm(inputs, generator=chance)[: inputs // 2 * 2].view(2, -1)
    weight[:, other] = weight[:, one]
    x[: rows // 2, :, other] = -x[: rows // 2, :, one]  # in these, what is left is how sums were rounded
    layer.weight.copy_(weight)
    if biased:
        layer.bias.copy_(torch.randn(outputs, generator=chance) / inputs**0.5)
    if short:
        layer.weight.short_output = True  # pyrefly: ignore
    counts = agreeing((outputs, inputs), torch.float32, biased, products, short, 64, 1)
    made = BatchInvariantLinear.of(layer, counts)
    with autocast(products, torch.device("cpu")):
        single = made(x[:1].repeat(counts[0], 1, 1))[:1]
        assert torch.equal(made(x)[:1], single)
        assert torch.equal(made(x), torch.cat([made(row) for row in x.split(1)]))
        found, plain = made(x).double(), layer(x).double()
    if products == "float32":
        torch.testing.assert_close(found, plain, atol=1e-4, rtol=1e-4)
    else:  # sum and bias are rounded at most once each, to 8 bits, before they are added or after
        x, weight, bias = (
            each.bfloat16().double() for each in (x, weight, layer.bias if biased else torch.zeros(outputs))
        )
        rounded = ((x @ weight.T).abs() + bias.abs()) / 2**7 + 1e-4
        assert bool(((found - x @ weight.T - bias).abs() <= rounded).all())
        assert bool(((found - plain).abs() <= rounded).all())


def test_a_matrix_is_turned_in_memory_alone() -> None:
    weight = nn.Parameter(torch.arange(12.0).view(3, 4))
    weight.short_output = True  # pyrefly: ignore
    found = turned(weight)
    assert torch.equal(found, weight) and found.stride() == (1, 3) and found.short_output


def test_what_is_not_a_layers_is_shared() -> None:
    model = model_of("modern")
    made, _, _ = cached.batch_invariant(model, "float32")
    assert made.embedding.weight is model.embedding.weight and made is not model
    assert made.blocks[0].attention is not model.blocks[0].attention
    assert type(model.blocks[0].attention.qkv) is nn.Linear
