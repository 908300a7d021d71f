"""Thousands of damaged requests to a server: each is answered with an error object, none with 5xx, none hangs.

    python benchmarks/serve_fuzz.py RUN [RUN …] [--requests 10000] [--seed 1] [--write]

Starts `octavo serve` for the runs, and asks what their tasks have endpoints for. Each request is a good one with
something wrong in its fields, in its bytes or in its head, or has boundary values in several fields at once.
`--write` puts the table into results/serve_fuzz.md.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import finish, print_table

SECONDS = 60.0
"""After which a request counts as unanswered."""
TOGETHER = 8
LEAKS = re.compile(
    r'Traceback|File \\?"|/(tmp|home|root|usr)/|src/octavo|site-packages|\b0x[0-9a-f]{6,}|\.py\b|pydantic'
)
JUNK: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 2**31, 2**63, -(2**63), 2**64, 10**30, 0.5, -0.0, 1e308, float("nan"),
    float("inf"), "", "0", "the", "\0", "a\0b", "\ud800", "\udfff\ud800", "\ufeff", "\u202e", "é" * 5000, "x" * 70_000,
    "%s%n", "{{7*7}}", "'; --", "../../etc/passwd", "<|endoftext|>", "<|end|>", [], [[]], {}, [None], [0], [-1],
    [2**40], ["the"], [{"role": "user"}], {"a": 1}, {"0": 101}, {"-1": 0}, {"999999": 1}, {"\0": 1}, [["the", False]],
    [1, "a", None], ["x"] * 3000, {"include_usage": 1},
)  # fmt: skip
BOUNDS: dict[str, tuple[Any, ...]] = {
    "temperature": (0, 1e-300, 0.7, 100), "top_p": (1e-300, 0.5, 1), "top_k": (-1, 0, 1, 2**31 - 1),
    "min_p": (0, 1e-300, 1), "repetition_penalty": (1e-300, 1, 100), "repeat_penalty": (1e-300, 1, 100),
    "presence_penalty": (-2, 2), "frequency_penalty": (-2, 2), "seed": (0, 2**64 - 1), "n": (1, 3), "best_of": (3, 4),
    "n_cmpl": (1, 3), "max_tokens": (1, 100), "n_predict": (0, 1, 100), "max_completion_tokens": (1, 100),
    "logprobs": (0, 100, True), "top_logprobs": (0, 100), "n_probs": (0, 100), "stop": ("e", ["e", " "], ["zz"] * 16),
    "logit_bias": ({"1": -100}, {"1": 100}, {str(id): -100 for id in range(5)}), "ignore_eos": (True,),
    "echo": (True,), "stream": (True,), "stream_options": ({"include_usage": True},), "probabilities": ("full",),
    "attribution": (True,), "truncate": (True,), "return_tokens": (True,), "user": ("me",), "beams": (1, 8),
    "best": (1, 3), "length_penalty": (0, 10), "steps": (1, 9), "samples": (2, 30), "paths": (True,),
}  # fmt: skip
"""Values at the edges of what may be, that go together or not."""
LINES = (
    "X: " + "y" * 70_000, "Content-Length: 3", "Transfer-Encoding: chunked", "Host: evil.example", "Origin: null",
    "Content-Type: text/plain", "Content-Encoding: gzip", "Expect: 100-continue", "A b: c", "\0: c", "X: \0",
    "Upgrade: websocket", "Range: bytes=0-", "Authorization: " + "\xff" * 10, "Accept-Encoding: br",
)  # fmt: skip
PATHS = (
    "{path}/", "{path}?a=" + "b" * 9000, "/{path}", "/%00", "/%2e%2e/%2e%2e", "/v1" * 900, "*", "http://localhost{path}",
    "/v1/models/%ff", "/v1/models/" + "a" * 60_000, "/props?model=%00", "/slots?model=", "/health", "/metrics",
)  # fmt: skip
METHODS = ("GET", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW", "post", "G\0T")
SHORT = {"max_tokens": 12, "n_predict": 12, "max_completion_tokens": 12}
"""So that no good request takes long."""
TASKS: dict[str, dict[str, dict[str, Any]]] = {
    "text": {
        "/v1/completions": {"prompt": "the ", "max_tokens": 12},
        "/v1/chat/completions": {"messages": [{"role": "user", "content": "the "}], "max_tokens": 12},
        "/completion": {"prompt": "the ", "n_predict": 12},
        "/tokenize": {"content": "the "},
        "/detokenize": {"tokens": [1, 2]},
        "/apply-template": {"messages": [{"role": "user", "content": "the "}]},
        "/v1/chat/completions/input_tokens": {"messages": [{"role": "user", "content": "the "}]},
    },
    "translation": {"/v1/translate": {"source": ["the "], "beams": 2}},
    "forecast": {"/v1/forecast": {"table": "a,b\n1,2\n2,3\n", "steps": 2, "samples": 10}},
}  # fmt: skip
"""A good request for each endpoint of a task."""


@dataclass
class Case:
    """Bytes for the server, and what they are.

    Attributes:
        whole: whether they are a whole request, which must be answered.
    """

    kind: str
    sent: bytes
    whole: bool = True


def encoded(
    path: str, body: bytes, *, method: str = "POST", more: str = "", length: int | None = None
) -> bytes:
    """A request."""
    length = len(body) if length is None else length
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return (
        f"{head}Content-Length: {length}\r\n{more}Connection: close\r\n\r\n".encode("utf-8", "replace") + body
    )


def as_json(fields: Mapping[str, Any]) -> bytes:
    """As a client might write it, with lone surrogates and NaN."""
    return json.dumps(fields).encode()


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where each value inside a document stands."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inside:
        yield (*path, key)
        yield from places(one, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A document with another value at a place."""
    if not path:
        return new
    changed = value.copy()
    changed[path[0]] = replaced(value[path[0]], path[1:], new)
    return changed


