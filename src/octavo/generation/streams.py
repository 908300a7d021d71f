"""Texts that are written side by side in a decoder's slots, each with random numbers, a text and an end of its own."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import Tensor

from octavo.generation.decoder import Decoder
from octavo.generation.sampling import Sampling
from octavo.tokenizers import Tokenizer

if TYPE_CHECKING:
    from octavo.generation.constrain import Referee

Prompt = str | Sequence[int]
Finish = Literal["length", "end", "stop", "stuck"]


@dataclass(frozen=True)
class TextRequest:
    """A text to be written: sample `index` of `seed` after a prompt, which is a text, or ids as they stand."""

    prompt: Prompt = ""
    seed: int = 0
    index: int = 0


@dataclass
class Sample:
    """One continuation as it grows: ids, the model's log-probability of each (nats, before temperature), text.

    `sizes`: characters of the text with each id. `number` is its place among the requests that were made together,
    `index` that among the samples of its seed.
    """

    index: int
    ids: list[int] = field(default_factory=list)
    log_probabilities: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    text: str = ""
    finish: Finish | None = None
    number: int = 0


class Stream:
    """One sample's side of the writing: its random numbers, its text, and when it ends.

    `prompt`: the ids that it goes on from. It ends with the document, after so many `tokens`, before a text of `stop`,
    or stuck where a `referee` lets nothing through.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        prompt: Sequence[int],
        sample: Sample,
        *,
        seed: int,
        tokens: int,
        stop: Sequence[str],
        referee: Referee | None = None,
    ) -> None:
        self.prompt, self.sample, self.tokens = prompt, sample, tokens
        self.stop, self.ends = [text for text in stop if text], tokenizer.ends
        self.decoder = tokenizer.decoder()
        added = tokenizer.vocab_size - len(tokenizer.added)
        turn = max((at for at, token in enumerate(prompt, 1) if token >= added), default=0)
        for token in prompt[turn:]:  # so that the first new word is spaced as its neighbour asks
            self.decoder.push(token)
        self.random = np.random.Generator(np.random.Philox(key=np.array([seed, sample.index], np.uint64)))
        self.held = ""  # text that may be the beginning of a stop string
        self.open = True
        self.game = None if referee is None else referee.game(prompt)

    def give_up(self) -> str:
        """End the stream: the validator allows no token."""
        return self._close("stuck", self.held + self.decoder.finish())

    def uniform(self) -> float:
        """The random number that chooses the next token."""
        return self.random.random()

    def take(self, token: int, log_probability: float) -> str:
        """Add a token; returns the text that it lets out."""
        piece = self._take(token, log_probability)
        self.sample.sizes.append(len(self.sample.text))
        return piece

    def _take(self, token: int, log_probability: float) -> str:
        if self.game is not None:
            self.game.take(token)
        self.sample.ids.append(token)
        self.sample.log_probabilities.append(log_probability)
        if token in self.ends:
            return self._close("end", self.held + self.decoder.finish())
        text = self.held + self.decoder.push(token)
        last = len(self.sample.ids) >= self.tokens
        if last:
            text += self.decoder.finish()
        if not self.stop:
            return self._close("length", text) if last else self._let_out(text)
        cut = min((at for at in map(text.find, self.stop) if at >= 0), default=-1)
        if cut >= 0:
            return self._close("stop", text[:cut])
        if last:
            return self._close("length", text)
        held = max(n for stop in self.stop for n in range(len(stop)) if text.endswith(stop[:n]))
        self.held = text[len(text) - held :] if held else ""
        return self._let_out(text[: len(text) - held])

    def _close(self, finish: Finish, text: str) -> str:
        self.open = False
        self.sample.finish = finish
        return self._let_out(text)

    def _let_out(self, text: str) -> str:
        self.sample.text += text
        return text


