"""From a source of documents to a dataset: one pass over the text, its split, the tokenizer, the shards.

Everything that decides the outcome goes into the dataset's key, so the same text and settings find it again.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import octavo
from octavo.config.parts import PartConfig, SplitBy
from octavo.corpus import Report, Source
from octavo.data.encode_workers import token_dtype
from octavo.data.shards import write_shards
from octavo.data.splits import split_text
from octavo.data.store import (
    FILES,
    FORMAT,
    TOKENIZER,
    Dataset,
    Split,
    aside,
    gone_on_with,
    open_dataset,
    publish,
    say_reused,
)
from octavo.data.text import Progress, Text, ingest, no_progress
from octavo.errors import ConfigError, CorpusError
from octavo.tokenizers import Tokenizer, TokenizerConfig, build_tokenizer
from octavo.util.cache import default_cache
from octavo.util.files import file_hash, remove


def _silent(sentence: str) -> None:
    """Report to nobody."""


def prepare(
    source: Source,
    tokenizer: TokenizerConfig | Tokenizer,
    *,
    split: SplitBy = "contiguous",
    validation: float = 0.1,
    test: float = 0.0,
    cache: Path | None = None,
    report: Report = _silent,
    progress: Progress = no_progress,
    verify: bool = False,
    workers: int | None = None,
) -> Dataset:
    """Make the dataset of a corpus, or find the one that was made of the same text with the same settings.

    Args:
        tokenizer: how text becomes tokens; built on the part of the text that it trains on, or there already.
        split, validation, test: see `split_text`; the last two are shares of the text.
        cache: folder that keeps datasets; None means the user's.
        report: hears what was removed, reused or made again.
        progress: called while reading, and then, from 0 on again, while encoding each part.
        verify: whether a dataset that is found is read through and compared with its hashes.
        workers: processes that encode; None: one a core where that is worth while. They change no byte.

    If an earlier process was killed, or stopped by Ctrl-C, what it had encoded is kept.

    Raises:
        CorpusError: no text, or not enough for all parts.
        TokenizerError: the tokenizer cannot be built, or lacks what the text has.
        StorageError: the disk is full or the cache cannot be written.
    """
    if not 0 < validation < 1:
        raise ConfigError(
            f"validation is {validation:g}; it is a share of the text, more than 0 and less than 1."
        )
    if not 0 <= test < 1 - validation:
        raise ConfigError(
            f"test is {test:g}; with validation={validation:g} it is at least 0 and below {1 - validation:g}."
        )
    cache = cache or default_cache()
    with aside(cache) as folder:
        text = ingest(source, folder / "corpus.txt", progress)
        settings = {
            "text": text.sha256,
            "split": split,
            "validation": validation,
            **({"test": test} if test else {}),
            **({"files": hashlib.sha256(text.files.tobytes()).hexdigest()} if split == "files" else {}),
            **_identity(tokenizer),
            **({"cleaning": cleaning} if (cleaning := source.cleaning()) else {}),
        }
        final = cache / "datasets" / _key(settings)
        if found := _found(final, verify, report):
            return found
        texts, settings["duplicates_removed"] = split_text(text, split, validation, folder, report, test=test)
        build = partial(_tokenizer_of, tokenizer, texts, documents=text.several)
        return _write(texts, build, settings, folder, final, _Told(report, progress, workers))


def prepare_text(
    source: Source,
    tokenizer: Tokenizer,
    *,
    cache: Path | None = None,
    report: Report = _silent,
    progress: Progress = no_progress,
    verify: bool = False,
    workers: int | None = None,
) -> Split:
    """All of a text as one part, in the tokens of a tokenizer that there is already: what a model is judged
    on elsewhere.

    Arguments and errors as for `prepare`.
    """
    cache = cache or default_cache()
    with aside(cache) as folder:
        text = ingest(source, folder / "text.txt", progress)
        settings = {"text": text.sha256, **_identity(tokenizer)}
        final = cache / "datasets" / _key(settings)
        dataset = _found(final, verify, report) or _write(
            {"text": text}, lambda: tokenizer, settings, folder, final, _Told(report, progress, workers)
        )
        return dataset.splits["text"]


def _tokenizer_of(
    tokenizer: TokenizerConfig | Tokenizer, texts: dict[str, Text], *, documents: bool
) -> Tokenizer:
    """The tokenizer, built on its part of the texts if it is not there already."""
    if isinstance(tokenizer, Tokenizer):
        return tokenizer
    parts = [texts["train"]] if tokenizer.trains_on == "train" else [*texts.values()]

    def pieces() -> Iterator[str]:
        return chain.from_iterable(part.pieces() for part in parts)

    return build_tokenizer(tokenizer, pieces, documents=documents)


def _identity(tokenizer: TokenizerConfig | Tokenizer) -> dict[str, Any]:
    """What of a dataset's settings says which tokenizer it has."""
    if isinstance(tokenizer, Tokenizer):
        return {"tokenizer": tokenizer.fingerprint(), **tokenizer.encoding}
    # A word list can change without its name.
    files = {name: file_hash(path) for name, path in _files_in(tokenizer)}
    return {"tokenizer": tokenizer.identity, "tokenizer_files": files}


