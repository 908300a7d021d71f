"""The text that a run learned from: its words and its speeches, to compare with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from octavo.config import Recipe, check
from octavo.correction.words import count_words
from octavo.errors import CheckpointError, CorpusError, InputError, StorageError
from octavo.evaluation.stored import Words
from octavo.run.data import absolute, build_dataset, cleaned
from octavo.util.files import replace_text
from octavo.util.records import json_text, read_record
from octavo.util.terminal import Console

if TYPE_CHECKING:
    from octavo.run.run import Run

WORDS = "words.json"


def text_pieces(
    text: str | Path | Sequence[str | Path], console: Console, recipe: Recipe | None = None
) -> Iterator[str]:
    """Files or folders of text as one text in pieces, a line break after each document, cleaned as a recipe
    says.

    Raises CorpusError.
    """
    source = check({"corpus": {"kind": "files", "paths": absolute(text)}}).corpus.build(report=console.say)
    source = source if recipe is None else cleaned(source, recipe, console.say_once)
    for document in source.documents():
        yield from chain(document.pieces, "\n")


def training_text(run: Run, console: Console) -> Path:
    """The file with the text that a run's model learned from.

    Raises CorpusError if the run's text is gone, or has changed since training.
    """
    remedy = "name the text that takes its place: --text PATH"
    try:
        dataset = build_dataset(run.config, console, run.tokenizer)
    except InputError as error:
        raise CorpusError(
            f"The text that this run learned from is gone. {error.what}", remedy=remedy
        ) from error
    manifest = run.folder.made_by() if run.folder else None
    learned = manifest["data"] if manifest else {}
    same = learned.get("text", dataset.manifest["text"]) == dataset.manifest["text"]
    if not same or dataset.tokenizer.fingerprint() != run.tokenizer.fingerprint():
        raise CorpusError("The run's text has changed since training.", remedy=remedy)
    return dataset.train.text_path


def training_words(run: Run, console: Console) -> dict[str, int]:
    """How often each word stands in the run's training text. Kept in the run folder as words.json, so that they are
    known after the text is gone.

    Raises CorpusError as `training_text` does, where they were not kept.
    """
    kept = run.folder.path / WORDS if run.folder else None
    if kept is not None and kept.is_file():
        try:
            return read_record(kept, Words)
        except CheckpointError:  # written again
            pass
    with training_text(run, console).open(encoding="utf-8", newline="") as file:
        counts = count_words(iter(lambda: file.read(1 << 20), ""))
    words = {word: counts[word] for word in sorted(counts, key=lambda word: (-counts[word], word))}
    if kept is not None:
        with suppress(StorageError):  # what is kept only saves time
            replace_text(kept, json_text(words, ensure_ascii=False, indent=0))
    return words
