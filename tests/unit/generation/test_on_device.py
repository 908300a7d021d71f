"""Choosing a token where the logits lie: as in numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from octavo.generation.on_device import drawn
from octavo.generation.sampling import Sampling

shares = st.none() | st.floats(0.01, 1.0)
settings = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 1e-3, 0.7, 1.0, 3.0]),
    top_k=st.none() | st.integers(1, 12),
    top_p=shares,
    min_p=shares,
    repetition_penalty=st.sampled_from([1.0, 0.5, 1.3, 10.0]),
)


@given(settings, st.integers(0, 2**32), st.booleans())
def test_tokens_are_those_of_numpy(sampling: Sampling, seed: int, refereed: bool) -> None:
    random = np.random.default_rng(seed)
    logits, uniform = random.normal(size=(16, 9)).astype(np.float32) * 3, random.random(16)
    masks = {"seen": random.random((16, 9)) > 0.5, "allowed": None}
    if refereed:
        masks["allowed"] = (random.random((16, 9)) > 0.5) | (np.arange(9) == 4)
    tokens, known = sampling.drawn(logits, uniform, **masks)
    found, expected = drawn(sampling, torch.from_numpy(logits), uniform, **masks)
    assert found == tokens
    assert expected == pytest.approx(known, rel=1e-5, abs=1e-6)
