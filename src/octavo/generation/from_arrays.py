"""A network from what a checkpoint holds: the settings of its model as plain data, and its weights in numpy.

It is what `native.network_of` makes of the modules that these settings build. What is not known here is refused, and
left to them: `NotKnown`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from octavo.config.limits import MOST
from octavo.generation.network import KINDS, Counted, Layer, Matrix, Network, Norm
from octavo.model.angles import turned_of, turns, waves

if TYPE_CHECKING:
    from octavo.ngram.recent import Gate

SETTINGS = frozenset(
    "kind layers width heads kv_heads head_width context input output positions ngrams counts norm norm_place "
    "embedding_norm final_norm residual qkv_bias output_projection output_bias attention_scale qk_norm qk_norm_eps "
    "qk_norm_scale feed_forward dropout tied head_bias logit_softcap initialization".split()
)
"""Of a GPT; one more may mean anything."""
PARTS: Mapping[str, Mapping[str, str]] = {
    "input": {"tokens": ""},
    "output": {"tokens": ""},
    "counts": {"none": "", "mixing": "share recent most", "kneser-ney": "orders hidden share recent"},
    "ngrams": {"none": "", "hashed": "longest buckets"},
    "positions": {"none": "", "learned": "", "sinusoidal": "base", "rotary": "base share"},
    "norm": {"none": "", "layer": "eps bias", "plain": "eps", "rms": "eps scale"},
    "feed_forward": {"none": "", **dict.fromkeys(KINDS[1:], "width bias")},
}
"""By setting and kind: the options of the parts that are known here."""


class NotKnown(Exception):
    """The network has a part that is not known here."""


class _Weights:
    """Those of a checkpoint, each of which is taken once."""

    def __init__(self, weights: Mapping[str, np.ndarray]) -> None:
        self._left = dict(weights)

    def unchecked(self, name: str) -> np.ndarray:
        """Of any kind and shape."""
        if (found := self._left.pop(name, None)) is None:
            raise NotKnown(name)
        return found

    def take(self, name: str, *shape: int) -> np.ndarray:
        """-1 in the shape: any number."""
        found = self.unchecked(name)
        if found.dtype != np.float32 or found.ndim != len(shape):
            raise NotKnown(name)
        if any(size not in (-1, own) for size, own in zip(shape, found.shape, strict=True)):
            raise NotKnown(name)
        if not np.isfinite(found).all():
            raise NotKnown(name)
        return found

    def matrix(self, name: str, rows: int, columns: int, *, bias: bool) -> Matrix:
        weight = self.take(f"{name}.weight", rows, columns)
        return Matrix(weight, self.take(f"{name}.bias", len(weight)) if bias else None)

    def norm(self, name: str, options: Mapping[str, Any], width: int) -> Norm:
        kind = options["kind"]
        if kind == "none":
            return Norm("none")
        scaled = kind == "layer" or (kind == "rms" and options["scale"])
        shifted = kind == "layer" and options["bias"]
        return Norm(
            "rms" if kind == "rms" else "layer",
            self.take(f"{name}.weight", width) if scaled else None,
            self.take(f"{name}.bias", width) if shifted else None,
            options["eps"],
        )

    def refuse_rest(self) -> None:
        if self._left:
            raise NotKnown(*self._left)


def network_from(model: Mapping[str, Any], weights: Mapping[str, np.ndarray], *, vocab_size: int) -> Network:
    """The network of a recipe's `model`, as a checkpoint's config.yaml has it, and of its weights by name.

    Raises NotKnown.
    """
    _refuse_unknown(model)
    taken, width, heads = _Weights(weights), model["width"], model["heads"]
    head_width, kv_heads = model["head_width"] or width // heads, model["kv_heads"] or heads
    scale = model["attention_scale"]
    embedding = taken.take("embedding.weight", vocab_size, width)
    head = Matrix(embedding)
    if not model["tied"]:
        head = Matrix(taken.take("lm_head.weight", vocab_size, width))
    if model["head_bias"]:
        head = Matrix(head.weight, taken.take("lm_head.bias", vocab_size))
    head, counts = _counted(taken, model["counts"], head)
    before, buckets, table = _ngrams(taken, model["ngrams"], width)
    positions = _added(taken, model["positions"], model["context"], width)
    cosines, sines = _turned(model["positions"], model["context"], head_width)
    no_norm = {"kind": "none"}
    network = Network(
        vocab_size=vocab_size,
        context=model["context"],
        width=width,
        heads=heads,
        kv_heads=kv_heads,
        head_width=head_width,
        scale={"head": head_width**-0.5, "model": width**-0.5}[scale] if isinstance(scale, str) else scale,
        qk_eps=model["qk_norm_eps"] if model["qk_norm"] else None,
        activation=model["feed_forward"]["kind"],
        post_norm=model["norm_place"] == "post",
        residual=model["residual"],
        softcap=model["logit_softcap"],
        embedding=embedding,
        embedding_norm=taken.norm(
            "embedding_norm", model["norm"] if model["embedding_norm"] else no_norm, width
        ),
        layers=[
            _layer(taken, model, f"blocks.{n}", heads, kv_heads, head_width) for n in range(model["layers"])
        ],
        norm=taken.norm("norm", model["norm"] if model["final_norm"] else no_norm, width),
        head=head,
        before=before,
        buckets=buckets,
        ngrams=table,
        positions=positions,
        cosines=cosines,
        sines=sines,
        counts=counts,
    )
    taken.refuse_rest()
    return network


def _refuse_unknown(model: Mapping[str, Any]) -> None:
    if model.keys() != SETTINGS or model["kind"] != "gpt":
        raise NotKnown("settings")
    for name, kinds in PARTS.items():
        options = model[name]
        known = kinds.get(options["kind"])
        if known is None or options.keys() != {"kind", *known.split()}:
            raise NotKnown(name)


def _layer(
    taken: _Weights, model: Mapping[str, Any], name: str, heads: int, kv_heads: int, head_width: int
) -> Layer:
    width, inner = model["width"], model["feed_forward"]
    attention, feed_forward = f"{name}.attention", f"{name}.feed_forward"
    rows, joined = (heads + 2 * kv_heads) * head_width, heads * head_width
    project = into = out = None
    if model["output_projection"]:
        project = taken.matrix(f"{attention}.project", width, joined, bias=model["output_bias"])
    elif joined != width:
        raise NotKnown(attention)
    if inner["kind"] != "none":
        first = "gate_up_proj" if inner["kind"] == "swiglu" else "up_proj"
        into = taken.matrix(f"{feed_forward}.{first}", -1, width, bias=inner["bias"])
        out = taken.matrix(f"{feed_forward}.down_proj", width, -1, bias=inner["bias"])
        if len(into.weight) != out.weight.shape[1] * (2 if inner["kind"] == "swiglu" else 1):
            raise NotKnown(feed_forward)
    scales = [None, None]
    if model["qk_norm_scale"]:
        scales = [taken.take(f"{attention}.{each}_scale", head_width) for each in "qk"]
    norm = model["norm"] if inner["kind"] != "none" else {"kind": "none"}
    return Layer(
        attention_norm=taken.norm(f"{name}.attention_norm", model["norm"], width),
        feed_forward_norm=taken.norm(f"{name}.feed_forward_norm", norm, width),
        qkv=taken.matrix(f"{attention}.qkv", rows, width, bias=model["qkv_bias"]),
        project=project,
        into=into,
        out=out,
        q_scale=scales[0],
        k_scale=scales[1],
    )


def _counted(taken: _Weights, options: Mapping[str, Any], head: Matrix) -> tuple[Matrix, Counted | None]:
    """What is counted of the text that comes with the weights; and the head, with what a gate takes from it."""
    if options["kind"] == "none":
        return head, None
    make = _mixing if options["kind"] == "mixing" else _kneser_ney
    return make(taken, options, head)


def _mixing(taken: _Weights, options: Mapping[str, Any], head: Matrix) -> tuple[Matrix, Counted]:
    from octavo.generation.counts import Heard
    from octavo.ngram.codes import CODES, Codes, refuse_codes
    from octavo.ngram.mixing import FEWEST, ContextMixing, ngrams_beside
    from octavo.ngram.slow_mixing import WEIGHTS, refuse_mixer

    size = len(head.weight)
    tokens = _text(taken, fewest=FEWEST, vocab_size=size)
    saved = [taken.unchecked(f"counts.{name}") for name in CODES]
    refuse_codes(*saved, vocab_size=size)
    refuse_mixer(taken.unchecked("counts.mixer_version"))
    weights = taken.take("counts.weights", WEIGHTS)

    @cache
    def heard() -> Heard:
        codes = Codes(*saved, counts=np.bincount(tokens, minlength=size))
        mixer = ContextMixing(codes, capacity=codes.taken_by(tokens))
        mixer.read(tokens)
        return Heard(mixer.weighing(weights))

    recent = _recent(taken, options, size)
    return head, Counted(heard, lambda: ngrams_beside(tokens, vocab_size=size), recent)


def _kneser_ney(taken: _Weights, options: Mapping[str, Any], head: Matrix) -> tuple[Matrix, Counted]:
    from octavo.generation.counts import GatedMixture, with_state
    from octavo.ngram.kernel import MOST_HIDDEN, MOST_ORDERS
    from octavo.ngram.kneser_ney import tables_of_text

    size, width = head.weight.shape
    orders = _whole(options, "orders", 2, MOST_ORDERS)
    hidden = _whole(options, "hidden", 1, MOST_HIDDEN)
    tokens = _text(taken, fewest=2 * orders, vocab_size=size).astype(np.int32)
    from_state = taken.take("counts.from_state.weight", hidden, width)
    from_known = taken.matrix("counts.from_known", hidden, 2 * orders, bias=True)
    out = taken.matrix("counts.out", orders + 1, hidden, bias=True)
    tables = cache(partial(tables_of_text, tokens, vocab_size=size, orders=orders))
    counted = Counted(
        lambda: GatedMixture(tables(), from_known, out),
        tables,
        _recent(taken, options, size),
    )
    return with_state(head, from_state), counted


def _whole(options: Mapping[str, Any], name: str, least: int, most: int) -> int:
    """What a setting says that sizes depend on."""
    value = options[name]
    if type(value) is not int or not least <= value <= most:
        raise NotKnown(name)
    return value


def _text(taken: _Weights, *, fewest: int, vocab_size: int) -> np.ndarray:
    from octavo.ngram.kernel import refuse_text

    tokens = taken.unchecked("counts.tokens")
    refuse_text(tokens, fewest=fewest, vocab_size=vocab_size)
    if not len(tokens):
        raise NotKnown("counts.tokens")
    return tokens


def _recent(taken: _Weights, options: Mapping[str, Any], vocab_size: int) -> Gate | None:
    from octavo.ngram.recent import FEATURES, HIDDEN, MOST_RECENT, Gate

    if not (most := _whole(options, "recent", 0, MOST_RECENT)):
        return None
    into = taken.take("counts.recent.into", HIDDEN, FEATURES + 1)
    return Gate(into, taken.take("counts.recent.onto", 1, HIDDEN + 1), most=most, vocab_size=vocab_size)


def _ngrams(taken: _Weights, options: Mapping[str, Any], width: int) -> tuple[int, int, np.ndarray | None]:
    """Tokens before, rows for each, and the table."""
    if options["kind"] == "none":
        return 0, 0, None
    before, buckets = options["longest"] - 1, options["buckets"]
    if buckets > MOST:
        raise NotKnown("ngrams")
    return before, buckets, taken.take("ngrams.weight", before * buckets, width)


def _added(taken: _Weights, options: Mapping[str, Any], context: int, width: int) -> np.ndarray | None:
    if options["kind"] == "learned":
        return taken.take("positions.weight", context, width)
    return waves(context, width, options["base"]) if options["kind"] == "sinusoidal" else None


def _turned(
    options: Mapping[str, Any], context: int, head_width: int
) -> tuple[np.ndarray | None, np.ndarray | None]:
    if options["kind"] != "rotary":
        return None, None
    return turns(context, turned_of(head_width, options["share"]), options["base"])
