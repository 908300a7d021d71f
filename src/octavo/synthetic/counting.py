"""What a grammar's texts are like, exactly: how anything that an automaton reads off their words is distributed.

No text is drawn. The probabilities of the automaton's states are carried through the grammar's plan, option by option,
with what slots hold; words that the automaton cannot tell apart are one.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence

from octavo.synthetic.grammar import TOKEN, Choice, Grammar, Item, Recall

State = Hashable
Sign = Hashable
"""What an automaton makes of a word."""


class Automaton(ABC):
    """Reads a text word by word and gives it a number in the end. Words are those of `grammar.TOKEN`.

    Attributes:
        start: the state before the first word.
    """

    start: State = 0

    @abstractmethod
    def sign(self, word: str) -> Sign:
        """What it sees of a word or mark; what it need not tell apart is the same."""

    @abstractmethod
    def step(self, state: State, sign: Sign) -> State:
        """The state after one more word."""

    @abstractmethod
    def value(self, state: State) -> float:
        """The number of a text that ends in a state."""

    def read(self, text: str) -> float:
        """The number of a text."""
        state = self.start
        for word in TOKEN.findall(text):
            state = self.step(state, self.sign(word))
        return self.value(state)


Held = frozenset[tuple[str, Sign]]
After = Mapping[tuple[State, Held], float]
"""Probabilities of a state, with what the slots hold."""


def distribution(grammar: Grammar, automaton: Automaton) -> dict[float, float]:
    """The probability of each number that an automaton gives to the grammar's texts, in ascending order."""
    ends = _Walk(automaton).choice(grammar.start, automaton.start, frozenset())
    found: defaultdict[float, list[float]] = defaultdict(list)
    for (state, _), probability in ends.items():
        found[automaton.value(state)].append(probability)
    return {value: math.fsum(found[value]) for value in sorted(found)}


class _Walk:
    """One automaton's way through a grammar; what was found for a choice is kept."""

    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton
        self._known: dict[tuple[Choice, State, Held], After] = {}
        self._options: dict[Choice, list[tuple[tuple[Item | tuple[Sign, ...], ...], float]]] = {}

    def choice(self, choice: Choice, state: State, held: Held) -> After:
        """The states after a choice, from one before it."""
        key = choice, state, held
        if key not in self._known:
            found: defaultdict[tuple[State, Held], float] = defaultdict(float)
            for plan, share in self._read(choice):
                for (end, kept), probability in self._plan(plan, state, held).items():
                    if choice.slot is not None:
                        (signs,) = plan
                        assert isinstance(signs, tuple), "a slot is filled from single words"
                        kept = kept | {(choice.slot, signs[0])}
                    found[end, kept] += share * probability
            self._known[key] = dict(found)
        return self._known[key]

    def _read(self, choice: Choice) -> list[tuple[tuple[Item | tuple[Sign, ...], ...], float]]:
        """The options of a choice, texts as signs, those that look alike as one with their share."""
        if choice not in self._options:
            sign = self._automaton.sign
            counts = Counter(
                tuple(tuple(map(sign, TOKEN.findall(i))) if isinstance(i, str) else i for i in option)
                for option in choice.options
            )
            self._options[choice] = [(plan, n / choice.count) for plan, n in counts.items()]
        return self._options[choice]

    def _plan(self, plan: Sequence[Item | tuple[Sign, ...]], state: State, held: Held) -> After:
        """The states after a plan, from one before it."""
        now: dict[tuple[State, Held], float] = {(state, held): 1.0}
        for item in plan:
            after: defaultdict[tuple[State, Held], float] = defaultdict(float)
            for (here, kept), probability in now.items():
                if isinstance(item, Choice):
                    for end, share in self.choice(item, here, kept).items():
                        after[end] += probability * share
                    continue
                assert not isinstance(item, str), "texts were read as signs"
                signs = (dict(kept)[item.slot],) if isinstance(item, Recall) else item
                for sign in signs:
                    here = self._automaton.step(here, sign)
                after[here, kept] += probability
            now = dict(after)
        return now
