"""The native kernel gives what torch's forward gives, for every shape that a recipe can ask for."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from itertools import product
from typing import get_args

import pytest
import torch

from octavo.config import load_recipe
from octavo.generation import Decoder
from octavo.generation import kernel as native
from octavo.generation.full import FullDecoder
from octavo.generation.native import NativeDecoder
from octavo.model.base import build_model
from octavo.model.gpt import GPT
from unit.conftest import PROCESSORS

SMALL = ["model.layers=2", "model.width=36", "model.heads=4", "model.context=12", "model.dropout=0.1"]
PRECISIONS = get_args(native.Precision)
SHAPES = {
    "gpt2": ["model.norm=layer", "model.feed_forward=gelu", "model.tied=true"],
    "modern": [
        "model.positions=rotary",
        "model.head_width=8",
        "model.norm={kind: rms, scale: false}",
        "model.embedding_norm=true",
        "model.qk_norm=true",
        "model.attention_scale=0.3",
        "model.ngrams={kind: hashed, longest: 4, buckets: 97}",
        "model.feed_forward={kind: relu2, bias: false}",
    ],
    "llama": [
        "model.positions={kind: rotary, share: 0.5}",
        "model.head_width=10",
        "model.kv_heads=2",
        "model.norm=rms",
        "model.feed_forward=swiglu",
        "model.logit_softcap=5",
    ],
    "qwen3": [
        "model.positions=rotary",
        "model.kv_heads=2",
        "model.head_width=6",
        "model.norm=rms",
        "model.qk_norm=true",
        "model.qk_norm_eps=0.01",
        "model.qk_norm_scale=true",
        "model.feed_forward=swiglu",
    ],
    "report B": [
        "model.positions=sinusoidal",
        "model.norm=plain",
        "model.final_norm=false",
        "model.residual=false",
        "model.feed_forward=none",
        "model.output_projection=false",
        "model.head_bias=true",
    ],
    "post-norm": ["model.norm_place=post", "model.feed_forward=gelu_tanh", "model.qkv_bias=true"],
    "whole blocks of 32": [
        "model.width=64",
        "model.qkv_bias=true",
        "model.feed_forward=gelu",
        "model.heads=2",
    ],
    "no norm, no positions, odd widths": [
        "model.norm=none",
        "model.positions=none",
        "model.head_width=7",
        "model.feed_forward={kind: relu, width: 53}",
    ],
}

pytestmark = pytest.mark.skipif(native.compiled() is None, reason="there is no C compiler here")


@cache
def model_of(shape: str) -> GPT:
    """To be changed only in a copy."""
    recipe = load_recipe("shakespeare-char", [*SMALL, *SHAPES[shape]])
    model = build_model(recipe.model, vocab_size=65, seed=3).eval()
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():  # biases and outputs that start at zero would hide mistakes
            weight.add_(torch.randn_like(weight), alpha=0.05)
    return model


@pytest.fixture
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(native, "FEWEST_PER_THREAD", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: request.param)
    return request.param


FEW = ("modern", "no norm, no positions, odd widths")
"""Between them they have whole vectors and rests of vectors in every product and norm."""


def cases(*batches: int) -> pytest.MarkDecorator:
    """Every shape on every processor's vectors, and a few by threads that wait for one another."""
    found = []
    for processor, shape, batch, threads in product(PROCESSORS, SHAPES, batches, (1, 2)):
        here, few = processor == "this one", shape in FEW and batch > 1
        if threads == 1 or few:
            slow = not here and (not few or threads == 2)
            marks = (pytest.mark.slow,) if slow else ()
            found.append(pytest.param(processor, shape, batch, threads, marks=marks))
    names = ("processor", "shape", "batch", "threads")
    return pytest.mark.parametrize(names, found, indirect=["processor", "threads"])


def pieces(batch: int) -> Iterator[torch.Tensor]:
    """Tokens of several streams: a prompt, single ones, some together, and the window slides twice."""
    random = torch.Generator().manual_seed(1)
    for length in (5, *[1] * 8, 3, *[1] * 9):
        yield torch.randint(0, 65, (batch, length), generator=random)


