"""A run that replaces another: the old one is put aside first, and removed once the new one has begun."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from octavo.ground.files import storage_errors
from octavo.ground.made import put_away, remove
from octavo.runs.folder import RunFolder

OF_A_RUN = (
    "config.yaml",
    ".told.json",
    "manifest.json",
    "metrics.jsonl",
    "log.txt",
    "evaluation.json",
    "words.json",
    "memory.json",
    "written.safetensors",
    "start.safetensors",
    ".lock",
    "best",
    "last",
    "tokenizer/*",
    "checkpoints/*step-*/*",
    "samples/step-*.txt",
    "samples/judged.jsonl",
    "prompts/*.json",
    "speakers/*.json",
    "report/index.html",
    "report/*.svg",
)
WRITTEN = (*OF_A_RUN, *(f"teachers/*/{each}" for each in OF_A_RUN))
"""The files of a run folder that Octavo writes."""


@contextmanager
def in_place_of(path: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Within the context the name of the run in `path` is free. Where a new run has begun there in the end, the old
    run's files are removed, and what is not Octavo's is kept; where nothing is there, the old one gets its name back.

    Raises RunFolderError if `path` holds something else than a run, or another process writes there.
    """
    if not path.exists():
        yield
        return
    with RunFolder.open(path).lock(), storage_errors(path.parent):
        old = put_away(path, "replaced")
    try:
        yield
    finally:
        if not path.exists():
            with storage_errors(path.parent):
                old.rename(path)
        elif not RunFolder(path).manifest.is_file():
            say(f"the run that was to be replaced is kept in {old}")
        elif not remove(old, WRITTEN):
            say(f"{old} keeps what Octavo did not write")
