"""Which reader a file gets, and what archives hold: from files that were found to files with documents in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import BinaryIO

from octavo.config.parts import parts
from octavo.corpus.archives import DEEPEST, Budget, members, shown
from octavo.corpus.documents import Document, Report
from octavo.corpus.files import FoundFile, is_passed_over
from octavo.corpus.formats import ARCHIVE_SUFFIXES, ARCHIVES, format_of, suffix_of
from octavo.corpus.hub import HubDataset
from octavo.corpus.readers.base import Reader, ReaderConfig, ReaderOptions
from octavo.errors import CorpusError

Refuse = Callable[[str, CorpusError], None]
"""Hears the name of a file that cannot be read, and why."""

# Names say these as well as content does: a text about HTML may begin with a tag.
_TEXTS = {"text", "jsonl", "json", "csv", "eml", "mbox", "tex"}
_RECORDS = {"jsonl", "json"}  # whose records can be more than texts


@dataclass(frozen=True)
class Leaf:
    """A file with documents in it, no archive.

    Attributes:
        named: whether the user named this very file.
    """

    name: str
    named: bool
    gives_records: bool
    documents: Iterator[Document]

    def checked(self, documents: Iterator[Document], cut: Callable[[Leaf, CorpusError], None]) -> Leaf:
        """The same file, its documents ending at the first error, which `cut` hears."""
        return replace(self, documents=self._until_error(documents, cut))

    def _until_error(
        self, documents: Iterator[Document], cut: Callable[[Leaf, CorpusError], None]
    ) -> Iterator[Document]:
        whole = True

        def pieces(of: Document) -> Iterator[str]:
            nonlocal whole
            try:
                yield from of.pieces
            except CorpusError as error:
                whole = False
                cut(self, error)

        try:
            for document in documents:
                yield Document(document.name, pieces(document), document.file or self.name)
                if not whole:
                    return
        except CorpusError as error:
            cut(self, error)


class Library:
    """The readers, and which file gets which.

    Args:
        options: what the readers need.
        report: hears what a reader has to say.
    """

    def __init__(self, options: ReaderOptions, report: Report) -> None:
        self._report = report
        self._records = options.records
        configs = {name: kind for name, kind in parts("reader").items() if issubclass(kind, ReaderConfig)}
        self._labels = {name: kind.label for name, kind in configs.items()}
        self._kinds = {suffix: name for name, kind in configs.items() for suffix in kind.suffixes}
        self._readers: dict[str, Reader] = {
            name: kind.model_validate({}).build(options, report) for name, kind in configs.items()
        }

    def wants(self, path: str) -> bool:
        """Whether a file in a folder is one to read: by its name, or because its content is of a known format."""
        suffix = suffix_of(path)
        if suffix in self._kinds or suffix in ARCHIVE_SUFFIXES:
            return Path(path).is_file()
        with suppress(CorpusError, OSError):
            if Path(path).is_file():
                with Path(path).open("rb") as file:
                    return format_of(file) is not None
        return False

    def is_archive(self, file: FoundFile) -> bool:
        """Whether a file holds other files."""
        with suppress(CorpusError, OSError), Path(file.path).open("rb") as opened:
            return format_of(opened) in ARCHIVES
        return False

    def leaves(self, file: FoundFile, refuse: Refuse) -> Iterator[Leaf]:
        """The file, or what the archive holds; what cannot be read is refused."""
        try:
            opened = Path(file.path).open("rb")  # noqa: SIM115
            opened.peek(1)  # some of the system's own files can be opened, but not read
        except OSError as error:
            refuse(file.name, CorpusError(f"{file.name} cannot be read: {error.strerror}."))
            return
        with opened:
            yield from self._inside(opened, file.name, file.named, Budget(file.size), 0, refuse)

    def hub_leaves(self, address: str) -> Iterator[Leaf]:
        """The files of a data set of the hub. Raises CorpusError, MissingExtra."""
        data = HubDataset(address)
        urls = data.files()
        for number, url in enumerate(urls, start=1):
            self._report(f"{address}: fetching file {number} of {len(urls)}")
            with data.opened(url) as file:
                name = f"{address}, file {number}"
                yield Leaf(name, True, True, self._readers["parquet"].read(file, name))

    def _inside(
        self, file: BinaryIO, name: str, named: bool, budget: Budget, depth: int, refuse: Refuse
    ) -> Iterator[Leaf]:
        try:
            kind = self._kind(file, name)
        except CorpusError as error:
            refuse(name, CorpusError(f"{name} {error.what}", remedy=error.remedy))
            return
        if kind not in ARCHIVES and self._records.form != "text" and kind not in _RECORDS:
            why = f"{name} is no JSON file, so it holds no {self._records.form}."
            refuse(
                name,
                CorpusError(why, remedy=f"Write .jsonl files, with lines such as {self._records.sample}"),
            )
            return
        if kind not in ARCHIVES:
            reader = self._readers[kind]
            yield Leaf(name, named, reader.gives_records, reader.read(file, name))
            return
        if depth == DEEPEST:
            refuse(name, CorpusError(f"{name} is an archive in {DEEPEST} archives, and is not opened."))
            return

        def skip(member: str, why: str) -> None:
            place = f"{name}/{shown(member)}"
            refuse(place, CorpusError(f"{place}: {why}."))

        found = False
        try:
            for member, content in members(file, kind, name, budget, skip):
                alone = kind not in ("zip", "tar") and name.startswith(member)  # a file compressed by itself
                place = member if alone else f"{name}/{shown(member)}"
                if self._known(content, member):
                    found = True
                    yield from self._inside(content, place, False, budget, depth + 1, refuse)
        except CorpusError as error:
            refuse(name, CorpusError(f"{name} {error.what}", remedy=error.remedy))
            return
        if not found:
            refuse(name, CorpusError(f"{name} holds no file that can be read."))

    def _known(self, file: BinaryIO, name: str) -> bool:
        """Whether a member is read, as `wants` says of files."""
        if any(map(is_passed_over, PurePath(name).parts)):
            return False
        suffix = suffix_of(name)
        if suffix in self._kinds or suffix in ARCHIVE_SUFFIXES:
            return True
        try:
            return format_of(file) is not None or not suffix
        except CorpusError:
            return True

    def _kind(self, file: BinaryIO, name: str) -> str:
        """The format to read a file as. Raises CorpusError."""
        told = self._kinds.get(suffix_of(name))
        kind: str
        shown_by = format_of(file)
        if shown_by is None or (told in _TEXTS and shown_by == "html"):
            kind = told if told is not None and told in (*_TEXTS, "html") else "text"
        else:
            kind = shown_by
        empty = file.seek(0, 2) == 0
        suffix = suffix_of(name)
        if told and kind != told and not empty:
            what = self._labels.get(kind) or ARCHIVES[kind]
            self._report(f"{name} is {what} by its content; read as that")
        elif not told and suffix and kind == "text" and not empty:
            self._report(f"{name}: files named {suffix} are not known; read as plain text")
        file.seek(0)
        return kind
