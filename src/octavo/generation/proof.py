"""What kernels have to prove before they are used: on this very processor they compute what torch and numpy do.

Every kernel is asked for a few things whose shapes have whole vectors and rests of vectors, by one thread and by two,
which has to give the same bits; then its slow twin is asked. A number that is off by more than rounding is a fault, and
so is one that is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import numpy as np
import torch
from torch import Tensor

from octavo.generation.engine import fastest_decoder
from octavo.generation.native import compiled
from octavo.generation.sampling import Precision
from octavo.model.attention import Attention, FusedAttend, fits
from octavo.model.base import build_model
from octavo.model.config import GPTConfig
from octavo.model.positions import RotaryPositions
from octavo.ngram.codes import Codes
from octavo.ngram.kernel import rank_pairs
from octavo.ngram.kneser_ney import KneserNey, tables_of
from octavo.ngram.mixing import context_mixing
from octavo.ngram.mixing_counts import Mixer
from octavo.ngram.recent import Texts
from octavo.util.kernels import twins

V, ORDERS = 23, 4
"""Vocabulary, and orders of n-grams, of what is asked."""
MODELS: dict[str, dict[str, object]] = {
    "modern": {
        "positions": "rotary",
        "norm": "rms",
        "qk_norm": True,
        "feed_forward": "relu2",
        "heads": 4,
        "kv_heads": 2,
        "width": 40,
    },
    "gpt2": {
        "positions": "learned",
        "norm": "layer",
        "feed_forward": "gelu_tanh",
        "heads": 2,
        "width": 64,
        "qkv_bias": True,
    },
    "gated": {"positions": "rotary", "feed_forward": "swiglu", "heads": 3, "width": 30, "logit_softcap": 5.0},
}
OFF = {"bfloat16": 2e-2, "mixing": 2e-3, "": 2e-5}
"""By how much of the largest number an answer may be off, by what its name holds: bfloat16 has eight bits, and what a
mixer learns adds up."""
ASTRAY = 0.25
"""Share of the rows of int8 that may be off as bfloat16 may: after a number at half a step that went the other way."""


def prove() -> str | None:
    """What is wrong with the kernels that are in use, in words; None where nothing is."""
    if compiled() is None:
        return "cannot be loaded"
    before = torch.get_num_threads()
    try:
        found = []
        for threads, by in ((1, nullcontext()), (2, nullcontext()), (1, twins())):
            torch.set_num_threads(threads)
            with by:
                found.append(dict(answers()))
    finally:
        torch.set_num_threads(before)
    alone, together, expected = found
    for name, answer in alone.items():
        if answer.tobytes() != together[name].tobytes():
            return f"gives other results by two threads than by one ({name})"
        if not alike(name, answer, expected[name]):
            return f"gives other results than torch ({name})"
    return None


def alike(name: str, answer: np.ndarray, expected: np.ndarray) -> bool:
    """Whether an answer is as near to the one expected as it has to be."""
    most = next(most for part, most in OFF.items() if part in name)
    off = np.abs(answer.astype(np.float64) - expected) / max(
        np.abs(expected).max(), np.finfo(np.float32).tiny
    )
    if "int8" not in name:
        return bool((off <= most).all())
    return bool((off <= OFF["bfloat16"]).all() and (off > most).any(axis=-1).mean() <= ASTRAY)


def answers() -> Iterator[tuple[str, np.ndarray]]:
    """Everything that is asked, by its name."""
    yield from attention()
    for name in MODELS:
        for precision in ("float32", "bfloat16", "int8"):
            yield f"writing, {name}, {precision}", written(name, precision)
    yield from counted()
    yield from said()
    yield from mixed()


def attention() -> Iterator[tuple[str, np.ndarray]]:
    """Joined heads and the gradient of the projections, (B, T, …)."""
    for heads, kv_heads, width, length, qk_norm in ((4, 2, 20, 37, True), (3, 3, 32, 64, False)):
        module = Attention(
            width=12,
            heads=heads,
            kv_heads=kv_heads,
            head_width=width,
            attend=FusedAttend(scale=width**-0.5, dropout=0.0),
            qkv_bias=False,
            qk_norm=qk_norm,
            project=torch.nn.Identity(),
            dropout=0.0,
        )
        rotation = RotaryPositions(context=length, head_width=width, share=1.0).rotation(0, length)
        for dtype in (torch.float32, torch.bfloat16):
            qkv = drawn(3, length, (heads + 2 * kv_heads) * width).to(dtype).requires_grad_()
            if fits(qkv, width):
                joined = module.by_kernel(qkv, rotation)
            else:
                joined = module.in_parts(qkv.float(), rotation, None)
            joined.backward(drawn(*joined.shape).to(joined.dtype))
            assert qkv.grad is not None
            name = f"attention, {heads} heads, {str(dtype).removeprefix('torch.')}"
            yield name, joined.detach().float().numpy()
            yield f"{name}, backward", qkv.grad.float().numpy()


def drawn(*shape: int, seed: int = 1) -> Tensor:
    """Normal numbers."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def written(name: str, precision: Precision) -> np.ndarray:
    """Logits (calls, streams, V) after a prompt, single tokens, and several at once."""
    config = GPTConfig.model_validate({"layers": 2, "context": 40, **MODELS[name]})
    model = build_model(config, vocab_size=V, seed=1).eval()
    for number, weight in enumerate(model.parameters()):  # some begin as zeros
        weight.copy_(0.3 * drawn(*weight.shape, seed=number))
    decoder = fastest_decoder(model)(model, slots=7, precision=precision)
    ids = torch.randint(V, (7, 30), generator=torch.Generator().manual_seed(2)).tolist()
    logits = [
        decoder.feed({slot: row[begin:end] for slot, row in enumerate(ids)})
        for begin, end in ((0, 17), (17, 18), (18, 19), (19, 30))
    ]
    return torch.stack(logits).float().numpy()


