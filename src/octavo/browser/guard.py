"""What stands before every path of the page: nothing is answered without the token, the page itself included, and
nothing is changed but by a page of this very server."""

from __future__ import annotations

import hmac
import secrets
import time
from urllib.parse import parse_qs

from starlette.types import ASGIApp, Receive, Scope, Send

from octavo.serving.errors import Refusal
from octavo.serving.guard import Guard, Headers

READS = ("GET", "HEAD")
TICKETED = ("/", "/api/page")
"""Paths that a ticket opens: the page itself, and what stands in a frame, which is told no token."""
TICKET_SECONDS = 120.0
LONGEST_QUERY = 4096


def parameter(scope: Scope, name: str) -> str:
    """A parameter of the address, or nothing. Raises Refusal where the address is too long."""
    text = scope.get("query_string", b"").decode("latin-1")
    if len(text) > LONGEST_QUERY or text.count("&") > 20:
        raise Refusal(414, "The address is too long.")
    return parse_qs(text).get(name, [""])[0]


class Tickets:
    """Words that open the page once each, and soon: what a browser is started with, all users of a machine can see."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def new(self) -> str:
        """One more."""
        now = time.monotonic()
        self._until = {ticket: until for ticket, until in self._until.items() if until > now}
        ticket = secrets.token_urlsafe(24)
        self._until[ticket] = now + TICKET_SECONDS
        return ticket

    def use(self, given: str) -> bool:
        """Whether it is good; it is not any more afterwards."""
        found = [ticket for ticket in self._until if hmac.compare_digest(ticket.encode(), given.encode())]
        return any(self._until.pop(ticket) > time.monotonic() for ticket in found)


class PageGuard(Guard):
    """As `Guard`, with the token as the key.

    A browser sends no header of ours with an address that is opened, so one that only reads may have the token in its
    query. Whatever may change something needs it in the header, and an Origin, which every browser sends with it.
    """

    def __init__(self, app: ASGIApp, *, token: str, tickets: Tickets) -> None:
        super().__init__(app, hosts=(), addresses=False, key=token)
        self.token, self.tickets = token, tickets

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] in TICKETED and self._has_ticket(scope):
            if scope["path"] != "/":
                await self.app(scope, receive, send)
                return
            headers = [(b"location", f"/?token={self.token}".encode()), (b"cache-control", b"no-store")]
            await send({"type": "http.response.start", "status": 303, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
            return
        await super().__call__(scope, receive, send)

    def check_origin(self, scope: Scope, origin: list[bytes], host: str) -> None:
        """Raise Refusal for a page of another origin, and for no page where something may change."""
        super().check_origin(scope, origin, host)
        if not origin and scope["method"] not in READS:
            raise Refusal(403, "Only the page that octavo open shows may change anything.")

    def check_key(self, scope: Scope, told: Headers) -> None:
        """Raise Refusal without the token."""
        given = parameter(scope, "token") if scope["method"] in READS else ""
        if not self.has_key(told) and not hmac.compare_digest(
            given.encode("utf-8", "replace"), self.key or b""
        ):
            raise Refusal(
                401, "Open the address that octavo open printed: it holds the token that is needed."
            )

    def _has_ticket(self, scope: Scope) -> bool:
        try:
            hosts = [value for name, value in scope["headers"] if name == b"host"]
            return bool(self._host(hosts)) and self.tickets.use(parameter(scope, "ticket"))
        except Refusal:
            return False
