"""GPT-2's byte-pair encoding (report D), through tiktoken: 256 bytes, 50,000 merges and `<|endoftext|>`.

All of it follows from OpenAI's `vocab.bpe`: ids are the bytes in the order of `byte_alphabet`, then the
merges in the file's order, then the end of text. (`encoder.json`, which comes with it, says the same once more.) A
saved tokenizer holds the result in tiktoken's text format, one token a line: its bytes in base64 and its
id. Both files are known by their SHA-256.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Literal, Self

import numpy as np

from octavo.config.parts import FilePath, register
from octavo.errors import MissingExtra, TokenizerError
from octavo.tokenizers.base import END_OF_TEXT, Tokenizer, utf8, whole_words
from octavo.tokenizers.byte import ByteLevelTokenizer, byte_alphabet, from_alphabet
from octavo.tokenizers.config import TokenizerConfig
from octavo.util.processes import Meanwhile

MERGES = "vocab.bpe"
ADDRESS = "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/"
MERGES_SHA256 = "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"
SECONDS = 90.0  # that a download of half a megabyte may take
RANKS = "gpt2.tiktoken"
RANKS_SHA256 = "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930"

# GPT-2's word pattern in the form that tiktoken runs fastest (tiktoken_ext/openai_public.py, `r50k_pat_str`).
_PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""


class GPT2Tokenizer(ByteLevelTokenizer):
    """GPT-2's vocabulary of 50,257; 50256 is the end of text, start and end at once.

    Args:
        ranks: content of `gpt2.tiktoken`, the bytes of each id but that of the end of text.

    Raises:
        ValueError: the content is not GPT-2's.
        MissingExtra: the package `tiktoken` is not installed.
    """

    kind = "gpt2"

    def __init__(self, ranks: bytes) -> None:
        if hashlib.sha256(ranks).hexdigest() != RANKS_SHA256:
            raise ValueError("these are not GPT-2's ranks")
        self._ranks = ranks
        tokens = [base64.b64decode(line.split()[0]) for line in ranks.splitlines()]
        super().__init__([*tokens, b""], end=len(tokens))
        self._encoding = _library().Encoding(
            "gpt2",
            pat_str=_PATTERN,
            mergeable_ranks={token: id for id, token in enumerate(tokens)},
            special_tokens={END_OF_TEXT: len(tokens)},
        )

    def encode(self, text: str) -> np.ndarray:
        utf8(text)
        parts = [np.zeros(0, np.int32)]
        for piece in whole_words([text]):
            # No special is allowed nor refused: a special token's name in the user's text is text like any other.
            parts.append(self._encoding.encode_to_numpy(piece, disallowed_special=()).astype(np.int32))
        return np.concatenate(parts)

    def _data(self) -> dict[str, Any]:
        return {}

    def _files(self) -> dict[str, bytes]:
        return {RANKS: self._ranks}

    @classmethod
    def _restore(cls, data: dict[str, Any], files: dict[str, bytes]) -> Self:
        return cls(files[RANKS])


def _library() -> ModuleType:
    try:
        import tiktoken.load
    except ImportError as error:
        raise MissingExtra("tiktoken", "gpt2", "The GPT-2 tokenizer (tokenizer.kind=gpt2)") from error
    return tiktoken


def _ranks(merges: bytes) -> bytes:
    """`gpt2.tiktoken` from `vocab.bpe`: a version line, then two tokens to merge on each line."""
    alphabet = byte_alphabet()
    tokens = [bytes([byte]) for byte in alphabet.values()]
    for line in merges.decode().splitlines()[1:]:
        tokens.append(from_alphabet(line.replace(" ", ""), alphabet))
    return b"".join(b"%s %d\n" % (base64.b64encode(token), id) for id, token in enumerate(tokens))


def _given(folder: Path) -> bytes:
    """`vocab.bpe` out of a folder that the user named."""
    path = folder / MERGES
    remedy = f"Put {ADDRESS}{MERGES} there, or name another folder by tokenizer.files=FOLDER."
    try:
        content = path.read_bytes()
    except OSError as error:
        raise TokenizerError(
            f"GPT-2's merges cannot be read from {path}: {error.strerror}.", remedy=remedy
        ) from error
    if hashlib.sha256(content).hexdigest() != MERGES_SHA256:
        raise TokenizerError(
            f"{path} is not GPT-2's {MERGES}: its SHA-256 is not {MERGES_SHA256[:12]}….", remedy=remedy
        )
    return content


def _cached_or_downloaded() -> bytes:
    """`vocab.bpe` out of tiktoken's cache, or downloaded into it."""
    read = partial(_library().load.read_file_cached, ADDRESS + MERGES, MERGES_SHA256)
    try:
        return Meanwhile(read).result(SECONDS)  # the library waits for ever
    except (OSError, ValueError) as error:  # the errors of `requests` are OSErrors
        why = f"not within {SECONDS:g} seconds" if isinstance(error, TimeoutError) else type(error).__name__
        raise TokenizerError(
            f"GPT-2's {MERGES} is not in tiktoken's cache and could not be downloaded ({why}).",
            remedy=f"Where there is a network, fetch {ADDRESS}{MERGES} into a folder and name the folder by "
            "tokenizer.files=FOLDER; or set TIKTOKEN_CACHE_DIR to a cache that tiktoken has filled.",
        ) from error


@register("tokenizer")
class GPT2(TokenizerConfig):
    """GPT-2's byte-pair encoding with its 50,257 tokens; covers every text."""

    kind: Literal["gpt2"] = "gpt2"
    files: FilePath | None = None
    """Folder that holds OpenAI's vocab.bpe; null uses tiktoken's cache, or downloads into it."""

    tokenizer: ClassVar[type[Tokenizer]] = GPT2Tokenizer

    def build(self, pieces: Callable[[], Iterator[str]], *, documents: bool) -> GPT2Tokenizer:
        """Make the tokenizer from OpenAI's file; the text is not read.

        Raises:
            TokenizerError: the file is missing or altered, or there is no network.
            MissingExtra: the package `tiktoken` is not installed.
        """
        _library()
        return GPT2Tokenizer(_ranks(_cached_or_downloaded() if self.files is None else _given(self.files)))
