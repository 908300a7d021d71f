"""Conversations on disk: the ids that the chat template gives, in place of those of a text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from octavo.corpus.records.turns import Turns
from octavo.errors import TokenizerError
from octavo.tokenizers import StreamDecoder, Tokenizer, UnknownTextError
from octavo.tokenizers.chat import ChatTemplate


class ByTemplate(Tokenizer):
    """A tokenizer for documents that are `Turns`: it encodes each by the template, and saves the tokenizer inside.

    Of a preference both conversations stand in the document, the chosen one first. A prompt ends with the token after
    which the assistant writes.
    """

    cuts_at_words = False
    encoding: ClassVar[Mapping[str, Any]] = {"template": True}

    def __init__(self, inner: Tokenizer) -> None:
        self.template = ChatTemplate(inner)
        super().__init__(vocab_size=inner.vocab_size, start=None, end=self.template.end)
        self.inner = inner
        self.kind, self.header, self.added = inner.kind, inner.header, inner.added

    def encode(self, text: str) -> np.ndarray:
        turns = Turns.of(text)
        try:
            rendered = [self.template.render(one, answering=turns.asks).ids for one in turns.conversations]
        except UnknownTextError:
            raise  # all that is missing is told together
        except TokenizerError as error:
            asked = json.dumps(turns.conversations[0][0].content[:60], ensure_ascii=False)
            raise TokenizerError(
                f"In the conversation that begins with {asked}: {error.what}", remedy=error.remedy
            ) from error
        return np.concatenate(rendered)

    def around_document(self) -> tuple[np.ndarray, np.ndarray]:
        """Nothing: the template has its own tokens."""
        return np.zeros(0, np.int32), np.zeros(0, np.int32)

    def decoder(self) -> StreamDecoder:
        return self.inner.decoder()

    def token_text(self, id: int) -> str:
        return self.inner.token_text(id)

    def save(self, folder: Path) -> None:
        self.inner.save(folder)

    def fingerprint(self) -> str:
        """That of the tokenizer inside: what the ids mean is the same."""
        return self.inner.fingerprint()

    def _data(self) -> dict[str, Any]:
        return self.inner._data()

    @classmethod
    def _restore(cls, data: dict[str, Any], files: dict[str, bytes]) -> Self:
        raise TypeError("the tokenizer inside is restored")
