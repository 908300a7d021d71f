"""A tokenizer for each side of pairs: the source has one of its own, with ids after all those of the target.

A document is a source, a line break and a target. So all ids stand in one range: decoding, counting and storing need
not know of sides, and a model that keeps the vocabularies apart has the source's at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from octavo.config.parts import PartOf, register
from octavo.errors import TokenizerError
from octavo.tokenizers.base import StreamDecoder, Tokenizer, UnknownTextError, Vocabulary
from octavo.tokenizers.config import TokenizerConfig, build_tokenizer
from octavo.tokenizers.loading import restored

SIDES = ("source", "target")


class SeparateTokenizer(Tokenizer):
    """Two tokenizers as one. A text up to its first line break is a source; one without a line break is a target. What
    marks documents is the target's.

    Raises TokenizerError where the target's has no token for a line break alone.
    """

    kind = "separate"
    cuts_at_words = False

    def __init__(self, source: Tokenizer, target: Tokenizer) -> None:
        if target.line is None:
            raise TokenizerError(
                "The target's tokenizer has no token for the line break, so pairs have no sides.",
                remedy="with tokenizer.target.kind=word, tokenizer.target.lines=keep",
            )
        self.source, self.target, self.first = source, target, target.vocab_size
        size = Vocabulary(target.vocab_size + source.vocab_size, source=source.vocab_size)
        super().__init__(vocab_size=size, start=target.start, end=target.end)
        self.unknown = target.unknown

    def encode(self, text: str) -> np.ndarray:
        first, line, rest = text.partition("\n")
        if not line:
            return self.target.encode(text)
        assert self.target.line is not None
        missing: UnknownTextError | None = None
        parts = [np.zeros(0, np.int32), np.array([self.target.line], np.int32), np.zeros(0, np.int32)]
        for place, encode, side in ((0, self.encode_source, first), (2, self.target.encode, rest)):
            try:
                parts[place] = encode(side)
            except UnknownTextError as error:  # all that either side lacks is said at once
                missing = (
                    error if missing is None else UnknownTextError(missing.counts + error.counts, error.unit)
                )
        if missing is not None:
            raise missing
        return np.concatenate(parts)

    def encode_source(self, text: str) -> np.ndarray:
        return self.source.encode(text) + np.int32(self.first)

    def halves(self) -> np.ndarray | None:
        sides = [(self.target, 0), (self.source, self.first)]
        found = [(side.halves(), side.vocab_size, first) for side, first in sides]
        if all(halves is None for halves, _, _ in found):
            return None
        none = np.array([[-1, -1]])
        return np.concatenate(
            [
                none.repeat(size, 0) if halves is None else np.where(halves < 0, -1, halves + first)
                for halves, size, first in found
            ]
        )

    def decoder(self) -> StreamDecoder:
        return _Decoder(self)

    def token_text(self, id: int) -> str:
        at = self._check(id) - self.first
        return self.target.token_text(id) if at < 0 else self.source.token_text(at)

    @cached_property
    def special(self) -> dict[str, int]:  # pyrefly: ignore  # cached there too
        """Special tokens of the target side."""
        return dict(self.target.special)

    def _data(self) -> dict[str, Any]:
        return {}

    def _files(self) -> dict[str, bytes]:
        sides = zip(SIDES, (self.source, self.target), strict=True)
        return {f"{side}.{name}": content for side, one in sides for name, content in one._saved().items()}

    @classmethod
    def _restore(cls, data: dict[str, Any], files: dict[str, bytes]) -> Self:
        def side(name: str) -> Tokenizer:
            start = f"{name}."
            return restored(
                {one.removeprefix(start): file for one, file in files.items() if one.startswith(start)}
            )

        return cls(side("source"), side("target"))


class _Decoder(StreamDecoder):
    """The decoder of the side that ids are of; where the side changes, what the other held back comes first."""

    def __init__(self, tokenizer: SeparateTokenizer) -> None:
        self.tokenizer, self.of_source, self.inner = tokenizer, False, tokenizer.target.decoder()

    def push(self, id: int) -> str:
        of_source, held = self.tokenizer._check(id) >= self.tokenizer.first, ""
        if of_source != self.of_source:
            held, self.of_source = self.inner.finish(), of_source
            self.inner = (self.tokenizer.source if of_source else self.tokenizer.target).decoder()
        return held + self.inner.push(id - self.tokenizer.first if of_source else id)

    def finish(self) -> str:
        return self.inner.finish()


@register("tokenizer")
class Separate(TokenizerConfig):
    """For pairs: the source has a tokenizer of its own, learned from the sources alone, and the target another."""

    kind: Literal["separate"] = "separate"
    source: Annotated[Any, PartOf("tokenizer", "bpe")] = Field({"kind": "bpe"}, validate_default=True)
    """The source's."""
    target: Annotated[Any, PartOf("tokenizer", "bpe")] = Field({"kind": "bpe"}, validate_default=True)
    """The target's; `special` tokens are its own."""

    tokenizer: ClassVar[type[Tokenizer]] = SeparateTokenizer

    @model_validator(mode="after")
    def _two_sides(self) -> Self:
        if wrong := [name for name in SIDES if getattr(self, name).kind == "separate"]:
            raise ValueError(f"`{wrong[0]}` is one side, so its tokenizer is no `separate` one")
        return self

    @property
    def sides(self) -> tuple[TokenizerConfig, TokenizerConfig]:
        return self.source, self.target

    @property
    def trains_on(self) -> Literal["corpus", "train"] | None:  # pyrefly: ignore  # that of its parts
        """The training split, unless a side has to know every text."""
        wanted = {side.trains_on for side in self.sides}
        return next((each for each in ("corpus", "train") if each in wanted), None)

    @property
    def size(self) -> Vocabulary | None:
        """The vocabulary, where both sides say how large theirs is."""
        source, target = (getattr(side, "size", None) for side in self.sides)
        return None if source is None or target is None else Vocabulary(source + target, source=source)

    def build(self, pieces: Callable[[], Iterator[str]], *, documents: bool) -> SeparateTokenizer:
        """Build each from its own lines; they take turns, the source's first. Raises what either raises."""

        def made(config: TokenizerConfig, turn: int) -> Tokenizer:
            return build_tokenizer(config, lambda: every_second_line(pieces(), turn), documents=documents)

        names = dict.fromkeys([*self.target.special, *self.special])
        return SeparateTokenizer(
            made(self.source, 0), made(self.target.model_copy(update={"special": tuple(names)}), 1)
        )

    def unfit(self, *, corpus: Any, batches: Any, model: Any, split: str, cleaned: bool) -> str | None:
        if "sources" not in corpus.splits or batches.task != "translation":
            return "each side of pairs has its own, so it goes with corpus=pairs and batches=pairs"
        if split not in ("sources", "documents") or cleaned:
            return "pairs have to stay whole; take split=sources, and no cleaning"
        if getattr(model, "shared_embedding", False):
            return (
                "source and target have vocabularies of their own, so they cannot share a table of embeddings "
                "(three-way tying); set model.shared_embedding=false. model.tied may stay: it is the target's table"
            )
        return super().unfit(corpus=corpus, batches=batches, model=model, split=split, cleaned=cleaned)


def every_second_line(pieces: Iterator[str], turn: int) -> Iterator[str]:
    """Lines 0, 2, 4 … of a text, or with `turn` 1 the others, each with its break."""
    held: list[str] = []
    number = 0
    for piece in pieces:
        *whole, last = piece.split("\n")
        for line in whole:
            if number % 2 == turn:
                yield "".join([*held, line, "\n"])
            held = []
            number += 1
        held.append(last)
    if any(held) and number % 2 == turn:
        yield "".join([*held, "\n"])
