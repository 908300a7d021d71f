"""What compressors need for a text once they have read another: the size of both together less that of the first."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

TAG = bytes.fromhex("376b5374a03183d38cb228b0d3") + b"zPQ"
"""Before each block of a ZPAQ archive."""
NAME = "content"
"""Of the file that is packed."""
Packed = Callable[[Path, Path], Sequence[str]]
"""The command that packs a file as another."""


def zpaq() -> Packed | None:
    """`zpaq -m5` on one core (`apt-get install zpaq`), where it is installed."""
    if shutil.which("zpaq") is None:
        return None
    return lambda file, packed: ["zpaq", "add", str(packed), str(file), "-m5", "-t1"]


def paq8px(program: Path | None) -> Packed | None:
    """`paq8px -8`, where it was built."""
    return None if program is None else lambda file, packed: [str(program), "-8", str(file), str(packed)]


def archive(content: bytes, packed: Packed) -> bytes:
    """A compressor's file of some content. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory(prefix="octavo-packed-") as folder:
        file, out = Path(folder, NAME), Path(folder, "packed.zpaq")
        file.write_bytes(content)
        subprocess.run(packed(file, out), check=True, capture_output=True, cwd=folder)
        return out.read_bytes()


def from_zpaq(packed: bytes) -> bytes:
    """The content of an `archive` of `zpaq`. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory(prefix="octavo-unpacked-") as folder:
        file, out = Path(folder, "packed.zpaq"), Path(folder, "out")
        file.write_bytes(packed)
        command = ["zpaq", "extract", str(file), "-only", f"*/{NAME}", "-to", str(out)]
        subprocess.run(command, check=True, capture_output=True, cwd=folder)
        return next(path for path in out.rglob(NAME) if path.is_file()).read_bytes()


def archives(learned: bytes, judged: bytes, packed: Packed) -> tuple[bytes, bytes] | None:
    """Of what is learned from, and of that with what is judged; None where `zpaq` took another model for both together
    than for the first: it chooses one by the size and by what stands in a file, and the difference would say nothing.
    Raises CalledProcessError."""
    first, both = archive(learned, packed), archive(learned + judged, packed)
    return (first, both) if models(first) == models(both) else None


def bits_per_byte(learned: bytes, judged: bytes, packed: Packed) -> float | None:
    """Of the text that is judged; see `archives`."""
    if (found := archives(learned, judged, packed)) is None:
        return None
    first, both = found
    return 8 * (len(both) - len(first)) / len(judged)


def models(archive: bytes) -> list[bytes]:
    """Of each block of a ZPAQ archive, the model that it was packed by; none of others.

    A block begins with its tag, two bytes of a version and the length of what describes its model (ZPAQ specification,
    level 2).
    """
    found = []
    for block in archive.split(TAG)[1:]:
        found.append(block[4 : 4 + int.from_bytes(block[2:4], "little")])
    return found
