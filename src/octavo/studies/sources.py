"""Which code a study's figures are of: one hash over the sources that decide them."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

import octavo

DECIDING = (
    "dataset",
    "model",
    "tokenizers",
    "training",
    "evaluation/score.py",
    "evaluation/units.py",
    "evaluation/baselines.py",
    *(
        f"studies/{name}.py"
        for name in ("arms", "chance", "controls", "documents", "expectation", "statistics")
    ),
    "studies/verdict.py",
)
"""Folders and files of the package on which training, scores and verdicts rest; not how they are shown."""

STALE = "**Stale:** the code that this rests on has changed since."
_CODE = re.compile(r"^(\*Of code `(\w+)`.*?\*)(?: \*\*Stale:\*\* .*)?$", re.MULTILINE)


@cache
def deciding_sha256() -> str:
    """Of the sources as they are now."""
    package, digest = Path(octavo.__file__).parent, hashlib.sha256()
    found = [package / name for name in DECIDING]
    files = [
        file
        for one in found
        for file in ([one] if one.is_file() else one.rglob("*"))
        if file.suffix in (".py", ".c")
    ]
    for file in sorted(files, key=lambda file: file.relative_to(package).as_posix()):
        text = file.read_bytes().replace(b"\r\n", b"\n")
        digest.update(f"{file.relative_to(package).as_posix()} {len(text)}\n".encode() + text)
    return digest.hexdigest()


def code_words(sources: tuple[str, ...]) -> str:
    """The name of the code in a page: of one that is mixed there is none."""
    return sources[0][:12] if len(sources) == 1 else "mixed" if sources else "unknown"


def marked(page: str, now: str | None = None) -> str:
    """A page of results in which every study of other code than today's says that it is stale, and no other."""
    now = (now or deciding_sha256())[:12]
    return _CODE.sub(lambda found: found[1] if found[2] == now else f"{found[1]} {STALE}", page)


def stale(page: str, now: str | None = None) -> int:
    """How many studies of a page are of other code than today's."""
    now = (now or deciding_sha256())[:12]
    return sum(code != now for _, code in _CODE.findall(page))
