"""A page computes what torch computes, in a real browser, over every kind of part."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from octavo.explain.explainer import explained
from octavo.explain.page_model import as_packed
from unit.explain.subjects import TEXT, subject

CLOSE = 1e-3

KINDS: dict[str, dict[str, Any]] = {
    "the plain one": {},
    **{f"positions {kind}": {"positions": kind} for kind in ("none", "sinusoidal", "rotary")},
    "positions grid": {"positions": {"kind": "grid", "axes": [5]}},
    "positions grid-rotary": {"positions": {"kind": "grid-rotary", "axes": [5]}},
    "half rotary": {"positions": {"kind": "rotary", "share": 0.5}},
    **{f"norm {kind}": {"norm": kind} for kind in ("none", "plain", "rms")},
    "rms without scale": {"norm": {"kind": "rms", "scale": False}, "embedding_norm": True},
    "layer norm without bias": {"norm": {"kind": "layer", "bias": False}, "final_norm": False},
    "post-norm": {"norm_place": "post"},
    **{
        f"feed-forward {kind}": {"feed_forward": kind}
        for kind in ("none", "relu", "gelu_tanh", "relu2", "swiglu")
    },
    "swiglu with biases": {"feed_forward": {"kind": "swiglu", "bias": True, "width": 20}},
    "grouped heads": {"kv_heads": 2, "qkv_bias": True},
    "heads that do not divide": {"heads": 5, "width": 33, "norm_place": "post"},
    "no projection": {"output_projection": False},
    "no residual": {"residual": False},
    "query norm": {"qk_norm": True, "attention_scale": 0.3, "positions": "rotary"},
    "query norm with scale": {"qk_norm": True, "qk_norm_scale": True, "kv_heads": 1},
    "scaled by the width": {"attention_scale": "model"},
    "tied and capped": {"tied": True, "logit_softcap": 5.0},
    "head with bias": {"head_bias": True},
    "counts": {"counts": {"kind": "kneser-ney", "orders": 4, "hidden": 6}},
    "counts and the text so far": {"counts": {"kind": "kneser-ney", "orders": 3, "hidden": 5, "recent": 40}},
    "hashed n-grams": {"ngrams": {"kind": "hashed", "longest": 4, "buckets": 37}},
}


RUN = """async ([ids, native]) => {
    const engine = await octavo.open(native);
    if (engine.arena.native !== native) throw new Error("WebAssembly: " + engine.arena.native);
    engine.run(ids.slice(0, 9));
    engine.run(ids);
    return ids.flatMap((_, t) => Array.from(engine.after(t)));
}"""


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind == "the plain one" else pytest.mark.slow) for kind in KINDS]
)
def test_logits_equal(open_page: Any, kind: str) -> None:
    one = subject(**KINDS[kind])
    page = open_page(explained(one, weights="float16", effort=0)).page
    text = TEXT[:24]
    ids = page.evaluate("text => octavo.tokenizer.encode(text).ids", text)
    assert ids == one.tokenizer.encode(text).tolist()
    found = {}
    for native in (True, False):
        logits = page.evaluate(RUN, [ids, native])
        found[native] = np.array(logits).reshape(24, -1)
    with torch.no_grad(), as_packed(one.model, "float16"):
        wanted = one.model(torch.tensor([ids]))[0].numpy()
    assert np.abs(wanted).max() > 0.5
    for logits in found.values():
        assert np.abs(logits - wanted).max() < CLOSE
