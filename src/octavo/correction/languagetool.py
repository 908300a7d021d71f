"""Grammar correction by a LanguageTool server that the user names, over its plain HTTP interface.

The text goes to that address and nowhere else: no redirect is followed and no proxy of the environment is used.
The interface: https://languagetool.org/http-api/ (`POST /v2/check`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from octavo.correction.edits import Change, Correction, corrected
from octavo.errors import InputError, OctavoError
from octavo.util.processes import Meanwhile

CHECK = "/v2/check"
CONNECT_SECONDS, ANSWER_SECONDS = 5.0, 60.0
LARGEST = 32 * 2**20
"""Bytes of an answer at most."""


class LanguageTool:
    """A client of one server.

    Args:
        address: http://host:port, with or without a path before `/v2/check`.
        language: a code such as en-US, or auto.
        vocabulary: the corpus' words (`count_words`), to report how many of the text's words it has; optional.
        seconds: how long an answer may take.

    Raises:
        InputError: the address is none.
    """

    def __init__(
        self,
        address: str,
        *,
        language: str = "auto",
        vocabulary: Mapping[str, int] | None = None,
        seconds: float = ANSWER_SECONDS,
    ) -> None:
        self.address = check_address(address)
        self.language, self.vocabulary, self.seconds = language, vocabulary, seconds

    def correct(self, text: str, *, start: int = 0, stop: int | None = None) -> Correction:
        """See `Corrector`. Raises OctavoError if the server is not there, refuses, or answers nonsense."""
        read = _Reader(text, self.address).change
        changes = [read(match) for match in self._matches(text)] if text.strip() else []
        return corrected(text, changes, start=start, stop=stop, vocabulary=self.vocabulary)

    def _matches(self, text: str) -> list[Any]:
        import httpx2

        remedy = "See that the server runs, and that the address is the one that it prints when it starts."
        try:  # httpx2 counts from byte to byte, and a server may send them one by one
            status, content = Meanwhile(partial(self._asked, text)).result(CONNECT_SECONDS + self.seconds)
        except (httpx2.TimeoutException, TimeoutError) as error:
            raise OctavoError(
                f"The LanguageTool server at {self.address} gave no answer in time "
                f"({CONNECT_SECONDS:g} s to connect, {self.seconds:g} s to answer).",
                remedy=remedy,
            ) from error
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            raise OctavoError(
                f"The LanguageTool server at {self.address} cannot be reached: {error or type(error).__name__}.",
                remedy=remedy,
            ) from error
        if status != 200:
            said = " ".join(content.decode("utf-8", "replace").split())[:200]
            raise OctavoError(
                f"The LanguageTool server at {self.address} refused with status {status}"
                + (f": {said}" if said else "."),
                remedy="Shorten the text, or correct the language or the address.",
            )
        try:
            matches = json.loads(content)["matches"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise nonsense(self.address, "it is not JSON with 'matches'") from error
        if not isinstance(matches, list):
            raise nonsense(self.address, "'matches' is no list")
        return matches

    def _asked(self, text: str) -> tuple[int, bytes]:
        """The status of the answer, and what it holds."""
        import httpx2

        timeout = httpx2.Timeout(self.seconds, connect=CONNECT_SECONDS)
        asked = {"text": text, "language": self.language}
        with (
            httpx2.Client(timeout=timeout, follow_redirects=False, trust_env=False) as client,
            client.stream("POST", self.address, data=asked) as answer,
        ):
            content = bytearray()
            for piece in answer.iter_bytes():
                content += piece
                if len(content) > LARGEST:
                    raise nonsense(self.address, f"it answers with more than {LARGEST // 2**20} MiB")
            return answer.status_code, bytes(content)


class _Reader:
    """Turns a server's matches into changes. Java counts UTF-16 code units, Python characters."""

    def __init__(self, text: str, address: str) -> None:
        self.text, self.address = text, address
        self.place: dict[int, int] = {}  # code unit → character; a place inside a pair is not in it
        unit = 0
        for index, character in enumerate(text):
            self.place[unit] = index
            unit += 1 + (character > "\uffff")
        self.place[unit] = len(text)

    def change(self, match: Any) -> Change:
        """The change that a match asks for, by its first replacement."""
        try:
            name = str(match["rule"]["id"])
            message = str(match.get("message") or match["rule"].get("description") or "")
            values = [replacement["value"] for replacement in match.get("replacements") or []]
            name, message, *values = map(_whole, (name, message, *values))
            start, end = (self.place[unit] for unit in (match["offset"], match["offset"] + match["length"]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise nonsense(self.address, f"a match does not fit the text: {str(match)[:120]}") from error
        if end < start:
            raise nonsense(self.address, f"a match ends before it begins: {str(match)[:120]}")
        return Change(start, end, self.text[start:end], values[0] if values else None, name, message)


def _whole(text: Any) -> str:
    """A text of whole characters. Raises TypeError or ValueError for anything else."""
    if not isinstance(text, str):
        raise TypeError("no text")
    text.encode("utf-8")
    return text


def nonsense(address: str, why: str) -> OctavoError:
    """The error for an answer that is not LanguageTool's."""
    return OctavoError(
        f"What answers at {address} does not seem to be a LanguageTool server: {why}.",
        remedy="Give the address of a LanguageTool server, such as http://localhost:8081.",
    )


def check_address(address: str) -> str:
    """The full address of the check. Raises InputError for what is no http address."""
    problem = InputError(
        f"'{address}' is not the address of a server.", remedy="For example http://localhost:8081"
    )
    try:
        parts = urlsplit(address)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError as error:  # a port that is no number
        raise problem from error
    if not whole or parts.query or parts.fragment:
        raise problem
    path = parts.path.rstrip("/").removesuffix(CHECK).removesuffix("/v2")
    return f"{parts.scheme}://{parts.netloc}{path}{CHECK}"
