"""The kernel takes what it knows, by exact type; everything else is torch's work; both sides mean the same memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from octavo.generation import kernel as described
from octavo.generation import native
from octavo.generation.cached import CachedDecoder
from octavo.generation.engine import fastest_decoder
from octavo.generation.native import NativeDecoder
from octavo.model.base import build_model
from octavo.model.config import GPTConfig
from octavo.model.dropout import Dropout
from octavo.model.feedforward import FeedForward
from octavo.model.gpt import GPT
from octavo.model.inputs import HashedNGrams, NGrams
from octavo.model.norms import RootMeanSquareNorm
from octavo.model.positions import LearnedPositions, Positions, RotaryPositions
from unit.conftest import names_in_c

pytestmark = pytest.mark.skipif(native.compiled() is None, reason="there is no C compiler here")
STRUCTS = {
    "Linear": described.LinearStruct,
    "Norm": described.NormStruct,
    "Layer": described.LayerStruct,
    "Model": described.ModelStruct,
}


class GEGLU(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate_up_proj, self.down_proj = nn.Linear(16, 24), nn.Linear(12, 16)

    def forward(self, x: Tensor) -> Tensor:
        gate, x = self.gate_up_proj(x).chunk(2, dim=-1)
        return self.down_proj(nn.functional.gelu(gate) * x)


class Reversed(RotaryPositions):
    def rotation(self, start: int, length: int) -> tuple[Tensor, Tensor]:
        cos, sin = super().rotation(start, length)
        return cos, -sin


class Doubled(LearnedPositions):
    def forward(self, x: Tensor, start: int) -> Tensor:
        return super().forward(x, start) + self.weight[start : start + x.size(1)]


class Repeated(NGrams):
    """A word that is said twice: one token before, and no buckets."""

    before = 1

    def forward(self, x: Tensor, tokens: Tensor, earlier: Tensor | None = None) -> Tensor:
        before = torch.cat((tokens[:, :1] if earlier is None else earlier, tokens[:, :-1]), dim=1)
        return x + (before == tokens)[:, :, None]


class Halved(RootMeanSquareNorm):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) / 2


class Noisy(Dropout):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1


def model() -> GPT:
    options = {"layers": 2, "width": 16, "heads": 2, "context": 12, "positions": "rotary", "qk_norm": True}
    return build_model(GPTConfig.model_validate(options), vocab_size=11, seed=1).eval()


def activation(layer: nn.Module | None, function: Callable[[Tensor], Tensor]) -> None:
    assert isinstance(layer, FeedForward)
    layer.activation = function


STRANGE: dict[str, Callable[[GPT], object]] = {
    "feed-forward": lambda m: [setattr(block, "feed_forward", GEGLU()) for block in m.blocks],
    "rotation": lambda m: setattr(m, "positions", Reversed(context=12, head_width=8)),
    "positions": lambda m: setattr(m, "positions", Doubled(context=12, width=16)),
    "n-grams": lambda m: setattr(m, "ngrams", Repeated()),
    "norm": lambda m: setattr(m, "norm", Halved(width=16, eps=1e-5)),
    "norm of a block": lambda m: setattr(m.blocks[1], "attention_norm", Halved(width=16, eps=1e-5)),
    "dropout": lambda m: setattr(m, "dropout", Noisy(0.1)),
    "lm_head": lambda m: setattr(m, "lm_head", nn.Sequential(nn.Linear(16, 11))),
    "activation": lambda m: [activation(block.feed_forward, torch.sin) for block in m.blocks],
    "one block's activation": lambda m: activation(m.blocks[1].feed_forward, nn.functional.relu),
    "one block's scale": lambda m: setattr(m.blocks[1].attention.attend, "scale", 2.0),
    "one block's ε": lambda m: setattr(m.blocks[1].attention, "qk_norm_eps", 1e-3),
    "one block without residual": lambda m: setattr(m.blocks[1], "residual", False),
    "one block without feed-forward": lambda m: setattr(m.blocks[1], "feed_forward", None),
    "embedding": lambda m: setattr(m.embedding, "max_norm", 0.1),
    "a listener": lambda m: m.blocks[0].register_forward_hook(lambda module, args, y: 2 * y),
    "an early listener": lambda m: m.blocks[0].register_forward_pre_hook(lambda module, args: None),
    "parametrized": lambda m: nn.utils.parametrizations.weight_norm(m.blocks[0].attention.qkv),
}


@pytest.mark.parametrize("what", STRANGE)
def test_what_the_kernel_does_not_know_is_torchs_work(what: str) -> None:
    """It died of a feed-forward kind, divided by zero for n-grams, and wrote other logits for the rest."""
    changed = model()
    assert NativeDecoder.fits(changed)
    STRANGE[what](changed.eval())
    assert not NativeDecoder.fits(changed)
    assert fastest_decoder(changed) is CachedDecoder
    tokens = torch.arange(9)[None]
    logits = CachedDecoder(changed, slots=1).feed({0: tokens[0].tolist()})
    torch.testing.assert_close(logits, changed(tokens)[:, -1].detach())


def test_buckets_beyond_the_kernels_numbers() -> None:
    changed = model()
    changed.ngrams = HashedNGrams(longest=2, buckets=7, width=16)
    assert NativeDecoder.fits(changed)
    changed.ngrams.buckets = 2**31
    assert not NativeDecoder.fits(changed)


def test_plain_parts_of_torch_are_known() -> None:
    changed = model()
    changed.positions, changed.dropout = Positions(), nn.Dropout(0.2)
    assert NativeDecoder.fits(changed.eval())


@pytest.mark.parametrize("name", STRUCTS)
def test_both_sides_mean_the_same_memory(name: str) -> None:
    assert names_in_c("octavo.generation", "decode", name) == [name for name, *_ in STRUCTS[name]._fields_]


def test_a_struct_of_another_size_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = native.compiled()
    assert kernel is not None
    described.checked(kernel)

    class Longer(described.ModelStruct):
        _fields_ = (("more", ctypes.c_int),)

    monkeypatch.setattr(described, "ModelStruct", Longer)
    with pytest.raises(AssertionError, match="bytes in C"):
        described.checked(kernel)
