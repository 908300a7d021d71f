"""A system that lacks what Windows lacks, from a checkout whose lines end as Windows' do, under a code page: the same
bits as here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import octavo as package
from e2e.forked import Octavo

PAGE = "cp1252"
TEXT = "The cat sat on the mät. A dog saw it and ran away.\n" * 150
SMALL = ("model.layers=2", "model.width=32", "model.context=32")
SYSTEM = """
import os, shutil, signal, subprocess, sys, tempfile, types, warnings
import fcntl
import matplotlib, numpy, safetensors.torch, tokenizers, torch  # which know that this is Linux

def locking(handle, mode, count):
    assert mode == 2 and count == 1
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)

sys.modules["msvcrt"] = types.SimpleNamespace(LK_NBLCK=2, locking=locking)
for name in ("fcntl", "resource", "termios", "tty", "pty", "pwd", "grp", "readline", "syslog"):
    sys.modules[name] = None
for name in ("SIGHUP", "SIGKILL", "SIGALRM", "SIGUSR1", "SIGPIPE", "alarm", "setitimer", "pthread_sigmask"):
    delattr(signal, name)
for name in (
    "fork", "killpg", "getuid", "geteuid", "memfd_create", "sched_getaffinity", "sched_setaffinity", "sysconf",
    "getloadavg", "statvfs", "uname", "mkfifo", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "posix_fadvise",
):
    delattr(os, name)
os.supports_dir_fd.clear()
shutil._use_fd_functions = False

from octavo.cli import main

warnings.filterwarnings("error", category=EncodingWarning, module="octavo")
for words in " ".join(sys.argv[1:]).split(" then "):
    try:
        main(words.split())
    except SystemExit as end:
        if end.code:
            raise
"""


def with_carriage_returns(folder: Path) -> Path:
    """A copy of the package whose texts have them."""
    shutil.copytree(
        Path(package.__file__).parent, folder / "octavo", ignore=shutil.ignore_patterns("__pycache__")
    )
    for path in (folder / "octavo").rglob("*"):
        if path.is_file() and b"\0" not in (content := path.read_bytes()):
            path.write_bytes(content.replace(b"\n", b"\r\n"))
    return folder


def words(text: Path, run: Path) -> list[list[str]]:
    """What is asked of both."""
    train = ["train", "quick", "--text", str(text), "--out", str(run), "--quiet"]
    return [
        [*train, "training.steps=4", "training.precision=float32", *SMALL],  # which is not timed
        ["generate", str(run), "--tokens", "12", "--seed", "1"],
    ]


def weights(run: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in run.glob("checkpoints/*/model.safetensors")}


def test_the_same_bits_elsewhere(octavo: Octavo, tmp_path: Path) -> None:
    (tmp_path / "here.txt").write_text(TEXT, encoding="utf-8")
    (tmp_path / "Täxt.txt").write_text(TEXT, encoding="utf-8", newline="\r\n")
    for one in words(tmp_path / "here.txt", tmp_path / "here"):
        here = octavo(*one, patch="by_torch")
        assert here.code == 0, here.err
    asked = " then ".join(" ".join(one) for one in words(tmp_path / "Täxt.txt", tmp_path / "Läufe"))
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(with_carriage_returns(tmp_path / "checkout")),
        "PYTHONIOENCODING": PAGE,
        "PYTHONWARNDEFAULTENCODING": "1",  # what is opened without an encoding would be read as the code page
        "OMP_NUM_THREADS": "1",
        "OCTAVO_NATIVE": "0",
        "OCTAVO_CACHE": str(tmp_path / "cache"),
    }
    there = subprocess.run(
        [sys.executable, "-c", SYSTEM, *asked.split()], env=environment, capture_output=True, check=False
    )
    assert there.returncode == 0, there.stderr.decode(PAGE, "replace")
    said = there.stdout.decode(PAGE).partition("index.html\n")[2]
    assert said == here.out.encode(PAGE, "backslashreplace").decode(PAGE) != ""
    found = weights(tmp_path / "Läufe")
    assert found and found == weights(tmp_path / "here")
