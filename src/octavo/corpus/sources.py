"""The source of documents that are files; other rooms have sources of their own."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import chain
from typing import Any, Literal

from pydantic import Field, field_validator

from octavo.config.parts import PartConfig, parts, register
from octavo.corpus.documents import (
    BLANK_LINE,
    Document,
    Report,
    Source,
    cut_at,
    filled,
    joined,
    separator_line,
)
from octavo.corpus.files import FoundFile, Spool, find_files
from octavo.corpus.readers.base import Reader, ReaderConfig, ReaderOptions
from octavo.errors import CorpusError

_HEAD = 1 << 20  # characters in which `auto` looks for the separator
_DESCRIBED = 100  # files that a manifest lists by name


def _silent(sentence: str) -> None:
    """Report to nobody."""


class Files(Source):
    """Text files, folders of them, and stdin.

    Args:
        paths: files and folders in order; "-" is stdin.
        documents: see `FilesSource.documents`.
        separator: the line between documents.
        options: what the readers need.
        report: hears what was converted, cut off, left out or chosen; each thing once.
    """

    def __init__(
        self,
        paths: tuple[str, ...],
        *,
        documents: str,
        separator: str,
        options: ReaderOptions,
        report: Report,
    ) -> None:
        self._paths = paths
        self._documents = documents
        self._separator = separator_line(separator)
        self._separator_text = separator
        self._report = report
        self._said: set[str] = set()
        self._spool = Spool()
        kinds = parts("reader").values()
        readers = [
            (kind, kind.model_validate({}).build(options, self._say))
            for kind in kinds
            if issubclass(kind, ReaderConfig)
        ]
        self._readers: dict[str, Reader] = {
            suffix: reader for kind, reader in readers for suffix in kind.suffixes
        }

    def _say(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            self._report(sentence)

    @cached_property
    def _files(self) -> list[FoundFile]:
        """What there is to read. A bad file in a folder is left out and said; one that was named is an
        error.
        """
        readable = []
        for file in find_files(self._paths, self._readers.keys(), self._spool, self._say):
            try:
                self._reader(file).check(file.path, file.name)
                readable.append(file)
                suffix = file.path.suffix.lower()
                if suffix and suffix not in self._readers:
                    self._say(f"{file.name}: files named {suffix} are not known; read as plain text")
            except CorpusError as error:
                if file.named:
                    raise
                self._say(f"left out: {error.what}")
        if not readable:
            raise CorpusError(
                f"{', '.join(self._paths)}: no file in there can be read as text.",
                remedy="Convert the files to plain text (.txt, UTF-8).",
            )
        return readable

    def _reader(self, file: FoundFile) -> Reader:
        return self._readers.get(file.path.suffix.lower(), self._readers[".txt"])

    @property
    def total_bytes(self) -> int:
        return sum(file.path.stat().st_size for file in self._files)

    def describe(self) -> dict[str, Any]:
        files = [{"name": file.name, "bytes": file.path.stat().st_size} for file in self._files[:_DESCRIBED]]
        return {
            "kind": "files",
            "paths": list(self._paths),
            "files": files,
            "more_files": max(0, len(self._files) - _DESCRIBED),
            "bytes": self.total_bytes,
        }

    def documents(self) -> Iterator[Document]:
        if self._documents == "whole":
            yield self._whole()
            return
        for file in self._files:
            yield from self._documents_of(file)

    def _whole(self) -> Document:
        read = (
            document for file in self._files for document in self._reader(file).read(file.path, file.name)
        )
        if len(self._files) == 1 and not self._reader(self._files[0]).gives_records:
            return next(read)  # to the last character as it is
        return Document("the whole text", joined(document.pieces for document in read))

    def _documents_of(self, file: FoundFile) -> Iterator[Document]:
        reader = self._reader(file)
        read = reader.read(file.path, file.name)
        if self._documents == "file":
            texts = filled([joined(document.pieces for document in read)])
        elif reader.gives_records:
            if self._documents == "auto":
                self._say(f"{file.name}: every record is a document")
            for document in read:
                yield from (Document(document.name, text) for text in filled([document.pieces]))
            return
        elif self._documents == "auto":
            texts = self._chosen(next(read))
        else:
            boundary = BLANK_LINE if self._documents == "blank_lines" else self._separator
            texts = cut_at(next(read).pieces, boundary)
        yield from (Document(file.name, text) for text in texts)

    def _chosen(self, document: Document) -> Iterator[Iterator[str]]:
        """Where `auto` cuts a text: at separator lines if it begins with some, else nowhere."""
        head: list[str] = []
        length = 0
        for piece in document.pieces:
            head.append(piece)
            length += len(piece)
            if length >= _HEAD:
                break
        pieces = chain(head, document.pieces)
        if self._separator.search(("\n" + "".join(head))[: _HEAD + 1]):
            self._say(f"{document.name}: cut into documents at the lines {self._separator_text}")
            return cut_at(pieces, self._separator)
        if len(self._files) > 1:
            self._say("every file is a document")
            return filled([pieces])
        self._say(f"{document.name}: the whole text is one document")
        return iter([pieces])


@register("source")
class FilesSource(ReaderOptions, PartConfig):
    """Text files (.txt, .md, .jsonl), folders of them, and stdin."""

    kind: Literal["files"] = "files"
    paths: tuple[str, ...] = ()
    """Files and folders, read in this order; - is stdin."""
    documents: Literal["auto", "whole", "file", "blank_lines", "separator"] = "auto"
    """What a document is: the whole text, a file, what stands between blank lines or between separator lines.
    A record is always one, unless whole or file is asked for. auto: split at separator lines where a text has
    them near its beginning; else one file alone is one whole text, and of several files each is a
    document.
    """
    separator: str = Field("<|endoftext|>", min_length=1)
    """The line that stands between documents."""

    @field_validator("paths", mode="before")
    @classmethod
    def _one_path(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("separator")
    @classmethod
    def _one_line(cls, value: str) -> str:
        if not value.strip() or "\n" in value.strip():
            raise ValueError("the separator has to be one line with something in it")
        return value.strip()

    def build(self, report: Report = _silent) -> Files:
        """Make the source; nothing is read yet. Raises CorpusError when no path was given."""
        if not self.paths:
            raise CorpusError(
                "No text was given.", remedy="Name a file or a folder: --text PATH (or corpus.paths=PATH)."
            )
        return Files(
            self.paths, documents=self.documents, separator=self.separator, options=self, report=report
        )
