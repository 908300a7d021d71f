"""Texts that are written side by side in a decoder's slots, each with random numbers, a text and an end of its own."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Literal

import numpy as np

from octavo.generation.decoder import Decoder
from octavo.generation.drafts import Drafts
from octavo.generation.sampling import Sampling
from octavo.tokenizers import Tokenizer

if TYPE_CHECKING:
    from torch import Tensor

    from octavo.generation.constrain import Referee

Prompt = str | Sequence[int]
Finish = Literal["length", "end", "stop", "stuck"]
DRAWN = 64
"""Random numbers that are drawn at a time."""


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
        self._drawn: list[float] = []  # ahead
        self.held = ""  # text that may be the beginning of a stop string
        self.open = True
        self.game = None if referee is None else referee.game(prompt)

    @property
    def ids(self) -> Sequence[int]:
        """What was written."""
        return self.sample.ids

    @property
    def room(self) -> int:
        """Tokens that may be guessed: what is left but its last one; none where a referee has to see each before."""
        return 0 if self.game is not None else self.tokens - len(self.sample.ids) - 1

    def give_up(self) -> str:
        """End the stream: the validator allows no token."""
        return self._close("stuck", self.held + self.decoder.finish())

    def uniforms(self, count: int) -> list[float]:
        """The random numbers that choose the next tokens; `take` uses one up."""
        while len(self._drawn) < count:
            self._drawn += self.random.random(DRAWN).tolist()
        return self._drawn[:count]

    def take(self, token: int, log_probability: float) -> str:
        """Add a token; returns the text that it lets out."""
        piece = self._take(token, log_probability)
        self.sample.sizes.append(len(self.sample.text))
        return piece

    def follow(
        self, draft: Sequence[int], tokens: Sequence[int], log_probabilities: Sequence[float]
    ) -> tuple[int, str]:
        """Add the tokens that were chosen after the text and after each token of a draft, as far as the draft was
        right. Returns how many, and the text that they let out."""
        pieces: list[str] = []
        for place, chosen in enumerate(zip(tokens, log_probabilities, strict=True)):
            pieces.append(self.take(*chosen))
            if not self.open or place == len(draft) or tokens[place] != draft[place]:
                break
        return len(pieces), "".join(pieces)

    def _take(self, token: int, log_probability: float) -> str:
        if self.game is not None:
            self.game.take(token)
        del self._drawn[:1]
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
    """The streams in a decoder's slots; they come at any time, and one that has ended frees its slot.

    `drafts`: guesses at what comes next, so that a step may write several tokens.
    """

    def __init__(self, decoder: Decoder, sampling: Sampling, drafts: Drafts | None = None) -> None:
        self.decoder, self.sampling, self._drafts = decoder, sampling, drafts
        self._free = list(range(decoder.slots))
        self._writing: dict[int, Stream] = {}  # by slot
        self._next: dict[int, Sequence[int]] = {}  # what a slot reads at the next step
        self._sources: dict[int, int] = {}  # of a slot whose prompt another one reads
        self._readers: dict[tuple[int, ...], int] = {}
        self._seen: np.ndarray | None = None  # (slots, V)
        if sampling.repetition_penalty != 1.0:
            self._seen = np.zeros((decoder.slots, decoder.vocabulary), bool)

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
        """Write at least one token in each stream. Returns the streams with the text that is let out."""
        slots, streams = list(self._writing), list(self._writing.values())
        drafted = None if self._readers else self._drafts
        drafts = drafted.propose(self._writing) if drafted is not None and drafted.begin(len(slots)) else {}
        logits = self._read(slots, drafts)
        by_row = streams if not drafts else with_drafts(self._writing, drafts)
        numbers = [stream.uniforms(1 + len(drafts.get(slot, ()))) for slot, stream in self._writing.items()]
        uniform = np.array([*chain.from_iterable(numbers)])
        allowed, stuck = _refereed(by_row, self.decoder.vocabulary)
        how = {"seen": self._seen_by(slots, drafts), "allowed": allowed}
        if isinstance(logits, np.ndarray):
            tokens, known = self.sampling.drawn(logits, uniform, **how)
        else:
            from octavo.generation.on_device import drawn

            tokens, known = drawn(self.sampling, logits, uniform, **how)
        row = 0
        written = []
        for slot, stream in zip(slots, streams, strict=True):
            first, draft = row, drafts.get(slot, ())
            if draft:
                row += 1 + len(draft)
                count, text = stream.follow(draft, tokens[first:row], known[first:row])
                self.decoder.take_back(slot, row - first - count)
            else:
                row, count = row + 1, 1
                text = stream.give_up() if first in stuck else stream.take(tokens[first], known[first])
            if self._seen is not None:
                self._seen[slot, tokens[first : first + count]] = True
            written.append((stream, text))
            if stream.open:
                self._next[slot] = (stream.sample.ids[-1],)
            else:
                self._end(slot)
        if drafted is not None:
            drafted.end()
        return written

    def _seen_by(self, slots: Sequence[int], drafts: Mapping[int, Sequence[int]]) -> np.ndarray | None:
        """(n, V) what a repetition penalty is for, at each place of each draft."""
        if self._seen is None or not drafts:
            return None if self._seen is None else self._seen[slots]
        return np.concatenate([seen_ahead(self._seen[slot], drafts.get(slot, ())) for slot in slots])

    def _read(self, slots: list[int], drafts: Mapping[int, Sequence[int]]) -> np.ndarray | Tensor:
        """Logits (n, V) of the streams in these slots, at each place of their drafts; a tensor where the device that
        has them can choose in doubles, as not every accelerator can."""
        if drafts:
            new = self._next | {slot: (*self._next[slot], *draft) for slot, draft in drafts.items()}
            logits = self.decoder.feed(new, ahead=drafts)
        else:
            logits = self.decoder.feed(self._next)
        if isinstance(logits, np.ndarray) or logits.device.type != "cuda":
            logits = as_array(logits)
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


def as_array(logits: np.ndarray | Tensor) -> np.ndarray:
    """A decoder's logits where the processor has them."""
    return logits if isinstance(logits, np.ndarray) else logits.cpu().numpy()


def with_drafts(streams: Mapping[int, Stream], drafts: Mapping[int, Sequence[int]]) -> list[Stream]:
    """The streams (by slot), each once and once more for each token of its draft."""
    return [stream for slot, stream in streams.items() for _ in range(1 + len(drafts.get(slot, ())))]


def seen_ahead(seen: np.ndarray, draft: Sequence[int]) -> np.ndarray:
    """(n + 1, V) what a text has had, of which `seen` (V, bool) says it now, at each place of a draft of n tokens."""
    rows = np.tile(seen, (len(draft) + 1, 1))
    for place, token in enumerate(draft, 1):
        rows[place:, token] = True
    return rows


def _refereed(streams: Sequence[Stream], vocabulary: int) -> tuple[np.ndarray | None, set[int]]:
    """(n, V) what the streams' referees let through, None without any; and the rows where that is nothing."""
    masks = {row: stream.game.mask() for row, stream in enumerate(streams) if stream.game is not None}
    stuck = {row for row, mask in masks.items() if not mask.any()}
    if not masks:
        return None, stuck
    allowed = np.ones((len(streams), vocabulary), bool)
    for row in masks.keys() - stuck:
        allowed[row] = masks[row]
    return allowed, stuck
