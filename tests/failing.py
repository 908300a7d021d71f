"""Runs an action again and again, while another system call that writes fails: killed there, a full disk, a bad one.

`trials` compiles `failing.c` and starts this file with it preloaded. Each trial has a folder of its own and two forked
processes: one whose call fails, then one for the same action that nothing fails for.
"""

from __future__ import annotations

import errno
import importlib
import json
import os
import shutil
import subprocess
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).parent
WAYS = {
    "killed": {"FAIL_WITH": "0"},
    "full": {"FAIL_WITH": str(errno.ENOSPC), "FAIL_ON": "1"},
    "bad": {"FAIL_WITH": str(errno.EIO)},
}


@dataclass(frozen=True)
class Trial:
    """One failure: the number of the call, the way it failed; how the action ended there, and how when run again
    (0: well; 2: a sentence; 1: another error; negative: the signal), with what both said."""

    call: int
    way: str
    code: int
    again: int
    said: str


def trials(action: str, folder: Path, *, every: int = 1) -> list[Trial]:
    """Every `every`-th call of `module:function` fails; the function gets a folder to write in."""
    compiler = shutil.which("cc")
    if sys.platform != "linux" or compiler is None:
        pytest.skip("a library is preloaded, which needs Linux and a C compiler")
    library = folder / "failing.so"
    source = str(HERE / "failing.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), source, "-ldl"], check=True)
    done = subprocess.run(
        [sys.executable, __file__, action, str(folder), str(every)],
        env={**os.environ, "LD_PRELOAD": str(library), "PYTHONPATH": str(HERE)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [Trial(**json.loads(line)) for line in done.stdout.splitlines()]


def main(action: str, folder: Path, every: int) -> None:
    """Print a trial a line."""
    module, _, function = action.partition(":")
    act = getattr(importlib.import_module(module), function)

    def run(place: Path, **settings: str) -> tuple[int, str]:
        log = folder / "log"
        child = os.fork()
        if not child:
            handle = os.open(log, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
            os.dup2(handle, 1)
            os.dup2(handle, 2)
            os.environ.update(settings)
            code = 0
            try:
                act(place)
            except Exception as error:
                traceback.print_exc()
                code = 2 if type(error).__module__ == "octavo.errors" else 1
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return code, log.read_text(encoding="utf-8", errors="replace")

    act(folder / "first")  # what is imported late is then there in every process
    count = folder / "count"
    code, said = run(folder / "whole", FAIL_BELOW=str(folder / "whole"), FAIL_COUNT=str(count))
    assert code == 0, said
    for call in range(1, count.stat().st_size + 1, every):
        for way, settings in WAYS.items():
            place = folder / f"{call}-{way}"
            code, first = run(place, FAIL_BELOW=str(place), FAIL_AT=str(call), **settings)
            again, second = run(place)
            row = {"call": call, "way": way, "code": code, "again": again, "said": first + second}
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
