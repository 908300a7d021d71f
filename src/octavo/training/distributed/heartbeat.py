"""Who of the processes that train together has died or hangs: each shows a pulse, each watches all the others'.

A process that waits for one that is gone could wait for ever. So a thread in every process puts its pulse into the
store that torchrun keeps, reads the others', and ends its own process, saying who is to blame, when the work cannot
go on.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from torch.distributed import Store

from octavo.util.terminal import heedless, put

GRACE = 5.0  # seconds to end in an orderly way, after another process has ended with an error
LOST = "lost"  # the kind of ending of a process whose watch ended it


@dataclass
class Pulse:
    """What a process shows of itself.

    Attributes:
        state: `working` together with the others; `waiting` for them; `busy` alone with what may take long; or
            `saving` alone what must not be cut short.
        count: goes up with the work that all do together.
        doing: in words.
        tick: goes up by itself, while the process lives.
    """

    state: str = "waiting"
    count: int = 0
    doing: str = "the start"
    tick: int = 0


@dataclass(frozen=True)
class Ending:
    """How a process ended, for the others: its exit code, the name of its error (or `LOST`), and why."""

    code: int
    kind: str
    why: str

    def tell(self, store: Store, rank: int) -> None:
        """Put that of a process into the store."""
        store.set(f"ended/{rank}", json.dumps(asdict(self)))

    @classmethod
    def of(cls, store: Store, rank: int) -> Ending | None:
        """That of a process; None while it has not ended."""
        key = f"ended/{rank}"
        return cls(**json.loads(store.get(key))) if store.check([key]) else None


@dataclass(frozen=True)
class Seen:
    """A pulse as another process saw it, `moved` and `ticked` so many seconds ago."""

    pulse: Pulse
    moved: float
    ticked: float


def to_blame(seen: Mapping[int, Seen], timeout: float) -> tuple[list[int], str]:
    """The ranks that the others have waited for longer than `timeout` seconds, and what they do or fail to do."""
    silent = [rank for rank, each in seen.items() if each.ticked > timeout]
    if silent:
        return silent, f"has shown no sign of life for {timeout:g} s"
    if any(each.pulse.state in ("busy", "saving") for each in seen.values()):
        return [], ""
    working = {rank: each for rank, each in seen.items() if each.pulse.state == "working"}
    if not working or any(each.moved <= timeout for each in working.values()):
        return [], ""
    least = min(each.pulse.count for each in working.values())
    behind = [rank for rank, each in working.items() if each.pulse.count == least]
    return behind, f"has not moved for {timeout:g} s"


class Watch:
    """Shows `pulse` and watches the others' until `stop`; ends the process when one of them is lost.

    Args:
        store: a connection of its own, for it is used from another thread.
        timeout: seconds after which a process that the others wait for is lost.
    """

    def __init__(self, store: Store, *, rank: int, size: int, timeout: float, pulse: Pulse) -> None:
        self.store, self.rank, self.size, self.timeout, self.pulse = store, rank, size, timeout, pulse
        self.every = min(timeout / 5, 5.0)
        self._stopped = threading.Event()
        self._last: dict[int, tuple[Pulse, float, float]] = {}
        self._who: list[dict[str, Any]] = []
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def show(self) -> None:
        """Tell the others who this is, under `pulse/RANK` and `who/RANK`."""
        self.store.set(f"who/{self.rank}", json.dumps({"host": socket.gethostname(), "pid": os.getpid()}))
        self._show()

    def start(self) -> None:
        """Begin; all have shown themselves."""
        self._who = [json.loads(value) for value in self.store.multi_get(self._keys("who"))]
        self._thread.start()

    def stop(self) -> None:
        """End the watch; the process may go."""
        self._stopped.set()
        self._thread.join(timeout=2)

    @property
    def hosts(self) -> int:
        """Machines that the processes run on."""
        return len({who["host"] for who in self._who})

    def _keys(self, kind: str) -> list[str]:
        return [f"{kind}/{rank}" for rank in range(self.size)]

    def _show(self) -> None:
        self.pulse.tick += 1
        self.store.set(f"pulse/{self.rank}", json.dumps(asdict(self.pulse)))

    def _run(self) -> None:
        while not self._stopped.wait(self.every):
            try:
                self._show()
                lost = self._look() if self.pulse.state != "saving" else ""
            except Exception as error:
                if self._stopped.is_set():
                    return
                lost = f"The processes' common store can no longer be reached: {error}"
            if lost and not self._stopped.is_set():
                self._end(lost)

    def _look(self) -> str:
        """What is wrong, as a sentence, or nothing."""
        endings = {rank: Ending.of(self.store, rank) for rank in range(self.size)}
        ended = {rank: how for rank, how in endings.items() if how is not None}
        failed = {rank: how for rank, how in ended.items() if how.code and rank != self.rank}
        seen = self._seen(set(ended))
        own = seen.get(self.rank)
        if failed and own is not None and own.moved > GRACE:
            rank, how = next(iter(failed.items()))
            if how.kind == LOST:  # its own watch, or another's, has said whose fault it is
                return how.why
            return f"{self._name(rank)} has ended: {how.why}"
        dead = [
            rank for rank in seen if rank != self.rank and self._beside(rank) and not _lives(self._pid(rank))
        ]
        if dead:
            return f"{self._name(dead[0])} died during {seen[dead[0]].pulse.doing}."
        blamed, what = to_blame(seen, self.timeout)
        if not blamed:
            return ""
        if len(blamed) == len(seen):
            return f"No process {what.replace('has not', 'has')}: all are at {seen[self.rank].pulse.doing}."
        for rank in blamed:
            if rank != self.rank and self._beside(
                rank
            ):  # torchrun would give it half a minute to end by itself
                with suppress(OSError):
                    os.kill(self._pid(rank), signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
        named = " and ".join(self._name(rank) for rank in blamed)
        return f"{named} {what} during {seen[blamed[0]].pulse.doing}."

    def _seen(self, ended: set[int]) -> dict[int, Seen]:
        """The pulses of all processes that have not ended."""
        now = time.monotonic()
        seen = {}
        for rank, value in enumerate(self.store.multi_get(self._keys("pulse"))):
            pulse = Pulse(**json.loads(value))
            before, moved, ticked = self._last.get(rank, (None, now, now))
            if before is None or (before.count, before.state) != (pulse.count, pulse.state):
                moved = now
            if before is None or before.tick != pulse.tick:
                ticked = now
            self._last[rank] = (pulse, moved, ticked)
            if rank not in ended:
                seen[rank] = Seen(pulse, now - moved, now - ticked)
        return seen

    def _name(self, rank: int) -> str:
        return f"Rank {rank} on {self._who[rank]['host']} (process {self._pid(rank)})"

    def _pid(self, rank: int) -> int:
        return self._who[rank]["pid"]

    def _beside(self, rank: int) -> bool:
        return self._who[rank]["host"] == self._who[self.rank]["host"]

    def _end(self, lost: str) -> None:
        """Say it, unless the watch of another process has said something, and end."""
        first = True
        with suppress(Exception):
            first = self.store.add("said", 1) == 1  # what comes after follows from it
            Ending(1, LOST, lost).tell(self.store, self.rank)
        if first:
            put(
                f"error: {lost} The run ends here; its checkpoints are whole.\n"
                "  → start it again with --resume",
                heedless(sys.stderr),
            )
        os._exit(1)


def _lives(pid: int) -> bool:
    """Whether there is such a process on this machine."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is there, but somebody else's
        return True
    return True
