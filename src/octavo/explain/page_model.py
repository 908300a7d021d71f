"""What a page is told of a model and its tokenizer, and which of them it cannot compute.

C width, D head width, F features, R turned dimensions, T positions, V vocabulary.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import torch

from octavo.config import Recipe
from octavo.config.parts import part
from octavo.errors import InputError
from octavo.explain.page_weights import WeightType, unpacked
from octavo.model.base import LanguageModel
from octavo.model.gpt import GPT
from octavo.model.grid import GridPositions
from octavo.model.positions import RotaryPositions, SinusoidalPositions
from octavo.ngram.mixture import KneserNeyCounts
from octavo.tokenizers import Tokenizer
from octavo.tokenizers.base import Extended
from octavo.tokenizers.bpe import BPETokenizer
from octavo.tokenizers.byte import ByteLevelTokenizer, ByteTokenizer
from octavo.tokenizers.char import CharTokenizer
from octavo.tokenizers.gpt2 import GPT2Tokenizer
from octavo.tokenizers.word import WordTokenizer

NORMS = ("none", "layer", "plain", "rms")
FEED_FORWARDS = ("none", "relu", "gelu", "gelu_tanh", "relu2", "swiglu")
POSITIONS = ("none", "learned", "sinusoidal", "rotary", "grid", "grid-rotary")
NGRAMS = ("none", "hashed")
COUNTED = ("none", "kneser-ney")
TOKENIZERS = ("char", "byte", "bpe", "gpt2", "word", "symbols")
COUNTS, TEXT = "counts.", "counts.tokens"
MOST_COUNTED = 1_000_000
"""Tokens of a training text that a page counts anew; it takes some seconds."""
LARGEST = 25_000_000
"""Parameters of a model that a page can hold."""


def beyond_page(recipe: Recipe, tokenizer: Tokenizer) -> list[str]:
    """What a page cannot compute of a model, as sentences; none where it can compute all. Counts beside the network
    are no reason: a page then shows the network alone."""
    config = recipe.model
    if config.kind != "gpt":
        return [f"A page computes models of kind gpt, and this one is of kind {config.kind}."]
    if config.takes_vectors:
        return [
            f"A page reads tokens, and this model reads rows of numbers (model.input={config.input.kind})."
        ]
    if getattr(recipe.batches, "attention", "") == "prefix":
        return [
            "A page reads from left to right, and this model sees all of a source (batches.attention=prefix)."
        ]
    known = {
        "norm": NORMS,
        "feed_forward": FEED_FORWARDS,
        "positions": POSITIONS,
        "ngrams": NGRAMS,
        "counts": COUNTED,
        "input": ("tokens",),
        "output": ("tokens",),
    }
    found = [
        f"A page does not know {name}={getattr(config, name).kind} (it knows {', '.join(kinds)})."
        for name, kinds in known.items()
        if getattr(config, name).kind not in kinds
    ]
    if tokenizer.kind not in TOKENIZERS:
        found.append(
            f"A page cannot make tokens as tokenizer={tokenizer.kind} does (it knows {', '.join(TOKENIZERS)})."
        )
    return found


def refuse_beyond(recipe: Recipe, tokenizer: Tokenizer) -> None:
    """Raise InputError for a model that a page cannot compute, or is too large for one."""
    if beyond := beyond_page(recipe, tokenizer):
        raise InputError(" ".join(beyond), remedy="octavo generate and octavo eval work with every model")
    parameters = recipe.model.parameters(vocab_size=tokenizer.vocab_size)
    if parameters > LARGEST:
        raise InputError(
            f"The model has {parameters:,} parameters; a page holds at most {LARGEST:,}.",
            remedy="octavo generate RUN and octavo serve RUN write with it; a smaller model can be explained",
        )


def described(config: Any, *, vocab_size: int) -> dict[str, Any]:
    """The shape and the switches, as `web/src/facts.ts` reads them."""
    counts = config.counts
    options = config.attention_options(False)
    norm, feed_forward, ngrams = config.norm, config.feed_forward, config.ngrams
    return {
        "layers": config.layers,
        "width": config.width,
        "heads": config.heads,
        "kv_heads": config.resolved_kv_heads,
        "head_width": config.resolved_head_width,
        "context": config.context,
        "vocab": int(vocab_size),
        "features": 0 if feed_forward.kind == "none" else feed_forward.features(config.width),
        "norm": {"kind": norm.kind, "eps": getattr(norm, "eps", 0.0)},
        "norm_place": config.norm_place,
        "embedding_norm": config.embedding_norm,
        "final_norm": config.final_norm,
        "residual": config.residual,
        "scale": float(options["attend"].scale),
        "qk_norm_eps": config.qk_norm_eps if config.qk_norm else None,
        "feed_forward": feed_forward.kind,
        "ngrams": None
        if ngrams.kind == "none"
        else {"buckets": ngrams.buckets, "before": ngrams.longest - 1},
        "tied": config.tied,
        "softcap": config.logit_softcap,
        "positions": config.positions.kind,
        "counts": None if counts.kind == "none" else {"orders": counts.orders, "recent": counts.recent},
    }


def trained_tensors(model: LanguageModel) -> dict[str, np.ndarray]:
    """The network's weights by their names, each once; none of what is counted beside it."""
    return {
        name: weight.detach().float().cpu().numpy()
        for name, weight in model.named_parameters()
        if not name.startswith(COUNTS)
    }