def _files_in(config: PartConfig, before: str = "") -> Iterator[tuple[str, Path]]:
    """The files that a part's options name, and those of the parts in it, by the options' names."""
    for name, value in config:
        if isinstance(value, PartConfig):
            yield from _files_in(value, f"{before}{name}.")
        elif isinstance(value, Path) and value.is_file():
            yield f"{before}{name}", value
            for beside in getattr(config, "beside", ()):
                if (path := value.parent / beside).is_file():
                    yield f"{before}{name}, {beside}", path


def _key(settings: dict[str, Any]) -> str:
    decisive = json.dumps({"format": FORMAT, **settings}, sort_keys=True)
    return hashlib.sha256(decisive.encode()).hexdigest()[:32]


def _found(final: Path, verify: bool, report: Report) -> Dataset | None:
    if not final.exists():
        return None
    try:
        dataset = open_dataset(final, verify=verify)
    except CorpusError as error:
        report(f"{error.what} It is made again.")
        remove(final, FILES)
        return None
    say_reused(final, "text and tokenizer", report)
    return dataset


class _Told(NamedTuple):
    """Who hears of the work, and how many do it."""

    report: Report
    progress: Progress
    workers: int | None


def _write(
    texts: dict[str, Text],
    build: Callable[[], Tokenizer],
    settings: dict[str, Any],
    folder: Path,
    final: Path,
    told: _Told,
) -> Dataset:
    purpose = json.dumps({"key": final.name, **_versions()}, sort_keys=True)
    with ThreadPoolExecutor(1) as pool, gone_on_with(folder, purpose) as tokenizer:
        # Hashing holds no interpreter lock, so it costs no time during the encoding.
        hashes = {text.path.name: pool.submit(file_hash, text.path) for text in texts.values()}
        if tokenizer is None:
            tokenizer = build()
            tokenizer.save(folder / TOKENIZER)
        else:
            told.report("dataset: continues what an interrupted process had encoded")
        splits, known = {}, {}
        for name, text in texts.items():
            written = write_shards(
                text, tokenizer, folder, name, told.progress, saved=folder / TOKENIZER, workers=told.workers
            )
            splits[name] = {
                "tokens": written.tokens,
                "bytes": text.bytes,
                "characters": text.total_characters,
                "documents": len(text.starts),
            }
            known |= written.sha256
        known |= {name: future.result() for name, future in hashes.items()}
    manifest = {
        **settings,
        "vocab_size": tokenizer.vocab_size,
        "tokenizer_fingerprint": tokenizer.fingerprint(),
        "dtype": token_dtype(tokenizer.vocab_size).str,
        "splits": splits,
    }
    return publish(folder, manifest, final, known)


def _versions() -> dict[str, str]:
    """Of what decides ids besides the settings."""
    found = {"octavo": octavo.__version__, "python": platform.python_version()}
    for library in ("tokenizers", "tiktoken"):
        with suppress(PackageNotFoundError):
            found[library] = version(library)
    return found
