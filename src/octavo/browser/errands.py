"""Commands whose answer a window waits for: what a text holds, what minutes would bring. Nobody waits: they end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

from octavo.serving.errors import Refusal

MOST = 3
"""At the same time."""
SECONDS = 900.0
MOST_OUTPUT = 8 * 2**20
MOST_COMPLAINT = 1500


class Errands:
    """Processes, used from one event loop."""

    def __init__(self) -> None:
        self._running = 0

    async def run(self, *words: str) -> bytes:
        """What `python -m WORDS` prints. Raises Refusal with what it complains of; where the caller is cancelled, it
        and all that it started is killed."""
        if self._running >= MOST:
            raise Refusal(
                429, "Other texts are being looked at; this one comes next.", headers={"Retry-After": "2"}
            )
        self._running += 1
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            limit=MOST_OUTPUT,
        )
        try:
            async with asyncio.timeout(SECONDS):
                assert process.stdout is not None and process.stderr is not None
                out, said = await asyncio.gather(bounded(process.stdout), bounded(process.stderr))
                code = await process.wait()
        except TimeoutError:
            raise Refusal(504, "Looking at this text takes too long.") from None
        finally:
            self._running -= 1
            kill(process)
            await asyncio.shield(process.wait())
        if code:
            raise Refusal(422, complaint(said.decode("utf-8", "replace").splitlines()) or NO_WORDS)
        return out


NO_WORDS = "The command failed without a word; try it in a terminal."


async def bounded(stream: asyncio.StreamReader) -> bytes:
    """All that comes, of a stream that is not without end."""
    read = bytearray()
    while piece := await stream.read(2**16):
        if len(read) < MOST_OUTPUT:
            read += piece
    return bytes(read)


def kill(process: asyncio.subprocess.Process) -> None:
    """Kill a process that still runs, and its children."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            if os.name == "nt":
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)


def complaint(lines: Sequence[str]) -> str | None:
    """The last error of a command, as it printed it, with its remedy; None where it printed none."""
    begin = next((at for at in reversed(range(len(lines))) if lines[at].startswith("error: ")), None)
    if begin is None:
        return None
    found = [lines[begin].removeprefix("error: ")]
    for line in lines[begin + 1 :]:
        if not line.startswith("  "):
            break
        found.append(line.strip())
    return "\n".join(found)[:MOST_COMPLAINT]
