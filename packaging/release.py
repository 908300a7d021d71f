"""The source distribution and the wheels of all platforms, checked; `make dist` runs this.

    python packaging/release.py [--twice] [--changed] [--platform NAME …] [--out dist]

Packages are of a commit: with files that have changed nothing is built, unless --changed says that it is a trial.
--twice builds everything again and compares the bytes. What is there in the end: packages, and SHA256SUMS.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import kernels

ROOT = Path(__file__).resolve().parents[1]
LARGEST = 6 * 2**20
"""Bytes of a wheel."""
NEEDED = ("octavo/py.typed", "octavo/explain/assets/explain.js", "octavo/_kernels/built.json")


def command(*words: str, **variables: str) -> str:
    """Run a program and give what it says. Raises SystemExit with its complaint."""
    done = subprocess.run(
        words, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, encoding="utf-8", check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def build(out: Path, platforms: list[str]) -> dict[str, str]:
    """Build all packages into an empty folder; of each its SHA-256."""
    shutil.rmtree(out, ignore_errors=True)
    own = {"SOURCE_DATE_EPOCH": command("git", "log", "-1", "--format=%ct")}
    hatchling = (sys.executable, "-m", "hatchling", "build", "-d", str(out))
    command(*hatchling, "-t", "sdist", **own)
    for platform in platforms:
        command(*hatchling, "-t", "wheel", OCTAVO_PLATFORM=platform, **own)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(out.iterdir())}


def complaints(out: Path) -> list[str]:
    """What is wrong with the packages."""
    sizes = {path.name: path.stat().st_size for path in out.glob("*.whl")}
    found = [f"{name} has {size:,} bytes" for name, size in sizes.items() if size > LARGEST]
    for wheel in sorted(out.glob("*.whl")):
        platform = wheel.stem.split("-")[-1]
        own = kernels.PLATFORMS[platform]
        expected = {f"octavo/_kernels/{level.name}.{own.ending}" for level in own.levels}
        with zipfile.ZipFile(wheel) as archive:
            names = set(archive.namelist())
        info = next(name.split("/")[0] for name in names if ".dist-info/" in name)
        expected |= {
            f"{info}/licenses/LICENSE",
            f"{info}/licenses/THIRD_PARTY.md",
            f"{info}/sboms/octavo.cdx.json",
        }
        missing = {*NEEDED, *expected} - names
        found += [f"{wheel.name} lacks {name}" for name in sorted(missing)]
        found += [
            f"{wheel.name} has {name}"
            for name in sorted(names)
            if "__pycache__" in name
            or (name.startswith("octavo/_kernels/") and name not in {*NEEDED, *expected})
        ]
    return found


def main() -> None:
    """Build, check, say."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--twice", action="store_true", help="build again, and compare the bytes")
    parser.add_argument(
        "--changed", action="store_true", help="a trial: files may have changed since the commit"
    )
    parser.add_argument("--platform", nargs="+", choices=kernels.PLATFORMS, default=list(kernels.PLATFORMS))
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    options = parser.parse_args()
    out = options.out.resolve()
    if not options.changed and (changed := command("git", "status", "--porcelain")):
        raise SystemExit(f"These files are in no commit, so no package is built of them:\n{changed}")
    hashes = build(out, options.platform)
    if options.twice:
        again = build(out.with_name(f"{out.name}-again"), options.platform)
        shutil.rmtree(out.with_name(f"{out.name}-again"))
        if differing := [name for name in hashes if again.get(name) != hashes[name]]:
            raise SystemExit(
                f"These packages are other bytes when they are built again: {', '.join(differing)}"
            )
    if wrong := complaints(out):
        raise SystemExit("\n".join(wrong))
    print(command(sys.executable, "-m", "twine", "check", "--strict", *map(str, sorted(out.iterdir()))))
    lines = [f"{digest}  {name}\n" for name, digest in hashes.items()]
    (out / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")
    for name in hashes:
        print(f"{(out / name).stat().st_size:>10,} bytes  {name}")


if __name__ == "__main__":
    main()
