"""From a source of documents to a dataset: one pass over the text, its split, the tokenizer, the shards.

Everything that decides the outcome goes into the dataset's key, so the same text and settings find it again. A text
whose files have the places, sizes and times of an earlier pass is not read: that pass left its hash in the cache.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import octavo
from octavo.config.parts import PartConfig, SplitBy, loaded_parts
from octavo.corpus import Report, Source
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
from octavo.data.text import Progress, Text, ingest, no_progress, token_dtype
from octavo.errors import CheckpointError, ConfigError, CorpusError
from octavo.tokenizers import Tokenizer, TokenizerConfig, build_tokenizer
from octavo.util.files import default_cache, file_hash, remove, replace_text
from octavo.util.records import Record, json_text, read_record


def _silent(sentence: str) -> None:
    """Report to nobody."""


class Heard:
    """What a source says while it is read, kept so that it can be said again of a text that need not be.

    Attributes:
        remark: on the text as a whole, after `prepare`.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self.said: list[str] = []
        self.remark: str | None = None

    def __call__(self, sentence: str) -> None:
        self.said.append(sentence)
        self._report(sentence)


class Known(NamedTuple):
    """What a pass over a text found: hashes of the text and of which file each document is of, what cleaning did, what
    was said, and the source's remark."""

    text: str
    files: str
    cleaning: dict[str, Any]
    said: list[str]
    remark: str | None


class KnownRecord(Record):
    """The same in the cache."""

    text: str
    files: str
    cleaning: dict[str, Any]
    said: list[str]
    remark: str | None


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
    heard: Heard | None = None,
) -> Dataset:
    """Make the dataset of a corpus, or find the one that was made of the same text with the same settings.

    Args:
        tokenizer: how text becomes tokens; built on the part of the text that it trains on, or there already.
        split, validation, test: see `split_text`; the last two are shares of the text.
        cache: folder that keeps datasets; None means the user's.
        report: hears what was removed, reused or made again.
        progress: called while reading, and then, from 0 on again, while encoding each part.
        verify: whether the text is read even if its files seem to be unchanged, and a dataset that is found is compared
            with its hashes.
        workers: processes that encode; None: one a core where that is worth while. They change no byte.

        heard: what the source reports to, if it shall be heard of a text that is not read, too.

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
    heard = heard or Heard(report)
    place = None if verify else _place_of_known(source, cache)
    how = {"split": split, "validation": validation, **({"test": test} if test else {})}
    identity = _identity(tokenizer)

    def key_of(known: Known) -> tuple[dict[str, Any], Path]:
        by_file = {"files": known.files} if split == "files" else {}
        cleaned = {"cleaning": known.cleaning} if known.cleaning else {}
        settings = {"text": known.text, **how, **by_file, **identity, **cleaned}
        return settings, cache / "datasets" / _key(settings)

    known = _known(place, heard)
    if known is not None:
        settings, final = key_of(known)
        if stored := _found(final, verify, report):
            return stored
    with aside(cache) as folder:
        parts = _parts_again(folder, known, how)
        if known is None or parts is None:
            heard.said.clear()
            text = ingest(source, folder / "corpus.txt", progress)
            files = hashlib.sha256(text.files.tobytes()).hexdigest()
            heard.remark = source.remark()
            known = Known(
                text=text.sha256,
                files=files,
                cleaning=source.cleaning(),
                said=heard.said,
                remark=heard.remark,
            )
            if place is not None and place == _place_of_known(
                source, cache
            ):  # nothing changed while it was read
                place.parent.mkdir(parents=True, exist_ok=True)
                replace_text(place, json_text(known._asdict()))
            settings, final = key_of(known)
            if stored := _found(final, verify, report):
                return stored
            texts, removed = split_text(text, split, validation, folder, report, test=test)
            parts = Parts(texts, removed, text.several)
        settings, final = key_of(known)
        settings["duplicates_removed"] = parts.removed
        build = partial(_tokenizer_of, tokenizer, parts.texts, documents=parts.several)
        dataset = _write(parts.texts, build, settings, folder, final, _Reporting(report, progress, workers))
        _keep_parts(parts, dataset.folder, known, how)
        return dataset


class Parts(NamedTuple):
    """A text that is split: its parts, how many documents were left out as duplicates, whether it had several."""

    texts: dict[str, Text]
    removed: int
    several: bool


_last_parts: dict[str, Parts] = {}
"""Of the text that this process split last, by text and split: another tokenizer needs them too."""


def _keep_parts(parts: Parts, folder: Path, known: Known, how: Mapping[str, Any]) -> None:
    _last_parts.clear()
    texts = {name: replace(text, path=folder / text.path.name) for name, text in parts.texts.items()}
    _last_parts[_key({"text": known.text, "files": known.files, **how})] = parts._replace(texts=texts)


def _parts_again(folder: Path, known: Known | None, how: Mapping[str, Any]) -> Parts | None:
    """The same parts in another folder, if this process split the text the same way and they are there still."""
    parts = (
        None if known is None else _last_parts.get(_key({"text": known.text, "files": known.files, **how}))
    )
    if parts is None:
        return None
    texts = {}
    for name, text in parts.texts.items():
        path = folder / text.path.name
        try:
            os.link(text.path, path)
        except OSError:
            try:
                shutil.copyfile(text.path, path)
            except FileNotFoundError:
                return None
        texts[name] = replace(text, path=path)
    return parts._replace(texts=texts)


def _place_of_known(source: Source, cache: Path) -> Path | None:
    """Where the cache keeps what an earlier pass over this very text found. None if only reading tells, or if parts of
    the user's own may have a say."""
    unchanged = None if loaded_parts() else source.fingerprint()
    if unchanged is None:
        return None
    return cache / "read" / f"{_key({'source': unchanged, 'readers': _readers()})}.json"


