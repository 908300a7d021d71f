"""Compile products.c to WebAssembly and write it into src/kernel.ts, or with --check compare. Needs ziglang (PyPI).

python web/kernel/build.py [--check]
"""

from __future__ import annotations

import base64
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
TARGET = HERE.parent / "src" / "kernel.ts"
FLAGS = "-target wasm32-freestanding -O3 -msimd128 -nostdlib -g0 -fno-sanitize=all -Wl,--no-entry -Wl,--import-memory"
LINK = "-Wl,--strip-all -Wl,-z,stack-size=8192 -Wl,--initial-memory=65536"


def compiled() -> bytes:
    """The module; the same bytes from the same compiler, wherever it runs."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "products.c").write_bytes((HERE / "products.c").read_bytes())
        command = [
            sys.executable,
            "-m",
            "ziglang",
            "cc",
            *FLAGS.split(),
            *LINK.split(),
            "-o",
            "a.wasm",
            "products.c",
        ]
        subprocess.run(command, cwd=folder, check=True)
        return (Path(folder) / "a.wasm").read_bytes()


def source() -> str:
    """What src/kernel.ts is to hold."""
    text = base64.b64encode(compiled()).decode()
    return f'// Made of kernel/products.c by kernel/build.py.\nexport const KERNEL =\n  "{text}";\n'


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(TARGET.read_text(encoding="utf-8") != source())
    TARGET.write_text(source(), encoding="utf-8")
