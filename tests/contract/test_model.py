"""What holds for every GPT that the registered parts can be put together to."""

from __future__ import annotations

import io
import pickle
import random
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from itertools import combinations, product
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional as F

from octavo.config.parts import parts
from octavo.data.batch import SideInputs
from octavo.generation import Decoder
from octavo.generation.cached import CachedDecoder
from octavo.generation.engine import fastest_decoder
from octavo.generation.full import FullDecoder
from octavo.generation.native import NativeDecoder, compiled
from octavo.model.base import build_model
from octavo.model.capture import capture
from octavo.model.config import GPTConfig
from octavo.model.gpt import GPT
from octavo.training.checkpoint import Checkpoint, model_tensors
from unit.model import preferences

V, T, B = 11, 8, 2
Options = dict[str, object]
Models = list[tuple[Options, GPT]]
SHAPE: Options = {"layers": 2, "width": 16, "heads": 2, "context": T}
PAIRS = list(product(parts("positions"), parts("norm")))

# Switches that are not parts: each alone and every two of them together.
SWITCHES: dict[str, dict[str, object]] = {
    "tied": {"tied": True},
    "head bias": {"head_bias": True},
    "grouped": {"heads": 4, "kv_heads": 2},
    "one key head": {"kv_heads": 1},
    "free head width": {"head_width": 6},
    "uneven width": {"width": 17, "head_width": 4},
    "q/k/v bias": {"qkv_bias": True},
    "q/k norm": {"qk_norm": True},
    "q/k norm with a scale": {"qk_norm": True, "qk_norm_scale": True, "qk_norm_eps": 1e-3},
    "no projection": {"output_projection": False},
    "no projection bias": {"output_bias": False},
    "model scale": {"attention_scale": "model"},
    "soft-cap": {"logit_softcap": 3.0},
    "no final norm": {"final_norm": False},
    "embedding norm": {"embedding_norm": True},
    "n-grams": {"ngrams": {"kind": "hashed", "longest": 3, "buckets": 7}},
    "counts": {"counts": {"kind": "kneser-ney", "orders": 4, "hidden": 3}},
    "what was said": {"counts": {"kind": "kneser-ney", "orders": 3, "hidden": 3, "recent": 6}},
    "context mixing": {"counts": {"kind": "mixing", "recent": 6}},
    "half turned": {"positions": {"kind": "rotary", "share": 0.5}},
}
IMPOSSIBLE = [
    {"no projection", "free head width"},
    {"no projection", "uneven width"},
    {"counts", "what was said"},
    {"counts", "context mixing"},
    {"what was said", "context mixing"},
]


def architectures(positions: str, norm: str) -> Iterator[Options]:
    """Every combination of the other parts, with the initializations taken in turn."""
    starts = list(parts("initialization"))
    rest = product(("pre", "post"), parts("feed_forward"), (True, False))
    for index, (place, feed_forward, residual) in enumerate(rest):
        yield SHAPE | {
            "positions": positions,
            "norm": norm,
            "norm_place": place,
            "feed_forward": feed_forward,
            "residual": residual,
            "initialization": starts[index % len(starts)],
        }


def covering(together: int) -> Iterator[Options]:
    """Of all combinations as many as it takes for every two, or three, parts to stand together in one of them."""
    found = [options for pair in PAIRS for options in architectures(*pair)]
    random.Random(0).shuffle(found)
    seen: set[tuple[tuple[str, object], ...]] = set()
    for options in found:
        chosen = [(name, value) for name, value in options.items() if name not in SHAPE]
        new = set(combinations(chosen, together)) - seen
        if new:
            seen |= new
            yield options


def compatible(one: str, other: str) -> bool:
    return {one, other} not in IMPOSSIBLE and not SWITCHES[one].keys() & SWITCHES[other].keys()


def crowds() -> Iterator[tuple[str, ...]]:
    """Many switches at once, until every two that do not overwrite each other have stood together."""
    seen: set[frozenset[str]] = set()
    for pair in combinations(SWITCHES, 2):
        if compatible(*pair) and frozenset(pair) not in seen:
            crowd = pair
            for name in SWITCHES:
                if name not in crowd and all(compatible(name, other) for other in crowd):
                    crowd += (name,)
            seen |= {frozenset(two) for two in combinations(crowd, 2)}
            yield crowd


def switched(*names: str) -> Options:
    options: Options = SHAPE | {"positions": "rotary"}
    for name in names:
        options |= SWITCHES[name]
    return options


def perturbed(options: Options) -> GPT:
    """A model none of whose numbers is zero, as none is after training."""
    model = build_model(GPTConfig.model_validate(options), vocab_size=V, seed=1)
    model.take_text(tokens(3).repeat(1, 4).flatten().numpy())
    preferences.trust_what_was_said(model.counts)
    torch.manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    return model.eval()


def pickled(model: GPT) -> GPT:
    return pickle.loads(pickle.dumps(model))


def torch_saved(model: GPT) -> GPT:
    """As `torch.save` writes it and `torch.load` reads it."""
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


