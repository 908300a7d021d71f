"""The server under load: tokens a second beside `octavo generate` and llama.cpp's server; the first token; the start.

    python benchmarks/serve_load.py --run RUN --out ROWS [--table PAGE] [--llama PYTHON] [--clients 1 8 64]

All write the same texts, each with a seed of its own, turn by turn: clients ask on and on over connections that they
keep, and `octavo generate` has as many slots as there are clients. The server's texts are held against those of
`octavo generate`. Then clients ask for streams: how long the first token takes while as many others are under way.
A RUN that is not there is trained first: the demo's model and stories, but over bytes, which llama.cpp can read.
`--llama`: a Python with `llama-cpp-python[server]`, to which the run's export to GGUF is given, and a space where the
prompt is empty, which it cannot read. Rows that ROWS has are not measured again.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from common import above, keep_row, load, parser_of, run_missing

START = 120.0
"""Seconds that a program may take to start."""
RECIPE = ("tokenizer=byte", "model.context=256", "training.steps=150", "training.checkpoint_every=150")
GENERATE, SERVE, LLAMA = "octavo generate", "octavo serve", "llama-cpp-python"


class Client:
    """A connection that is kept."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._reader: asyncio.StreamReader | None = None

    async def ask(self, path: str, body: dict[str, Any] | None = None) -> tuple[bytes, list[float]]:
        """The answer's body, and when each of its pieces came."""
        if self._reader is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self.port)
        data = b"" if body is None else json.dumps(body).encode()
        head = f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        self._writer.write(head.encode() + data)
        told = await self._reader.readuntil(b"\r\n\r\n")
        length, pieces, times = re.search(rb"content-length: (\d+)", told.lower()), [], []
        while True:
            size = int(length[1]) if length else int(await self._reader.readline(), 16)
            pieces.append(await self._reader.readexactly(size))
            times.append(time.perf_counter())
            if length:
                break
            await self._reader.readline()
            if not size:
                break
        if b" 200 " not in told.partition(b"\r\n")[0]:
            raise OSError(f"{told[:40]!r}: {pieces[0][:200]!r}")
        return b"".join(pieces), times

    def close(self) -> None:
        """Leave."""
        if self._reader is not None:
            self._writer.close()


class Server:
    """A server in a process of its own."""

    def __init__(self, command: Sequence[str], port: int) -> None:
        self.port, self.begun = port, time.perf_counter()
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def cpu(self) -> float:
        """Seconds of all its threads."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def up(self) -> float:
        """Wait until it answers; seconds since it was started."""
        while time.perf_counter() < self.begun + START:
            try:
                await Client(self.port).ask("/v1/models")
                return time.perf_counter() - self.begun
            except OSError:
                await asyncio.sleep(0.02)
        raise SystemExit(f"nothing answers at port {self.port}")

    async def write(self, clients: int, texts: int, asked: dict[str, Any]) -> dict[str, Any]:
        """So many texts, each client one after the other; of streams also the seconds to their first pieces."""
        seeds, found, first = iter(range(texts)), [(0, "")] * texts, []

        async def client() -> None:
            own = Client(self.port)
            for seed in seeds:
                begin = time.perf_counter()
                body, times = await own.ask("/v1/completions", {**asked, "seed": seed})
                if asked.get("stream"):
                    lines = [one[6:] for one in body.decode().splitlines() if one.startswith("data: {")]
                    events = [json.loads(one) for one in lines]
                    first.append(times[0] - begin)
                else:
                    events = [json.loads(body)]
                told = [one for one in events if one["choices"]]
                text = "".join(one["choices"][0]["text"] for one in told)
                usage = events[-1].get("usage") or {}
                found[seed] = usage.get("completion_tokens", len(told)), text
            own.close()

        begin, spent = time.perf_counter(), self.cpu()
        await asyncio.gather(*(client() for _ in range(clients)))
        seconds, spent = time.perf_counter() - begin, self.cpu() - spent
        return {**told_of([text for _, text in found], sum(count for count, _ in found), seconds, spent)} | (
            {"first": [round(second, 4) for second in sorted(first)]} if first else {}
        )


def told_of(texts: Sequence[str], tokens: int, seconds: float, cpu: float) -> dict[str, Any]:
    """What a row says."""
    digest = hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:16]
    return {"tokens": tokens, "seconds": seconds, "cpu": cpu, "texts": digest}


WRITER = """
import json, sys, time, torch
from octavo.generation import Engine, TextRequest
from octavo.generation.sampling import sampling_of
from octavo.run.run import Run
path, threads = json.loads(sys.argv[1])
torch.set_num_threads(threads)
run = Run.open(path)
engine, sampling = Engine(run.model, run.tokenizer), sampling_of(run.config.sampling)
for line in sys.stdin:
    clients, texts, prompt, tokens = json.loads(line)
    begin, spent = time.perf_counter(), time.process_time()
    done = {}
    asked = [TextRequest(prompt, seed) for seed in range(texts)]
    for sample, _ in engine.write_each(asked, tokens=tokens, sampling=sampling, slots=clients):
        if sample.finish:
            done[sample.number] = sample
    seconds, spent = time.perf_counter() - begin, time.process_time() - spent
    count = sum(len(sample.ids) for sample in done.values())
    print(json.dumps([[done[n].text for n in range(texts)], count, seconds, spent]), flush=True)
