"""Writing: decoders with slots, streams in them, and pure sampling functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from octavo.util.lazily import lazily

if TYPE_CHECKING:
    from octavo.generation.decoder import Decoder
    from octavo.generation.engine import Engine, in_order
    from octavo.generation.sampling import Precision, Sampling
    from octavo.generation.streams import Prompt, Sample, TextRequest

__all__ = ["Decoder", "Engine", "Precision", "Prompt", "Sample", "Sampling", "TextRequest", "in_order"]
__getattr__ = lazily(
    __name__,
    {
        "decoder": "Decoder",
        "engine": "Engine in_order",
        "sampling": "Precision Sampling",
        "streams": "Prompt Sample TextRequest",
    },
)
