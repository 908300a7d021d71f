"""Passwords of encrypted documents: from the environment, or asked for; never written anywhere."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Iterator

from octavo.errors import CorpusError


class Passwords:
    """What to try on an encrypted document.

    Args:
        variable: the environment variable that may hold a password.
    """

    def __init__(self, variable: str) -> None:
        self._variable = variable
        self._known: dict[str, str] = {}  # typed passwords, by document, for a second pass

    def tries(self, name: str) -> Iterator[str | None]:
        """None first, since most documents need no password; then one after the other until one fits.

        Raises:
            CorpusError: no password is left to try.
        """
        yield self._known.get(name)
        given = os.environ.get(self._variable)
        if given:
            yield given
        if sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty():
            typed = getpass.getpass(f"Password of {name} (empty: leave it out): ", sys.stderr)
            if typed:
                self._known[name] = typed
                yield typed
        raise CorpusError(
            f"{name} is encrypted"
            + (f", and the password in {self._variable} does not open it." if given else "."),
            remedy=f"Put its password into the environment variable {self._variable}, or run on a terminal "
            "to be asked.",
        )
