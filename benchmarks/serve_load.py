"""The server under load: tokens a second beside `octavo generate` and llama.cpp's server in Python; delays.

    python benchmarks/serve_load.py RUN [--clients 1 8 64] [--tokens 200] [--llama PYTHON --gguf FILE]

All programs write the same number of texts after the same prompt, each with a seed of its own, turn by turn. The
server's are held against those of `octavo generate`. `--llama`: a Python that has `llama-cpp-python[server]`;
FILE is the run's export. `--soak MINUTES` asks on and on, with clients that leave, and prints the memory.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from common import finish, load, machine, print_table

START = 120.0
"""Seconds that a server may take to start."""


class Program:
    """A server in a process of its own."""

    def __init__(self, name: str, command: Sequence[str], port: int) -> None:
        self.name, self.port = name, port
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def cpu(self) -> float:
        """Seconds of all its threads."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> int:
        """Bytes that it holds in memory."""
        found = re.search(
            r"VmRSS:\s+(\d+)", Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        )
        return int(found[1]) * 1024 if found else 0

    async def up(self) -> None:
        """Wait until it answers."""
        end = time.monotonic() + START
        while time.monotonic() < end:
            try:
                await ask(self.port, "GET", "/v1/models")
                return
            except OSError:
                await asyncio.sleep(0.2)
        raise SystemExit(f"{self.name} does not start")


@contextmanager
def running(name: str, command: Sequence[str], port: int) -> Iterator[Program]:
    """A server until the context ends."""
    program = Program(name, command, port)
    try:
        yield program
    finally:
        program.process.send_signal(signal.SIGTERM)
        program.process.wait()


async def ask(
    port: int, method: str, path: str, body: dict[str, Any] | None = None
) -> tuple[bytes, list[float]]:
    """The answer's body, and when each of its pieces came."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    data = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    writer.write(head.encode() + data)
    whole, times = b"", []
    while piece := await reader.read(1 << 16):
        whole += piece
        times.append(time.perf_counter())
    writer.close()
    top, _, rest = whole.partition(b"\r\n\r\n")
    if b" 200 " not in top.partition(b"\r\n")[0]:
        raise OSError(f"{top[:40]!r}: {rest[:200]!r}")
    return rest, times


async def texts(program: Program, clients: int, asked: dict[str, Any]) -> dict[str, Any]:
    """Each client asks once, all at the same time."""
    begin, spent = time.perf_counter(), program.cpu()
    answers = await asyncio.gather(
        *(ask(program.port, "POST", "/v1/completions", {**asked, "seed": seed}) for seed in range(clients))
    )
    seconds = time.perf_counter() - begin
    found = [json.loads(body[body.index(b"{") : body.rindex(b"}") + 1]) for body, _ in answers]
    tokens = sum(one["usage"]["completion_tokens"] for one in found)
    return {
        "tokens": tokens,
        "seconds": seconds,
        "rate": tokens / seconds,
        "cpu": program.cpu() - spent,
        "texts": [one["choices"][0]["text"] for one in found],
    }


async def first_tokens(program: Program, clients: int, asked: dict[str, Any], rounds: int) -> list[float]:
    """Seconds to the first piece of text of streams, while as many others are under way."""
    found: list[float] = []

    async def client(number: int) -> None:
        for turn in range(rounds):
            begin = time.perf_counter()
            _, times = await ask(
                program.port,
                "POST",
                "/v1/completions",
                {**asked, "stream": True, "seed": number + clients * turn},
            )
            found.append((times[1] if len(times) > 1 else times[0]) - begin)

    await asyncio.gather(*map(client, range(clients)))
    return sorted(found)


GENERATE = """
import json, sys, time, torch
from octavo.generation import TextRequest
from octavo.run.run import Run
path, prompt, clients, tokens, threads = json.loads(sys.argv[1])
torch.set_num_threads(threads)
run = Run.open(path)
list(run.write_each([TextRequest(prompt, 0)], tokens=4))
begin, spent = time.perf_counter(), time.process_time()
done = {}
for sample, _ in run.write_each([TextRequest(prompt, seed) for seed in range(clients)], tokens=tokens):
    if sample.finish:
        done[sample.number] = sample
seconds = time.perf_counter() - begin
count = sum(len(sample.ids) for sample in done.values())
print(json.dumps({"tokens": count, "seconds": seconds, "rate": count / seconds,
                  "cpu": time.process_time() - spent, "texts": [done[n].text for n in range(clients)]}))
