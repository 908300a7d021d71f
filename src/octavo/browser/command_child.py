"""The process that a page's command runs under: it outlives page and server, and writes down how the command ended.

    python -m octavo.browser.command_child FOLDER

It holds FOLDER/.lock for as long as the command runs, and hands on a stop when FOLDER/stop appears. A parent asks its
own child to stop, so that nobody is stopped who only has the number of a process that was there before.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from octavo.util.files import replace_text, take
from octavo.util.records import json_text, parse_json

LOOK = 0.2
"""Seconds between two looks for a stop."""


def main(folder: Path) -> int:
    """Run the command of a job to its end."""
    handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    if not take(handle):
        return 1
    words = [str(word) for word in parse_json((folder / "job.json").read_bytes())["words"]]
    with (folder / "log.txt").open("ab") as log:
        windows = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "octavo", *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            creationflags=windows,
        )
        stop = signal.CTRL_BREAK_EVENT if os.name == "nt" else signal.SIGTERM
        for number in (signal.SIGTERM, signal.SIGINT):  # to this process: the same is meant
            signal.signal(number, lambda *_: process.send_signal(stop))
        asked = False
        while (code := process.poll()) is None:
            if not asked and (folder / "stop").exists():
                asked = True
                process.send_signal(stop)
            time.sleep(LOOK)
    with suppress(OSError):  # a full disk: then only the lock tells that it has ended
        replace_text(folder / "ended.json", json_text({"code": code, "ended": time.time()}))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
