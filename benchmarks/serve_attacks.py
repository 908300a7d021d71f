"""Clients that are slow, silent, half gone or dying: do others have the same bits, in the same time?

    python benchmarks/serve_attacks.py RUN [--rounds 5] [--probes 12] [--write]

A client asks for the same text again and again, in turn without others and beside each kind of attack. `--write` puts
the table into results/serve_attacks.md.
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from common import finish, load, machine, print_table
from serve_fuzz import served

ASKED = {"prompt": "", "max_tokens": 64, "seed": 1, "ignore_eos": True}
GOAL = 1.5


def request(fields: dict[str, Any]) -> bytes:
    """A completion's."""
    body = json.dumps(fields).encode()
    head = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Port:
    """Where the server is."""

    def __init__(self, address: str) -> None:
        self.number = int(address.rpartition(":")[2])

    def open(self) -> socket.socket:
        """A connection."""
        return socket.create_connection(("127.0.0.1", self.number), timeout=60)


def probe(port: Port) -> tuple[float, str]:
    """Seconds of a whole answer, and its text."""
    begun = time.perf_counter()
    with port.open() as one:
        one.sendall(request(ASKED).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))
        found = b""
        while piece := one.recv(65536):
            found += piece
    return time.perf_counter() - begun, json.loads(found.partition(b"\r\n\r\n")[2])["choices"][0]["text"]


Attack = Callable[[Port, threading.Event], None]


def dripping(port: Port, over: threading.Event, *, whole: int) -> None:
    """Two hundred requests of which a byte comes now and then, after `whole` bytes at once."""
    sent = request(ASKED)
    some = {port.open(): whole for _ in range(200)}
    for one in some:
        one.sendall(sent[:whole])
    while not over.wait(0.5):
        for one, at in list(some.items()):
            try:
                one.sendall(sent[at : at + 1])
                some[one] = min(at + 1, len(sent) - 2)
            except OSError:
                one.close()
                del some[one]
    for one in some:
        one.close()


def slow_headers(port: Port, over: threading.Event) -> None:
    """200 clients send their headers a byte at a time."""
    dripping(port, over, whole=20)


def slow_bodies(port: Port, over: threading.Event) -> None:
    """200 clients send their bodies a byte at a time."""
    dripping(port, over, whole=request(ASKED).index(b"\r\n\r\n") + 5)


def half_closed(port: Port, over: threading.Event) -> None:
    """20 clients a second ask, say that nothing more will come, and stay."""
    some: list[socket.socket] = []
    while not over.wait(0.05):
        one = port.open()
        one.sendall(request(ASKED | {"max_tokens": 2000, "stream": True}))
        one.shutdown(socket.SHUT_WR)
        some.append(one)
    for one in some:
        one.close()


def idle(port: Port, over: threading.Event) -> None:
    """1,000 connections say nothing."""
    some = [port.open() for _ in range(1000)]
    over.wait()
    for one in some:
        one.close()


def dying(port: Port, over: threading.Event) -> None:
    """10 clients a second are reset in the middle of a stream."""
    while not over.wait(0.1):
        with port.open() as one:
            one.sendall(request(ASKED | {"max_tokens": 2000, "stream": True}))
            one.recv(10)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


ATTACKS: Sequence[Attack] = (slow_headers, slow_bodies, half_closed, idle, dying)


@contextmanager
def under(attack: Attack | None, port: Port) -> Iterator[None]:
    """While it goes on."""
    if attack is None:
        yield
        return
    over = threading.Event()
    thread = threading.Thread(target=attack, args=(port, over))
    thread.start()
    time.sleep(1.0)
    try:
        yield
    finally:
        over.set()
        thread.join()


def main() -> None:
    """Ask, in turn."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--probes", type=int, default=12)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    from octavo.serving.http import more_files

    more_files(3000)
    busy = load()
    kinds: tuple[Attack | None, ...] = (None, *ATTACKS)
    seconds: dict[Attack | None, list[float]] = {kind: [] for kind in kinds}
    texts = dict.fromkeys(kinds, 0)
    with served([given.run]) as address:
        port = Port(address)
        expected = probe(port)[1]
        for _ in range(given.rounds):
            for kind in kinds:
                with under(kind, port):
                    for _ in range(given.probes):
                        took, text = probe(port)
                        seconds[kind].append(took)
                        texts[kind] += text == expected
    alone = statistics.median(seconds[None])
    rows = [
        {
            "beside": "nobody" if kind is None else (kind.__doc__ or "").rstrip("."),
            "ms": f"{1000 * statistics.median(took):.0f}",
            "p90": f"{1000 * statistics.quantiles(took, n=10)[-1]:.0f}",
            "times": f"{statistics.median(took) / alone:.2f}",
            "same bits": f"{texts[kind]} of {len(took)}",
        }
        for kind, took in seconds.items()
    ]
    print_table(rows)
    document = {"rows": rows, "load_before": busy}
    if given.write:
        lines = [
            list(rows[0]),
            ["---", "---:", "---:", "---:", "---:"],
            *(list(row.values()) for row in rows),
        ]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        page = TEXT.format(table=table, given=given, goal=GOAL, processor=machine()["processor"], busy=busy)
        (Path(__file__).parent / "results" / "serve_attacks.md").write_text(page, encoding="utf-8")
    finish(document)


TEXT = """\
# Slow, silent, half gone and dying clients beside others

`python benchmarks/serve_attacks.py RUN --rounds {given.rounds} --probes {given.probes} --write`, on {processor}; the
machine's load before was {busy}.

One client asks for the same 64 tokens again and again, in turn alone and beside each attack: medians of its
milliseconds, the ninth decile, and how many times as long as alone (goal: at most {goal}).

{table}
"""

if __name__ == "__main__":
    main()
