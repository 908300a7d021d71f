"""A run's model as plain data: what it is made of (`Shape`) and its tensors by name. Rewrites act on these.

Tensors are named as in `octavo.export.model.Model`: one matrix each for queries, keys and values, and for gate
and input.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from octavo.errors import InputError
from octavo.export.model import Model
from octavo.model.attention import QK_EPS
from octavo.model.base import LanguageModel, ModelConfig
from octavo.model.config import GPTConfig
from octavo.model.gpt import GPT


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Everything about a transformer but its weights.

    Attributes:
        features: F inside the feed-forward layer; 0 where there is none (`activation` is "none").
        positions: "none", "table" (a vector for each), "sinusoidal" (fixed, to be put into a table), "rotary".
        base, turned, slowness: of rotary positions; R dimensions turn, pair i by base^(−2i/R) / slowness[i] a position.
        norm: "layer", "rms" or "none"; `norm_scale` and `norm_bias` say what of it is trained.
        projects: whether the joined heads are projected back.
        attention_scale: what scores are multiplied by.
        qk_scale: whether the norm of queries and keys has a trained scale.
        softcap: logits are squashed to ± this.
        longest, buckets: of n-gram tables; longest 1 means none.
        spare: so many channels at the end of the width are zero in every activation.
    """

    vocab_size: int
    context: int
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_width: int
    features: int
    activation: str
    gated: bool = False
    feed_forward_bias: bool = False
    positions: str
    base: float = 10000.0
    turned: int = 0
    slowness: tuple[float, ...] = ()
    norm: str
    norm_eps: float = 1e-5
    norm_scale: bool = True
    norm_bias: bool = False
    norm_place: str = "pre"
    embedding_norm: bool = False
    final_norm: bool = True
    residual: bool = True
    qkv_bias: bool = False
    output_bias: bool = False
    projects: bool = True
    attention_scale: float
    qk_norm: bool = False
    qk_eps: float = QK_EPS
    qk_scale: bool = False
    tied: bool = False
    head_bias: bool = False
    softcap: float | None = None
    longest: int = 1
    buckets: int = 1
    spare: int = 0

    # What architectures ask beside the fields

    @property
    def grouped(self) -> bool:
        """Whether several query heads share keys and values."""
        return self.kv_heads != self.heads

    @property
    def fills_width(self) -> bool:
        """Whether the heads together are as wide as the model."""
        return self.heads * self.head_width == self.width

    @property
    def partly_turned(self) -> bool:
        """Whether a part of each head stands still in rotary positions."""
        return self.positions == "rotary" and self.turned < self.head_width

    @property
    def own_speeds(self) -> bool:
        """Whether pairs turn at other speeds than powers of the base."""
        return bool(self.slowness)

    @property
    def usual_scale(self) -> bool:
        """Whether scores are divided by the root of the head width."""
        return math.isclose(self.attention_scale, self.head_width**-0.5, rel_tol=1e-9)

    @property
    def one_eps(self) -> bool:
        """Whether all norms add the same."""
        return not self.qk_norm or self.qk_eps == self.norm_eps

    @property
    def one_bias(self) -> bool:
        """Whether attention has all of its biases or none."""
        return self.qkv_bias == self.output_bias

    @property
    def four_wide(self) -> bool:
        """Whether the feed-forward layer is four times as wide as the model."""
        return self.features == 4 * self.width

    @property
    def capped(self) -> bool:
        """Whether logits pass through a tanh."""
        return self.softcap is not None

    @property
    def ngrams(self) -> bool:
        """Whether the last tokens together have vectors."""
        return self.longest > 1

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON values; `Shape(**…)` is the way back."""
        return asdict(self) | {"slowness": list(self.slowness)}


@dataclass(frozen=True)
class Weights:
    """A shape and its tensors, float32 or float64. A tied head has no tensor of its own."""

    shape: Shape
    tensors: dict[str, Tensor]

    def becomes(self, tensors: dict[str, Tensor] | None = None, **changes: Any) -> Weights:
        """The same with other tensors and changed fields of the shape."""
        return Weights(replace(self.shape, **changes), self.tensors if tensors is None else tensors)

    def to(self, dtype: torch.dtype) -> Weights:
        """The same in another number type."""
        return Weights(self.shape, {name: tensor.to(dtype) for name, tensor in self.tensors.items()})

    def model(self) -> Model:
        """The module, in the tensors' number type."""
        with torch.device("meta"):
            model = Model(self.shape.as_dict())
        tensors = dict(self.tensors)
        if self.shape.tied:
            tensors["head.weight"] = tensors["embedding.weight"]
        for name, missing in model.state_dict().items():
            if missing.numel() == 0:
                tensors[name] = torch.zeros(missing.shape)
        model.load_state_dict(tensors, assign=True)
        return model.eval()


