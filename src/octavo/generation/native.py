"""Decoding a model of modules by the native kernel; where that does not take it, `NativeDecoder.fits` says no and torch
decodes.

V vocabulary.
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from octavo.config.limits import MOST
from octavo.generation.counts import GatedMixture, Heard, with_state
from octavo.generation.decoder import Span
from octavo.generation.kernel import KernelDecoder, Packed, compiled
from octavo.generation.network import KINDS, Counted, Layer, Matrix, Network, Norm
from octavo.generation.sampling import Precision, Window
from octavo.model.attention import Attention, ExplicitAttend, FusedAttend
from octavo.model.base import LanguageModel
from octavo.model.dropout import Dropout
from octavo.model.feedforward import ACTIVATIONS, FeedForward, SwiGLU
from octavo.model.gpt import GPT, Block, PostNormBlock
from octavo.model.grid import GridPositions, GridRotary
from octavo.model.inputs import HashedNGrams, NGrams
from octavo.model.norms import RootMeanSquareNorm
from octavo.model.positions import LearnedPositions, Positions, RotaryPositions, SinusoidalPositions
from octavo.ngram.gate import Recent
from octavo.ngram.mixing_counts import MixingCounts
from octavo.ngram.mixture import Counts, KneserNeyCounts

# Which modules and options the kernel knows.

_NORMS: dict[type[nn.Module], str] = {nn.Identity: "none", nn.LayerNorm: "layer", RootMeanSquareNorm: "rms"}
_NORM = tuple(_NORMS)
_DROPOUT = (Dropout, nn.Dropout)  # which do nothing when a model writes
_PLACES: dict[str, tuple[type[nn.Module], ...]] = {
    "": (GPT,),
    "embedding": (nn.Embedding,),
    "ngrams": (NGrams, HashedNGrams),
    "positions": (
        Positions,
        LearnedPositions,
        SinusoidalPositions,
        RotaryPositions,
        GridPositions,
        GridRotary,
    ),
    "embedding_norm": _NORM,
    "dropout": _DROPOUT,
    "blocks": (nn.ModuleList,),
    "blocks.N": (Block, PostNormBlock),
    "blocks.N.attention_norm": _NORM,
    "blocks.N.attention": (Attention,),
    "blocks.N.attention.qkv": (nn.Linear,),
    "blocks.N.attention.attend": (FusedAttend, ExplicitAttend),
    "blocks.N.attention.attend.weights": (nn.Identity,),
    "blocks.N.attention.attend.drop": _DROPOUT,
    "blocks.N.attention.project": (nn.Linear, nn.Identity),
    "blocks.N.attention.dropout": _DROPOUT,
    "blocks.N.feed_forward_norm": _NORM,
    "blocks.N.feed_forward": (FeedForward, SwiGLU),
    "blocks.N.feed_forward.up_proj": (nn.Linear,),
    "blocks.N.feed_forward.gate_up_proj": (nn.Linear,),
    "blocks.N.feed_forward.down_proj": (nn.Linear,),
    "blocks.N.feed_forward.dropout": _DROPOUT,
    "norm": _NORM,
    "lm_head": (nn.Linear,),
    "counts": (Counts, KneserNeyCounts, MixingCounts),
    "counts.from_state": (nn.Linear,),
    "counts.from_known": (nn.Linear,),
    "counts.out": (nn.Linear,),
    "counts.recent": (Recent,),
}
"""What may stand where; nothing else may stand anywhere."""


def knows(model: nn.Module) -> bool:
    """Whether the kernel computes what every module of this model does, with the options that it has."""
    return (
        type(model) is GPT
        and all(_known(name, module) for name, module in model.named_modules(remove_duplicate=False))
        and len({_alike(block) for block in model.blocks}) == 1
        and model.blocks[0].attention.causal
        and kind_of(model.blocks[0].feed_forward) is not None
        and model.embedding.max_norm is None
        and getattr(model.ngrams, "buckets", 0) <= MOST
    )


def _known(name: str, module: nn.Module) -> bool:
    listened = module._forward_hooks or module._forward_pre_hooks  # to them the kernel tells nothing
    return type(module) in _PLACES.get(re.sub(r"\d+", "N", name), ()) and not listened


def _alike(block: Block) -> tuple[object, ...]:
    """What the kernel knows only once, for all blocks."""
    attention, inner = block.attention, block.feed_forward
    heads = (attention.heads, attention.kv_heads, attention.head_width, attention.qk_norm)
    heads += (attention.qk_norm_eps, attention.causal)
    matrices = (attention.qkv, attention.project, *(() if inner is None else inner.children()))
    shapes = tuple(layer.weight.shape for layer in matrices if isinstance(layer, nn.Linear))
    return type(block), block.residual, heads, attention.attend.scale, kind_of(inner), shapes


def kind_of(layer: nn.Module | None) -> str | None:
    """What the kernel calls a feed-forward layer; None for one that it does not know."""
    if layer is None:
        return "none"
    if isinstance(layer, SwiGLU):
        return "swiglu"
    function = getattr(layer, "activation", None)
    return next((name for name in KINDS if function is not None and ACTIVATIONS.get(name) is function), None)


# A model's modules as the kernel reads them.


def network_of(model: GPT) -> Network:
    """All that `knows` allows."""
    first = model.blocks[0]
    heads, kind = first.attention.described(), kind_of(first.feed_forward)
    assert kind is not None, "see `fits`"
    ngrams, positions = model.ngrams, model.positions
    return Network(
        vocab_size=model.vocab_size,
        context=model.context,
        width=model.embedding.weight.shape[1],
        heads=heads.heads,
        kv_heads=heads.kv_heads,
        head_width=heads.width,
        scale=heads.scale,
        qk_eps=heads.qk_eps,
        activation=kind,
        post_norm=isinstance(first, PostNormBlock),
        residual=first.residual,
        softcap=model.logit_softcap,
        embedding=_numbers(model.embedding.weight),
        embedding_norm=_norm(model.embedding_norm),
        layers=[_layer(block) for block in model.blocks],
        norm=_norm(model.norm),
        head=_head(model),
        before=ngrams.before,
        buckets=getattr(ngrams, "buckets", 0),
        ngrams=_maybe(getattr(ngrams, "weight", None)),
        positions=_maybe(getattr(positions, "weight", getattr(positions, "table", None))),
        cosines=_maybe(getattr(positions, "cos", None)),
        sines=_maybe(getattr(positions, "sin", None)),
        counts=_counted(model.counts),
    )


def _head(model: GPT) -> Matrix:
    own, counts = _matrix(model.lm_head), model.counts
    if isinstance(counts, KneserNeyCounts) and counts.has_text:
        return with_state(own, _numbers(counts.from_state.weight))
    return own


def _counted(counts: Counts) -> Counted | None:
    if not isinstance(counts, KneserNeyCounts | MixingCounts) or not counts.has_text:
        return None
    recent = None if counts.recent is None else counts.recent.gate()
    if isinstance(counts, MixingCounts):
        return Counted(lambda: Heard(counts.tables), counts.ngrams, recent)
    gate = (_matrix(counts.from_known), _matrix(counts.out))
    return Counted(lambda: GatedMixture(counts.tables, *gate), counts.ngrams, recent)


def _layer(block: Block) -> Layer:
    attention, inner = block.attention, block.feed_forward
    out = getattr(inner, "down_proj", None)
    into = getattr(inner, "gate_up_proj", getattr(inner, "up_proj", None))
    return Layer(
        attention_norm=_norm(block.attention_norm),
        feed_forward_norm=_norm(block.feed_forward_norm),
        qkv=_matrix(attention.qkv),
        project=_matrix(attention.project) if isinstance(attention.project, nn.Linear) else None,
        into=None if into is None else _matrix(into),
        out=None if out is None else _matrix(out),
        q_scale=_maybe(attention.q_scale),
        k_scale=_maybe(attention.k_scale),
    )


def _norm(norm: nn.Module) -> Norm:
    weight, bias = (_maybe(getattr(norm, name, None)) for name in ("weight", "bias"))
    return Norm(_NORMS[type(norm)], weight, bias, getattr(norm, "eps", 0.0))


def _matrix(layer: nn.Linear) -> Matrix:
    return Matrix(_numbers(layer.weight), _maybe(layer.bias), owner=layer.weight)


def _maybe(tensor: Tensor | None) -> np.ndarray | None:
    return None if tensor is None else _numbers(tensor)


def _numbers(tensor: Tensor) -> np.ndarray:
    return tensor.detach().float().contiguous().numpy()


_PACKED: MutableMapping[Tensor, tuple[tuple[object, ...], Packed]] = WeakTensorKeyDictionary()
"""Matrices as the kernel reads them, after the state of the weights at that time, for as long as the weights live."""


class NativeDecoder(KernelDecoder):
    """The same for a model of modules; it gives tensors."""

    def __init__(
        self, model: LanguageModel, *, slots: int, precision: Precision = "float32", window: Window = "slide"
    ) -> None:
        assert isinstance(model, GPT), "see `fits`"
        options = {"slots": slots, "precision": precision, "window": window}
        super().__init__(model, **options, network=network_of(model))

    @staticmethod
    def fits(model: LanguageModel) -> bool:
        """Whether the kernel can take this model, and is there."""
        weights = list(model.parameters())
        plain = all(weight.dtype == torch.float32 and weight.device.type == "cpu" for weight in weights)
        return plain and knows(model) and not model.training and compiled() is not None

    def read(self, spans: Sequence[Span]) -> Tensor:
        return torch.from_numpy(super().read(spans))

    def _panels(self, matrix: Matrix) -> Packed:
        """Kept while the matrix is unchanged."""
        weight = matrix.owner
        if not isinstance(weight, Tensor):
            return super()._panels(matrix)
        state = (self.precision, weight.data_ptr(), weight._version, float(weight.detach().sum()))
        kept = _PACKED.get(weight)
        if kept is None or kept[0] != state:
            kept = _PACKED[weight] = (state, self._packed(matrix.weight))
        return kept[1]
