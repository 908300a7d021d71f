"""Tokenizers: text to ids and back, behind one interface, saved with every model and loadable alone."""

from octavo.tokenizers.base import (
    StreamDecoder,
    Tokenizer,
    TokenizerConfig,
    UnknownTextError,
    load_tokenizer,
)
from octavo.tokenizers.pieces import encode_pieces

__all__ = [
    "StreamDecoder",
    "Tokenizer",
    "TokenizerConfig",
    "UnknownTextError",
    "encode_pieces",
    "load_tokenizer",
]
