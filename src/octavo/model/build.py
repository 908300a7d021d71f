"""The builder: from the config of any kind of model to the model with its first weights."""

from __future__ import annotations

from typing import Any

import torch

from octavo.ground.memory import refuse_beyond_memory
from octavo.model.kind import FLOAT_BYTES, LanguageModel, ModelConfig


def build_model(config: ModelConfig, *, vocab_size: int, seed: int, **options: Any) -> Any:
    """A model with freshly drawn weights on the CPU, in float32; the same seed gives the same weights. Raises
    InputError, before they are drawn, where they are more than memory holds.

    `options` go to the kind's `build`: a GPT's attention weights can be captured with `explicit_attention=True`.
    """
    if torch.get_default_device().type != "meta":
        weights = FLOAT_BYTES * config.parameters(vocab_size=vocab_size)
        refuse_beyond_memory(weights, "The weights of this model take")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: LanguageModel = config.build(vocab_size=vocab_size, **options)
        if next(model.parameters()).device.type != "meta":
            config.draw(model)
    return model
