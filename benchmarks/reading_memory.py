"""A text file of many gigabytes, and a folder of very many small files: memory and speed while they are read.

python benchmarks/reading_memory.py [--gigabytes 5] [--files 200000] [--folder WHERE THERE IS ROOM]

What is made is removed afterwards. Each is read in a process of its own, whose largest resident memory is told.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import finish, load, print_table
from octavo.corpus.sources import FilesSource

_WORDS = "the a fox bear saw ran home with big red and then Tom Lily said happy día Größe was to of".split()
_STORY = 60  # words


def stories(count: int) -> list[str]:
    """Different short texts, the same every time."""
    draw = random.Random(5)
    return [" ".join(draw.choices(_WORDS, k=_STORY)) + ".\n" for _ in range(count)]


def make_file(path: Path, size: int) -> None:
    """Stories with separator lines, up to a size in bytes."""
    block = "<|endoftext|>\n".join([*stories(20_000), ""]).encode()
    with path.open("wb") as file:
        while file.tell() < size:
            file.write(block)


def make_folder(folder: Path, files: int) -> None:
    """Files of one story each, 1,000 in a folder."""
    texts = stories(1000)
    for number in range(files):
        inside = folder / f"{number // 1000:04}"
        if number % 1000 == 0:
            inside.mkdir()
        (inside / f"{number:07}.txt").write_text(texts[number % 1000], encoding="utf-8")


def read(path: str) -> None:
    """Read everything once, and print what it took as JSON."""
    begin = time.perf_counter()
    source = FilesSource(paths=(path,)).build(report=lambda _: None)
    size = source.total_bytes or 0
    found = time.perf_counter() - begin
    documents = characters = 0
    for document in source.documents():
        documents += 1
        characters += sum(len(piece) for piece in document.pieces)
    seconds = time.perf_counter() - begin
    usage = resource.getrusage(resource.RUSAGE_SELF)
    result = {
        "megabytes": size / 1e6,
        "documents": documents,
        "characters": characters,
        "seconds": seconds,
        "seconds_of_processor": usage.ru_utime + usage.ru_stime,
        "seconds_to_find_files": found,
        "megabytes_per_second": size / 1e6 / seconds,
        "documents_per_second": documents / seconds,
        "largest_resident_megabytes": usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6,
    }
    print(json.dumps(result))


def main() -> None:
    """Make, read, remove; twice."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=5.0)
    parser.add_argument("--files", type=int, default=200_000)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--read", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.read:
        read(asked.read)
        return
    results = {}
    for name, amount in (("one file", asked.gigabytes), ("a folder", asked.files)):
        if not amount:
            continue
        with tempfile.TemporaryDirectory(dir=asked.folder) as place:
            path = Path(place, "texts" if name == "a folder" else "text.txt")
            if name == "a folder":
                path.mkdir()
                make_folder(path, asked.files)
            else:
                make_file(path, int(asked.gigabytes * 1e9))
            told = subprocess.run(
                [sys.executable, __file__, "--read", str(path)], capture_output=True, text=True, check=True
            )
            results[name] = {**json.loads(told.stdout), "load": load()}
    rows = [
        {"": key, **{name: result[key] for name, result in results.items()}}
        for key in next(iter(results.values()), {})
    ]
    if rows:
        print_table(rows)
    finish({"gigabytes": asked.gigabytes, "files": asked.files, "results": results})


if __name__ == "__main__":
    main()