@cache
def by_torch(shape: str, batch: int, precision: native.Precision) -> list[torch.Tensor]:
    """The logits (B, V) after each of the pieces, whatever the kernel is compiled for."""
    decoder = FullDecoder(model_of(shape), slots=batch, precision=precision)
    return [feed(decoder, tokens) for tokens in pieces(batch)]


def feed(decoder: Decoder, tokens: torch.Tensor) -> torch.Tensor:
    """Tokens (B, T), the rows into the first slots."""
    return decoder.feed(dict(enumerate(tokens.tolist())))


@cases(1, 8)
def test_like_torch_through_prompt_tokens_and_sliding_window(
    processor: str, shape: str, batch: int, threads: int
) -> None:
    decoder = NativeDecoder(model_of(shape), slots=batch)
    for tokens, expected in zip(pieces(batch), by_torch(shape, batch, "float32"), strict=True):
        torch.testing.assert_close(feed(decoder, tokens), expected, rtol=1e-5, atol=1e-5)


@cases(1, 8)
def test_bfloat16_is_as_far_from_float32_as_torch_in_bfloat16(
    processor: str, shape: str, batch: int, threads: int
) -> None:
    """Both round what they multiply, the kernel also keys and values: neither equals the other."""
    decoder = NativeDecoder(model_of(shape), slots=batch, precision="bfloat16")
    ours = [feed(decoder, tokens) for tokens in pieces(batch)]
    exact = torch.stack(by_torch(shape, batch, "float32"))
    theirs = torch.stack(by_torch(shape, batch, "bfloat16"))
    off = (torch.stack(ours) - exact).square().mean()
    assert 0 < off < 2 * (theirs - exact).square().mean()


@cases(1, 8)
def test_int8_is_torch_that_rounds_alike(processor: str, shape: str, batch: int, threads: int) -> None:
    """What is rounded was computed in float32, so that a number at half a step seldom goes the other way: then a
    stream's logits, and those that follow, are off by less than rounding itself moves them."""
    decoder = NativeDecoder(model_of(shape), slots=batch, precision="int8")
    found = torch.stack([feed(decoder, tokens) for tokens in pieces(batch)])
    expected, exact = (torch.stack(by_torch(shape, batch, precision)) for precision in ("int8", "float32"))
    off = ((found - expected).abs() > 1e-5 + 1e-5 * expected.abs()).any(dim=-1)
    assert off.float().mean() <= 0.1
    assert (found - expected).abs().max() < (exact - expected).abs().max()
    assert not torch.equal(found, exact)


@pytest.mark.parametrize("precision", PRECISIONS)
@cases(9)
def test_the_same_to_the_bit_alone_and_beside_others(
    processor: str, shape: str, batch: int, precision: native.Precision, threads: int
) -> None:
    model = model_of(shape)
    beside = NativeDecoder(model, slots=batch, precision=precision)
    alone = [NativeDecoder(model, slots=1, precision=precision) for _ in range(batch)]
    for tokens in pieces(batch):
        assert torch.equal(
            feed(beside, tokens),
            torch.cat([feed(one, row[None]) for one, row in zip(alone, tokens, strict=True)]),
        )


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_prompt_is_read_at_once_as_it_is_token_by_token(precision: native.Precision) -> None:
    model = model_of("gpt2")
    once, singly = (NativeDecoder(model, slots=3, precision=precision) for _ in range(2))
    prompt = torch.arange(10).repeat(3, 1)
    logits = feed(once, prompt)
    for token in prompt.split(1, dim=1):
        last = feed(singly, token)
    assert torch.equal(logits, last)
    assert torch.equal(feed(once, prompt[:, :2]), feed(singly, prompt[:, :2]))


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("lengths", [(10, 1, 9), (1, 1, 12), (7, 3, 1), (9, 9, 9)], ids=str)
def test_prompts_of_any_lengths_are_read_in_several_calls(
    monkeypatch: pytest.MonkeyPatch, precision: native.Precision, lengths: tuple[int, ...]
) -> None:
    """The last ids of all go into the last call, which alone gives logits."""
    monkeypatch.setattr(native, "ITEMS", 8)
    model = model_of("gpt2")
    random = torch.Generator().manual_seed(1)
    prompts = {
        slot: torch.randint(0, 65, (length,), generator=random).tolist()
        for slot, length in enumerate(lengths)
    }
    found = NativeDecoder(model, slots=3, precision=precision).feed(prompts)
    for slot, prompt in prompts.items():
        singly = NativeDecoder(model, slots=1, precision=precision)
        for token in prompt:
            last = singly.feed({0: [token]})
        assert torch.equal(found[slot], last[0])


