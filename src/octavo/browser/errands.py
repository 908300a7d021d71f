"""Commands whose answer a window waits for: what a text holds, what minutes would bring. Nobody waits: they end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

from octavo.serving.errors import Refusal

MOST = 3
"""At the same time."""
SECONDS = 900.0
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
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            try:
                async with asyncio.timeout(SECONDS):
                    out, said = await asyncio.to_thread(process.communicate)
            finally:
                kill(process)  # its thread ends then, and has waited for it
        except TimeoutError:
            raise Refusal(504, "Looking at this text takes too long.") from None
        finally:
            self._running -= 1
        if process.returncode:
            raise Refusal(422, complaint(said.decode("utf-8", "replace").splitlines()) or NO_WORDS)
        return out


NO_WORDS = "The command failed without a word; try it in a terminal."


def kill(process: subprocess.Popen[bytes]) -> None:
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
