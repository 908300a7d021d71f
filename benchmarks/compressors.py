"""What compressors need for a text once they have read another: the size of both together less that of the first."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

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


def bits_per_byte(learned: bytes, judged: bytes, packed: Packed) -> float:
    """Of the text that is judged. Raises CalledProcessError."""
    sizes = []
    with tempfile.TemporaryDirectory(prefix="octavo-packed-") as folder:
        for name, content in (("learned", learned), ("both", learned + judged)):
            file, archive = Path(folder, name), Path(folder, f"{name}.packed.zpaq")
            file.write_bytes(content)
            subprocess.run(packed(file, archive), check=True, capture_output=True, cwd=folder)
            sizes.append(archive.stat().st_size)
    return 8 * (sizes[1] - sizes[0]) / len(judged)


def doubles(learned: bytes, judged: bytes) -> bool:
    """Whether a power of two lies between both sizes: tables of `zpaq` grow by these, and the difference is of another
    compressor."""
    return len(learned).bit_length() != (len(learned) + len(judged)).bit_length()