def wrong_fields(draw: random.Random, path: str, good: dict[str, Any]) -> Case:
    """One to three fields hold junk, lack, or are others."""
    fields = dict(good)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        at = draw.choice([*places(fields), (draw.choice(sorted(good)),)])
        junk = draw.choice(JUNK)
        deed = draw.randrange(4)
        if deed == 0 or at[0] in SHORT:
            fields[draw.choice([name for name in BOUNDS if name not in SHORT])] = junk
        elif at[0] not in fields:
            fields[at[0]] = junk
        elif deed == 1 and len(at) == 1:
            del fields[at[0]]
        else:
            fields = replaced(fields, at, junk)
    return Case("fields", encoded(path, as_json(fields)))


def boundaries(draw: random.Random, path: str, good: dict[str, Any]) -> Case:
    """Several options at their edges at once."""
    names = draw.sample(sorted(BOUNDS), draw.randint(2, 6))
    return Case(
        "boundaries", encoded(path, as_json(good | {name: draw.choice(BOUNDS[name]) for name in names}))
    )


def wrong_bytes(draw: random.Random, path: str, good: dict[str, Any]) -> Case:
    """The body is not what it was."""
    body, deep = bytearray(as_json(good)), draw.choice((3, 300, 50_000))
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(body) + 1)
        deed = draw.randrange(4)
        if deed == 0:
            body[at : at + 1] = bytes([draw.randrange(256)])
        elif deed == 1:
            del body[at : at + draw.randint(1, 9)]
        elif deed == 2:
            body[at:at] = draw.choice(
                (b"\0", b"\xff\xfe", b"{" * deep, b"[" * deep, b'"', b"\\u0000", b",", b"1e999")
            )
        else:
            body[at:at] = body[: draw.randint(1, 20)]
    if draw.random() < 0.1:
        body = bytearray(bytes(body).decode("latin-1").encode(draw.choice(("utf-16", "utf-32", "utf-8-sig"))))
    return Case("bytes", encoded(path, bytes(body)))


def wrong_head(draw: random.Random, path: str, good: dict[str, Any]) -> Case:
    """The request's line or its headers are not what they were."""
    body = as_json(good)
    deed = draw.randrange(4)
    if deed == 0:
        sent = encoded(path, body, more=draw.choice(LINES) + "\r\n")
    elif deed == 1:
        other = draw.choice(PATHS).format(path=path)
        sent = encoded(other, body, method=draw.choice(("GET", "POST")))
    elif deed == 2:
        sent = encoded(path, body, method=draw.choice(METHODS))
    else:
        sent = encoded(path, body, length=draw.choice((0, 1, len(body) - 1, len(body) + 1, 2**63, 10**40)))
        return Case("head", sent, whole=False)
    return Case("head", sent)


KINDS = (wrong_fields, wrong_fields, boundaries, wrong_bytes, wrong_head)


def asked(address: str, case: Case) -> bytes | None:
    """All that the server answers; None where it does not end in time. A client whose request is not whole says that
    nothing more will come."""
    host, _, port = address.rpartition("/")[2].partition(":")
    found, end = b"", time.monotonic() + SECONDS
    with socket.create_connection((host, int(port)), timeout=SECONDS) as one:
        try:
            one.sendall(case.sent)
            if not case.whole:
                one.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it was refused before it was whole
        try:
            while piece := one.recv(65536):
                found += piece
                if time.monotonic() > end:
                    return None
        except TimeoutError:
            return None
        except OSError:
            pass
    return found


