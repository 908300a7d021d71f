"""Which Octavo this is: version, commit, kernels."""

from __future__ import annotations

import subprocess
from pathlib import Path

import octavo
from octavo.util.kernels import built_facts, in_use


def commit() -> str | None:
    """The commit that a wheel was built of, with `+` where files had changed, or that of this checkout."""
    return built_facts().commit or git(Path(octavo.__file__).parent, "rev-parse", "HEAD")


def git(folder: Path, *arguments: str) -> str | None:
    """What git says about a folder; None where it says nothing."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", check=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def in_words() -> str:
    """Version, commit and kernels in a line."""
    found = commit()
    of = f"commit {found[:12]}{'+' * found.endswith('+')}, " if found else ""
    return f"{octavo.__version__} ({of}kernels: {in_use().name})"
