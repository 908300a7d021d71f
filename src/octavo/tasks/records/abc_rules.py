"""The validator of tunes in ABC notation: bars add up to the metre, and what was opened is closed.

It knows what folk tunes of one voice are written in (Walshaw's ABC standard 2.1 has more): fields, chord symbols in
quotes, accidentals, notes and rests with their lengths, chords, ties, slurs, bars, repeats and endings. It knows no
tuplets, no fields inside a line, and no lengths inside a chord. A bar may be too short only where a tune or a part of
it begins or ends, and beside a repeat, an ending or a double bar, for there two halves may make one.
"""

from __future__ import annotations

import string
from fractions import Fraction
from typing import Literal, NamedTuple

from octavo.config.parts import PartConfig, register
from octavo.corpus.validators.base import Validator, ValidatorConfig, WrongSymbol

BENEATH = ("1", "2", "4", "8", "16")
METRES = {f"{above}/{beneath}" for above in range(1, 20) for beneath in BENEATH} | {"C", "C|"}
LENGTHS = {f"1/{beneath}" for beneath in BENEATH}
COMMON = {"C": Fraction(1), "C|": Fraction(1)}
NOTES, RESTS, ACCIDENTALS, OCTAVES = (
    frozenset("ABCDEFGabcdefg"),
    frozenset("zx"),
    frozenset("^_="),
    frozenset(",'"),
)
SLASHES = ("/", "//", "/2", "/4")
PASSED_OVER = frozenset(" ~.->)<\\")
SHORTEST = Fraction(1, 4)
"""Of the unit length: what a note can be cut to."""


class State(NamedTuple):
    """What was read of a tune.

    Attributes:
        mode: what the next character is part of.
        field: the letter of a field, then what stands in it.
        metre, unit: in whole notes; the metre None where none was given yet.
        total: of the bar so far, without a note that may still become longer.
        length: of that note in characters, such as 3/2; None where there is none.
        free: whether this bar may be too short.
        short: whether the bar before the bar line is, so that it must be one of those beside which it may be.
        section: whether the bar line that is being read is one.
        closer: what closes the chord that is open.
        bars: whether there was a bar line.
        numbered, keyed: whether the fields X and K were there, without which no player takes it for a tune.
        notes: whether there was a note or a rest.
    """

    mode: str = "line"
    field: str = ""
    metre: Fraction | None = None
    unit: Fraction | None = None
    total: Fraction = Fraction(0)
    length: str | None = None
    free: bool = True
    short: bool = False
    section: bool = False
    closer: str = ""
    bars: bool = False
    numbered: bool = False
    keyed: bool = False
    notes: bool = False

    @property
    def unit_length(self) -> Fraction:
        """What a note without a length lasts: given, or by the metre."""
        if self.unit is not None:
            return self.unit
        return Fraction(1, 16) if self.metre is not None and self.metre < Fraction(3, 4) else Fraction(1, 8)


def lasting(length: str) -> Fraction:
    """A length in characters, in units: '' is 1, '3/2' is 3/2, '/' and '/2' are 1/2, '//' and '/4' are 1/4."""
    above, slash, beneath = length.partition("/")
    part = {"": 2, "/": 4}.get(beneath) or int(beneath) if slash else 1
    return Fraction(int(above or 1), part)


