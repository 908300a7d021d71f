"""Where an encoder–decoder looks in the source while it writes a given target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from octavo.evaluation.alignment import Sides, Truth, error_rate
from octavo.model.build import build_model
from octavo.model.capture import capture
from octavo.model.encoder_decoder import EncoderDecoder
from octavo.model.encoder_decoder_config import EncoderDecoderConfig

CHOSEN_ON = 200
"""Training pairs on which the layer is chosen."""


@dataclass(frozen=True)
class Look:
    """Which attention is taken for an alignment: of a layer, at the position that writes a token (`after` 0) or that
    reads it (1)."""

    layer: int
    after: int


class Attended:
    """An encoder–decoder with explicit attention; `start` is the id that a target begins after."""

    def __init__(self, model: EncoderDecoder, config: EncoderDecoderConfig, *, start: int, end: int) -> None:
        self.model = build_model(config, vocab_size=model.vocab_size, seed=0, explicit_attention=True).eval()
        self.model.load_state_dict(model.state_dict())
        self.start, self.end = start, end
        self.layers = len(model.writer.blocks)

    @torch.no_grad()
    def of_heads(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """(layers, heads, T + 1, S), at the start and at each target token."""
        names = [f"writer.blocks.{layer}.cross.attend.weights" for layer in range(self.layers)]
        inputs = torch.tensor([[self.start, *target.tolist()]])
        with capture(self.model, names) as captured:
            self.model(inputs, source=torch.from_numpy(source.astype(np.int64))[None])
        return np.stack([captured[name][0].numpy() for name in names])

    def weights(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """The same, the mean over the heads: (layers, T + 1, S)."""
        return self.of_heads(source, target).mean(axis=1)

    def align(self, sides: Sides, look: Look) -> list[int]:
        """For each target token the place that is looked at most."""
        weights = self.weights(*sides)[look.layer]
        return weights[look.after : look.after + len(sides[1])].argmax(axis=1).tolist()

    def chosen(self, pairs: Sequence[Sides], truths: Sequence[Truth]) -> Look:
        """The look whose alignments err least on these pairs."""
        every = [self.weights(*sides) for sides in pairs]

        def error(look: Look) -> float:
            found = [
                one[look.layer, look.after : look.after + len(target)].argmax(axis=1).tolist()
                for one, (_, target) in zip(every, pairs, strict=True)
            ]
            return error_rate(found, truths)

        looks = [Look(layer, after) for layer in range(self.layers) for after in (0, 1)]
        return min(looks, key=error)
