"""How well simple predictors do on the same validation text: the scale on which a model's loss is read.

All counting baselines predict every token of the validation split but the first, from the tokens before it
(fewer at the start), and give every token of the vocabulary a probability. They learn from the training
split alone; the length of the n-grams too is chosen there, on the split's own end.
The compressors and context mixing know nothing of tokens and see the validation split's text as bytes, and context
mixing learns from each of them after it was predicted.
"""

from __future__ import annotations

import lzma
import math
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Protocol

import numpy as np

from octavo.errors import CorpusError
from octavo.evaluation.result import Baseline
from octavo.ngram.codes import Codes
from octavo.ngram.kneser_ney import CHUNK, KneserNey, best_order
from octavo.ngram.mixing import ContextMixing, compiled

LIMIT = 5_000_000
"""Training tokens that are counted; the last ones, which stand next to the validation split."""

HIGHEST = 8
"""The longest n-grams that are tried."""

WINDOW = 8 << 20
"""Bytes that xz looks back, and of the training text that it is given; needs some 12 times as much memory."""

MIXED = 1 << 20
"""Bytes of the training text that context mixing reads, the last ones, and of the validation text that it predicts, the
first ones: some seconds."""


def baselines(
    train: np.ndarray,
    validation: np.ndarray,
    *,
    vocab_size: int,
    validation_bytes: int,
    train_text: Path,
    validation_text: Path,
    limit: int = LIMIT,
    report: Callable[[str], None] | None = None,
    mixes: bool = True,
) -> dict[str, Baseline]:
    """All baselines by name: uniform, unigram, bigram, trigram, ngram, mixing, gzip, xz, xz_given_train; `mixing` only
    where there is a C compiler, and where it `mixes`.

    `train`, `validation`: token ids below `vocab_size`; memory maps are read in parts. `validation_bytes`:
    size of the text behind `validation`, for bits per byte. The texts are files, read as streams.
    Raises CorpusError for splits too short to learn from or to predict.
    """
    if len(validation) < 2 or not len(train):
        raise CorpusError(
            f"The baselines need a token to learn from and two to predict; the splits have {len(train)} and "
            f"{len(validation)}.",
            remedy="use a longer text, or a larger validation share",
        )
    say = report or (lambda text: None)
    counted = np.asarray(train[-limit:])
    if len(train) > limit:
        say(f"baselines: counting the last {limit:,} of {len(train):,} training tokens")
    reached: dict[str, Baseline] = {}

    def add(name: str, loss: float, order: int | None = None, learned: int | None = len(counted)) -> None:
        bits = loss * (len(validation) - 1) / math.log(2) / validation_bytes
        reached[name] = Baseline(loss, bits, order, learned)

    add("uniform", math.log(vocab_size), learned=None)
    add("unigram", unigram_loss(counted, validation, vocab_size=vocab_size), order=1)
    say(f"baselines: n-grams up to length {HIGHEST}")
    best = best_order(counted, vocab_size=vocab_size, highest=HIGHEST)
    losses = KneserNey(counted, vocab_size=vocab_size, highest=max(best, 3)).losses(validation)
    for name, order in (("bigram", 2), ("trigram", 3)):
        there = min(order, len(losses))
        add(name, float(losses[there - 1]), order=there)
    add("ngram", float(losses[best - 1]), order=best)
    if mixes and compiled() is not None:
        say("baselines: context mixing")
        reached |= mixing(train_text, validation_text)
    say("baselines: gzip and xz")
    return reached | compressors(train_text, validation_text)


def unigram_loss(train: np.ndarray, validation: np.ndarray, *, vocab_size: int) -> float:
    """Nats per token when tokens come independently, as often as in training; every count starts at one."""
    counts = np.bincount(train, minlength=vocab_size) + 1.0
    nats = -np.log(counts / counts.sum())
    parts = (validation[begin : begin + CHUNK] for begin in range(1, len(validation), CHUNK))
    return float(sum(nats[part].sum() for part in parts) / (len(validation) - 1))


def mixing(train_text: Path, validation_text: Path) -> dict[str, Baseline]:
    """Context mixing, which has read the training text and goes on in the validation text."""
    before = b"".join(_pieces(train_text, MIXED))
    with validation_text.open("rb") as file:
        judged = file.read(MIXED)
    if not judged:
        return {}
    model = ContextMixing(Codes.of_bytes(), capacity=len(before) + len(judged))
    model.read(np.frombuffer(before, np.uint8))
    nats = model.read(np.frombuffer(judged, np.uint8))
    return {"mixing": Baseline(None, float(nats.astype(np.float64).mean()) / math.log(2))}


def compressors(train_text: Path, validation_text: Path) -> dict[str, Baseline]:
    """gzip −9 and xz on the validation text; xz_given_train is what it adds to the training text's size."""
    size = validation_text.stat().st_size
    if not size:
        return {}
    before = _compressed(_xz(), _pieces(train_text, WINDOW))
    both = _compressed(_xz(), chain(_pieces(train_text, WINDOW), _pieces(validation_text)))
    sizes = {
        "gzip": _compressed(zlib.compressobj(9, zlib.DEFLATED, 31), _pieces(validation_text)),
        "xz": _compressed(_xz(), _pieces(validation_text)),
        "xz_given_train": both - before,
    }
    return {name: Baseline(None, 8 * compressed / size) for name, compressed in sizes.items()}


class _Compressor(Protocol):
    def compress(self, data: bytes, /) -> bytes: ...

    def flush(self) -> bytes: ...


def _xz() -> _Compressor:
    preset = {"id": lzma.FILTER_LZMA2, "preset": 9, "dict_size": WINDOW}
    return lzma.LZMACompressor(filters=[preset])


def _compressed(compressor: _Compressor, pieces: Iterable[bytes]) -> int:
    """Size in bytes; nothing is kept."""
    return sum(len(compressor.compress(piece)) for piece in pieces) + len(compressor.flush())


def _pieces(path: Path, last: int | None = None) -> Iterator[bytes]:
    """A file's bytes, or its `last` bytes, a megabyte at a time."""
    with path.open("rb") as file:
        file.seek(0 if last is None else max(0, path.stat().st_size - last))
        while piece := file.read(CHUNK):
            yield piece