def fault(case: Case, answer: bytes | None) -> tuple[int, str | None]:
    """The status of an answer, and what is wrong with it, if anything."""
    if answer is None:
        return 0, f"no answer within {SECONDS:g} s"
    head, _, body = answer.partition(b"\r\n\r\n")
    found = re.match(rb"HTTP/1\.1 (\d{3}) ", head)
    if found is None:
        return 0, "no answer" if case.whole else None
    status = int(found[1])
    if head.startswith(b"HTTP/1.1 100") and body:
        return fault(case, body)
    text = body.decode("utf-8", "replace")
    if status >= 500:
        return status, f"{status}: {text[:300]}"
    if leak := LEAKS.search(text):
        return status, f"{leak[0]!r} in {text[max(0, leak.start() - 100) : leak.end() + 100]!r}"
    if status >= 400:
        try:
            error = json.loads(body)["error"]
        except (ValueError, KeyError, TypeError):
            return status, f"no error object: {text[:300]}"
        if error.keys() != {"message", "type", "param", "code"} or not error["message"]:
            return status, f"not the fields of an error: {text[:300]}"
    elif b"text/event-stream" in head and b"data: [DONE]" not in body:
        return status, f"a stream without its end: {text[-300:]}"
    return status, None


def fuzz(
    address: str, good: Mapping[str, Sequence[dict[str, Any]]], requests: int, seed: int
) -> tuple[Counter[tuple[str, int]], list[str]]:
    """How often each kind of request was answered with which status, and what was wrong. `good`: by path."""
    draw, cases = random.Random(seed), []
    for _ in range(requests):
        path = draw.choice(sorted(good))
        cases.append(draw.choice(KINDS)(draw, path, draw.choice(good[path])))

    def one(case: Case) -> tuple[int, str | None]:
        return fault(case, asked(address, case))

    with ThreadPoolExecutor(TOGETHER) as pool:
        found = list(pool.map(one, cases))
    counts = Counter((case.kind, status) for case, (status, _) in zip(cases, found, strict=True))
    faults = [
        f"{why}\n  after {case.sent[:1500]!r}" for case, (_, why) in zip(cases, found, strict=True) if why
    ]
    return counts, faults


@contextmanager
def served(runs: Sequence[Path]) -> Iterator[str]:
    """A server's address."""
    command = [sys.executable, "-m", "octavo", "serve", *runs, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = re.search(r"http://[^/]+", process.stdout.readline())
        assert told
        try:
            yield told[0]
        finally:
            process.terminate()


def requests_for(runs: Sequence[Path]) -> dict[str, list[dict[str, Any]]]:
    """Good requests for each run, and for one that there is not."""
    from octavo.run.run import Run
    from octavo.task import task_of

    found: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        kind = task_of(Run.open(run).config).kind
        for path, fields in TASKS[kind if kind in TASKS else "text"].items():
            found.setdefault(path, []).append({"model": run.name, **fields})
    for several in found.values():
        several.append({**several[0], "model": "none"})
    return found


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    begun = time.monotonic()
    with served(given.runs) as address:
        counts, faults = fuzz(address, requests_for(given.runs), given.requests, given.seed)
    statuses = sorted({status for _, status in counts})
    rows = [
        {"what is wrong": kind, "requests": sum(counts[kind, status] for status in statuses)}
        | {str(status) if status else "cut": counts[kind, status] for status in statuses}
        for kind in sorted({kind for kind, _ in counts})
    ]
    print_table(rows)
    for one in faults:
        print(one, file=sys.stderr)
    if given.write:
        lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(map(str, row.values())) for row in rows)]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        page = TEXT.format(table=table, given=given, faults=len(faults), tasks=len(given.runs))
        (Path(__file__).parent / "results" / "serve_fuzz.md").write_text(page, encoding="utf-8")
    finish({"rows": rows, "faults": len(faults), "seconds": time.monotonic() - begun})


TEXT = """\
# Damaged requests to a server

`python benchmarks/serve_fuzz.py RUN … --requests {given.requests} --seed {given.seed} --write`, with {tasks} runs

Each is a good request with junk in its fields, with wrong bytes, with another head, or with boundary values in
several options at once. By the status of the answer; cut: the request was not whole, or no HTTP. Answers of 5xx, of no
known form or with a path, an address or a traceback, and requests that were not answered: **{faults}**.

{table}
"""

if __name__ == "__main__":
    main()
