"""A small engine for probabilistic grammars: write plans as text, draw texts, know their exact probability.

A grammar is a mapping from rule names to options, and an option is text with three kinds of marks:

    {rule}          an option of that rule, each equally likely
    {slot=rule}     the same, and what was drawn is kept in the slot (the rule must list single words)
    {slot}          what the slot holds, again
    (this|or that)  a choice written in place

Every choice is uniform, so the natural logarithm of a derivation's probability is minus the sum of log(number
of options) over its choices, and the text ends where the plan ends, with probability 1.

Why this is also the probability of the *text*: the constructor refuses any grammar in which two options of
one choice could begin with the same word, in which an option is empty, or in which one stops in the middle of a
word. Take two different derivations and the first choice at which they differ: the words before it are the
same, the next word is not, hence the texts differ. No text has two derivations. `Grammar.log_probability` does
not rely on that argument: it searches all derivations and adds them up, and tests compare.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

from octavo.errors import ConfigError

TOKEN = re.compile(r"[^\s.,?]+|[.,?]")
"""A word or one of the three punctuation marks: the tokens of a text."""

_MARK = re.compile(r"[{}(|)]|[^{}(|)]+")


@dataclass(frozen=True)
class Recall:
    """The word that a slot holds."""

    slot: str


@dataclass(frozen=True, eq=False)
class Choice:
    """A uniform choice; with a slot, the word that was drawn is kept in it."""

    options: tuple[Plan, ...]
    slot: str | None = None
    cost: float = field(init=False)
    count: int = field(init=False)
    ready: tuple[str | Plan, ...] = field(init=False)

    def __post_init__(self) -> None:
        # Drawing runs over a stack: plans are kept reversed, and an option of plain text as that text.
        ready = tuple(o[0] if len(o) == 1 and isinstance(o[0], str) else o[::-1] for o in self.options)
        object.__setattr__(self, "ready", ready)
        object.__setattr__(self, "count", len(ready))
        object.__setattr__(self, "cost", math.log(len(ready)))


Item = str | Recall | Choice
Plan = tuple[Item, ...]
Slots = frozenset[str]
Held = dict[str, str]


class Grammar:
    """A compiled grammar.

    Args:
        rules: options by rule name; a rule may use any rule, but not itself.
        start: the rule to begin with.

    Raises:
        ConfigError: an unknown name, a rule that uses itself, a slot that may be empty or is filled twice, or
            a choice whose options cannot be told apart by their first word.
    """

    def __init__(self, rules: Mapping[str, Sequence[str]], start: str) -> None:
        self._rules = rules
        self._compiled: dict[str, tuple[Plan, ...]] = {}
        self._slot_words: dict[str, set[str]] = {}
        self._open: list[str] = []
        self.start = Choice(self._options(start))
        self._check_choices()
        self._check_slots((self.start,), frozenset(), frozenset())

    def draw(self, random: Random) -> tuple[str, float]:
        """Write one text; returns it with the natural logarithm of its probability."""
        uniform = random.random
        pieces: list[str] = []
        slots: dict[str, str] = {}
        stack: list[Item] = [self.start]
        cost = 0.0
        while stack:
            item = stack.pop()
            if isinstance(item, str):
                pieces.append(item)
            elif isinstance(item, Choice):
                cost += item.cost
                option = item.ready[int(uniform() * item.count)]
                if isinstance(option, str):
                    pieces.append(option)
                    if item.slot is not None:
                        slots[item.slot] = option
                else:
                    stack.extend(option)
            else:
                pieces.append(slots[item.slot])
        return "".join(pieces), -cost

    def log_probability(self, text: str) -> float:
        """The slow twin of `draw`: sum over every derivation of `text`, −inf where there is none. In nats."""
        found = [sum(made.values()) for made in self._derivations(text)]
        if not found:
            return -math.inf
        least = min(found)
        return math.log(math.fsum(math.exp(least - cost) for cost in found)) - least

    def log_probabilities(self, text: str) -> list[tuple[str, float]]:
        """Each token of a text with the natural logarithm of its probability after those before it. Options of a choice
        differ in their first token, so that one says what was chosen, and the others of the option are certain. Raises
        ValueError for a text that the grammar does not write."""
        made = next(self._derivations(text), None)
        if made is None:
            raise ValueError("the grammar does not write this text")
        return [(token[0], -made.get(token.start(), 0.0)) for token in TOKEN.finditer(text)]

    def _derivations(self, text: str) -> Iterator[dict[int, float]]:
        """Every way to write a text: by place, the costs of what is chosen there."""
        for end, _, made in _derive((self.start,), text, 0, {}):
            if end == len(text):
                costs: dict[int, float] = {}
                for at, cost in made:
                    costs[at] = costs.get(at, 0.0) + cost
                yield costs

    def every(self) -> Iterator[tuple[str, float]]:
        """Every derivation as (text, probability); for small grammars."""
        for text, _, cost in _expand((self.start,), {}):
            yield text, math.exp(-cost)

    def entropy(self) -> float:
        """Expected −log probability of a text, in nats: exact, from the choices alone."""
        return self._expected(lambda item: item.cost if isinstance(item, Choice) else 0.0)

    def tokens(self) -> float:
        """Expected words and punctuation marks of a text, exact like the entropy."""

        def own(item: Item) -> float:
            if isinstance(item, str):
                return float(len(TOKEN.findall(item)))
            return 1.0 if isinstance(item, Recall) else 0.0  # a choice's words are those of its options

        return self._expected(own)

    def _expected(self, own: Callable[[Item], float]) -> float:
        """The mean over all texts of a sum over the items that a text is made of."""
        known: dict[Choice, float] = {}

        def of(item: Item) -> float:
            if not isinstance(item, Choice):
                return own(item)
            if item not in known:
                known[item] = own(item) + math.fsum(of(i) for o in item.options for i in o) / item.count
            return known[item]

        return of(self.start)

    def size(self) -> int:
        """How many different texts the grammar can write."""
        known: dict[Choice, int] = {}

        def of(item: Item) -> int:
            if not isinstance(item, Choice):
                return 1
            if item not in known:
                known[item] = sum(math.prod(of(i) for i in o) for o in item.options)
            return known[item]

        return of(self.start)

    def lengths(self) -> tuple[int, float, int]:
        """Fewest, expected and most words of a text (words are what stands between spaces)."""
        known: dict[Choice, tuple[int, float, int]] = {}

        def of(item: Item) -> tuple[int, float, int]:
            if isinstance(item, Recall):
                return 1, 1.0, 1
            if isinstance(item, str):
                words = sum(t not in ".,?" for t in TOKEN.findall(item))
                return words, float(words), words
            if item not in known:
                parts = [[of(i) for i in o] for o in item.options]
                low = min(sum(p[0] for p in o) for o in parts)
                mean = math.fsum(p[1] for o in parts for p in o) / item.count
                known[item] = low, mean, max(sum(p[2] for p in o) for o in parts)
            return known[item]

        return of(self.start)

    def words(self) -> frozenset[str]:
        """Every word and punctuation mark that a text can hold."""
        literals = (i for c in self._choices() for o in c.options for i in o if isinstance(i, str))
        return frozenset(token for literal in literals for token in TOKEN.findall(literal))

    # Reading the notation

    def _options(self, name: str) -> tuple[Plan, ...]:
        if name in self._open:
            loop = " > ".join([*self._open, name])
            raise ConfigError(
                f"Grammar rule {name!r} uses itself: {loop}.", remedy="Write it without the loop."
            )
        if name not in self._compiled:
            if name not in self._rules:
                raise ConfigError(
                    f"Grammar: no rule or slot is called {name!r}.", remedy="Define it before it is used."
                )
            self._open.append(name)
            self._compiled[name] = tuple(self._read(name, option) for option in self._rules[name])
            self._open.pop()
        return self._compiled[name]

    def _read(self, rule: str, option: str) -> Plan:
        marks = _MARK.findall(" ".join(option.split()))
        plan, rest = self._read_plan(rule, marks, 0)
        if rest != len(marks):
            what = f"Grammar rule {rule!r}: unexpected {marks[rest]!r} in {option!r}."
            raise ConfigError(what, remedy="Open and close every bracket once.")
        return plan

    def _read_plan(self, rule: str, marks: list[str], at: int) -> tuple[Plan, int]:
        items: list[Item] = []
        while at < len(marks) and marks[at] not in ("|", ")"):
            if marks[at] == "{" and marks[at + 2 : at + 3] == ["}"]:
                items.extend(self._name(marks[at + 1]))
                at += 3
            elif marks[at] == "(":
                options: list[Plan] = []
                while marks[at : at + 1] and marks[at] != ")":
                    option, at = self._read_plan(rule, marks, at + 1)
                    options.append(option)
                if at == len(marks):
                    raise ConfigError(f"Grammar rule {rule!r}: a '(' is never closed.", remedy="Add ')'.")
                items.append(Choice(tuple(options)))
                at += 1
            elif marks[at] in "{}":
                what = f"Grammar rule {rule!r}: a curly bracket stands alone."
                raise ConfigError(what, remedy="Write {name}: one name between two curly brackets.")
            else:
                items.append(marks[at])
                at += 1
        return _merged(items), at

    def _name(self, name: str) -> Plan:
        slot, _, rule = name.rpartition("=")
        if not slot:
            if name in self._slot_words:
                return (Recall(name),)
            options = self._options(name)
            return options[0] if len(options) == 1 else (Choice(options),)
        if slot in self._rules:
            raise ConfigError(f"Grammar: {slot!r} is both a slot and a rule.", remedy="Rename one of them.")
        words = self._rules.get(rule, ())
        if not words or any(not re.fullmatch(r"[^\s.,?{}(|)]+", word) for word in words):
            what = f"Grammar: slot {slot!r} is filled from {rule!r}, which is not a list of single words."
            raise ConfigError(what, remedy="Fill a slot from a rule whose every option is one word.")
        self._slot_words.setdefault(slot, set()).update(words)
        return (Choice(self._options(rule), slot),)

    # Checks

    def _choices(self) -> list[Choice]:
        seen: dict[Choice, None] = {}
        stack: list[Item] = [self.start]
        while stack:
            item = stack.pop()
            if isinstance(item, Choice) and item not in seen:
                seen[item] = None
                stack.extend(i for option in item.options for i in option)
        return list(seen)

    def _first(self, plan: Plan) -> set[str]:
        head = plan[0]
        if isinstance(head, Recall):
            return self._slot_words[head.slot]
        if isinstance(head, Choice):
            return set().union(*(self._first(option) for option in head.options))
        return {TOKEN.findall(head)[0]}

    def _check_choices(self) -> None:
        for choice in self._choices():
            seen: set[str] = set()
            for plan in choice.options:
                _check_edges(plan)
                first = self._first(plan)
                if seen & first:
                    raise ConfigError(
                        f"Grammar: two options of one choice begin with {min(seen & first)!r}, "
                        "so a text could be made in two ways.",
                        remedy="Move the common beginning in front of the choice.",
                    )
                seen |= first

    def _check_slots(self, plan: Plan, sure: Slots, maybe: Slots) -> tuple[Slots, Slots]:
        """Follow the plan with the slots that surely, and that possibly, hold a word; returns them after it."""
        for item in plan:
            if isinstance(item, Recall) and item.slot not in sure:
                what = f"Grammar: slot {item.slot!r} may still be empty if it is used."
                raise ConfigError(what, remedy="Fill it on every way that leads there.")
            if isinstance(item, Choice) and item.slot:
                if item.slot in maybe:
                    what = f"Grammar: slot {item.slot!r} may be filled twice."
                    raise ConfigError(what, remedy="Use another slot.")
                sure, maybe = sure | {item.slot}, maybe | {item.slot}
            elif isinstance(item, Choice):
                after = [self._check_slots(option, sure, maybe) for option in item.options]
                sure = frozenset.intersection(*(held for held, _ in after))
                maybe = maybe.union(*(held for _, held in after))
        return sure, maybe


def _merged(items: list[Item]) -> Plan:
    """The items with neighbouring texts made one."""
    merged: list[Item] = []
    for item in items:
        last = merged[-1] if merged else None
        if isinstance(item, str) and isinstance(last, str):
            merged[-1] = last + item
        else:
            merged.append(item)
    return tuple(merged)


def _check_edges(plan: Plan) -> None:
    """An option has words, starts with one, and marks in it stand at the edges of words."""
    if not plan or (isinstance(plan[0], str) and not plan[0][:1].isalpha()):
        what = "Grammar: an option is empty or does not begin with a word."
        raise ConfigError(what, remedy="Begin every option with a word.")
    for before, after in pairwise(plan):
        apart = (isinstance(before, str) and before[-1] == " ") or (
            isinstance(after, str) and after[0] in " .,?"
        )
        if not apart:
            shown = next(part for part in (before, after) if isinstance(part, str))
            what = f"Grammar: {shown!r} and the mark next to it make one word."
            raise ConfigError(what, remedy="Put a space between.")
    if isinstance(plan[-1], str) and plan[-1][-1].isspace():
        raise ConfigError(
            f"Grammar: the option that ends in {plan[-1]!r} ends in a space.", remedy="Remove it."
        )


def _derive(
    plan: Plan, text: str, at: int, slots: Held
) -> Iterator[tuple[int, Held, tuple[tuple[int, float], ...]]]:
    """Every way in which `plan` can write `text` from position `at` on: (end, slots, places and costs of choices)."""
    if not plan:
        yield at, slots, ()
        return
    head, rest = plan[0], plan[1:]
    if isinstance(head, Choice):
        for option in head.options:
            for end, inner, made in _derive(option, text, at, slots):
                held = inner if head.slot is None else {**inner, head.slot: text[at:end]}
                for last, final, more in _derive(rest, text, end, held):
                    yield last, final, ((at, head.cost), *made, *more)
        return
    literal = head if isinstance(head, str) else slots[head.slot]
    if text.startswith(literal, at):
        yield from _derive(rest, text, at + len(literal), slots)


def _expand(plan: Plan, slots: Held) -> Iterator[tuple[str, Held, float]]:
    """Everything that `plan` can write: (text, slots, cost)."""
    if not plan:
        yield "", slots, 0.0
        return
    head, rest = plan[0], plan[1:]
    if isinstance(head, Choice):
        for option in head.options:
            for text, inner, cost in _expand(option, slots):
                held = inner if head.slot is None else {**inner, head.slot: text}
                for tail, final, more in _expand(rest, held):
                    yield text + tail, final, head.cost + cost + more
        return
    literal = head if isinstance(head, str) else slots[head.slot]
    for tail, final, cost in _expand(rest, slots):
        yield literal + tail, final, cost
