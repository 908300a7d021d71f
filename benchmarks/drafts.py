"""What drafts bring: tokens a second with and without them, of the same texts, turn by turn in one process.

    python benchmarks/drafts.py RUN [RUN …] [--streams 1 8 64] [--temperature 0.8 0] [--tokens 400] [--repeats 5]

A run may be given as RUN=FILE: its prompts are the file's lines. Each text is held against the one without drafts.
`passes`: of the model, for a token of each text.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import torch

from common import finish, load, print_table
from octavo.generation import TextRequest
from octavo.generation.decoder import Decoder
from octavo.generation.drafts import Drafts
from octavo.run.run import Run

OF = Drafts.of


def written(run: Run, asked: list[TextRequest], drafted: bool, **how: Any) -> tuple[list[Any], float, int]:
    """The texts, the seconds, and how many passes they took."""
    passes, feed = [0], Decoder.feed

    def counted(self: Decoder, *arguments: Any, **options: Any) -> Any:
        passes[0] += 1
        return feed(self, *arguments, **options)

    Drafts.of = OF if drafted else lambda _: None  # type: ignore[method-assign]
    Decoder.feed = counted  # type: ignore[method-assign]
    begin = time.perf_counter()
    try:
        done = {s.number: s for s, _ in run.write_each(asked, **how)}
    finally:
        seconds = time.perf_counter() - begin
        Decoder.feed, Drafts.of = feed, OF  # type: ignore[method-assign]
    return [(done[n].ids, done[n].log_probabilities) for n in range(len(asked))], seconds, passes[0]


def row(
    run: Run, name: str, prompts: list[str], streams: int, given: argparse.Namespace, temperature: float
) -> Any:
    """One line of the table."""
    asked = [TextRequest(prompts[n % len(prompts)], n) for n in range(streams)]
    how: dict[str, Any] = {"tokens": given.tokens, "temperature": temperature, "precision": given.precision}
    rates: dict[bool, list[float]] = {True: [], False: []}
    found: dict[bool, Any] = {}
    for turn in range(given.repeats + 1):
        for drafted in (True, False) if turn % 2 else (False, True):
            texts, seconds, passes = written(run, asked, drafted, **how)
            tokens = sum(len(ids) for ids, _ in texts)
            found[drafted] = texts, passes
            if turn:
                rates[drafted].append(tokens / seconds)
    assert found[True][0] == found[False][0], "other texts than without drafts"
    ratios = [a / b for a, b in zip(rates[True], rates[False], strict=True)]
    return {
        "run": name,
        "streams": streams,
        "temperature": temperature,
        "tokens/s without": round(statistics.median(rates[False])),
        "with": round(statistics.median(rates[True])),
        "ratio": round(statistics.median(ratios), 3),
        "from": round(min(ratios), 3),
        "to": round(max(ratios), 3),
        "passes": round(found[True][1] / found[False][1], 3),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--temperature", type=float, nargs="+", default=[1.0])
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--precision", default="float32")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    before, rows = load(), []
    for word in given.runs:
        path, _, file = word.partition("=")
        prompts = Path(file).read_text(encoding="utf-8").splitlines() if file else [""]
        run = Run.open(Path(path))
        rows += [
            row(run, Path(path).name, prompts, streams, given, temperature)
            for temperature in given.temperature
            for streams in given.streams
        ]
    print_table(rows)
    finish({"rows": rows, "arguments": vars(given), "load_before": before})


if __name__ == "__main__":
    main()
