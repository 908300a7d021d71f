"""The address that a folder's page has: a port of this machine and a token, kept so that a window which is open finds a
server that is started again."""

from __future__ import annotations

import hashlib
import http.client
import os
import secrets
import socket
import sys
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from octavo.errors import InputError, StorageError
from octavo.util.files import default_cache, is_held, take_soon
from octavo.util.records import json_text, parse_json

HOST = "127.0.0.1"
PATIENCE = 2.0
"""Seconds in which a server that is open already answers."""
SHORTEST = 40
"""Characters of a token that is taken again."""


class Address:
    """Where the page is.

    Attributes:
        port: 0 until it listens.
    """

    def __init__(self, kept: Path | None, port: int, token: str) -> None:
        self._kept, self.port, self.token = kept, port, token
        self._lock: int | None = None  # held until the process ends

    @classmethod
    def of(cls, folder: Path) -> Address:
        """The one that the folder had last, as far as it was kept for this user alone, or a new one."""
        kept: Path | None = None
        with suppress(StorageError):
            name = hashlib.sha256(str(folder.resolve()).encode("utf-8", "surrogateescape")).hexdigest()
            kept = default_cache() / "open" / f"{name[:32]}.json"
        new = cls(kept, 0, secrets.token_urlsafe(32))
        if kept is None:
            return new
        try:
            if os.name != "nt" and (kept.stat().st_mode & 0o077 or kept.stat().st_uid != os.getuid()):
                return new
            found = parse_json(kept.read_bytes())
        except (OSError, ValueError):
            return new
        port, token = found.get("port"), found.get("token")
        if isinstance(port, int) and 0 < port < 65536 and isinstance(token, str) and len(token) >= SHORTEST:
            return cls(kept, port, token)
        return new

    def __str__(self) -> str:
        return f"http://{HOST}:{self.port}/?token={self.token}"

    def with_ticket(self, ticket: str) -> str:
        """What a browser is started with: all users of a machine see that, and it opens the page once."""
        return f"http://{HOST}:{self.port}/?ticket={ticket}"

    def ticket(self) -> str | None:
        """Ask the server that is open already for a ticket; None where none is. Only a server of this user holds the
        lock; nobody else at that port is told the token."""
        if self._kept is None or not self.port or not is_held(self._kept.with_suffix(".lock")):
            return None
        connection = http.client.HTTPConnection(HOST, self.port, timeout=PATIENCE)
        try:
            connection.request("GET", "/api/ticket", headers={"Authorization": f"Bearer {self.token}"})
            answer = connection.getresponse()
            return str(parse_json(answer.read(10_000))["ticket"]) if answer.status == 200 else None
        except (OSError, ValueError, KeyError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def listen(self, listening: Callable[[str, int], socket.socket], port: int | None) -> socket.socket:
        """A socket at a port; without one, at that which the folder had last, else at any. Raises InputError.

        Windows that were left open tell their token to whoever took the last port, so it is worth nothing then.
        """
        sock = None
        if port is None and self.port:
            try:
                sock = listening(HOST, self.port)
            except InputError:
                self.token = secrets.token_urlsafe(32)
        if sock is None:
            sock = listening(HOST, port or 0)
        self.port = sock.getsockname()[1]
        return sock

    def keep(self) -> None:
        """Write it down for this user alone, and hold it from now on; where that cannot be, it is another one next
        time."""
        if self._kept is None:
            return
        with suppress(OSError):
            self._kept.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            aside = self._kept.with_name(f"{self._kept.name}.{os.getpid()}")
            handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(json_text({"port": self.port, "token": self.token}))
            aside.replace(self._kept)
            self._lock = os.open(self._kept.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
            take_soon(self._lock)


def show_in_browser(address: str) -> bool:
    """Open it in a browser with a screen; False where there is none."""
    graphical = sys.platform in ("darwin", "win32") or any(
        map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY"))
    )
    if not graphical:  # what is found then would take the terminal
        return False
    try:
        return webbrowser.open(address)
    except webbrowser.Error:
        return False