GROUPS: dict[str, Callable[[], Iterable[Options]]] = {
    "switches": lambda: (switched(*names) for names in ((), *zip(SWITCHES), *crowds())),
    "every two parts": lambda: covering(2),
    "every two switches": lambda: (
        switched(*two) for two in combinations(SWITCHES, 2) if set(two) not in IMPOSSIBLE
    ),
    "every three parts": lambda: covering(3),
}
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("every two switches", "every three parts")]


@pytest.fixture(scope="module", params=["switches", "every two parts", *SLOW])
def models(request: pytest.FixtureRequest) -> Models:
    torch.set_num_threads(1)
    return [(options, perturbed(options)) for options in GROUPS[request.param]()]


def tokens(seed: int = 0) -> Tensor:
    return torch.randint(V, (B, T), generator=torch.Generator().manual_seed(seed))


def compared_in(options: Options) -> torch.dtype:
    """Without a norm values grow without bound, and rounding with them; those are compared in double."""
    return torch.float64 if options.get("norm") == "none" else torch.float32


def same(found: Tensor, expected: Tensor, what: object) -> None:
    difference = (found - expected).abs().max().item()
    bound = 1e-5 if expected.dtype == torch.float32 else 1e-11
    assert difference <= bound * max(1.0, expected.abs().max().item()), (difference, what)


@torch.no_grad()
def test_shapes(models: Models) -> None:
    for options, model in models:
        for length in (1, T):
            logits = model(tokens()[:, :length])
            assert logits.shape == (B, length, V) and logits.dtype == torch.float32, options
            assert torch.isfinite(logits).all(), options


@torch.no_grad()
def test_no_output_depends_on_a_later_input(models: Models) -> None:
    for options, model in models:
        before = model(tokens())
        for place in (1, T - 2):
            changed = tokens()
            changed[:, place] = (changed[:, place] + 1) % V
            after = model(changed)
            assert torch.equal(after[:, :place], before[:, :place]), (place, options)
            assert not torch.equal(after[:, place], before[:, place]), (place, options)


ALONE = torch.tensor([[1] * T, [0] * T])
"""Where counts are mixed in, the network learns nothing; the gate learns nowhere else."""


def test_gradients_reach_every_parameter(models: Models) -> None:
    for options, model in models:
        logits = model(tokens(), side=SideInputs(alone=ALONE))
        F.cross_entropy(logits.flatten(0, 1), tokens(1).flatten()).backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None, (name, options)
            blocks = parameter.grad.to_dense().split(getattr(parameter, "row_blocks", len(parameter)))
            assert all(block.abs().max() > 0 for block in blocks), (name, options)
        model.zero_grad(set_to_none=True)


@torch.no_grad()
def test_saved_and_loaded_is_the_same(models: Models, tmp_path: Path) -> None:
    for options, model in models:
        save_file(model_tensors(model), tmp_path / "model.safetensors")
        other = build_model(GPTConfig.model_validate(options), vocab_size=V, seed=9)
        Checkpoint(tmp_path).load_model(other)
        assert torch.equal(other.eval()(tokens()), model(tokens())), options


@torch.no_grad()
def test_weights_load_strictly_from_a_file_that_holds_a_shared_one_once(
    models: Models, tmp_path: Path
) -> None:
    for options, model in models:
        save_file(model_tensors(model), tmp_path / "model.safetensors")
        other = build_model(GPTConfig.model_validate(options), vocab_size=V, seed=9)
        other.load_state_dict(load_file(tmp_path / "model.safetensors"))
        assert torch.equal(other.eval()(tokens()), model(tokens())), options
        less = load_file(tmp_path / "model.safetensors")
        del less[next(iter(less))]
        with pytest.raises(RuntimeError, match="Missing key"):
            other.load_state_dict(less)


@torch.no_grad()
@pytest.mark.parametrize("again", [deepcopy, pickled, torch_saved])
def test_a_copy_is_the_same(models: Models, again: Callable[[GPT], GPT]) -> None:
    """Also what Muon and the kernels know of a weight, and a weight that two share stays one."""
    for options, model in models:
        other = again(model)
        assert torch.equal(other(tokens()), model(tokens())), options
        for (name, weights), copied in zip(model.named_parameters(), other.parameters(), strict=True):
            assert weights is not copied and vars(weights) == vars(copied), (name, options)
        other.load_state_dict(model.state_dict())  # whose old names it knows still


@torch.no_grad()
@pytest.mark.parametrize("pieces", [[1] * T, [3, 1, 4]], ids=str)
def test_cached_decoding_is_full_decoding(models: Models, pieces: list[int]) -> None:
    for options, shared in models:
        model = deepcopy(shared).to(compared_in(options))
        cache = model.new_cache(B)
        found = torch.cat([model(piece, cache) for piece in tokens().split(pieces, dim=1)], dim=1)
        same(found, model(tokens()), options)


def feed(decoder: Decoder, tokens: Tensor) -> Tensor:
    """Tokens (B, T), the rows into the first slots."""
    return decoder.feed(dict(enumerate(tokens.tolist())))


