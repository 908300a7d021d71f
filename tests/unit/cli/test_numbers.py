"""What the options of every verb take as a number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from cyclopts import App, Argument, CycloptsError

from octavo.cli.app import app


def verbs(of: App) -> Iterator[App]:
    """All commands below one."""
    for name in of:
        if not name.startswith("-"):
            yield of[name]
            yield from verbs(of[name])


def whole(hint: Any) -> bool:
    """Whether an annotation is about whole numbers."""
    return hint is int or any(map(whole, get_args(hint)))


NUMBERS = [
    pytest.param(argument, id=" ".join((*verb.app_stack.stack[-1][0].name, argument.name)))
    for verb in verbs(app)
    if verb.default_command
    for argument in verb.assemble_argument_collection()
    if whole(argument.hint)
]


def test_every_verb_is_looked_at() -> None:
    assert len(NUMBERS) > 30


@pytest.mark.parametrize("word", ["1.5", "2.0", "0x10", "1e3", "nan", "", "99999999999999999999"])
@pytest.mark.parametrize("argument", NUMBERS)
def test_a_whole_number_is_never_rounded(argument: Argument, word: str) -> None:
    from cyclopts import Token

    argument.append(Token(keyword=argument.name, value=word))
    try:
        with pytest.raises(CycloptsError):
            argument.convert_and_validate()
    finally:
        argument.tokens.clear()
