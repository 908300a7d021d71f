"""How a model learned: what it was at steps that were kept, on the same sentences.

L layers, H heads, n tokens of a sentence.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from octavo.data.batch import Batch
from octavo.explain.ablations import row_losses
from octavo.generation import Engine, TextRequest
from octavo.generation.sampling import Sampling
from octavo.model.capture import attention_weights, capture
from octavo.model.gpt import GPT
from octavo.tokenizers import Tokenizer
from octavo.training.objective import Objective

SENTENCES, LONGEST = 2, 20
"""How many there are, and how many tokens of each are looked at."""
WRITTEN = 60
"""Tokens of a sample."""


@contextmanager
def with_weights(model: GPT, weights: Mapping[str, Tensor]) -> Iterator[None]:
    """Within the context a model has other weights; those that are not named stay."""
    own = {name: value for name, value in model.named_parameters() if name in weights}
    before = {name: value.detach().clone() for name, value in own.items()}
    with torch.no_grad():
        for name, value in own.items():
            value.copy_(weights[name])
        try:
            yield
        finally:
            for name, value in before.items():
                own[name].copy_(value)


def chapter(
    model: GPT,
    tokenizer: Tokenizer,
    step: int,
    *,
    sentences: Sequence[np.ndarray],
    batches: Sequence[Batch[Tensor]],
    objective: Objective,
    sampling: Sampling,
) -> dict[str, Any]:
    """What a model makes of sentences at a step, as `web/src/facts.ts` reads it."""
    engine = Engine(model, tokenizer)
    tokens = min(WRITTEN, 4 * model.context)
    written = engine.write_each([TextRequest("", 0)], tokens=tokens, sampling=sampling)
    return {
        "step": step,
        "loss": row_losses(model, batches, objective).mean,
        "probes": [probe(model, tokenizer, sentence[:LONGEST]) for sentence in sentences[:SENTENCES]],
        "sample": "".join(piece for _, piece in written),
    }


@torch.no_grad()
def probe(model: GPT, tokenizer: Tokenizer, ids: np.ndarray) -> dict[str, Any]:
    """A sentence: its attention (L, H, n, n) in bytes, and for each layer the first guess after each token."""
    tokens = torch.from_numpy(np.asarray(ids, np.int64))[None]
    streams = ["embedding_norm", *(f"blocks.{layer}" for layer in range(len(model.blocks)))]
    with attention_weights(model) as seen, capture(model, streams) as captured:
        model(tokens)
    weights = torch.stack([each[0] for each in seen.values()])
    guesses = []
    for name in streams:
        logits = model.lm_head(model.norm(captured[name][0]))
        if model.logit_softcap is not None:
            logits = model.logit_softcap * (logits / model.logit_softcap).tanh()
        best = logits.softmax(dim=-1).max(dim=-1)
        guesses.append(
            [
                [tokenizer.token_text(int(id)), round(float(p), 4)]
                for id, p in zip(best.indices, best.values, strict=True)
            ]
        )
    return {
        "tokens": [tokenizer.token_text(int(id)) for id in ids],
        "attention": base64.b64encode((weights * 255).round().to(torch.uint8).numpy().tobytes()).decode(),
        "lens": guesses,
    }
