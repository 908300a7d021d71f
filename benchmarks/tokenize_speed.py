"""From a text file to finished shards: megabytes a second, on one core and on all, beside the libraries alone.

    python benchmarks/tokenize_speed.py --text input.txt [--megabytes 40] [--repeats 3] [--only char bpe:4096 …]

The text is repeated, its paragraphs in another order each time, until it has so many megabytes. Tokenizers that learn
are trained before (seconds apart), so that what is timed is reading, splitting, encoding, hashing and writing to disk.
The libraries encode the same paragraphs from memory, in one call, and write nothing. Turn by turn in one process.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from common import finish, load, print_table, spread
from octavo.config.parts import parts
from octavo.corpus.sources import FilesSource
from octavo.data import prepare_text
from octavo.data.encode_workers import cores
from octavo.tokenizers import Tokenizer, TokenizerConfig

KINDS = ["char", "byte", "word", "bpe:512", "bpe:4096", "gpt2"]


def long_text(path: Path, megabytes: float, folder: Path) -> Path:
    """The text over and over, shuffled by paragraphs."""
    paragraphs = path.read_text(encoding="utf-8").split("\n\n")
    order = random.Random(1)
    made = folder / "text.txt"
    with made.open("w", encoding="utf-8", newline="\n") as file:
        while file.tell() < megabytes * 1e6:
            order.shuffle(paragraphs)
            file.write("\n\n".join(paragraphs) + "\n\n")
    return made


def trained(name: str, text: Path) -> tuple[Tokenizer, float]:
    """A tokenizer that has learned from the text, and the seconds that this took."""
    kind, _, size = name.partition(":")
    config = parts("tokenizer")[kind].model_validate({"size": int(size)} if size else {})
    assert isinstance(config, TokenizerConfig)
    begin = time.perf_counter()
    built = config.build(lambda: iter([text.read_text(encoding="utf-8")]), documents=False)
    return built, time.perf_counter() - begin


def shards(text: Path, tokenizer: Tokenizer, folder: Path) -> float:
    """Seconds from the file to its shards."""
    source = FilesSource(paths=(str(text),)).build()
    with tempfile.TemporaryDirectory(dir=folder) as cache:
        begin = time.perf_counter()
        prepare_text(source, tokenizer, cache=Path(cache))
        return time.perf_counter() - begin


def library(name: str, tokenizer: Tokenizer, paragraphs: list[str], threads: int) -> Callable[[], Any] | None:
    """The library's own call for the same text, if there is a library behind the tokenizer."""
    if name.startswith("bpe"):
        import tokenizers

        with tempfile.TemporaryDirectory() as folder:
            tokenizer.save(Path(folder))
            alone = tokenizers.Tokenizer.from_file(f"{folder}/tokenizer.json")
        return lambda: alone.encode_batch(paragraphs)
    if name == "gpt2":
        import tiktoken

        alone = tiktoken.get_encoding("gpt2")
        return lambda: alone.encode_ordinary_batch(paragraphs, num_threads=threads)
    return None


@contextmanager
def on(count: int) -> Iterator[None]:
    """Within the context this process, and those that it starts, keep to one core, or use all."""
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if count > 1 else "false"
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    if allowed and count == 1:
        os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        if allowed:
            os.sched_setaffinity(0, allowed)


def timed(call: Callable[[], Any]) -> float:
    """Seconds of a library's call."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def measured(name: str, text: Path, sample: Path, folder: Path, repeats: int) -> list[dict[str, Any]]:
    """The rows of one tokenizer, on one core and on all."""
    tokenizer, seconds = trained(name, sample)
    megabytes = text.stat().st_size / 1e6
    paragraphs = [f"{one}\n\n" for one in text.read_text(encoding="utf-8").split("\n\n")]
    settings = {count: library(name, tokenizer, paragraphs, count) for count in sorted({1, cores()})}
    ours: dict[int, list[float]] = {count: [] for count in settings}
    theirs: dict[int, list[float]] = {count: [] for count in settings}
    for _ in range(repeats):
        for count, call in settings.items():
            with on(count):
                ours[count].append(megabytes / shards(text, tokenizer, folder))
                if call is not None:
                    theirs[count].append(megabytes / timed(call))
    rows = []
    for count in settings:
        peer = statistics.median(theirs[count]) if theirs[count] else None
        found = statistics.median(ours[count])
        rows.append(
            {
                "": name,
                "cores": count,
                "text to shards, MB/s": round(found, 2),
                "library alone, MB/s": None if peer is None else round(peer, 2),
                "ratio": None if peer is None else round(found / peer, 2),
                "training, s": round(seconds, 2),
                "spread": {"ours": spread(ours[count]), "library": spread(theirs[count]) if peer else None},
            }
        )
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument(
        "--megabytes", type=float, default=40, help="length of the text; char and byte take ten times"
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=KINDS, metavar="KIND")
    parser.add_argument("--folder", type=Path, help="where to work, on a disk with room")
    options = parser.parse_args()
    before = load()
    rows = []
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        for name in options.only:
            much = 10 if name in ("char", "byte") else 1
            text = long_text(options.text, options.megabytes * much, folder)
            rows += measured(name, text, options.text, folder, options.repeats)
    finally:
        shutil.rmtree(folder)
    print_table([{key: value for key, value in row.items() if key != "spread"} for row in rows])
    finish({"rows": rows, "megabytes": options.megabytes, "repeats": options.repeats, "load_before": before})


if __name__ == "__main__":
    main()
