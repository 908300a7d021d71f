"""A web server on this machine that misbehaves as told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server:
    """Answers by a function; remembers what was asked.

    Attributes:
        base: its address.
        asked: path and Range of each request, in order.
    """

    def __init__(self, answer: Callable[[BaseHTTPRequestHandler, int], None]) -> None:
        self.asked: list[tuple[str, str]] = []
        self._answer = answer
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append((self.path, self.headers.get("Range", "")))
                outer._answer(self, len(outer.asked))

            do_POST = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base = f"http://127.0.0.1:{self.http.server_port}"


@contextmanager
def serving(answer: Callable[[BaseHTTPRequestHandler, int], None]) -> Iterator[Server]:
    """A running server."""
    server = Server(answer)
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.http.shutdown()
        server.http.server_close()


def send(
    request: BaseHTTPRequestHandler,
    content: bytes,
    *,
    status: int = 200,
    ranges: bool = True,
    cut: int | None = None,
    tag: str = '"one"',
    length: bool = True,
) -> None:
    """Send content, by range if asked and allowed; after `cut` bytes of the body the connection ends."""
    wanted = request.headers.get("Range", "")
    start = 0
    if ranges and wanted and request.headers.get("If-Range", tag) == tag:
        start = int(wanted.removeprefix("bytes=").rstrip("-"))
        status = 206
    request.send_response(status)
    body = content[start:]
    if length:
        request.send_header("Content-Length", str(len(body)))
    if status == 206:
        request.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
    if tag:
        request.send_header("ETag", tag)
    request.end_headers()
    request.wfile.write(body[:cut])
    request.close_connection = True


def drip_head(request: BaseHTTPRequestHandler, released: threading.Event) -> None:
    """The head of an answer that does not end, byte by byte, until released or left."""
    request.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    request.close_connection = True
    try:
        while not released.wait(0.02):
            request.wfile.write(b"x")
    except OSError:  # the client has gone
        pass


def redirect(request: BaseHTTPRequestHandler, to: str) -> None:
    """Lead on."""
    request.send_response(302)
    request.send_header("Location", to)
    request.send_header("Content-Length", "0")
    request.end_headers()