def text(length: int, seed: int = 0) -> np.ndarray:
    """Tokens (length,) in which some things come again."""
    random = np.random.default_rng(seed)
    return (random.integers(0, 5, length).cumsum() % V).astype(np.int32)


def counted() -> Iterator[tuple[str, np.ndarray]]:
    """What counting gives, of more positions than one thread takes."""
    random, learned = np.random.default_rng(1), text(4000)
    tables = tables_of(KneserNey(learned, vocab_size=V, highest=ORDERS))
    tokens = text(4800, seed=1).reshape(16, 300)
    places = tables.contexts(tokens).reshape(-1, ORDERS)
    weights = random.random((len(places), ORDERS + 1)).astype(np.float32)
    p, slope = random.random((2, len(places), V)).astype(np.float32)
    tables.mix(places, weights, p)
    yield "counting, contexts", places
    yield "counting, known", tables.known(places)
    yield "counting, mixture", p
    yield "counting, slopes", tables.slopes(places, slope)
    yield "counting, drafts", np.array(tables.follow(text(30).tolist(), 6)[1], np.float32)
    yield "counting, ranks", np.concatenate(rank_pairs(learned[:-1], learned[1:], V, V))


def said() -> Iterator[tuple[str, np.ndarray]]:
    """What a text has said so far."""
    tokens = text(240, seed=3).reshape(2, 120)
    texts = Texts.of(tokens, None, None, most=60, vocab_size=V)
    p = np.full((240, V), 1 / V, np.float32)
    texts.mix(np.linspace(0, 1, 240, dtype=np.float32), p)
    yield "what was said, known", texts.known()
    yield "what was said, mixture", p
    yield "what was said, shares", np.stack(texts.shares_of(text(240, seed=4)))


def mixed() -> Iterator[tuple[str, np.ndarray]]:
    """A context mixer that reads, hears a network, and foretells."""
    codes = Codes.of_bytes()
    mixer = context_mixing(codes, capacity=1300)
    units = np.frombuffer(
        b"".join(
            b"  When(cat%d, [sat(%d, 1)]):\n\ta second cat, %d which had heard of it, sat.\n" % (n, n * 77, n)
            for n in range(5)
        ),
        np.uint8,
    ).astype(np.int32)
    logits = drawn(len(units), codes.size).numpy()
    yield "mixing, reading", mixer.read(units)
    yield "mixing, hearing", (heard := mixer.hear(logits, units))
    yield "mixing, reading what was heard", mixer.read(units, heard)
    yield "mixing, walking", walked(mixer, units[:40], logits[:40])
    spans = np.array([(max(0, end - 30), end) for end in range(20)], np.int64)
    yield "mixing, foretelling", mixer.predict(units, spans)
    yield "mixing, foretelling with a network", mixer.predict(units, spans, logits[:20])
    logs, shares, _ = mixer.score(units, spans, units[:20], logits[:20])
    yield "mixing, scoring", logs
    yield "mixing, shares", shares


def walked(mixer: Mixer, units: np.ndarray, logits: np.ndarray) -> np.ndarray:
    """The probabilities of all bits on the way to some units."""
    found = []
    for unit, said in zip(units.tolist(), logits, strict=True):
        walk = mixer.walk(said)
        for bit in range(8):
            assert walk.p is not None, "all bytes can come"
            found.append(walk.p)
            walk.go(unit >> (7 - bit) & 1)
    return np.array(found, np.float32)
