"""What stands before every endpoint: who may ask, from which page, and under which name of this machine."""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Iterable

from starlette.types import ASGIApp, Receive, Scope, Send

from octavo.serving.errors import Refusal
from octavo.util.records import json_text

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(:\d{1,5})?")
OPEN = ("/health", "/v1/health")
"""Paths that need no key."""
Headers = dict[bytes, list[bytes]]
"""By name in lower case, in the order in which they came."""


class Guard:
    """Refuses requests to another host's name (DNS rebinding), from pages of another origin, and without the key.

    Args:
        hosts: names by which this server may be called.
        addresses: whether any address in numbers is one of them, too.
        key: that every request must have; None: none.
    """

    def __init__(self, app: ASGIApp, *, hosts: Iterable[str], addresses: bool, key: str | None) -> None:
        self.app, self.addresses = app, addresses
        self.hosts = frozenset(name.lower() for name in (*LOOPBACK, *hosts))
        self.key = None if key is None else key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            self.check(scope)
        except Refusal as refusal:
            await refuse(send, refusal)
        else:
            await self.app(scope, receive, send)

    def check(self, scope: Scope) -> None:
        """Raise Refusal."""
        told: Headers = {}
        for name, value in scope["headers"]:
            told.setdefault(name, []).append(value)
        self.check_origin(scope, told.get(b"origin", []), self._host(told.get(b"host", [])))
        self.check_key(scope, told)

    def check_origin(self, scope: Scope, origin: list[bytes], host: str) -> None:
        """Raise Refusal for a page of another origin; a request that no page sent has none."""
        if origin and [one.decode("latin-1").lower().partition("://")[2] for one in origin] != [host]:
            raise Refusal(403, "Pages of another origin may not use this server.")

    def check_key(self, scope: Scope, told: Headers) -> None:
        """Raise Refusal for a request without the key, where there is one."""
        if self.key is not None and scope["path"] not in OPEN and not self.has_key(told):
            raise Refusal(
                401,
                "This server needs a key: Authorization: Bearer KEY.",
                headers={"WWW-Authenticate": "Bearer"},
            )

    def has_key(self, told: Headers) -> bool:
        """Whether a request's headers hold the key; compared in a time that tells nothing of it."""
        kind, _, key = told.get(b"authorization", [b""])[0].partition(b" ")
        return kind.lower() == b"bearer" and hmac.compare_digest(key.strip(), self.key or b"")

    def _host(self, given: list[bytes]) -> str:
        """What the client calls this server, with the port."""
        text = given[0].decode("latin-1").lower() if len(given) == 1 else ""
        found = HOST.fullmatch(text)
        if found is None or not (found[1] in self.hosts or (self.addresses and _is_address(found[1]))):
            raise Refusal(
                403, "This server is not known by that Host name; its own names can be set with --allow-host."
            )
        return text


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


async def refuse(send: Send, refusal: Refusal) -> None:
    """Answer with the error alone."""
    body = json_text(refusal.body()).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body)), **refusal.headers}
    await send(
        {
            "type": "http.response.start",
            "status": refusal.status,
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        }
    )
    await send({"type": "http.response.body", "body": body})
