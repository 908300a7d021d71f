"""Where a study was not made in one go: what its verdicts then do not promise."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from octavo.studies.provenance import same_figures
from octavo.util.files import replace_text
from octavo.util.records import Count, parse_json

LOOKS = "looks.json"
"""In a study's folder: how many seeds it had each time that it was judged whole."""


def looks_at(folder: Path) -> tuple[int, ...]:
    """With how many seeds a study was judged, in that order."""
    try:
        return tuple(parse_json((folder / LOOKS).read_bytes(), list[Count]))
    except (OSError, ValueError):  # it was never judged whole
        return ()


def note_look(folder: Path, seeds: int) -> None:
    """Note that all runs of a study of so many seeds are done, and will be judged. Raises StorageError."""
    looks = looks_at(folder)
    if seeds not in looks:
        replace_text(folder / LOOKS, f"{[*looks, seeds]}\n")


def notes(looks: Sequence[int], sources: Sequence[str]) -> list[str]:
    """What a reader should know of a study that grew, or whose runs are of several versions of the code that decides
    figures."""
    sentences = []
    if len(looks) > 1:
        sentences.append(
            f"It was judged {len(looks)} times as it grew (with {', '.join(map(str, looks))} seeds). The intervals "
            "hold for one look; at one of several a false alarm is likelier."
        )
    if len(set(sources)) > 1 and not same_figures().issuperset(sources):
        sentences.append(
            "Its runs are of several versions of the code that decides figures, so a difference may be one of versions."
        )
    return sentences
