"""From nothing to the demo's first result: seconds and megabytes, from a wheel and from a clone.

    make dist
    python benchmarks/install.py --wheels dist [--torch FOLDER] [--ways wheel uvx …] [--whole]

Each way begins with empty caches. `--torch` is a folder with a wheel of torch for processors, for where torch's own
index is not reached. The first result is the first loss that the demo says; with --whole it is also let run to its end.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import finish, load, print_table

ROOT = Path(__file__).parents[1]
PYTHON = str(Path(getattr(sys, "_base_executable", sys.executable)).resolve())


@dataclass(frozen=True)
class Place:
    """An empty folder, the options that say where packages lie, and uv."""

    folder: Path
    wheels: Path
    torch: Path | None
    uvx: str | None

    def environment(self, *path: str | Path) -> dict[str, str]:
        """Caches of its own. `path`: what stands in PATH; everything that is there now if it is empty."""
        own = {
            name: str(self.folder / name.lower()) for name in ("UV_CACHE_DIR", "UV_TOOL_DIR", "OCTAVO_CACHE")
        }
        own |= {
            "PIP_CACHE_DIR": str(self.folder / "pip_cache"),
            "PIP_REPORT": str(self.folder / "report.json"),
        }
        return {**os.environ, **own, **({"PATH": os.pathsep.join(map(str, path))} if path else {})}

    @property
    def links(self) -> list[str]:
        """Options of pip and uv."""
        return [word for each in (self.wheels, self.torch) if each for word in ("--find-links", str(each))]


def seconds(command: list[str], environment: dict[str, str], folder: Path) -> float:
    """Of a command that has to succeed; its words go to standard error."""
    begin = time.perf_counter()
    subprocess.run(command, env=environment, cwd=folder, stdout=sys.stderr, check=True)
    return time.perf_counter() - begin


def demo(
    command: list[str], environment: dict[str, str], folder: Path, whole: bool
) -> dict[str, float | None]:
    """Seconds from a command's start to the demo's first loss, and to its end."""
    begin = time.perf_counter()
    with subprocess.Popen(
        command,
        env=environment,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        assert process.stderr is not None
        first = None
        for line in process.stderr:
            print(line, end="", file=sys.stderr)
            if first is None and line.startswith("step 1/"):
                first = time.perf_counter() - begin
                if not whole:
                    process.terminate()
    if first is None or (whole and process.returncode):
        raise SystemExit(f"the demo failed: {' '.join(command)}")
    return {"first": first, "end": time.perf_counter() - begin if whole else None}


def by_pip(place: Place, whole: bool, compiler: bool) -> dict[str, Any]:
    """`pip install` of the wheel into a new environment."""
    home, runs = place.folder / "home", place.folder
    program = home / ("Scripts" if os.name == "nt" else "bin")
    own = place.environment(*([] if compiler else [program]))
    begin = seconds([PYTHON, "-m", "venv", str(home)], own, runs)
    pip = [str(program / "python"), "-m", "pip", "install", "--quiet", *place.links]
    begin += seconds([*pip, "-c", str(ROOT / "constraints.txt"), "octavo"], own, runs)
    return {"install": begin, **demo([str(program / "octavo"), "demo"], own, runs, whole)}


def by_uvx(place: Place, whole: bool, compiler: bool) -> dict[str, Any]:
    """The one line: it installs and runs."""
    if place.uvx is None:
        raise SystemExit("There is no uvx here: pip install uv")
    torch = ["--torch-backend", "cpu"]
    if place.torch:
        found = next(
            re.search(r"torch-([\d.]+)\+cpu", path.name) for path in place.torch.glob("torch-*+cpu-*")
        )
        torch = ["--with", f"torch=={found[1]}+cpu"] if found else []
    tools = place.folder / "tools"
    tools.mkdir()
    for name in ("dirname", "realpath"):  # for the line that uv has in front of a program
        if found_there := shutil.which(name):
            (tools / name).symlink_to(found_there)
    own = place.environment(*([] if compiler else [tools]))
    command = [place.uvx, "--python", PYTHON, *torch, *place.links, "octavo", "demo"]
    return {"install": None, **demo(command, own, place.folder, whole)}


def by_clone(place: Place, whole: bool, compiler: bool) -> dict[str, Any]:
    """A clone and `make demo`, which compiles the kernels."""
    own = place.environment()
    begin = seconds(["git", "clone", "--quiet", str(ROOT), "clone"], own, place.folder)
    clone = place.folder / "clone"
    begin += seconds(["make", f"PYTHON={PYTHON}", ".venv/installed"], own, clone)
    return {"install": begin, **demo(["make", "demo"], own, clone, whole)}


WAYS = {
    "wheel": ("`pip install`, no compiler", by_pip, False),
    "compiler": ("`pip install`, with a compiler", by_pip, True),
    "uvx": ("`uvx … octavo demo`, no compiler", by_uvx, False),
    "clone": ("clone, `make demo`", by_clone, True),
}


def megabytes(folder: Path) -> float:
    """What the files of a folder take, each once."""
    found = {file.stat().st_ino: file.stat().st_size for file in folder.rglob("*") if file.is_file()}
    return sum(found.values()) / 1e6


def fetched(place: Place) -> float | None:
    """Megabytes that pip had to have: what it downloaded, and wheels of local folders. None without pip."""
    report = place.folder / "report.json"
    if not report.is_file():
        return None
    urls = [each["download_info"]["url"] for each in json.loads(report.read_text("utf-8"))["install"]]
    local = [
        Path(url.removeprefix("file://").replace("%2B", "+")) for url in urls if url.startswith("file://")
    ]
    return (
        megabytes(place.folder / "pip_cache")
        + sum(path.stat().st_size for path in local if path.is_file()) / 1e6
    )


def kernels_of(folder: Path) -> str:
    """What computed beside torch in the run below a folder."""
    (manifest,) = folder.rglob("runs/pidgin-demo/manifest.json")
    return str(json.loads(manifest.read_text("utf-8"))["kernels"]["name"])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--wheels", type=Path, default=ROOT / "dist")
    parser.add_argument("--torch", type=Path)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--uvx", default=shutil.which("uvx"))
    parser.add_argument("--whole", action="store_true", help="let the demo run to its end")
    options = parser.parse_args()
    before, rows = load(), []
    for way in options.ways:
        name, measure, compiler = WAYS[way]
        with tempfile.TemporaryDirectory(prefix="octavo-install-", ignore_cleanup_errors=True) as folder:
            place = Place(Path(folder), options.wheels.absolute(), options.torch, options.uvx)
            took = measure(place, options.whole, compiler)
            first = (took["install"] or 0.0) + took["first"]
            end = None if took["end"] is None else (took["install"] or 0.0) + took["end"]
            rows.append(
                {
                    "way": name,
                    "kernels": kernels_of(place.folder),
                    "s until installed": took["install"],
                    "s to the first loss": first,
                    "s to the demo's end": end,
                    "MB fetched": fetched(place),
                    "MB on disk": megabytes(place.folder),
                }
            )
    print_table(
        [{key: round(v, 1) if isinstance(v, float) else v or "" for key, v in row.items()} for row in rows]
    )
    finish({"ways": rows, "load_before": before})


if __name__ == "__main__":
    main()