def computed_tensors(model: GPT) -> dict[str, np.ndarray]:
    """What follows from the config, or from trained weights, and the page need not compute: tables of positions (T, C)
    and angles (T, R/2). They stay in float32."""
    positions = model.positions
    if isinstance(positions, RotaryPositions):
        return {"positions.cos": positions.cos.numpy(), "positions.sin": positions.sin.numpy()}
    if isinstance(positions, SinusoidalPositions | GridPositions):
        return {"positions.weight": positions.table.detach().numpy()}
    return {}


def counted_tensors(model: GPT) -> dict[str, np.ndarray]:
    """What counts beside the network need: the gates' weights, and the training text as ids."""
    counts = model.counts
    if not isinstance(counts, KneserNeyCounts):
        return {}
    found = {name: tensor for name, tensor in counts.state_dict().items() if name != "tokens"}
    tokens = counts.tokens.to(torch.int32).cpu().numpy()
    short = np.uint8 if model.vocab_size <= 256 else np.uint16 if model.vocab_size <= 2**16 else np.int32
    arrays = {name: tensor.float().cpu().numpy() for name, tensor in found.items()}
    return {f"{COUNTS}{name}": array for name, array in arrays.items()} | {TEXT: tokens.astype(short)}


@contextmanager
def as_packed(model: GPT, kind: WeightType) -> Iterator[None]:
    """Within the context a model has the weights that a page has."""
    own = {name: weight for name, weight in model.named_parameters() if not name.startswith(COUNTS)}
    before = {name: weight.detach().clone() for name, weight in own.items()}
    with torch.no_grad():
        for name, tensor in unpacked(trained_tensors(model), kind).items():
            own[name].copy_(torch.from_numpy(tensor))
        try:
            yield
        finally:
            for name, tensor in before.items():
                own[name].copy_(tensor)


def tokenizer_facts(tokenizer: Tokenizer) -> dict[str, Any]:
    """What a page needs to make tokens of a text and a text of tokens; see `beyond_page` for the kinds."""
    inner = tokenizer.inner if isinstance(tokenizer, Extended) else tokenizer
    size = int(tokenizer.vocab_size)
    facts: dict[str, Any] = {
        "kind": tokenizer.kind,
        "names": [tokenizer.token_text(id) for id in range(size)],
        "start": tokenizer.start,
        "end": tokenizer.end,
        "special": sorted(tokenizer.special.values()),
        "unknown": tokenizer.unknown,
    }
    if isinstance(inner, CharTokenizer | ByteTokenizer):
        facts["characters"] = inner.characters
    elif isinstance(inner, BPETokenizer | GPT2Tokenizer):
        facts |= _pieces(inner)
    elif isinstance(inner, WordTokenizer):
        facts |= {"words": list(inner.words), "lowercase": inner.lowercase, "lines": inner.lines}
    elif isinstance(inner, cast(Any, part("tokenizer", "symbols")).tokenizer):
        facts |= {"symbols": list(inner.names) or None, "size": inner.size, "spaced": inner.spaced}
    return facts


def _pieces(inner: ByteLevelTokenizer) -> dict[str, Any]:
    """The bytes of each token, as a text whose characters are their values; and where they are known, its merges in
    their order, (left, right, made) each."""
    facts: dict[str, Any] = {"bytes": [token.decode("latin-1") for token in inner._bytes]}
    if isinstance(inner, BPETokenizer):
        model = json.loads(inner._files()["tokenizer.json"])["model"]
        ids, pairs = model["vocab"], model["merges"]
        halves = [pair.split(" ") if isinstance(pair, str) else pair for pair in pairs]
        facts["merges"] = [[ids[left], ids[right], ids[left + right]] for left, right in halves]
    return facts
