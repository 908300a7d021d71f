"""Writing: decoders with slots, streams in them, and pure sampling functions."""

from octavo.generation.decoder import Decoder
from octavo.generation.engine import Engine, in_order
from octavo.generation.sampling import Precision, Sampling
from octavo.generation.streams import Prompt, Sample, TextRequest

__all__ = ["Decoder", "Engine", "Precision", "Prompt", "Sample", "Sampling", "TextRequest", "in_order"]