def shape_of(config: ModelConfig, *, vocab_size: int) -> Shape:
    """The shape of a recipe's model. Raises InputError for a kind of model, or a part, that Octavo itself lacks."""
    if type(config) is not GPTConfig:
        raise InputError(
            f"A model of kind '{config.kind}' is no GPT; only those of kind 'gpt' can be exported."
        )
    if config.takes_vectors:
        raise InputError(
            f"model.input={config.input.kind} reads rows of numbers; only models of tokens can be exported."
        )
    if config.counts.kind != "none":
        raise InputError(
            "Counts of the training text (model.counts) cannot be exported: no other library has them.",
            remedy="export the network alone with --network-only; its own loss is measured",
        )
    activation, gated = FEED_FORWARDS[_known(config.feed_forward.kind, tuple(FEED_FORWARDS), "feed_forward")]
    scales = {"head": config.resolved_head_width**-0.5, "model": config.width**-0.5}
    scale = config.attention_scale
    has_features = config.feed_forward.kind != "none"
    return Shape(
        vocab_size=vocab_size,
        context=config.context,
        layers=config.layers,
        width=config.width,
        heads=config.heads,
        kv_heads=config.resolved_kv_heads,
        head_width=config.resolved_head_width,
        features=config.feed_forward.features(config.width) if has_features else 0,
        activation=activation,
        gated=gated,
        feed_forward_bias=has_features and config.feed_forward.bias,
        **_positions(config),
        **_norm(config),
        norm_place=config.norm_place,
        final_norm=config.final_norm and config.norm.kind != "none",
        residual=config.residual,
        qkv_bias=config.qkv_bias,
        output_bias=config.output_projection and config.output_bias,
        projects=config.output_projection,
        attention_scale=scales[scale] if isinstance(scale, str) else scale,
        qk_norm=config.qk_norm,
        qk_eps=config.qk_norm_eps,
        qk_scale=config.qk_norm_scale,
        tied=config.tied,
        head_bias=config.head_bias,
        softcap=config.logit_softcap,
        **_ngrams(config),
    )


FEED_FORWARDS = {
    **{kind: (kind, False) for kind in ("relu", "gelu", "gelu_tanh", "relu2", "none")},
    "swiglu": ("silu", True),
}
"""By kind: the activation, and whether a gate multiplies it."""


def _known(kind: str, kinds: tuple[str, ...], room: str) -> str:
    if kind not in kinds:
        raise InputError(
            f"{room} '{kind}' is a part that no other library knows.",
            remedy=f"those that can be exported: {', '.join(kinds)}",
        )
    return kind


def _positions(config: GPTConfig) -> dict[str, Any]:
    positions = config.positions
    kind = _known(positions.kind, ("none", "learned", "sinusoidal", "rotary"), "positions")
    if kind == "rotary":
        turned = max(2, int(positions.share * config.resolved_head_width) // 2 * 2)
        return {"positions": kind, "base": positions.base, "turned": turned}
    return {
        "positions": "table" if kind == "learned" else kind,
        "base": getattr(positions, "base", 10000.0),
    }


def _norm(config: GPTConfig) -> dict[str, Any]:
    norm = config.norm
    kind = _known(norm.kind, ("none", "layer", "plain", "rms"), "norm")
    trained = {
        "layer": lambda: {"norm_scale": True, "norm_bias": norm.bias},
        "plain": lambda: {"norm_scale": False, "norm_bias": False},
        "rms": lambda: {"norm_scale": norm.scale, "norm_bias": False},
        "none": lambda: {"norm_scale": False, "norm_bias": False},
    }[kind]()
    eps = {} if kind == "none" else {"norm_eps": norm.eps}
    return {
        "norm": "layer" if kind == "plain" else kind,
        "embedding_norm": config.embedding_norm and kind != "none",
        **trained,
        **eps,
    }


def _ngrams(config: GPTConfig) -> dict[str, Any]:
    kind = _known(config.ngrams.kind, ("none", "hashed"), "ngrams")
    return {} if kind == "none" else {"longest": config.ngrams.longest, "buckets": config.ngrams.buckets}


def weights_of(model: LanguageModel, config: ModelConfig) -> Weights:
    """A run's model as plain data, in float32. Raises InputError; see `shape_of`."""
    shape = shape_of(config, vocab_size=model.vocab_size)
    assert isinstance(model, GPT)
    own = {name: tensor.detach().float() for name, tensor in model.state_dict().items()}
    tensors: dict[str, Tensor] = {}
    for name, tensor in own.items():
        if name.startswith("ngrams."):
            tensors["ngrams.weight"] = tensor
        elif ".attention.qkv." in name:
            heads = (shape.heads, shape.kv_heads, shape.kv_heads)
            parts = tensor.split([count * shape.head_width for count in heads])
            tensors |= {name.replace("qkv", part): each for part, each in zip("qkv", parts, strict=True)}
        elif ".gate_up_proj." in name:
            parts = tensor.chunk(2)
            ends = ("gate", "into")
            tensors |= {
                name.replace("gate_up_proj", end): each for end, each in zip(ends, parts, strict=True)
            }
        else:
            tensors[_renamed(name)] = tensor
    if shape.tied:
        del tensors["head.weight"]
    return Weights(shape, {name: tensor.clone().contiguous() for name, tensor in tensors.items()})


OURS = {
    "lm_head.": "head.",
    ".up_proj.": ".into.",
    ".down_proj.": ".out.",
    ".attention.project.": ".attention.out.",
    ".attention.q_scale": ".attention.q_norm.weight",
    ".attention.k_scale": ".attention.k_norm.weight",
}
"""Names of the GPT's tensors and of the same ones here, where they differ."""


def _renamed(name: str) -> str:
    for own, here in OURS.items():
        name = name.replace(own, here)
    return name
