"""Who answers a name: whether a model that is prompted with a speaker of a play continues with speakers of the same
play (report E), as a number with its control.

A text of plays rarely says where one ends and the next begins, so "the same play" is read off the text: the
company of a name is everyone who speaks mostly near it, that is with at least half of their speeches within
`WINDOW` speeches of one of its own. So those who speak everywhere (servants, messengers) belong to nobody's company,
nor do those who end one play where the next begins. The control is the share that
the same company has where nothing was asked for: among all speeches of the text, and in samples of other prompts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from octavo.errors import CorpusError, InputError
from octavo.util.stats import drawn_again, ends_of

WINDOW = 50
"""Speeches before and after; about two scenes."""
RESAMPLINGS = 10_000
_AT_ONCE = 250  # permutations held in memory together

# "ROMEO:" on a line of its own, or "LADY MARKBY.  Good evening": each at the beginning of a paragraph.
_PARAGRAPH = r"(?:\A|\n[^\S\n]*\n)"
_CAPITALS = r"[A-Z](?:[^\W\d_a-zà-ÿ]|[’'-]|\.(?! {2})| (?! ))*[A-Z]"
_HEADING = re.compile(
    r"(?:ACT|SCENE|PART) (?:[IVXL]+|[A-Z]+)|(?:FIRST|SECOND|THIRD|FOURTH|FIFTH) (?:ACT|SCENE)"
)


@dataclass(frozen=True)
class Notation:
    """How a text writes who speaks.

    Attributes:
        mark: what stands after the name.
        pattern: finds the names.
    """

    mark: str
    pattern: re.Pattern[str]

    def speakers(self, text: str) -> list[str]:
        """The speaker of each speech of a text, in order."""
        names = [" ".join(name.split()) for name in self.pattern.findall(text.replace("\r\n", "\n"))]
        return [name for name in names if not _HEADING.fullmatch(name)]


COLON = Notation(":", re.compile(rf"{_PARAGRAPH}([^\W\d_][^\n:.!?;]{{0,38}}):[^\S\n]*(?=\n|\Z)"))
PERIOD = Notation(".", re.compile(rf"{_PARAGRAPH}({_CAPITALS})\.(?=  | \[|\n|\Z)"))


@dataclass(frozen=True)
class Play:
    """The speeches of a text, by speaker and in order.

    Attributes:
        notation: how the text writes a speaker.
        speeches: the speaker of each speech.
    """

    notation: Notation
    speeches: tuple[str, ...]

    @classmethod
    def read(cls, text: str) -> Play:
        """Read a text in the notation that it has more of. Raises CorpusError if nobody speaks."""
        notation = max((COLON, PERIOD), key=lambda one: len(one.speakers(text)))
        names = notation.speakers(text)
        counts = Counter(names)
        kept = tuple(name for name in names if counts[name] > 1)  # a heading stands there once
        if len(set(kept)) < 2:
            raise CorpusError(
                "No speakers were found in the text: it does not read as a play.",
                remedy="a speech begins with 'NAME:' on a line of its own, or with 'NAME.  ' and the words",
            )
        return cls(notation, kept)

    def company(self, name: str, window: int = WINDOW) -> frozenset[str]:
        """Everyone else who has at least half of their speeches within `window` speeches of one of this name's.

        Raises InputError for a name that does not speak.
        """
        places = [at for at, speaker in enumerate(self.speeches) if speaker == name]
        if not places:
            most = ", ".join(speaker for speaker, _ in Counter(self.speeches).most_common(12))
            raise InputError(f"'{name}' never speaks in this text.", remedy=f"for example one of {most}")
        near = {
            at
            for place in places
            for at in range(max(0, place - window), min(len(self.speeches), place + window + 1))
        }
        spoken, beside = Counter(self.speeches), Counter(self.speeches[at] for at in near)
        return frozenset(other for other in beside if 2 * beside[other] >= spoken[other]) - {name}

    def other_name(self, name: str) -> str | None:
        """The most frequent speaker that has nobody in common with this one's company; None if all have."""
        company = self.company(name) | {name}
        for other, _ in Counter(self.speeches).most_common():
            if other not in company and not (self.company(other) & company):
                return other
        return None

    def named_in(self, text: str) -> Counter[str]:
        """How often each speaker of the play speaks in a text that a model wrote."""
        known = set(self.speeches)
        return Counter(name for name in self.notation.speakers(text) if name in known)


