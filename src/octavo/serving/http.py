"""The way from a port to the application: clients that are slow are cut off, and what is under way ends in peace."""

from __future__ import annotations

import asyncio
import math
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from starlette.types import ASGIApp
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from octavo.errors import InputError
from octavo.generation.sampling import Precision
from octavo.serving.engine_thread import Worker
from octavo.serving.errors import Refusal
from octavo.serving.models import SLOTS, Models, Place
from octavo.serving.service import Limits, Service
from octavo.util.records import json_text

HEADER_SECONDS = 20.0
"""In which a request's headers must have come."""
KEPT_SECONDS = 15
"""That a connection is kept between two requests."""
MOST_CONNECTIONS = 4000
SWITCH_SECONDS = 0.0005
"""After which Python's threads give way to each other, so that the one that computes waits no longer for the others."""


class Patient(H11Protocol):
    """A connection, for as long as its client gets on."""

    late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
        else:
            self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        self._wait()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP."""
        body = json_text(Refusal(400, "This is no HTTP request.").body()).encode()
        head = (
            f"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        )
        if self.cycle is None or self.cycle.response_complete:
            self.transport.write(f"{head}Connection: close\r\n\r\n".encode() + body)
        self.transport.close()

    def _wait(self) -> None:
        self._stop_waiting()
        self.late = self.loop.call_later(HEADER_SECONDS, self._cut)

    def _stop_waiting(self) -> None:
        if self.late is not None:
            self.late.cancel()
            self.late = None

    def _cut(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.abort()


class Drained(Server):
    """A server that a signal ends: what is under way is finished within the deadline; a second one ends at once."""

    def __init__(
        self, config: Config, service: Service, seconds: float, ready: Callable[[Drained], None]
    ) -> None:
        super().__init__(config)
        self.service, self._seconds, self._ready = service, seconds, ready
        self._loop = asyncio.get_running_loop()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn does."""
        await super().startup(sockets=sockets)
        self._ready(self)

    def stop(self) -> None:
        """Finish what is under way, and take nothing more; from any thread."""
        self.service.stopping = self.should_exit = True
        self._loop.call_soon_threadsafe(self.service.end_in, self._seconds)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn does, but the signal that was obeyed kills nobody afterwards."""
        if threading.current_thread() is not threading.main_thread():  # which alone may handle signals
            yield
            return
        ours = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in ours}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            self.force_exit = True
        self.stop()


def serve(
    places: Sequence[Place],
    sock: socket.socket,
    build: Callable[[Service], ASGIApp],
    *,
    memory: int,
    limits: Limits,
    slots: int = SLOTS,
    precision: Precision = "float32",
    seconds: float = 30.0,
    ready: Callable[[Drained], None] = lambda _: None,
) -> None:
    """Serve runs at a socket, until a signal comes.

    Args:
        build: makes what answers.
        memory, slots, precision: see `Models`.
        seconds: that the server waits at its end for what is under way.
        ready: is called when it listens.
    """

    async def main() -> None:
        service = Service(
            Models(places, memory=memory, slots=slots, precision=precision),
            Worker(asyncio.get_running_loop()),
            limits,
        )
        config = Config(
            build(service),
            http=Patient,
            ws="none",
            loop="asyncio",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEPT_SECONDS,
            timeout_graceful_shutdown=math.ceil(seconds) + 2,  # for what does not end by itself
        )
        try:
            await Drained(config, service, seconds, ready).serve(sockets=[sock])
        finally:
            service.close()

    more_files()
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        asyncio.run(main())
    finally:
        sys.setswitchinterval(before)


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens there. Raises InputError where that cannot be."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        # asyncio sends small pieces at once only where it is told that this is TCP.
        made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            if sys.platform != "win32":
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((host.strip("[]"), port))
            made.listen(1024)
        except BaseException:
            made.close()
            raise
    except (OSError, OverflowError) as error:
        raise InputError(
            f"Nothing can listen at {host}, port {port}: {getattr(error, 'strerror', None) or error}.",
            remedy="another --port, or --port 0 for any that is free",
        ) from error
    return made


def more_files(count: int = MOST_CONNECTIONS + 200) -> None:
    """Let this process have as many connections, where the system allows it."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted: Any = count if hard == resource.RLIM_INFINITY else min(count, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