"""


def generated(run: Path, prompt: str, clients: int, tokens: int, threads: int) -> dict[str, Any]:
    """What `octavo generate` does with these texts, in a process of its own; loading is not counted."""
    told = json.dumps([str(run), prompt, clients, tokens, threads])
    done = subprocess.run([sys.executable, "-c", GENERATE, told], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


async def measured(arguments: argparse.Namespace, programs: Sequence[Program]) -> list[dict[str, Any]]:
    """Rows: program, clients, and its figures in each repeat."""
    asked = {"prompt": arguments.prompt, "max_tokens": arguments.tokens}
    for program in programs:
        await program.up()
        await texts(program, 1, asked)
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    for _ in range(arguments.repeats):
        for clients in arguments.clients:
            before = generated(arguments.run, arguments.prompt, clients, arguments.tokens, arguments.threads)
            found = {"octavo generate": before}
            for program in programs:
                found[program.name] = await texts(program, clients, asked)
            assert found["octavo serve"]["texts"] == before["texts"], "other texts than octavo generate's"
            for name, one in found.items():
                row = rows.setdefault(
                    (name, clients), {"program": name, "clients": clients, "rates": [], "cpu": []}
                )
                row["rates"].append(one["rate"])
                row["cpu"].append(one["cpu"] / one["tokens"])
    for program in programs:
        for clients in arguments.clients:
            delays = await first_tokens(program, clients, asked, max(2, 64 // clients))
            rows[program.name, clients] |= {
                "first_p50": delays[len(delays) // 2],
                "first_p99": delays[min(len(delays) - 1, int(0.99 * len(delays)))],
            }
    return list(rows.values())


async def soaked(arguments: argparse.Namespace, program: Program) -> list[float]:
    """MiB that the server holds, every few seconds, while clients come, go and leave."""
    await program.up()
    end, found = time.monotonic() + 60 * arguments.soak, []
    asked = {"prompt": arguments.prompt, "max_tokens": arguments.tokens}

    async def client(number: int) -> None:
        seed = number
        while time.monotonic() < end:
            seed += 1000
            call = ask(
                program.port, "POST", "/v1/completions", {**asked, "seed": seed, "stream": bool(seed % 2)}
            )
            try:
                await asyncio.wait_for(call, 0.05 if number % 4 == 0 else 600)
            except (TimeoutError, OSError):
                continue

    async def watch() -> None:
        while time.monotonic() < end:
            found.append(round(program.memory() / 2**20, 1))
            await asyncio.sleep(min(10, 6 * arguments.soak))

    await asyncio.gather(watch(), *map(client, range(32)))
    return found


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--prompt", default="")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--port", type=int, default=8321)
    parser.add_argument("--llama", help="a Python with llama-cpp-python[server]")
    parser.add_argument("--gguf", type=Path)
    parser.add_argument("--soak", type=float, default=0, help="minutes")
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
    began = load()
    own = [sys.executable, "-m", "octavo", "serve", str(arguments.run), "--port", str(arguments.port)]
    with running("octavo serve", own, arguments.port) as octavo:
        if arguments.soak:
            found = asyncio.run(soaked(arguments, octavo))
            print("MiB:", *found)
            finish({"soak_minutes": arguments.soak, "mib": found, "machine": machine()})
            return
        if arguments.llama:
            port = arguments.port + 1
            command = [arguments.llama, "-m", "llama_cpp.server", "--model", str(arguments.gguf)]
            command += ["--port", str(port), "--n_threads", str(arguments.threads)]
            with running("llama-cpp-python", command, port) as llama:
                rows = asyncio.run(measured(arguments, [octavo, llama]))
        else:
            rows = asyncio.run(measured(arguments, [octavo]))
    print_table(
        [
            {
                "program": row["program"],
                "clients": row["clients"],
                "tokens/s": round(statistics.median(row["rates"])),
                "from": round(min(row["rates"])),
                "to": round(max(row["rates"])),
                "CPU µs/token": round(1e6 * statistics.median(row["cpu"])),
                "first token ms p50": round(1000 * row.get("first_p50", 0)),
                "p99": round(1000 * row.get("first_p99", 0)),
            }
            for row in rows
        ]
    )
    told = {name: str(value) if isinstance(value, Path) else value for name, value in vars(arguments).items()}
    finish({"rows": rows, "arguments": told, "load_before": began, "machine": machine()})


if __name__ == "__main__":
    main()
