"""Tokenizers: text to ids and back, behind one interface, saved with every model and loadable alone."""

from octavo.tokenizers.base import (
    StreamDecoder,
    Tokenizer,
    TokenizerConfig,
    UnknownTextError,
    build_tokenizer,
    with_special,
)
from octavo.tokenizers.loading import load_tokenizer
from octavo.tokenizers.pieces import encode_pieces

__all__ = [
    "StreamDecoder",
    "Tokenizer",
    "TokenizerConfig",
    "UnknownTextError",
    "build_tokenizer",
    "encode_pieces",
    "load_tokenizer",
    "with_special",
]
