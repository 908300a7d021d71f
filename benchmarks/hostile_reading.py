"""Two hundred hostile archives and documents beside good files: what is written outside, hangs or breaks.

python benchmarks/hostile_reading.py [--pdfs FOLDER with PDFs to damage]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from common import finish, print_table, spread
from hostile import hostile_files
from octavo.corpus.sources import FilesSource
from octavo.errors import OctavoError

GOOD = {"aaa.txt": "A good text.", "mmm.md": "Another one.", "zzz.txt": "The last one."}


def tree(folder: Path) -> set[str]:
    """Every path below a folder."""
    return {str(path) for path in folder.rglob("*")}


def read(path: Path) -> tuple[str, float]:
    """How reading ends: read, a sentence, or what broke; and how long it took, in seconds."""
    begin = time.perf_counter()
    try:
        for document in FilesSource(paths=(str(path),)).build(report=lambda _: None).documents():
            for _ in document.pieces:
                pass
        how = "read"
    except OctavoError:
        how = "a sentence"
    except Exception as error:
        how = f"broken: {type(error).__name__}"
    return how, time.perf_counter() - begin


def main() -> None:
    """Make, read, count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pdfs", type=Path, default=None)
    given = parser.parse_args().pdfs
    pdfs = sorted(given.glob("*.pdf")) if given else []
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        folder = root / "inside" / "texts"
        folder.mkdir(parents=True)
        for name, text in GOOD.items():
            (folder / name).write_text(text, encoding="utf-8")
        for name, data in hostile_files(pdfs):
            (folder / name).write_bytes(data)
        os.chdir(folder)
        before = tree(root)
        outcomes = {path.name: read(path) for path in sorted(folder.iterdir()) if path.name not in GOOD}
        begin = time.perf_counter()
        source = FilesSource(paths=(str(folder),)).build(report=lambda _: None)
        texts = {document.name: "".join(document.pieces) for document in source.documents()}
        together = time.perf_counter() - begin
        written = tree(root) - before
        os.chdir(root.parent)
    seconds = {name: took for name, (_, took) in outcomes.items()}
    ends = [how for how, _ in outcomes.values()]
    document = {
        "files": len(outcomes),
        "ends": {how: ends.count(how) for how in sorted(set(ends))},
        "written_outside": len(written) + Path("/tmp/escaped.txt").exists(),
        "tracebacks": sum(how.startswith("broken") for how in ends),
        "seconds_each": spread(list(seconds.values())),
        "slowest": max(seconds, key=lambda name: seconds[name]),
        "seconds_one_by_one": sum(seconds.values()),
        "good_files_whole": all(texts.get(name) == text for name, text in GOOD.items()),
        "seconds_as_a_folder": together,
    }
    print_table([{"": key, "value": str(value)} for key, value in document.items()])
    finish(document)


if __name__ == "__main__":
    main()
