"""Drafts: tokens that a text may go on with, guessed from n-grams and verified by the model in one pass.

A guess comes from the text so far (what followed the same tokens there) or, where the model counts its training text,
from that. A token is chosen at each guess's place as if all before it were right; the first that differs ends the
pass. So every text is the same to the bit as without drafts. Sources: Leviathan et al. 2023 (verifying several tokens
in a pass); Saxena 2023 (guesses from the text itself).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import TYPE_CHECKING, Protocol
from weakref import WeakKeyDictionary

from octavo.generation.decoder import AHEAD, Decoder

if TYPE_CHECKING:
    from octavo.ngram.kernel import Tables

MATCHES = (16, 8, 4, 2)
"""Lengths of the n-grams of a text so far that are looked up, the longest first."""
REACH = 4096
"""Tokens of a text so far that are looked at, at least; at most twice as many."""
SAME = 6
"""Places that cost as much time as a pass itself: about that on processors with AVX2 or AVX-512."""
PRIOR, REMEMBERED = 4, 64
"""How many tries the first estimate of a rate is worth, and after how many earlier ones count half."""


class Drafted(Protocol):
    """A text that is being written."""

    @property
    def prompt(self) -> Sequence[int]:
        """What it goes on from."""

    @property
    def ids(self) -> Sequence[int]:
        """What was written."""

    @property
    def room(self) -> int:
        """Tokens that may be guessed: what is left but its last one, or none."""


class TextSoFar:
    """The n-grams of one text."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.length = 0  # of all of it
        self._next: dict[tuple[int, ...], int] = {}  # where each n-gram was followed last

    def take(self, ids: Sequence[int]) -> None:
        """Go on with some tokens."""
        known, after = self.ids, self._next
        self.length += len(ids)
        for token in ids:
            place = len(known)
            for length in MATCHES:
                if length <= place:
                    after[*known[place - length :]] = place
            known.append(token)
        if len(known) > 2 * REACH:
            kept, self.length = self.length - REACH, 0
            self.ids, self._next = [], {}
            self.take(known[-REACH:])
            self.length += kept

    def follow(self, most: int) -> tuple[list[int], int]:
        """The tokens that followed the longest n-gram at the end of the text, and how many tokens stood alike before
        them; a text that repeats itself goes on doing so."""
        ids = self.ids
        for length in MATCHES:
            if length < len(ids) and (place := self._next.get((*ids[-length:],))) is not None:
                break
        else:
            return [], 0
        matched = length
        while matched < MATCHES[0] and matched < place and ids[place - 1 - matched] == ids[-1 - matched]:
            matched += 1
        found = ids[place : place + most]
        while len(found) < most:
            found.append(found[len(found) - (len(ids) - place)])
        return found, matched


@dataclass
class Rate:
    """How often guesses of a kind were right."""

    prior: float
    right: float = 0.0
    tried: float = 0.0

    @property
    def value(self) -> float:
        """The estimate."""
        return (self.right + PRIOR * self.prior) / (self.tried + PRIOR)

    def note(self, right: bool) -> None:
        """One more."""
        if self.tried >= REMEMBERED:
            self.right, self.tried = self.right / 2, self.tried / 2
        self.right, self.tried = self.right + right, self.tried + 1


class Pace:
    """Whether to draft, for a number of texts: as took less time for a token lately. The other way is tried for some
    passes, so seldom that it costs little."""

    TRIAL, COST = 8, 0.01
    """Passes of a trial; the share of the time that trials may cost."""
    LEAST, MOST = 64, 1024
    """Passes between two trials."""

    def __init__(self) -> None:
        self.drafts = True
        self._lately: dict[bool, float] = {}
        self._tries, self._left, self._tokens = True, self.TRIAL, 0
        self._seconds: list[float] = []

    def note(self, tokens: int, seconds: float) -> None:
        """A pass in the way that was asked for took so long, and wrote so many tokens."""
        self._tokens, self._left = self._tokens + tokens, self._left - 1
        self._seconds.append(seconds)
        if self._left:
            return
        # The middle one, for some wait for what else the machine does.
        now = median(self._seconds) * len(self._seconds) / self._tokens
        self._lately[self.drafts] = (self._lately.get(self.drafts, now) + now) / 2
        self._left, self._tokens, self._seconds = self.TRIAL, 0, []
        if not self._tries or len(self._lately) < 2:
            self._tries, self.drafts = True, not self.drafts
            return
        self._tries, self.drafts = False, self._lately[True] < self._lately[False]
        slower = self._lately[not self.drafts] / self._lately[self.drafts] - 1
        self._left = min(self.MOST, max(self.LEAST, int(self.TRIAL * slower / self.COST)))