@pytest.mark.parametrize("change", ["in place", "as data"])
def test_weights_that_have_changed_are_read_again(change: str) -> None:
    model = deepcopy(model_of("gpt2"))
    tokens = torch.arange(5)[None]
    feed(NativeDecoder(model, slots=1), tokens)
    weight = model.blocks[1].attention.qkv.weight
    with torch.no_grad():
        (weight if change == "in place" else weight.data)[3] += 1
    torch.testing.assert_close(
        feed(NativeDecoder(model, slots=1), tokens),
        feed(FullDecoder(model, slots=1), tokens),
        rtol=1e-5,
        atol=1e-5,
    )


@pytest.mark.parametrize("eps", [1e-6, 0.5, 100.0])
def test_queries_and_keys_are_normed_alike(eps: float) -> None:
    """ε stood in Python and in C."""
    model, tokens = deepcopy(model_of("modern")), torch.arange(7)[None]
    usual = feed(FullDecoder(model, slots=1), tokens)
    for block in model.blocks:
        block.attention.qk_norm_eps = eps
    expected = feed(FullDecoder(model, slots=1), tokens)
    assert torch.equal(expected, usual) == (eps == 1e-6)
    torch.testing.assert_close(feed(NativeDecoder(model, slots=1), tokens), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("token", [65, 2**31 - 1, -1])
def test_a_token_beyond_the_vocabulary(token: int) -> None:
    with pytest.raises(IndexError, match="vocabulary of 65"):
        feed(NativeDecoder(model_of("gpt2"), slots=1), torch.tensor([[0, token]]))


def test_a_prompt_longer_than_the_context_is_read_from_its_end() -> None:
    model = model_of("gpt2")
    tokens = torch.arange(30)[None]
    torch.testing.assert_close(
        feed(NativeDecoder(model, slots=1), tokens),
        feed(FullDecoder(model, slots=1), tokens),
        rtol=1e-5,
        atol=1e-5,
    )


def test_the_crew_that_is_faster_works_and_the_other_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now, seconds, asked = 0.0, {1: 2.0, 4: 1.0}, []

    def call(threads: int) -> None:
        nonlocal now
        asked.append(threads)
        now += seconds[threads]

    monkeypatch.setattr(native.time, "perf_counter", lambda: now)
    crew = native.Crew(4, weights=native.FEWEST_PER_THREAD * 4, slots=1)
    for _ in range(100):
        crew.work(call, items=1)
    assert asked[:6] == [1, 4] * 3 and set(asked[6:63]) == {4} and asked[63] == 1 and set(asked[64:]) == {4}
    seconds[4] = 9.0  # others use the machine now
    asked.clear()
    for _ in range(100):
        crew.work(call, items=1)
    assert asked.count(4) == 3
    for most, weights in ((1, native.FEWEST_PER_THREAD * 4), (4, native.WEIGHTS_PER_THREAD * 4)):
        asked.clear()
        native.Crew(most, weights=weights, slots=1).work(call, items=1)
        assert asked == [most]


def test_torchs_own_products_between_are_the_same() -> None:
    """Both may use the same registers of the processor, which hold what they were set to."""
    model = model_of("whole blocks of 32")
    one, other = torch.randn(2, 96, 96, generator=torch.Generator().manual_seed(2)).bfloat16()
    decoder, expected = NativeDecoder(model, slots=3, precision="bfloat16"), one @ other
    for _ in range(3):
        feed(decoder, torch.arange(6)[:, None].view(3, 2))
        assert torch.equal(one @ other, expected)


def test_says_what_it_cannot_take() -> None:
    model = deepcopy(model_of("gpt2"))
    assert NativeDecoder.fits(model)
    assert not NativeDecoder.fits(model.to(torch.bfloat16))
