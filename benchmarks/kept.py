"""Studies and ladders without their weights: what it takes to judge them again, and to go on on another machine.

A folder becomes one file of some hundred kilobytes, NAME.jsonl.xz, a line for each file that is kept. Where the texts
lay and the folder stood is left out: a text is called by its name.
"""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from octavo.config import parse_yaml
from octavo.util.files import written_aside

WHOLE = ("ladder.yaml", "study.yaml", "where.json")
OF_RUN = ("config.yaml", "evaluation.json", "manifest.json", "metrics.jsonl", "outcome.json", "units.json")
"""Of runs that have ended; one that has not is run anew."""
END = ".jsonl.xz"


def text_names(texts: Iterable[Path]) -> dict[str, str]:
    """Where texts lie, and what they are called in kept files."""
    return {str(path.absolute()): f"text:{path.name}" for path in texts}


def keep(folder: Path, path: Path, names: Mapping[str, str]) -> None:
    """Write what is needed of a study's or a ladder's folder; `names`: see `text_names`."""
    ended = (file.parent for file in folder.rglob("outcome.json"))
    runs = [run for run in ended if run.relative_to(folder).parts[0] != "before"]
    files = {file for name in WHOLE for file in folder.rglob(name)}
    files |= {run / name for run in runs for name in OF_RUN if (run / name).is_file()}
    words = {**names, str(folder.absolute()): folder.name}
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_aside(path) as aside, lzma.open(aside, "wt", encoding="utf-8") as out:
        for file in sorted(files):
            text = replaced(without_command(file), words)
            out.write(json.dumps({"file": file.relative_to(folder).as_posix(), "text": text}) + "\n")


def restore(path: Path, folder: Path, names: Mapping[str, str]) -> None:
    """Put it back, next to what is there already. Raises ValueError for a file that `keep` did not write."""
    words = {name: where for where, name in names.items()}
    for place, text in lines_of(path):
        target = folder / place
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(replaced(text, words), encoding="utf-8")


def sources(path: Path) -> set[str]:
    """The code that the runs of what is kept are of."""
    studies = (parse_yaml(text, str(path)) for place, text in lines_of(path) if place.name == "study.yaml")
    return {code for study in studies for code in study["resolved"].get("sources", ())}


def lines_of(path: Path) -> Iterator[tuple[PurePosixPath, str]]:
    """The files that are kept, and what is in them. Raises ValueError for one that `keep` did not write."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            place = PurePosixPath(row["file"])
            if place.is_absolute() or ".." in place.parts or place.name not in (*WHOLE, *OF_RUN):
                raise ValueError(f"{path}: {place} is no part of a study")
            yield place, row["text"]


COMMAND = re.compile(r'("command": )"(?:[^"\\]|\\.)*"')


def without_command(file: Path) -> str:
    """What is in a file; an evaluation's without the command that made it, which names folders."""
    text = file.read_text(encoding="utf-8")
    return COMMAND.sub(r'\1""', text) if file.name == "evaluation.json" else text


def replaced(text: str, words: Mapping[str, str]) -> str:
    """A text with some words in the place of others; the longest first, for one may begin as another."""
    for word in sorted(words, key=len, reverse=True):
        text = text.replace(word, words[word])
    return text