"""


class Writer:
    """`octavo generate` in a process of its own, whose start and loading are not counted."""

    def __init__(self, run: Path, threads: int) -> None:
        words = [sys.executable, "-c", WRITER, json.dumps([str(run), threads])]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def write(self, clients: int, texts: int, asked: dict[str, Any]) -> dict[str, Any]:
        """So many texts, as many of them at once as there are clients."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print(
            json.dumps([clients, texts, asked["prompt"], asked["max_tokens"]]),
            file=self.process.stdin,
            flush=True,
        )
        return told_of(*json.loads(self.process.stdout.readline()))


@contextmanager
def ended(program: Server | Writer) -> Iterator[Any]:
    """A program until the context ends."""
    try:
        yield program
    finally:
        program.process.send_signal(signal.SIGTERM)
        program.process.wait()


def commands(given: argparse.Namespace, folder: Path) -> dict[str, list[str]]:
    """Of each server, at its port."""
    found = {SERVE: [sys.executable, "-m", "octavo", "serve", str(given.text), "--port", str(given.port)]}
    if given.llama:
        words = [
            sys.executable,
            "-m",
            "octavo",
            "export",
            str(given.text),
            "--to",
            "gguf",
            "--out",
            str(folder / "gguf"),
        ]
        subprocess.run(
            [*words, "--network-only"], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        (file,) = folder.glob("gguf*/*.gguf")
        found[LLAMA] = [
            given.llama,
            "-m",
            "llama_cpp.server",
            "--model",
            str(file),
            "--port",
            str(given.port + 1),
        ]
        found[LLAMA] += ["--n_threads", str(given.threads), "--n_threads_batch", str(given.threads)]
        found[LLAMA] += ["--interrupt_requests", "False"]
    return found


def missing(given: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    """Measure what is not there yet."""
    if not given.text.exists():
        words = [sys.executable, "-m", "octavo", "demo", "--out", str(given.text), "--quiet", *RECIPE]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    os.environ["OMP_NUM_THREADS"] = str(given.threads)
    had = {(row["program"], row["what"], row["clients"], row["turn"]) for row in rows}
    asked = {"prompt": given.prompt, "max_tokens": given.tokens}
    streamed = {**asked, "stream": True, "stream_options": {"include_usage": True}}

    words = [sys.executable, "-m", "octavo", "info", str(given.text), "--json"]
    shape = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)["shape"]

    def keep(program: str, what: str, clients: int, turn: int, found: dict[str, Any]) -> None:
        told = {
            "program": program,
            "shape": shape,
            "what": what,
            "clients": clients,
            "turn": turn,
            "load": load(),
        }
        told |= found
        keep_row(told, rows, given.out)

    def of(name: str, asked: dict[str, Any]) -> dict[str, Any]:
        return {**asked, "prompt": given.prompt or " "} if name == LLAMA else asked

    async def main(servers: dict[str, Server], writer: Writer) -> None:
        for name, server in servers.items():
            await server.up()
            await server.write(1, 1, of(name, asked))
        writer.write(1, 1, asked)
        for turn in range(given.repeats):
            for clients in given.clients:
                texts = clients * given.each
                order = [GENERATE, *servers]
                for name in order[turn % len(order) :] + order[: turn % len(order)]:
                    if (name, "texts", clients, turn) not in had:
                        if name == GENERATE:
                            found = writer.write(clients, texts, asked)
                        else:
                            found = await servers[name].write(clients, texts, of(name, asked))
                        keep(name, "texts", clients, turn, found)
                for name, server in servers.items():
                    if (name, "streams", clients, turn) not in had:
                        found = await server.write(clients, texts, of(name, streamed))
                        keep(name, "streams", clients, turn, found)

    async def first_answer(command: Sequence[str]) -> dict[str, Any]:
        with ended(Server(command, given.port)) as server:
            found = {"up": await server.up()}
            await server.write(1, 1, {**asked, "max_tokens": 1})
            return found | {"answered": time.perf_counter() - server.begun}

    with TemporaryDirectory() as folder, ExitStack() as stack:
        known = commands(given, Path(folder))
        for turn in range(given.repeats):
            if (SERVE, "start", 1, turn) not in had:
                keep(SERVE, "start", 1, turn, asyncio.run(first_answer(known[SERVE])))
        servers = {
            name: stack.enter_context(ended(Server(command, given.port + (name == LLAMA))))
            for name, command in known.items()
        }
        asyncio.run(main(servers, stack.enter_context(ended(Writer(given.text, given.threads)))))


def table(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Medians over the turns; ratios are of figures of one turn."""
    wrote = [row for row in rows if row["what"] != "start"]
    by = {(row["program"], row["what"], row["clients"], row["turn"]): row for row in wrote}
    for (program, what, clients, turn), row in by.items():
        if program == SERVE and (other := by.get((GENERATE, "texts", clients, turn))) is not None:
            assert row["texts"] == other["texts"], f"other texts than octavo generate's: {what}, {clients}"

    def line(program: str, what: str, clients: int) -> dict[str, Any]:
        own = {turn: row for (*key, turn), row in by.items() if key == [program, what, clients]}
        rates = [row["tokens"] / row["seconds"] for row in own.values()]

        def beside(other: str, whose: str) -> float | None:
            pairs = [(row, by.get((other, whose, clients, turn))) for turn, row in own.items()]
            found = [
                row["tokens"] / row["seconds"] / (one["tokens"] / one["seconds"]) for row, one in pairs if one
            ]
            return round(statistics.median(found), 3) if found and other != program else None

        first = sorted(second for row in own.values() for second in row.get("first", ()))
        return {
            "program": program,
            "answers": "whole" if what == "texts" else "streamed",
            "clients": clients,
            "tokens/s": round(statistics.median(rates)),
            "from": round(min(rates)),
            "to": round(max(rates)),
            "CPU µs a token": round(
                statistics.median(1e6 * row["cpu"] / row["tokens"] for row in own.values()), 1
            ),
            "× generate": beside(GENERATE, "texts"),
            "× llama": beside(LLAMA, what),
            "first token p50, ms": round(1000 * first[len(first) // 2], 1) if first else None,
            "p99, ms": round(1000 * first[min(len(first) - 1, int(0.99 * len(first)))], 1) if first else None,
        }

    return [
        line(*key)
        for key in sorted(
            {key[:3] for key in by}, key=lambda key: (key[1] != "texts", key[2], key[0] == LLAMA, key[0])
        )
    ]


def page(rows: list[dict[str, Any]]) -> str:
    """What stands above the table."""
    starts = [row for row in rows if row["what"] == "start"]
    loads = [row["load"] for row in rows]
    told = [above("The server under load", (__doc__ or "").partition("\n\n    python")[0], "`serve_load.py`")]
    told.append(f"The model: {rows[0]['shape']}.")
    if starts:
        up, answered = (statistics.median(row[name] for row in starts) for name in ("up", "answered"))
        told.append(
            f"Start: {up:.2f} s until it answers, {answered:.2f} s until the first token, with the model loaded."
        )
    told.append(
        f"The machine's load while this ran: {min(loads)} to {max(loads)}. Ratios are medians of turns, in each of "
        "which the programs ran one after the other."
    )
    return "\n\n".join(told)


def main() -> None:
    """Measure, and write the table."""
    parser = parser_of(__doc__, "--run")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--each", type=int, default=4, help="texts that each client asks for")
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--prompt", default="")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--port", type=int, default=8321)
    parser.add_argument("--llama", help="a Python with llama-cpp-python[server]")
    run_missing(parser.parse_args(), missing, table, page)


if __name__ == "__main__":
    main()
