"""What compressors need for a text once they have read another: the size of both together less that of the first."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

TAG = bytes.fromhex("376b5374a03183d38cb228b0d3") + b"zPQ"
"""Before each block of a ZPAQ archive."""
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


def bits_per_byte(learned: bytes, judged: bytes, packed: Packed) -> float | None:
    """Of the text that is judged; None where `zpaq` took another model for both together than for the first: it chooses
    one by the size and by what stands in a file, and the difference would say nothing. Raises CalledProcessError."""
    archives = []
    with tempfile.TemporaryDirectory(prefix="octavo-packed-") as folder:
        for name, content in (("learned", learned), ("both", learned + judged)):
            file, archive = Path(folder, name), Path(folder, f"{name}.packed.zpaq")
            file.write_bytes(content)
            subprocess.run(packed(file, archive), check=True, capture_output=True, cwd=folder)
            archives.append(archive.read_bytes())
    first, both = archives
    return 8 * (len(both) - len(first)) / len(judged) if models(first) == models(both) else None


def models(archive: bytes) -> list[bytes]:
    """Of each block of a ZPAQ archive, the model that it was packed by; none of others.

    A block begins with its tag, two bytes of a version and the length of what describes its model (ZPAQ specification,
    level 2).
    """
    found = []
    for block in archive.split(TAG)[1:]:
        found.append(block[4 : 4 + int.from_bytes(block[2:4], "little")])
    return found