class AbcRules(Validator):
    """Reads a tune character by character."""

    def start(self) -> State:
        return State()

    def after(self, state: State, symbol: str) -> State:
        if state.length is not None:
            if (longer := self._longer(state, symbol)) is not None:
                return longer
            state = self._ended(state)
        return getattr(self, f"_{state.mode}")(state, symbol)

    def end(self, state: State) -> None:
        if state.length is not None:
            state = self._ended(state)
        if state.mode not in ("line", "music", "bar", "field", "comment") or state.closer:
            raise WrongSymbol("something was opened and is not closed")
        if state.mode == "field":
            state = self._field(state, "\n")
        if not state.notes:
            raise WrongSymbol("the tune has no note")
        if not state.bars:
            raise WrongSymbol("the tune has no bar line")

    # Lines and fields

    def _line(self, state: State, symbol: str) -> State:
        if not state.numbered and symbol not in "X%\n":
            raise WrongSymbol("a tune begins with its number (X:)")
        if symbol in string.ascii_letters:
            return state._replace(mode="letter", field=symbol)
        return self._music(state, symbol) if symbol != "%" else state._replace(mode="comment")

    def _letter(self, state: State, symbol: str) -> State:
        if symbol == ":":
            return state._replace(mode="field")
        if not state.numbered:
            raise WrongSymbol("a tune begins with its number (X:)")
        note = self._music(state._replace(mode="music", field=""), state.field)
        return self.after(note, symbol)

    def _comment(self, state: State, symbol: str) -> State:
        return state._replace(mode="line") if symbol == "\n" else state

    def _field(self, state: State, symbol: str) -> State:
        name, content = state.field[0], (state.field[1:] + symbol).strip()
        known = {"M": METRES, "L": LENGTHS}.get(name)
        if symbol != "\n":
            if known is not None and not any(one.startswith(content) for one in known):
                raise WrongSymbol(f"{content} begins no {'metre' if name == 'M' else 'unit length'}")
            return state._replace(field=state.field + symbol)
        if known is not None:
            if content not in known:
                raise WrongSymbol(f"'{content}' is no {'metre' if name == 'M' else 'unit length'}")
            value = COMMON.get(content) or Fraction(content)
            state = state._replace(metre=value) if name == "M" else state._replace(unit=value)
        numbered, keyed = state.numbered or name == "X", state.keyed or name == "K"
        free = state.free or name in "MKP"
        return state._replace(mode="line", field="", free=free, numbered=numbered, keyed=keyed)

    # Music

    def _music(self, state: State, symbol: str) -> State:
        if symbol == "\n":
            return state._replace(mode="line")
        if symbol in "|:":
            return self._bar_begins(state, symbol)
        modes = {'"': "quote", "!": "decoration", "[": "bracket", "(": "slur"}
        if symbol in modes:
            return state._replace(mode=modes[symbol])
        if symbol == "+":
            self._room(state)
            return state._replace(mode="chord", closer="+")
        if symbol in ACCIDENTALS:
            self._room(state)
            return state._replace(mode="accidental")
        if symbol in NOTES or symbol in RESTS:
            self._room(state)
            return state._replace(mode="music", length="")
        if symbol in PASSED_OVER:
            return state._replace(mode="music")
        raise WrongSymbol(f"{symbol!r} has no meaning there")

    def _room(self, state: State) -> None:
        for known, what in ((state.metre is not None, "metre (M:)"), (state.keyed, "key (K:)")):
            if not known:
                raise WrongSymbol(f"no {what} stands before the first note")
        assert state.metre is not None
        if state.metre - state.total < SHORTEST * state.unit_length:
            raise WrongSymbol(f"the bar is full ({self._counted(state)})")

    def _counted(self, state: State) -> str:
        assert state.metre is not None
        return f"{state.total / state.unit_length} of {state.metre / state.unit_length} unit lengths"

    def _quote(self, state: State, symbol: str) -> State:
        return self._until(state, symbol, '"')

    def _decoration(self, state: State, symbol: str) -> State:
        return self._until(state, symbol, "!")

    def _until(self, state: State, symbol: str, closer: str) -> State:
        if symbol == "\n":
            raise WrongSymbol(f"{closer} was opened and not closed in its line")
        return state._replace(mode="music") if symbol == closer else state

    def _slur(self, state: State, symbol: str) -> State:
        if symbol.isdecimal():
            raise WrongSymbol("tuplets are not known here")
        return self._music(state._replace(mode="music"), symbol)

    def _accidental(self, state: State, symbol: str) -> State:
        if symbol in ACCIDENTALS:
            return state._replace(mode="accidental_twice")
        return self._accidental_twice(state, symbol)

    def _accidental_twice(self, state: State, symbol: str) -> State:
        if symbol not in NOTES:
            raise WrongSymbol("an accidental stands before a note")
        return state._replace(mode="chord") if state.closer else self._music(state, symbol)

    def _bracket(self, state: State, symbol: str) -> State:
        if symbol in "12345":
            return state._replace(mode="music", free=True)
        self._room(state)
        return self._chord(state._replace(mode="chord", closer="]"), symbol)

    def _chord(self, state: State, symbol: str) -> State:
        if symbol == state.closer:
            return state._replace(mode="music", closer="", length="")
        if symbol in ACCIDENTALS:
            return state._replace(mode="accidental")
        if symbol in NOTES or symbol in OCTAVES:
            return state
        raise WrongSymbol(f"a chord holds notes until its {state.closer}; its length stands after it")

    # Lengths of notes

    def _longer(self, state: State, symbol: str) -> State | None:
        """The state with one more character of a note's length; None where the note ends before it."""
        length = state.length or ""
        if symbol in OCTAVES and not length:
            return state
        if symbol not in "0123456789/" or symbol == "":
            return None
        longer = length + symbol
        above, slash, beneath = longer.partition("/")
        assert state.metre is not None
        left = (state.metre - state.total) / state.unit_length
        fits = not above or (above[0] != "0" and SHORTEST * int(above) <= left)
        if len(above) > 2 or not fits or (slash and f"/{beneath}" not in SLASHES):
            raise WrongSymbol(
                f"a note of length {longer} does not fit in the rest of the bar ({self._counted(state)})"
            )
        return state._replace(length=longer)

    def _ended(self, state: State) -> State:
        """The state when the note has its length."""
        assert state.metre is not None and state.length is not None
        total = state.total + lasting(state.length) * state.unit_length
        if total > state.metre:
            counted = self._counted(state._replace(total=total))
            raise WrongSymbol(f"the bar is too long ({counted})")
        return state._replace(total=total, length=None, notes=True)

    # Bar lines

    def _bar_begins(self, state: State, symbol: str) -> State:
        short = state.metre is not None and 0 < state.total < state.metre and not state.free
        section = symbol == ":"
        return state._replace(mode="bar", short=short, section=section, bars=True)

    def _bar(self, state: State, symbol: str) -> State:
        if symbol in "|:]" or symbol in "12345":
            return state._replace(section=True)
        if symbol == "[":
            return state._replace(mode="bar_bracket")
        return self._new_bar(state, symbol)

    def _bar_bracket(self, state: State, symbol: str) -> State:
        if symbol in "12345|":
            return state._replace(mode="bar", section=True)
        opened = self._new_bar(state, " ")
        return self._bracket(opened, symbol)

    def _new_bar(self, state: State, symbol: str) -> State:
        if state.short and not state.section:
            raise WrongSymbol(f"the bar before is too short ({self._counted(state)})")
        fresh = state._replace(
            mode="music", total=Fraction(0), free=state.section, short=False, section=False
        )
        return self._music(fresh, symbol)


@register("validator")
class AbcRulesConfig(ValidatorConfig):
    """Of tunes in ABC notation, character by character: bars add up to the metre, and what is opened is closed."""

    kind: Literal["abc"] = "abc"

    def build(self, corpus: PartConfig) -> AbcRules:
        return AbcRules()
