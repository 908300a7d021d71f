"""Kernels for every system that has a wheel, cross-compiled by Zig's C compiler (`pip install ziglang`).

    python packaging/kernels.py FOLDER [--platform manylinux_2_28_x86_64]

A library for each level of processor, and `built.json`, which says what was built of what. The same sources give the
same bytes, wherever that is done.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src"


@dataclass(frozen=True)
class Level:
    """A variant: instructions that it may have (Zig's -mcpu), and its LEVEL in levels.c."""

    name: str
    processor: str
    level: int


@dataclass(frozen=True)
class Platform:
    """A wheel's platform: Zig's target, and what a library's name ends with."""

    target: str
    ending: str
    levels: tuple[Level, ...]
    baseline: str


X86_64 = (
    Level("x86-64-v2", "x86_64_v2", 2),
    Level("x86-64-v3", "x86_64_v3", 3),
    Level("x86-64-v4", "x86_64_v4", 4),
    Level("x86-64-v4-bf16", "x86_64_v4+avx512bf16+avx512vnni", 5),
)
AMX = (
    Level("x86-64-v4-amx", "x86_64_v4+avx512bf16+avx512vnni+amx_tile+amx_bf16", 6),
)  # only Linux gives it to a process
ARM64 = (Level("arm64", "generic", 1),)
APPLE = (Level("arm64", "apple_m1", 1),)

PLATFORMS = {
    "manylinux_2_28_x86_64": Platform("x86_64-linux-gnu.2.28", "so", X86_64 + AMX, "x86_64"),
    "manylinux_2_28_aarch64": Platform("aarch64-linux-gnu.2.28", "so", ARM64, "generic"),
    "musllinux_1_2_x86_64": Platform("x86_64-linux-musl", "so", X86_64 + AMX, "x86_64"),
    "musllinux_1_2_aarch64": Platform("aarch64-linux-musl", "so", ARM64, "generic"),
    # macOS gives a process the registers of AVX-512 when it first uses them, so nothing says that they are there.
    "macosx_11_0_x86_64": Platform("x86_64-macos.11.0", "dylib", X86_64[:2], "x86_64"),
    "macosx_11_0_arm64": Platform("aarch64-macos.11.0", "dylib", APPLE, "apple_m1"),
    "win_amd64": Platform("x86_64-windows-gnu", "dll", X86_64, "x86_64"),
    "win_arm64": Platform("aarch64-windows-gnu", "dll", ARM64, "generic"),
}
OPTIONS = ("-O3", "-g0", "-fPIC", "-fno-math-errno", "-fno-trapping-math", "-fno-sanitize=undefined")
OPTIONS += ("-ffp-contract=on", "-mprefer-vector-width=512")


def build(platform: str, folder: Path) -> dict[str, dict[str, str]]:
    """Compile all variants of a platform into a folder: of each its file and SHA-256."""
    folder.mkdir(parents=True, exist_ok=True)
    own = PLATFORMS[platform]
    built = {}
    for level in own.levels:
        file = folder / f"{level.name}.{own.ending}"
        compile_library(own, level, file)
        built[level.name] = {"file": file.name, "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}
    return built


def compile_library(own: Platform, level: Level, to: Path) -> None:
    """One variant. `levels.c` is compiled for every processor of its kind."""
    zig = [sys.executable, "-m", "ziglang", "cc", "-target", own.target, *OPTIONS]
    if not own.target.startswith("x86_64"):
        zig.remove("-mprefer-vector-width=512")
    files = sorted(path.relative_to(SOURCES) for path in (SOURCES / "octavo").rglob("*.c"))
    with tempfile.TemporaryDirectory() as scratch:
        objects = [str(Path(scratch) / f"{path.stem}.o") for path in files]
        commands = []
        for path, compiled in zip(files, objects, strict=True):
            processor = own.baseline if path.stem == "levels" else level.processor
            options = [f"-mcpu={processor}", f"-DLEVEL={level.level}", "-c", "-o", compiled]
            commands.append([*zig, *options, path.as_posix()])
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(run, commands))
        # What the compiler adds of its own runs when a library is loaded, before anything could ask for its score.
        link = [*zig, f"-mcpu={own.baseline}", "-shared", "-s", "-o", to.name]
        link += [Path(compiled).name for compiled in objects]
        run(link if "windows" in own.target else [*link, "-lm"], Path(scratch))
        to.write_bytes((Path(scratch) / to.name).read_bytes())


def run(command: list[str], folder: Path = SOURCES) -> None:
    """Run the compiler in a folder, so that no path of this machine is in what it makes. Raises SystemExit."""
    done = subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")


def commit() -> str | None:
    """The commit that is checked out, with `+` where files have changed; that of a source distribution outside one."""
    kept = SOURCES / "octavo" / "_kernels" / "built.json"
    git = ["git", "-C", str(ROOT)]
    try:
        head = subprocess.run(
            [*git, "rev-parse", "HEAD"], capture_output=True, encoding="utf-8", check=True
        ).stdout.strip()
        changed = subprocess.run(
            [*git, "status", "--porcelain", "-uno"], capture_output=True, encoding="utf-8", check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return json.loads(kept.read_text(encoding="utf-8"))["commit"] if kept.is_file() else None
    return head + ("+" if changed.stdout.strip() else "")


def write_facts(folder: Path, variants: dict[str, dict[str, str]]) -> Path:
    """Write `built.json`."""
    compiler = f"ziglang {version('ziglang')}" if variants else None
    path = folder / "built.json"
    facts = {"commit": commit(), "compiler": compiler, "variants": variants}
    path.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8", newline="\n")
    return path


def main() -> None:
    """Build for one platform, or for all, each in a folder of its name."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--platform", choices=PLATFORMS)
    options = parser.parse_args()
    for name in [options.platform] if options.platform else PLATFORMS:
        folder = options.folder / name
        variants = build(name, folder)
        write_facts(folder, variants)
        for variant, facts in variants.items():
            size = (folder / facts["file"]).stat().st_size
            print(f"{name:<24} {variant:<16} {size:>8,} bytes  {facts['sha256'][:16]}")


if __name__ == "__main__":
    main()
