"""What every reader is."""

from __future__ import annotations

import getpass
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Annotated, Any, BinaryIO, ClassVar

from pydantic import Field

from octavo.config.parts import PartConfig, PartOf, Strict
from octavo.corpus.documents import Document, Report
from octavo.corpus.records.base import RecordConfig
from octavo.corpus.sandbox import Job, NeedsPassword, extract
from octavo.errors import CorpusError, MissingExtra

# Passwords of encrypted documents: from the environment, or asked for; never written anywhere.


class Passwords:
    """What to try on an encrypted document.

    Args:
        variable: the environment variable that may hold a password.
    """

    def __init__(self, variable: str) -> None:
        self._variable = variable
        self._known: dict[str, str] = {}  # typed passwords, by document, for a second pass

    def tries(self, name: str) -> Iterator[str | None]:
        """None first, since most documents need no password; then one after the other until one fits.

        Raises:
            CorpusError: no password is left to try.
        """
        yield self._known.get(name)
        given = os.environ.get(self._variable)
        if given:
            yield given
        if sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty():
            typed = getpass.getpass(f"Password of {name} (empty: leave it out): ", sys.stderr)
            if typed:
                self._known[name] = typed
                yield typed
        raise CorpusError(
            f"{name} is encrypted"
            + (f", and the password in {self._variable} does not open it." if given else "."),
            remedy=f"Put its password into the environment variable {self._variable}, or run on a terminal "
            "to be asked.",
        )


class ReaderOptions(Strict):
    """What can be said about files beforehand."""

    encoding: str = "auto"
    """How the bytes of text files are read: auto (UTF-8, UTF-16 by its mark, else detected and said), or a
    name such as windows-1252."""
    field: str = Field("text", min_length=1)
    """Name of the field that holds the text in records (.jsonl, .json), or of the column (.csv, .parquet, hf:)."""
    records: Annotated[RecordConfig, PartOf("record", "text")] = Field(
        {"kind": "text"}, validate_default=True
    )
    """What a record of a .jsonl or .json file is: text, or what a model is tuned on: conversations, preferences,
    prompts."""
    strip_gutenberg: bool = True
    """Cut off Project Gutenberg's header and licence."""
    password_variable: str = Field("OCTAVO_PASSWORD", min_length=1)
    """Environment variable that holds the password of encrypted documents. A password itself is no option,
    since options are written into the run folder; on a terminal it is asked for."""
    document_seconds: float = Field(8, gt=0, le=1e6)
    """Seconds of the processor that a document (not plain text) may take without getting on, as many again for each
    megabyte after the first; four times that in all, for one that gets on page by page."""
    document_megabytes: int = Field(2048, ge=256, le=2**20)
    """Most memory that reading a document may take (not limited on Windows)."""


class Reader(ABC):
    """Reads files of one format.

    Attributes:
        gives_records: whether a file's documents are marked by its format; else a file is one text.
    """

    gives_records: ClassVar[bool]

    @abstractmethod
    def read(self, file: BinaryIO, name: str) -> Iterator[Document]:
        """The documents of an open, seekable file, in order, as they stand in it.

        Raises:
            CorpusError: it cannot be read; before the first document where that can be told so early.
            MissingExtra: this format needs a library that is not installed.
        """


class ReaderConfig(PartConfig):
    """Base of every reader's config.

    Attributes:
        suffixes: endings of the file names that it reads, lower case.
        label: what a file of this format is called in a sentence.
    """

    suffixes: ClassVar[tuple[str, ...]]
    label: ClassVar[str]

    @abstractmethod
    def build(self, options: ReaderOptions, report: Report) -> Reader:
        """Make the reader, with those of the options that concern it."""


Extract = Callable[[BinaryIO, dict[str, Any], Report], Iterator[tuple[str, Iterator[str]]]]
"""Takes a document's bytes, its options and who hears of what was left out; gives texts with their names
(empty where the file has only one text)."""


class DocumentConfig(ReaderConfig):
    """Base of the configs of formats that only a library, or XML inside a zip, can tell the text of. Such files
    are read by `extract` in a child process.

    Attributes:
        package: module that it needs, None if Python alone is enough.
        extra: what to install to have it.
        records: whether every text in a file is a document.
    """

    package: ClassVar[str | None] = None
    extra: ClassVar[str] = "documents"
    records: ClassVar[bool] = False

    @staticmethod
    @abstractmethod
    def extract(file: BinaryIO, options: dict[str, Any], say: Report) -> Iterator[tuple[str, Iterator[str]]]:
        """See `Extract`; runs in the child."""

    def build(self, options: ReaderOptions, report: Report) -> Reader:
        kind = RecordDocuments if self.records else Documents
        return kind(type(self), options, report)


class Documents(Reader):
    """Documents read in a child process, so that a bad one is a sentence and never more."""

    gives_records = False

    def __init__(self, config: type[DocumentConfig], options: ReaderOptions, report: Report) -> None:
        self._config = config
        self._options = options
        self._report = report
        self._passwords = Passwords(options.password_variable)

    def read(self, file: BinaryIO, name: str) -> Iterator[Document]:
        package = self._config.package
        if package and find_spec(package) is None:
            raise MissingExtra(package, self._config.extra, f"Reading {self._config.label}")
        for password in self._passwords.tries(name):
            try:
                texts = extract(file, name, self._job(password), self._report)
            except NeedsPassword:
                continue
            yield from (Document(f"{name}, {part}" if part else name, text) for part, text in texts)
            return

    def _job(self, password: str | None) -> Job:
        options = {
            "field": self._options.field,
            "password": password,
            "encoding": self._options.encoding,
        }
        return Job(
            kind=self._config.model_fields["kind"].default,
            options=options,
            seconds=self._options.document_seconds,
            megabytes=self._options.document_megabytes,
        )


class RecordDocuments(Documents):
    """The same for formats whose every text is a document."""

    gives_records = True
