"""Tokenizers: text to ids and back, behind one interface, saved with every model and loadable alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from octavo.util.lazily import lazily

if TYPE_CHECKING:
    from octavo.tokenizers.base import (
        StreamDecoder,
        Tokenizer,
        UnknownTextError,
        encode_pieces,
        with_special,
    )
    from octavo.tokenizers.config import TokenizerConfig, build_tokenizer
    from octavo.tokenizers.loading import load_tokenizer

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
__getattr__ = lazily(
    __name__,
    {
        "base": "StreamDecoder Tokenizer UnknownTextError encode_pieces with_special",
        "config": "TokenizerConfig build_tokenizer",
        "loading": "load_tokenizer",
    },
)
