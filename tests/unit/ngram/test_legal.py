"""What every mixture owes, over random texts and models: distributions that sum to one, and nothing that depends on
what follows. That a token is scored before it is learned from is in test_mixing.py; that a loss decodes, in
run/test_prove.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo.model.base import build_model
from octavo.model.config import GPTConfig
from octavo.ngram.mixing import compiled
from unit.model import preferences

V, T = 9, 12
N_GRAMS = {"kind": "kneser-ney", "orders": 4, "hidden": 3}


@pytest.mark.parametrize(
    "counts",
    [
        pytest.param(N_GRAMS, id="n-grams"),
        pytest.param(N_GRAMS | {"recent": 20}, id="what was said"),
        pytest.param(
            {"kind": "mixing"},
            id="context mixing",
            marks=pytest.mark.skipif(compiled() is None, reason="there is no C compiler"),
        ),
    ],
)
@given(
    text=st.lists(st.integers(0, V - 1), min_size=60, max_size=200),
    seed=st.integers(0, 99),
    cut=st.integers(1, T - 1),
)
@settings(max_examples=8, deadline=None)
def test_it_sums_to_one_and_depends_on_nothing_that_follows(
    counts: dict[str, Any], text: list[int], seed: int, cut: int
) -> None:
    shape = {"layers": 1, "width": 8, "heads": 2, "context": T, "counts": counts}
    model = build_model(GPTConfig.model_validate(shape), vocab_size=V, seed=seed)
    model.take_text(np.array(text), np.arange(len(text)) >= len(text) - 20, spelt=lambda: list("abcdef. \n"))
    preferences.trust_what_was_said(model.counts)
    torch.manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight))
        tokens = torch.randint(V, (2, T))
        whole = model.eval()(tokens)
        torch.testing.assert_close(whole.exp().sum(dim=-1), torch.ones(2, T), atol=1e-5, rtol=0)
        other = torch.cat((tokens[:, :cut], torch.randint(V, (2, T - cut))), dim=1)
        torch.testing.assert_close(model(other)[:, :cut], whole[:, :cut], atol=1e-5, rtol=1e-5)
