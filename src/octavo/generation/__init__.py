"""Writing: cached decoding and pure sampling functions."""

from octavo.generation.engine import Sample, Writer
from octavo.generation.native import Precision
from octavo.generation.sampling import Sampling

__all__ = ["Precision", "Sample", "Sampling", "Writer"]