@dataclass(frozen=True)
class Share:
    """The share of the company among the speakers of some samples; those who have the prompt's name do not count.

    Attributes:
        prompt: what the samples continue; empty for none.
        share: of the company; None if nobody speaks.
        company, others: speeches of members of the company, and of other speakers of the text.
        interval: 95 % bootstrap interval of the share over samples; None if nobody speaks.
        p: probability that samples which do not differ from these and the prompt's are divided so unequally
            (one-sided permutation test over samples); None for the prompt's own.
    """

    prompt: str
    share: float | None
    company: int
    others: int
    interval: tuple[float, float] | None
    p: float | None = None


@dataclass(frozen=True)
class NameAnswer:
    """Who answers a name.

    Attributes:
        name: the prompt.
        company: who speaks near it in the text.
        window: speeches before and after the name that are near it.
        in_text: share of the company among all speeches of the text, the name's own left out.
        asked: the share in the samples of the prompt.
        controls: the share of the same company in samples of other prompts.
        answering: how often each speaker answers.
    """

    name: str
    company: tuple[str, ...]
    window: int
    in_text: float
    asked: Share
    controls: tuple[Share, ...]
    answering: Mapping[str, int]


def who_answers(
    play: Play, name: str, samples: Sequence[str], controls: Mapping[str, Sequence[str]], *, seed: int = 0
) -> NameAnswer:
    """Count the company of a name in samples (prompt and continuation) of its own and of control prompts.

    Raises InputError for a name that does not speak, CorpusError where everyone is of its company.
    """
    company = play.company(name)
    spoken = Counter(speaker for speaker in play.speeches if speaker != name)
    in_text = sum(spoken[member] for member in company) / spoken.total()
    if in_text == 1:
        raise CorpusError(
            f"Everyone in this text speaks near {name}, so it cannot tell one play from another.",
            remedy="a text of several plays can",
        )
    random = np.random.Generator(np.random.PCG64(seed))
    named = [play.named_in(text) for text in samples]
    mine = _counts(named, company, name)
    answering = sum(named, Counter())
    del answering[name]
    shares = []
    for prompt, texts in controls.items():
        counts = _counts([play.named_in(text) for text in texts], company, name)
        shares.append(_share(prompt, counts, random, _p(mine, counts, random)))
    asked = _share(name, mine, random, None)
    order = dict(sorted(answering.items(), key=lambda item: (-item[1], item[0])))
    return NameAnswer(name, tuple(sorted(company)), WINDOW, in_text, asked, tuple(shares), order)


def _counts(named: Sequence[Counter[str]], company: frozenset[str], name: str) -> np.ndarray:
    """Speeches (samples, 2) of the company and of others, the name's own left out."""
    rows = [
        (sum(counter[member] for member in company), counter.total() - counter[name]) for counter in named
    ]
    table = np.array(rows, dtype=np.int64).reshape(-1, 2)
    table[:, 1] -= table[:, 0]
    return table


def _share(prompt: str, counts: np.ndarray, random: np.random.Generator, p: float | None) -> Share:
    company, others = counts.sum(axis=0).tolist()
    share = company / (company + others) if company + others else None
    return Share(prompt, share, company, others, _interval(counts, random), p)


def _shares(table: np.ndarray) -> np.ndarray:
    """Share of the first of two sums (…, 2); 0 where there are none."""
    return table[..., 0] / np.maximum(table.sum(axis=-1), 1)


def _interval(counts: np.ndarray, random: np.random.Generator) -> tuple[float, float] | None:
    if not counts.sum():
        return None

    def shares(rows: np.ndarray) -> np.ndarray:
        sums = np.stack([counts[:, column][rows].sum(axis=1) for column in (0, 1)], axis=-1)
        return _shares(sums[sums.sum(axis=1) > 0])

    low, high = ends_of(drawn_again(shares, len(counts), draws=RESAMPLINGS, random=random))
    return float(low), float(high)


def _p(mine: np.ndarray, control: np.ndarray, random: np.random.Generator) -> float | None:
    if not (mine.sum() and control.sum()):
        return None
    both = np.concatenate([mine, control])
    seen = _shares(mine.sum(axis=0)) - _shares(control.sum(axis=0))
    reached = 0
    for _ in range(RESAMPLINGS // _AT_ONCE):
        order = random.permuted(np.tile(np.arange(len(both)), (_AT_ONCE, 1)), axis=1)
        first = both[order[:, : len(mine)]].sum(axis=1)  # (resamplings, 2)
        reached += int((_shares(first) - _shares(both.sum(axis=0) - first) >= seen - 1e-12).sum())
    return (1 + reached) / (1 + RESAMPLINGS)
