"""The way from a port to the application."""

from __future__ import annotations

import asyncio
import socket

from octavo.serving.http import listening


def test_a_piece_of_an_answer_does_not_wait_for_the_one_before_it() -> None:
    """Else each answer takes 40 ms longer: until the client has acknowledged its head."""
    at_once: list[int] = []

    class Noting(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            own = transport.get_extra_info("socket")
            at_once.append(own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            transport.close()

    async def main() -> None:
        sock = listening("127.0.0.1", 0)
        server = await asyncio.get_running_loop().create_server(Noting, sock=sock)
        reader, writer = await asyncio.open_connection(*sock.getsockname())
        await reader.read()
        writer.close()
        server.close()

    asyncio.run(main())
    assert at_once == [1]
