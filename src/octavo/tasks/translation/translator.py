"""A model of pairs with its tokenizer: it writes the targets of sources, and judges targets that are given.

The model is an encoder–decoder, or a decoder alone that has the source before the target (`dataset.pairs`).
B sources, S positions of the longest, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from octavo.config.parts import PartConfig
from octavo.data.batch import SideInputs
from octavo.errors import InputError
from octavo.evaluation.result import LeftOut
from octavo.model.base import LanguageModel
from octavo.tasks.translation.batches import fit
from octavo.tasks.translation.beam import CachedState, Found, FullState, Search, State, beam_search
from octavo.tokenizers import Tokenizer, UnknownTextError
from octavo.training.objective import NEXT_TOKEN
from octavo.util.memory import refuse_beyond_memory

LISTED = 10
"""Sentences that were skipped which are named; others are counted."""

ROWS = 256
"""Hypotheses that are computed together, at most."""


@dataclass(frozen=True)
class Translation:
    """A target that was found: its text, and how probable it is."""

    text: str
    found: Found

    def as_dict(self) -> dict[str, Any]:
        found = self.found
        return {
            "text": self.text,
            "score": found.score,
            "log_probability": found.log_probability,
            "tokens": found.tokens,
        }


@dataclass(frozen=True)
class Skipped:
    """A sentence that the model cannot read and that was passed over: where it stands, and why."""

    place: str
    why: str

    def __str__(self) -> str:
        return f"{self.place}: {self.why}"


def left_out_of(skipped: Sequence[Skipped], of: int) -> LeftOut | None:
    """How many of how many were skipped; None where none was."""
    return LeftOut(len(skipped), of, tuple(skipped[:LISTED])) if skipped else None


class Translator:
    """Writes targets.

    Args:
        batches: of the recipe; they say how the model was given sources.
        cached: False is the slow twin, which reads everything again for each token.
    """

    def __init__(
        self, model: LanguageModel, tokenizer: Tokenizer, batches: PartConfig, *, cached: bool = True
    ) -> None:
        assert tokenizer.line is not None and tokenizer.end is not None
        self.model, self.tokenizer, self.batches, self.cached = model.eval(), tokenizer, batches, cached
        self.end, self.line = tokenizer.end, tokenizer.line
        self.start = self.end if tokenizer.start is None else tokenizer.start
        self.joined = not batches.example(1, 1).source is not None

    def ids(self, source: str, place: str = "The source") -> np.ndarray:
        """Of a source, which is one line.

        Raises InputError where it has no tokens, or more than the model sees; `place` is what it is called.
        """
        ids = self._encoded(source)
        if why := self._unfit(ids):
            raise InputError(f"{place} is {why}.", remedy="Give a sentence, and a long one in parts.")
        return ids

    def read(self, source: str, place: str) -> np.ndarray | Skipped:
        """The same, or why a source cannot be translated: it does not fit, or the vocabulary lacks something in it."""
        try:
            ids = self._encoded(source)
        except UnknownTextError as error:
            return Skipped(place, error.what.rstrip("."))
        why = self._unfit(ids)
        return ids if why is None else Skipped(place, why)

    def _encoded(self, source: str) -> np.ndarray:
        return self.tokenizer.encode_source(" ".join(source.split()))

    def _unfit(self, source: np.ndarray) -> str | None:
        """What makes a source unreadable, if anything does."""
        room = self.model.context - (
            3 if self.joined else 0
        )  # its start, the line break, a token of the target
        if not len(source):
            return "an empty source"
        return (
            None
            if len(source) <= room
            else f"a source of {len(source):,} tokens, and the model sees {room:,}"
        )

    def longest(self, source: np.ndarray) -> int:
        """The most tokens of a target, its end included: twice the source's and ten more, if the context has room."""
        room = self.model.context - (len(source) + 1 if self.joined else 0)
        return max(1, min(2 * len(source) + 10, room))

    def translate(self, sources: Sequence[np.ndarray], search: Search) -> list[list[Translation]]:
        """The best targets of each source, best first. What a source gets does not depend on the others, but for the
        rounding of numbers that are computed together."""
        translations: list[list[Translation]] = [[] for _ in sources]
        ways = search.beams * self.tokenizer.vocab_size * 8  # a number of double precision for each
        refuse_beyond_memory(
            ways, f"A search with {search.beams:,} beams takes", remedy=f"--beams {Search.beams}"
        )
        most = max(1, ROWS // search.beams)
        for group in self._groups(sources, most):
            chosen = [sources[number] for number in group]
            state, logits = self.begin(chosen)
            longest = [self.longest(one) for one in chosen]
            for number, ones in zip(
                group, beam_search(state, logits, end=self.end, longest=longest, search=search), strict=True
            ):
                translations[number] = [Translation(self.text(one), one) for one in ones]
        return translations

    def text(self, found: Found) -> str:
        """What was written, as one line."""
        return " ".join(self.tokenizer.decode(found.ids).split())

    def _groups(self, sources: Sequence[np.ndarray], most: int) -> Iterator[list[int]]:
        """Sources of about the same length; of exactly the same, where the target stands behind it."""
        order = sorted(range(len(sources)), key=lambda number: len(sources[number]))
        alike = groupby(order, key=lambda number: len(sources[number])) if self.joined else [(0, order)]
        for _, numbers in alike:
            group = list(numbers)
            yield from (group[at : at + most] for at in range(0, len(group), most))

    @torch.no_grad()
    def begin(self, sources: Sequence[np.ndarray]) -> tuple[State, Tensor]:
        """What was read of the sources, and the logits (B, V) of each target's first token."""
        model: Any = self.model
        device = next(model.parameters()).device
        rows = [torch.from_numpy(source.astype(np.int64)) for source in sources]
        if not self.joined:
            source = pad_sequence(rows, batch_first=True, padding_value=-1).to(device)
            first = torch.full((len(rows), 1), self.start, device=device)
            if not self.cached:
                full = FullState(model, first, SideInputs(source=source))
                return full, full.logits()
            state = CachedState(model, model.remember(source, capacity=max(map(self.longest, sources))))
            return state, state.read(first[:, 0])
        ids = torch.stack(rows).to(device)
        ends = (torch.full((len(rows), 1), one, device=device) for one in (self.start, self.line))
        ids = torch.cat((next(ends), ids, next(ends)), dim=1)
        side = SideInputs(prefix=None if self.batches.attention == "causal" else torch.ones_like(ids))
        if not self.cached:
            full = FullState(model, ids, side)
            return full, full.logits()
        cache = model.new_cache(len(rows))
        return CachedState(model, cache), model(ids, cache, side)[:, -1].float()

    @torch.no_grad()
    def scores(
        self, pairs: Sequence[tuple[str, str]], places: Sequence[str] | None = None
    ) -> list[tuple[float, int] | Skipped]:
        """log p(target | source) of each pair, its end included, in nats, and the target's tokens; or why it has none:
        a side is empty, does not fit, or holds what the vocabulary lacks. `places`: what pairs are called."""
        places = places or [f"pair {number:,}" for number in range(1, len(pairs) + 1)]
        read = [self._document(*pair, place) for pair, place in zip(pairs, places, strict=True)]
        documents = [one for one in read if not isinstance(one, Skipped)]
        scores: list[tuple[float, int]] = []
        if documents:
            starts = np.cumsum([0, *map(len, documents)])[:-1].astype(np.uint64)
            shape: dict[str, Any] = {
                "context": self.model.context,
                "batch": ROWS // 4,
                **self.tokenizer.marks,
            }
            device = next(self.model.parameters()).device
            for batch in self.batches.evaluation(np.concatenate(documents), starts, **shape):
                losses = NEXT_TOKEN.evaluate(self.model, batch.to(device)).losses.double().sum(dim=1).tolist()
                tokens = (batch.targets >= 0).sum(axis=1).tolist()
                scores += zip((-loss for loss in losses), tokens, strict=True)
        assert len(scores) == len(documents), "each fits"
        scored = iter(scores)
        return [one if isinstance(one, Skipped) else next(scored) for one in read]

    def _document(self, source: str, target: str, place: str) -> np.ndarray | Skipped:
        """A pair as it stands in a dataset."""
        source_ids = self.read(source, place)
        if isinstance(source_ids, Skipped):
            return source_ids
        try:
            target_ids = self.tokenizer.encode(" ".join(target.split()))
        except UnknownTextError as error:
            return Skipped(place, error.what.rstrip("."))
        if not len(target_ids):
            return Skipped(place, "an empty target")
        before, after = self.tokenizer.around_document()
        sizes = len(source_ids), len(target_ids) + len(after)
        if not fit(*sizes, self.model.context, joined=self.joined):
            both = f"sides of {sizes[0]:,} and {sizes[1]:,} tokens"
            return Skipped(place, f"{both}, and the model sees {self.model.context:,}")
        return np.concatenate([before, source_ids, [self.line], target_ids, after])