@functools.cache
def _readers() -> list[Any]:
    """What decides what is read of the same files: our own code, and the libraries behind it."""
    code = hashlib.sha256()
    for path in sorted(Path(octavo.__file__).parent.joinpath("corpus").rglob("*.py")):
        code.update(path.read_bytes())
    libraries = (
        *_VERSIONS,
        "pypdfium2",
        "selectolax",
        "striprtf",
        "pyarrow",
        "py3langid",
        "datasketch",
        "rapidfuzz",
    )
    return [code.hexdigest(), _versions(libraries)]


def _known(place: Path | None, heard: Heard) -> Known | None:
    """What an earlier pass found, said again."""
    if place is None or not place.is_file():
        return None
    try:
        kept = read_record(place, KnownRecord)
        known = Known(**{name: kept[name] for name in Known._fields})
    except (CheckpointError, KeyError):
        return None
    for sentence in known.said:
        heard(sentence)
    heard.remark = known.remark
    return known


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
            {"text": text}, lambda: tokenizer, settings, folder, final, _Reporting(report, progress, workers)
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


class _Reporting(NamedTuple):
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
    reporting: _Reporting,
) -> Dataset:
    purpose = json.dumps({"key": final.name, **_versions()}, sort_keys=True)
    with ThreadPoolExecutor(1) as pool, gone_on_with(folder, purpose) as tokenizer:
        # Hashing holds no interpreter lock, so it costs no time during the encoding.
        hashes = {text.path.name: pool.submit(file_hash, text.path) for text in texts.values()}
        if tokenizer is None:
            tokenizer = build()
            tokenizer.save(folder / TOKENIZER)
        else:
            reporting.report("dataset: continues what an interrupted process had encoded")
        splits, known = {}, {}
        for name, text in texts.items():
            written = write_shards(
                text,
                tokenizer,
                folder,
                name,
                reporting.progress,
                saved=folder / TOKENIZER,
                workers=reporting.workers,
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


_VERSIONS = ("tokenizers", "tiktoken")


def _versions(libraries: Sequence[str] = _VERSIONS) -> dict[str, str]:
    """Of what decides ids besides the settings."""
    versions = {"octavo": octavo.__version__, "python": platform.python_version()}
    for library in libraries:
        with suppress(PackageNotFoundError):
            versions[library] = version(library)
    return versions