@dataclass(frozen=True)
class Guess:
    """Tokens that a text may go on with, and how often such guesses were right."""

    tokens: Sequence[int]
    rates: Sequence[Rate]

    def worth(self, least: float) -> tuple[float, int]:
        """How many of its first tokens are right with a probability of `least` or more, after how many are to be
        expected to be right among them."""
        expected, whole = 0.0, 1.0
        for count, rate in enumerate(self.rates):
            whole *= rate.value
            if whole < least:
                return expected, count
            expected += whole
        return expected, len(self.rates)

    def learn(self, came: Sequence[int]) -> None:
        """These tokens came."""
        for token, rate, right in zip(self.tokens, self.rates, came, strict=False):
            rate.note(token == right)
            if token != right:
                return


class Drafts:
    """The guesses for the texts of a decoder.

    Args:
        ngrams: gives those of the training text, when they are first asked for; None: there are none.
    """

    def __init__(
        self,
        decoder: Decoder,
        ngrams: Callable[[], Tables | None] = lambda: None,
        *,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._decoder, self._clock = decoder, clock
        self._ngrams = cache(ngrams)
        self._said = [Rate(length / (length + 4)) for length in range(MATCHES[0] + 1)]
        self._counted = [Rate((tenth + 0.5) / 10) for tenth in range(11)]
        self._texts: WeakKeyDictionary[Drafted, TextSoFar] = WeakKeyDictionary()
        self._paces: dict[int, Pace] = {}
        self._pace, self._begun, self._count = Pace(), 0.0, 0
        self._open: list[tuple[Drafted, int, list[Guess]]] = []

    @classmethod
    def of(cls, decoder: Decoder) -> Drafts | None:
        """None for a decoder that reads nothing ahead. Its slots must be empty."""
        counts = getattr(decoder.model, "counts", None)
        return (
            cls(decoder, lambda: None if counts is None else counts.ngrams()) if decoder.foresees() else None
        )

    def begin(self, texts: int) -> bool:
        """A pass over so many texts begins; whether to draft."""
        self._pace = self._paces.setdefault(texts.bit_length(), Pace())
        self._begun, self._count = self._clock(), texts
        return self._pace.drafts

    def end(self) -> None:
        """Its tokens have been taken."""
        tokens = self._count
        for text, before, guesses in self._open:
            came = text.ids[before:]
            tokens += len(came) - 1
            for guess in guesses:
                guess.learn(came)
        self._open.clear()
        self._pace.note(tokens, self._clock() - self._begun)

    def propose(self, texts: Mapping[int, Drafted]) -> dict[int, tuple[int, ...]]:
        """Tokens that texts may go on with, by slot; only those that are worth their place in the pass."""
        found: dict[int, tuple[int, ...]] = {}
        least, context = len(texts) / (len(texts) + SAME), self._decoder.context
        for slot, text in texts.items():
            most = min(AHEAD - 1, context - self._decoder.lengths[slot] - 1, text.room)
            if most < 1:
                continue
            guesses = self._guesses(text, most)
            self._open.append((text, len(text.ids), guesses))
            (_, count), tokens = max(
                ((guess.worth(least), guess.tokens) for guess in guesses), default=((0.0, 0), ())
            )
            if count:
                found[slot] = (*tokens[:count],)
        return found

    def _guesses(self, text: Drafted, most: int) -> list[Guess]:
        if (so_far := self._texts.get(text)) is None:
            so_far = self._texts[text] = TextSoFar()
            so_far.take(text.prompt)
        so_far.take(text.ids[so_far.length - len(text.prompt) :])
        tokens, matched = so_far.follow(most)
        rates = self._said[matched : matched + most]
        found = [Guess(tokens, rates + self._said[-1:] * (len(tokens) - len(rates)))] if tokens else []
        if (tables := self._ngrams()) is not None:
            tokens, shares = tables.follow(so_far.ids, most)
            found.append(Guess(tokens, [self._counted[int(10 * share)] for share in shares]))
        return found
