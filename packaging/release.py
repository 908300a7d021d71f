"""Everything that has to hold before a version is published; `make release` runs this, and publishes nothing.

    python packaging/release.py [--out dist]

In turn: nothing has changed since the commit; version, changelog, citation and tag agree; the documentation builds
without a warning; all packages are built, twice, to the same bytes, and are whole; the wheel of this system, installed
with its dependencies where there is no compiler, looks at the machine and runs the demo. Then the commands that publish
are printed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import kernels
from packages import ROOT, command, commit_time, packed, unchanged

UNRELEASED = "Unreleased"


def version() -> str:
    """What the sources say."""
    return first(r'^__version__ = "(.+)"$', "src/octavo/__init__.py")


def first(pattern: str, file: str) -> str:
    """What a file says in the one line that the pattern fits."""
    found = re.search(pattern, (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise SystemExit(f"{file} names no version.")
    return found[1]


def sections() -> dict[str, str]:
    """The changelog's text by version, the newest first."""
    parts = re.split(r"^## \[(.+?)\].*$", (ROOT / "CHANGELOG.md").read_text("utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], map(str.strip, parts[2::2]), strict=True))


def disagreements(named: str) -> list[str]:
    """What says another version than the sources, in words."""
    told = sections()
    newest = next((name for name in told if name != UNRELEASED), "none")
    cited = first(r"^version: (.+)$", "CITATION.cff")
    at = command("git", "tag", "--list", "--format=%(*objectname)%(objectname)", f"v{named}")[:40]
    found = []
    if cited != named:
        found.append(f"CITATION.cff says {cited}, src/octavo/__init__.py {named}.")
    if newest != named:
        found.append(
            f"The newest version in CHANGELOG.md is {newest}, that in src/octavo/__init__.py {named}."
        )
    if told.get(UNRELEASED):
        found.append(f"CHANGELOG.md has entries under {UNRELEASED}: give them the heading of {named}.")
    if at and at != command("git", "rev-parse", "HEAD"):
        found.append(f"The tag v{named} names another commit than the one that is checked out.")
    return found


def documented(to: Path) -> Path:
    """Build the documentation. Raises SystemExit on a warning."""
    shutil.rmtree(to, ignore_errors=True)
    strict = ("--quiet", "--fail-on-warning", "--keep-going")
    with tempfile.TemporaryDirectory() as read:
        sphinx = (sys.executable, "-m", "sphinx", *strict, "-d", read, "-c", "docs", ".", str(to))
        command(*sphinx, SOURCE_DATE_EPOCH=commit_time())
    return to


def tried(out: Path, named: str) -> None:
    """Install this system's wheel as a user does, in a path as users have them, and use it. Raises SystemExit."""
    with tempfile.TemporaryDirectory(prefix="octavo Prüfung ") as folder:
        home = Path(folder) / "home"
        venv.create(home, with_pip=True)
        program = home / ("Scripts" if os.name == "nt" else "bin")
        pip = (str(program / "python"), "-m", "pip", "install", "--quiet", "--only-binary", "octavo")
        command(*pip, "--no-deps", "--no-index", "--find-links", str(out), f"octavo=={named}")
        command(*pip, "-c", str(ROOT / "constraints.txt"), f"octavo=={named}")
        own = {"PATH": str(program), "OCTAVO_CACHE": str(Path(folder) / "cache")}
        told = command(str(program / "octavo"), "--version", **own)
        if named not in told or "kernels: none" in told or "compiled here" in told:
            raise SystemExit(f"The wheel that was installed says of itself: {told}")
        print(told)
        command(str(program / "octavo"), "doctor", **own)
        demo = [str(program / "octavo"), "demo", "--out", str(Path(folder) / "run")]
        if subprocess.run(demo, cwd=folder, env={**os.environ, **own}, check=False).returncode:
            raise SystemExit("The wheel that was installed does not run the demo.")


def main() -> None:
    """Check, build, try, and say what is left to do."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    out, named = parser.parse_args().out.resolve(), version()
    unchanged()
    if found := disagreements(named):
        raise SystemExit("\n".join(found))
    packed(out, list(kernels.PLATFORMS), twice=True, site=documented(ROOT / "build" / "site"))
    tried(out, named)
    print(f"Nothing is published. What publishes {named}:")
    print(f"  git tag -a v{named} -m 'Octavo {named}' && git push origin v{named}")
    print(f"  {sys.executable} -m twine upload {out}/*.tar.gz {out}/*.whl")


if __name__ == "__main__":
    main()