class Streams:
    """The streams in a decoder's slots; they come at any time, and one that has ended frees its slot."""

    def __init__(self, decoder: Decoder, sampling: Sampling) -> None:
        self.decoder, self.sampling = decoder, sampling
        self._free = list(range(decoder.slots))
        self._writing: dict[int, Stream] = {}  # by slot
        self._next: dict[int, Sequence[int]] = {}  # what a slot reads at the next step
        self._sources: dict[int, int] = {}  # of a slot whose prompt another one reads
        self._readers: dict[tuple[int, ...], int] = {}
        self._seen: Tensor | None = None  # (slots, V)
        if sampling.repetition_penalty != 1.0:
            self._seen = torch.zeros(decoder.slots, decoder.vocabulary, dtype=torch.bool)

    def __len__(self) -> int:
        """How many are being written."""
        return len(self._writing)

    @property
    def room(self) -> int:
        """How many more there is a slot for."""
        return len(self._free)

    def begin(self, stream: Stream) -> None:
        """Give a stream a slot; of those that begin together with one prompt, one reads it for all."""
        slot, prompt = heapq.heappop(self._free), tuple(stream.prompt)
        self._writing[slot] = stream
        reader = self._readers.setdefault(prompt, slot)
        if reader == slot:
            self._next[slot] = prompt
        else:
            self._sources[slot] = reader
        if self._seen is not None:
            self._seen[slot] = False
            self._seen[slot, list(prompt)] = True

    def step(self) -> list[tuple[Stream, str]]:
        """Write one token in each stream. Returns the streams with the text that it lets out."""
        slots, streams = list(self._writing), list(self._writing.values())
        logits = self._read(slots)
        uniform = torch.from_numpy(np.array([stream.uniform() for stream in streams])).to(logits.device)
        if self._seen is not None:
            self._seen = self._seen.to(logits.device)
        seen = None if self._seen is None else self._seen[slots]
        allowed, stuck = _refereed(logits, streams)
        chosen = self.sampling.choose(allowed, uniform, seen)
        known = logits.log_softmax(dim=-1).gather(1, chosen[:, None])[:, 0]
        drawn = torch.stack((chosen.double(), known.double())).tolist()  # the device is waited for once
        if self._seen is not None:
            self._seen[slots, chosen] = True
        written = []
        for row, (slot, stream, token, log_probability) in enumerate(
            zip(slots, streams, map(int, drawn[0]), drawn[1], strict=True)
        ):
            text = stream.give_up() if row in stuck else stream.take(token, log_probability)
            written.append((stream, text))
            if stream.open:
                self._next[slot] = (token,)
            else:
                self._end(slot)
        return written

    def _read(self, slots: list[int]) -> Tensor:
        """Logits (n, V) of the streams in these slots, where a choice has its doubles: not on every accelerator."""
        logits = self.decoder.feed(self._next)
        logits = logits if logits.device.type == "cuda" else logits.cpu()
        if self._sources:
            for reader in set(self._sources.values()):
                self.decoder.copy(
                    reader, [slot for slot, source in self._sources.items() if source == reader]
                )
            row = {slot: row for row, slot in enumerate(self._next)}
            logits = logits[[row[self._sources.get(slot, slot)] for slot in slots]]
        self._next, self._sources, self._readers = {}, {}, {}
        return logits

    def _end(self, slot: int) -> None:
        del self._writing[slot]
        self.decoder.free(slot)
        heapq.heappush(self._free, slot)


def _refereed(logits: Tensor, streams: Sequence[Stream]) -> tuple[Tensor, set[int]]:
    """Logits (n, V) with −∞ for what a stream's referee does not let through; and the rows where that is everything."""
    masks = {row: stream.game.mask() for row, stream in enumerate(streams) if stream.game is not None}
    stuck = {row for row, mask in masks.items() if not mask.any()}
    if not masks:
        return logits, stuck
    open_rows = [row for row in masks if row not in stuck]
    allowed = logits.clone()
    for row in open_rows:
        allowed[row].masked_fill_(torch.from_numpy(~masks[row]).to(logits.device), -math.inf)
    return allowed, stuck
