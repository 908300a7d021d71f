"""A wheel of `make dist`, installed where nothing helps: no compiler, no home, another user, a read-only package.

The wheel is that of this platform in dist/, or in the folder that OCTAVO_WHEELS names.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import site
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WHEELS = Path(os.environ.get("OCTAVO_WHEELS", ROOT / "dist"))
OTHERS = 65534
"""A user that owns nothing."""

pytestmark = pytest.mark.slow


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that others may enter; pytest closes its own whenever it starts."""
    with tempfile.TemporaryDirectory(prefix="octavo-wheel-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def place() -> Iterator[Path]:
    with open_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def octavo() -> Iterator[Path]:
    """The command of an environment that has the wheel, and torch and all else from the one that runs the tests."""
    found = sorted(WHEELS.glob(f"octavo-*-manylinux*_{platform.machine()}.whl"))
    if sys.platform != "linux" or not found:
        pytest.skip(f"there is no wheel for this platform in {WHEELS} (make dist)")
    with open_folder() as folder:
        yield installed(found[-1], folder)


def installed(wheel: Path, folder: Path) -> Path:
    home = folder / "Übung mit Leerzeichen"
    venv.create(home, with_pip=False)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(home / "bin" / "python"),
        "install",
        "--no-deps",
        "--no-index",
    ]
    subprocess.run([*pip, "--quiet", str(wheel)], check=True)
    (own,) = (home / "lib").glob("python*/site-packages")
    others = [path for path in (*site.getsitepackages(), *sys.path) if path.endswith("site-packages")]
    (own / "others.pth").write_text("\n".join(dict.fromkeys(others)) + "\n")
    for path in own.rglob("*"):
        path.chmod(path.stat().st_mode & ~0o222)
    return home / "bin" / "octavo"


