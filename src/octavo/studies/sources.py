"""Which code a study's figures are of: one hash over the sources that decide them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
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
)
"""Folders and files of the package on which a run's figures rest; not how they are judged or shown."""

APART = ("model/counts.py", "model/first_gate.py", "model/recent.py", "model/recent.c")
"""Those in there of counting beside the network, which no shipped study has: a change of theirs changes no figure."""

SAME = {
    "b84b3494542a4a7bbd1345d166507576bad55ee2509e61e9a87732db374ce763": (
        "51b8de13718895abae43142b76d98c05466bc01084f3693147dd12542c506af8",
        "6d9734260029f7f1a840e4dd38af0aca070c1fcbb5b07ddaa100effeb4cfac62",
        "98473ae09cec4cd2c9d77b99f0428c91e6b696709284da8943200a59d48bd406",
        "adc4560b9afc84d683a47c2832e3e7d0b1f39deedf5cc93ea5e5285dc36a035f",
        "c9c51939c9d79dc5c99be75fe5add0121cfd163f7dd88b6fc303aef166b53b8a",
        "058877eedf65380f573d256d4923d343f9bbb0e8e8d3176d4dff84905e2e0bee",
        "446ad55d5d73041362900c90ed6b0249e3a88d935f128c7ec25bf915f5fd1d9b",
    ),
}
"""Of today's code (`code_sha256`): earlier code whose figures are those of today's, to the bit.

- `model/attend.c` has vectors of the processor's own width: the same bits in 32 shapes, with vectors of 8 and 16, and
  with AVX-512 the same instructions. Where it would be in one thread beside many of torch's, it is not taken.
- `training/precision.py`: products of bfloat16 where the processor has none; all kept ones are of one that has.
- `model/native.py`: Ctrl-C while a compiler runs; threads that need the same kernel wait for one compiler;
  a user without a home, for whom none are kept.
- `evaluation/score.py`: perplexities beyond e^230, which no kept figure has;
  `dataset/preparation.py`, `dataset/segments.py`, `tokenizers/huggingface.py`, `tokenizers/gpt2.py`: tokenizers from
  elsewhere, which no shipped study has; `tokenizers/chat.py`: the template in exported files.
- `training/apart.py`, `training/work.py`, `training/recorded.py`, `dataset/batch.py`, `model/tables.py`: what a step
  does on a GPU; `model/positions.py`, `model/grid.py`: places of several texts at once, as a GPU writes them.
- `training/checkpoint.py`, `training/optimizers.py`: a saved state that does not fit is refused;
- `training/checkpoint.py`: what several processes resume with; `training/distillation.py`: what is told of a loss that
  is smoothed, too; `training/runtime.py`: devices that are refused; `dataset/series.py`: series that are refused;
  `model/vectors.py`: channels that are never there twice in a row, which diverged;
  `dataset/workers.py`: from which folder a child process takes no code.
"""

JUDGING = tuple(
    f"studies/{name}.py"
    for name in (
        "arms",
        "chance",
        "controls",
        "documents",
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
