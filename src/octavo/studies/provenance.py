"""Which code a study's figures are of: one hash over the sources that decide them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import octavo
from octavo.config import Recipe, flatten
from octavo.config.parts import changed_parts
from octavo.errors import OctavoError
from octavo.run.finetune import find_start
from octavo.run.folder import RunFolder
from octavo.run.run import Run
from octavo.run.settings import changed_files
from octavo.run.teachers import weights_hash
from octavo.util.files import file_hash

# What a run of a study came from that its settings only name: code of the user's own, weights of other runs,
# files.


class Origins:
    """Compares what runs came from with what has these names now. What is gone has not changed."""

    def __init__(self) -> None:
        self._start, self._teacher = cache(_start_of), cache(_teacher_of)  # as many runs have the same

    def changed(self, folder: RunFolder, recipe: Recipe) -> Iterator[str]:
        """What is another one now, in words; nothing of a run that has not begun."""
        manifest = folder.made_by() or {}
        used = {value for key, value in flatten(recipe).items() if key.endswith("kind")}
        mine = [
            own
            for own in manifest.get("parts", ())
            if used & {name.partition(".")[2] for name in own.get("parts", ())} or not own.get("parts")
        ]
        for path in changed_parts(mine):
            yield f"{path} as it was before"
        start, named = manifest.get("start_from"), recipe.training.start_from
        if start and named is not None and self._start(named) not in (None, start["sha256"]):
            yield f"other weights of {named}"
        for teacher, path in zip(manifest.get("teachers", ()), recipe.training.teachers.runs, strict=False):
            if self._teacher(Path(path)) not in (None, teacher["sha256"]):
                yield f"other weights of its teacher {path}"
        for setting in changed_files(recipe, manifest):
            yield f"something else behind {setting}"


def _start_of(path: Path) -> str | None:
    try:
        return file_hash(find_start(path).folder / "model.safetensors")
    except (OctavoError, OSError):
        return None


def _teacher_of(path: Path) -> str | None:
    try:
        return weights_hash(Run.open(path))
    except (OctavoError, OSError):
        return None


DECIDING = (
    "data",
    "model",
    "ngram",
    "tasks",
    "tokenizers",
    "training",
    "util/kernels.py",
    "util/parallel.c",
    "evaluation/score.py",
    "evaluation/units.py",
    "evaluation/baselines.py",
)
"""Folders and files of the package on which a run's figures rest; not how they are judged or shown."""

APART = ("ngram/mixture.py", "ngram/gate.py", "ngram/recent.py", "ngram/recent.c")
"""Those in there of counting beside the network, which no shipped study has: a change of theirs changes no figure."""

SAME: dict[str, tuple[str, ...]] = {}
"""Of today's code (`code_sha256`): earlier code whose figures are those of today's, to the bit, and why they are.

None: what looks at a part of several documents reads, how pairs are split and how rare channels are scaled has changed
since the kept studies ran.
"""

JUDGING = tuple(
    f"studies/{name}.py"
    for name in (
        "arms",
        "chance",
        "expectation",
        "over_training",
        "statistics",
        "verdict",
    )
)
"""Files that make verdicts of those figures, anew whenever a page is written: a change of theirs costs no run."""

STALE = "**Stale:** the code that this rests on has changed since."
JUDGED_BEFORE = "**Judged before:** the runs are of today's code, the code of verdicts has changed since."
_CODE = re.compile(
    r"^(\*Of code `(?P<ran>\w+)`(?:, judged by `(?P<judged>\w+)`)?.*?\*)(?: \*\*(?:Stale|Judged before):\*\* .*)?$",
    re.MULTILINE,
)


@cache
def code_sha256(parts: tuple[str, ...] = DECIDING) -> str:
    """Of the sources as they are now: those that decide a run, or `JUDGING`."""
    package, digest = Path(octavo.__file__).parent, hashlib.sha256()
    found = [package / name for name in parts]
    files = [
        file
        for one in found
        for file in ([one] if one.is_file() else one.rglob("*"))
        if file.suffix in (".py", ".c") and file.relative_to(package).as_posix() not in APART
    ]
    for file in sorted(files, key=lambda file: file.relative_to(package).as_posix()):
        text = file.read_bytes().replace(b"\r\n", b"\n")
        digest.update(f"{file.relative_to(package).as_posix()} {len(text)}\n".encode() + text)
    return digest.hexdigest()


def same_figures() -> frozenset[str]:
    """Of today's code, and of all code that is known to give the same figures."""
    return frozenset({code_sha256(), *SAME.get(code_sha256(), ())})


def code_words(sources: tuple[str, ...]) -> str:
    """The name of the code in a page, and of what judges it: of code that is mixed there is none."""
    one = len(sources) == 1 or same_figures().issuperset(sources)
    ran = "unknown" if not sources else sources[-1][:12] if one else "mixed"
    return f"Of code `{ran}`, judged by `{code_sha256(JUDGING)[:12]}`"


def marked(page: str, ran: Iterable[str] = (), judged: str | None = None) -> str:
    """A page of results in which every study of other code than `ran` (`same_figures`) says so, and no other."""
    of_today = {code[:12] for code in ran or same_figures()}
    judged = (judged or code_sha256(JUDGING))[:12]

    def with_mark(found: re.Match[str]) -> str:
        mark = STALE if found["ran"] not in of_today else JUDGED_BEFORE if found["judged"] != judged else ""
        return f"{found[1]} {mark}".rstrip()

    return _CODE.sub(with_mark, page)


def stale(page: str) -> int:
    """How many studies of a marked page are of other code than today's, or judged by it."""
    return page.count(STALE) + page.count(JUDGED_BEFORE)