def test_writes_by_the_kernel_what_it_writes_by_torch(
    models: Models,
) -> None:
    """Through a prompt, single tokens and a window that slides; rounding counts as it does in torch."""
    for options, model in models:
        assert NativeDecoder.fits(model) == (compiled() is not None), options
        exact = FullDecoder(deepcopy(model).double(), slots=B)
        decoders = [kind(model, slots=B) for kind in (fastest_decoder(model), CachedDecoder)]
        for piece in tokens().split([3, 1, 4], dim=1) + tokens(1).split([1, 2, 5], dim=1):
            expected = feed(exact, piece).double()
            found, torchs = ((feed(decoder, piece) - expected).abs().max().item() for decoder in decoders)
            assert found <= max(1e-5 * expected.abs().max().item(), 4 * torchs), options


def test_fused_attention_is_explicit_attention(models: Models) -> None:
    for options, model in models:
        dtype = compared_in(options)
        config = GPTConfig.model_validate(options)
        fused = build_model(config, vocab_size=V, seed=9)
        explicit = build_model(config, vocab_size=V, seed=9, explicit_attention=True)
        for each in (fused, explicit):
            each.to(dtype).eval().load_state_dict(model.state_dict())
        names = [f"blocks.{index}.attention.attend.weights" for index in range(len(explicit.blocks))]
        with capture(explicit, names) as captured:
            logits = explicit(tokens(), side=SideInputs(alone=ALONE))
        assert list(captured) == names
        for weights in captured.values():
            same(weights.sum(dim=-1), torch.ones(B, weights.size(1), T, dtype=dtype), options)
            assert torch.equal(weights, weights.tril()) and (weights >= 0).all(), options
        expected = fused(tokens(), side=SideInputs(alone=ALONE))
        same(logits, expected, options)
        for each in (logits, expected):
            F.cross_entropy(each.flatten(0, 1), tokens(1).flatten()).backward()
        for (name, found), wanted in zip(explicit.named_parameters(), fused.parameters(), strict=True):
            assert found.grad is not None and wanted.grad is not None
            same(found.grad.to_dense(), wanted.grad.to_dense(), (name, options))


@torch.no_grad()
@pytest.mark.parametrize("pieces", [[1] * T, [3, 1, 4]], ids=str)
def test_explicit_attention_decodes_with_a_cache(pieces: list[int]) -> None:
    for kv_heads in (1, 2):
        config = GPTConfig.model_validate(SHAPE | {"positions": "rotary", "kv_heads": kv_heads})
        model = build_model(config, vocab_size=V, seed=0, explicit_attention=True)
        cache = model.new_cache(B)
        found = torch.cat([model(piece, cache) for piece in tokens().split(pieces, dim=1)], dim=1)
        same(found, model(tokens()), kv_heads)


def test_parameters_are_counted_from_the_config(models: Models) -> None:
    for options, model in models:
        config = GPTConfig.model_validate(options)
        built = sum(parameter.numel() for parameter in model.parameters())
        assert config.parameters(vocab_size=V) == built, options
        own = {id(p) for p in model.lm_head.parameters()} - {id(model.embedding.weight)}
        headless = sum(p.numel() for p in model.parameters() if id(p) not in own)
        assert config.parameters(vocab_size=V, head=False) == headless, options


@torch.no_grad()
@pytest.mark.parametrize("initialization", parts("initialization"))
def test_every_initialization_of_every_model(initialization: str) -> None:
    """Finite first logits; equal builds from one seed, whatever was drawn before."""
    for index, options in enumerate(covering(2)):
        config = GPTConfig.model_validate(
            options | {"initialization": initialization, "tied": index % 3 == 0}
        )
        torch.manual_seed(5)
        one = build_model(config, vocab_size=V, seed=3)
        assert torch.isfinite(one.eval()(tokens())).all(), options
        if index % 5 == 0:
            assert torch.initial_seed() == 5, "the caller's random numbers are left alone"
            torch.randn(3)
            other = build_model(config, vocab_size=V, seed=3)
            pairs = zip(one.parameters(), other.parameters(), strict=True)
            assert all(torch.equal(a, b) for a, b in pairs), options
            different = build_model(config, vocab_size=V, seed=4)
            assert not torch.equal(different.embedding.weight, one.embedding.weight)
            attention, first = (model.blocks[0].attention.qkv.weight for model in (different, one))
            assert not torch.equal(attention, first)


@pytest.mark.parametrize("initialization", parts("initialization"))
def test_a_fresh_model_is_nearly_uniform(initialization: str) -> None:
    """With its default options no scheme starts with a loss far above that of a uniform guess."""
    config = GPTConfig.model_validate(SHAPE | {"initialization": initialization})
    model = build_model(config, vocab_size=V, seed=0)
    uniform = torch.tensor(V).log().item()
    loss = F.cross_entropy(model(tokens()).flatten(0, 1), tokens(1).flatten()).item()
    assert abs(loss - uniform) < 0.5
