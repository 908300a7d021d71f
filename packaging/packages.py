"""The source distribution and the wheels of all platforms, checked; `make dist` runs this.

    python packaging/packages.py [--twice] [--changed] [--platform NAME …] [--out dist]

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


def unchanged() -> None:
    """Raises SystemExit where files have changed since the commit."""
    if changed := command("git", "status", "--porcelain"):
        raise SystemExit(f"These files are in no commit, so no package is built of them:\n{changed}")


def build(out: Path, platforms: list[str], site: Path | None = None) -> dict[str, str]:
    """Build all packages into an empty folder; of each its SHA-256. `site`: goes into the source distribution."""
    shutil.rmtree(out, ignore_errors=True)
    own = {"SOURCE_DATE_EPOCH": commit_time()}
    hatchling = (sys.executable, "-m", "hatchling", "build", "-d", str(out))
    command(*hatchling, "-t", "sdist", **own, **({"OCTAVO_SITE": str(site)} if site else {}))
    for platform in platforms:
        command(*hatchling, "-t", "wheel", OCTAVO_PLATFORM=platform, **own)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(out.iterdir())}


def commit_time() -> str:
    """Seconds since 1970: what is built bears this time, whenever that is done."""
    return command("git", "log", "-1", "--format=%ct")


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


def differing(first: dict[str, str], second: dict[str, str]) -> list[str]:
    """What is not the same bytes in two builds."""
    return sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))


def packed(out: Path, platforms: list[str], *, twice: bool, site: Path | None = None) -> None:
    """Build, check, say what there is. Raises SystemExit where something is wrong."""
    hashes = build(out, platforms, site)
    if twice:
        beside = out.with_name(f"{out.name}-again")
        again = build(beside, platforms, site)
        shutil.rmtree(beside)
        if found := differing(hashes, again):
            raise SystemExit(f"These packages are other bytes when they are built again: {', '.join(found)}")
    if wrong := complaints(out):
        raise SystemExit("\n".join(wrong))
    print(command(sys.executable, "-m", "twine", "check", "--strict", *map(str, sorted(out.iterdir()))))
    lines = [f"{digest}  {name}\n" for name, digest in hashes.items()]
    (out / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")
    for name in hashes:
        print(f"{(out / name).stat().st_size:>10,} bytes  {name}")


def main() -> None:
    """What `make dist` does."""
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
    if not options.changed:
        unchanged()
    packed(options.out.resolve(), options.platform, twice=options.twice)


if __name__ == "__main__":
    main()