def run(
    octavo: Path, *words: str, folder: Path, path: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """The command as another user, who has no home and whose PATH holds nothing but Python."""
    folder.chmod(0o777)
    as_another = {"user": OTHERS, "group": OTHERS, "extra_groups": []} if os.geteuid() == 0 else {}
    return subprocess.run(
        [str(octavo), *words],
        env={"PATH": path or str(octavo.parent), "OMP_NUM_THREADS": "2", **variables},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        **as_another,
    )


@pytest.fixture(scope="module")
def cache(octavo: Path) -> str:
    """A folder that the other user may have a cache in: what one test has tried, the others know."""
    folder = octavo.parents[2] / "cache of another"
    folder.mkdir()
    if os.geteuid() == 0:
        os.chown(folder, OTHERS, OTHERS)
    return str(folder)


def test_it_trains_with_the_kernels_that_it_brings(octavo: Path, place: Path, cache: str) -> None:
    (place / "Täxt.txt").write_text("The cat sat on the mat. A dog saw it and ran. " * 200, encoding="utf-8")
    words = (
        "train",
        "quick",
        "--text",
        "Täxt.txt",
        "--out",
        "Läufe/erster Lauf",
        "--quiet",
        "training.steps=4",
    )
    done = run(octavo, *words, folder=place, OCTAVO_CACHE=cache)
    assert done.returncode == 0, done.stderr
    kernels = json.loads((place / "Läufe" / "erster Lauf" / "manifest.json").read_text("utf-8"))["kernels"]
    assert kernels["name"] != "compiled here" and "proved itself here" in kernels["why"]
    written = run(octavo, "generate", "Läufe/erster Lauf", "--tokens", "20", folder=place, OCTAVO_CACHE=cache)
    assert written.returncode == 0 and written.stdout.strip(), written.stderr


def test_the_demo_without_a_home_in_a_language_without_umlauts(octavo: Path, place: Path) -> None:
    """What a container with any number for a user is: the cache is among the temporary files, for him alone."""
    words = (
        "demo",
        "--out",
        "Läufe mit Leerzeichen/erster",
        "--quiet",
        "training.steps=3",
        "corpus.stories=300",
    )
    (place / "home of root").mkdir(mode=0o700)  # as `su` without `-` leaves it
    done = run(octavo, *words, folder=place, LC_ALL="C", TMPDIR=str(place), HOME=str(place / "home of root"))
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert done.stdout.startswith("report: ") and "index.html" in done.stdout
    assert (place / "Läufe mit Leerzeichen" / "erster" / "report" / "index.html").is_file()
    if os.geteuid() == 0:
        (kept,) = place.glob(f"octavo-{OTHERS}")
        assert kept.stat().st_mode & 0o777 == 0o700 and list(kept.glob("native/proof-*"))


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can be another user")
def test_a_cache_of_somebody_else(octavo: Path, place: Path) -> None:
    """Kernels are tried all the same; where texts would be kept, a sentence says what helps."""
    of_root = place / "cache of root"
    of_root.mkdir(mode=0o755)
    done = run(octavo, "demo", "--quiet", "training.steps=3", folder=place, OCTAVO_CACHE=str(of_root))
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "cannot be written into" in done.stderr and "OCTAVO_CACHE" in done.stderr
    told = run(octavo, "--version", folder=place, OCTAVO_CACHE=str(of_root))
    assert told.returncode == 0 and "so every process tries them anew" in told.stderr
    assert not list(of_root.iterdir())


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler here")
def test_it_compiles_where_that_is_asked_for(octavo: Path, place: Path, cache: str) -> None:
    told = run(
        octavo,
        "--version",
        folder=place,
        path=f"{octavo.parent}{os.pathsep}{os.environ['PATH']}",
        OCTAVO_CACHE=cache,
        OCTAVO_COMPILE="1",
    )
    assert told.returncode == 0 and "kernels: compiled here" in told.stdout, told.stderr


@pytest.mark.parametrize("value", ["none", "x86-64-v2"])
def test_it_takes_what_is_asked_for(octavo: Path, place: Path, cache: str, value: str) -> None:
    if value != "none" and platform.machine() != "x86_64":
        pytest.skip("another processor")
    told = run(octavo, "--version", folder=place, OCTAVO_CACHE=cache, OCTAVO_KERNEL=value)
    assert told.returncode == 0 and f"kernels: {value})" in told.stdout and "commit" in told.stdout


def test_every_variant_proves_itself_or_is_not_for_this_processor(
    octavo: Path, place: Path, cache: str
) -> None:
    """The one that is best here is not the only one that somebody uses."""
    (package,) = (octavo.parents[1] / "lib").glob("python*/site-packages/octavo/_kernels")
    names = list(json.loads((package / "built.json").read_text("utf-8"))["variants"])
    said = {
        name: run(octavo, "--version", folder=place, OCTAVO_CACHE=cache, OCTAVO_KERNEL=name) for name in names
    }
    proven = [name for name, told in said.items() if f"kernels: {name})" in told.stdout]
    assert proven and not [told.stderr for told in said.values() if "kernels for" in told.stderr]


HASHES = """
import hashlib
from octavo.generation.proof import answers
from octavo.util.kernels import in_use
print(in_use().name)
for name, answer in answers():
    if "bfloat16" not in name: print(name, hashlib.sha256(answer.tobytes()).hexdigest())
"""


def test_variants_give_the_same_bits(octavo: Path, place: Path, cache: str) -> None:
    """Those that have fused multiply-adds; bfloat16 has instructions of its own, which round in their own way."""
    python, found = octavo.parent / "python", {}
    for name in ("x86-64-v3", "x86-64-v4", "x86-64-v4-bf16"):
        told = run(python, "-c", HASHES, folder=place, OCTAVO_CACHE=cache, OCTAVO_KERNEL=name)
        assert told.returncode == 0, told.stderr
        taken, *hashes = told.stdout.splitlines()
        if taken == name:
            found[name] = tuple(hashes)
    if len(found) < 2:
        pytest.skip("this processor knows fewer than two of them")
    assert len(set(found.values())) == 1 and len(found["x86-64-v3"]) > 15
