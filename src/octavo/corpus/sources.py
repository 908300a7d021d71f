"""The source of documents that are files; other rooms have sources of their own."""

from __future__ import annotations

import io
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from pydantic import Field, field_validator, model_validator

from octavo.config.parts import PartConfig, SplitBy, parts, register
from octavo.corpus.documents import (
    BLANK_LINE,
    Document,
    Report,
    Source,
    cut_at,
    filled,
    is_hub_name,
    joined,
    numbered_lines,
    separator_line,
)
from octavo.corpus.files import STDIN, FoundFile, Spool, find_files, is_passed_over, settled
from octavo.corpus.formats import ARCHIVE_SUFFIXES, ARCHIVES, format_of, suffix_of
from octavo.corpus.readers.base import Reader, ReaderConfig, ReaderOptions
from octavo.errors import CorpusError, MissingExtra, OctavoError

if TYPE_CHECKING:
    from octavo.corpus.archives import Budget

# Which reader a file gets, and what archives hold: from files that were found to files with documents in
# them.

Refuse = Callable[[str, CorpusError], None]
"""Hears the name of a file that cannot be read, and why."""

_IN_MEMORY = 16 << 20
"""Bytes of a file that is read at once, and so once only."""

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
        self._configs, self._options = configs, options
        self._readers: dict[str, Reader] = {}

    def _reader(self, kind: str) -> Reader:
        if kind not in self._readers:
            self._readers[kind] = self._configs[kind].model_validate({}).build(self._options, self._report)
        return self._readers[kind]

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
        opened: BinaryIO
        try:
            if 0 < file.size <= _IN_MEMORY:  # readers look at a file several times
                opened = io.BytesIO(Path(file.path).read_bytes())
            else:
                opened = Path(file.path).open("rb")  # noqa: SIM115
                opened.read(1)  # some of the system's own files can be opened, but not read
        except OSError as error:
            refuse(file.name, CorpusError(f"{file.name} cannot be read: {error.strerror}."))
            return
        with opened:
            yield from self._inside(opened, file.name, file.named, refuse)

    def hub_leaves(self, address: str) -> Iterator[Leaf]:
        """The files of a data set of the hub. Raises CorpusError, MissingExtra."""
        from octavo.corpus.fetch.hub import HubDataset

        data = HubDataset(address)
        urls = data.files()
        for number, url in enumerate(urls, start=1):
            self._report(f"{address}: fetching file {number} of {len(urls)}")
            with data.opened(url) as file:
                name = f"{address}, file {number}"
                yield Leaf(name, True, True, self._reader("parquet").read(file, name))

    def _inside(
        self,
        file: BinaryIO,
        name: str,
        named: bool,
        refuse: Refuse,
        budget: Budget | None = None,
        depth: int = 0,
    ) -> Iterator[Leaf]:
        try:
            kind = self._kind(file, name)
        except CorpusError as error:
            refuse(name, CorpusError(f"{name} {error.what}", remedy=error.remedy))
            return
        if kind not in ARCHIVES and self._records.whole and kind not in _RECORDS:
            why = f"{name} is no JSON file, so it holds no {self._records.form}."
            refuse(
                name,
                CorpusError(why, remedy=f"Write .jsonl files, with lines such as {self._records.sample}"),
            )
            return
        if kind not in ARCHIVES:
            reader = self._reader(kind)
            yield Leaf(name, named, reader.gives_records, reader.read(file, name))
            return
        from octavo.corpus.archives import DEEPEST, Budget, members, shown

        budget = budget or Budget(file.seek(0, io.SEEK_END))
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
                    yield from self._inside(content, place, False, refuse, budget, depth + 1)
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


_HEAD = 1 << 20  # characters in which `auto` looks for the separator
_DESCRIBED = 100  # files that a manifest lists by name
_KINDS = 5  # endings that a sentence lists
WITH_TEXT = {
    *(
        ".doc",
        ".dot",
        ".wpd",
        ".wps",
        ".pages",
        ".sxw",
        ".one",
        ".msg",
        ".pst",
        ".mobi",
        ".azw",
        ".azw3",
        ".fb2",
    ),
    *(
        ".djvu",
        ".ps",
        ".ppt",
        ".pptx",
        ".odp",
        ".key",
        ".xls",
        ".xlsx",
        ".ods",
        ".numbers",
        ".rst",
        ".org",
        ".adoc",
    ),
    *(".srt", ".vtt", ".xml", ".log", "no ending"),
}
"""Endings of files that are not read, though people write texts in them: these are named first."""
_ENDING = 12  # characters of one
_SENTENCES = 200  # that are said about single files; of the others the number


def _silent(sentence: str) -> None:
    """Report to nobody."""


class Files(Source):
    """Text files, documents, archives, folders of them, and stdin.

    Args:
        paths: files and folders in order; "-" is stdin.
        documents: see `FilesSource.documents`.
        separator: the line between documents.
        options: what the readers need.
        report: hears what was converted, cut off, left out or chosen; each thing once.

    Attributes:
        left_out: name of each file that was not read, and why, after a pass over the documents.
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
        self._unsaid = 0  # sentences of this pass that were too many
        self._spool = Spool.of_source()
        self._options = options.model_dump(mode="json")
        self._library = Library(options, self._say)
        self.left_out: dict[str, str] = {}

    def _say(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            if len(self._said) <= _SENTENCES:
                self._report(sentence)
            else:
                self._unsaid += 1

    @cached_property
    def _files(self) -> list[FoundFile]:
        """What there is to read."""
        here = [path for path in self._paths if not is_hub_name(path)]
        others: dict[str, list[str]] = {}

        def wanted(path: str) -> bool:
            known = self._library.wants(path)
            if not known:
                others.setdefault(suffix_of(path)[:_ENDING] or "no ending", []).append(Path(path).name)
            return known

        files = find_files(here, wanted, self._spool, self._say)
        if others:
            ranked = sorted(others.items(), key=lambda one: (one[0] not in WITH_TEXT, -len(one[1]), one[0]))
            kinds = ", ".join(
                f"{len(names):,} × {suffix} ({names[0]}{', …' * (len(names) > 1)})"
                for suffix, names in ranked[:_KINDS]
            )
            more = ", …" if len(others) > _KINDS else ""
            self._say(f"skipped, of unknown kinds: {kinds}{more}")
            if ranked[0][0] in WITH_TEXT:
                self._say(
                    "  → what may hold text is named first; save it as .txt, .docx, .odt or .pdf to have it read"
                )
        return files

    @property
    def total_bytes(self) -> int | None:
        return None if any(map(is_hub_name, self._paths)) else sum(file.size for file in self._files)

    def describe(self) -> dict[str, Any]:
        files = [{"name": file.name, "bytes": file.size} for file in self._files[:_DESCRIBED]]
        left_out = [{"name": name, "why": why} for name, why in self.left_out.items()]
        return {
            "kind": "files",
            "paths": list(self._paths),
            "files": files,
            "more_files": max(0, len(self._files) - _DESCRIBED),
            "bytes": sum(file.size for file in self._files),
            "left_out": left_out[:_DESCRIBED],
            "more_left_out": max(0, len(left_out) - _DESCRIBED),
        }

    def fingerprint(self) -> list[Any] | None:
        """The files' places, sizes and times. None where something is read from a pipe or the network, may have changed
        just now, or was left out, as another time it may not be."""
        if self.left_out or any(path == STDIN or is_hub_name(path) for path in self._paths):
            return None
        found = []
        for file in self._files:
            try:
                status = Path(file.path).stat()
            except OSError:
                return None
            times = status.st_mtime_ns, status.st_ctime_ns
            if not (stat.S_ISREG(status.st_mode) and settled(*times)) or self._spool.holds(file.path):
                return None
            found.append(
                [file.path, file.name, file.named, status.st_size, *times, status.st_dev, status.st_ino]
            )
        return [self._documents, self._separator_text, self._options, found]

    def documents(self) -> Iterator[Document]:
        self.left_out = {}
        self._unsaid = 0
        missing: list[MissingExtra] = []
        read = 0
        opened = self._opened(missing)
        if self._documents == "whole":
            first = next(opened, None)
            if first is not None:
                read = 1
                yield self._whole(chain([first], opened))
        else:
            for leaf in opened:
                read += 1
                yield from self._documents_of(leaf)
        self._summary(read, missing)

    def _summary(self, read: int, missing: list[MissingExtra]) -> None:
        if not read and missing:
            raise missing[0]
        if not read:
            raise CorpusError(
                f"{', '.join(self._paths)}: none of its files can be read as text.",
                remedy="Convert the files to plain text (.txt, UTF-8).",
            )
        if self._unsaid:
            self._report(f"and {self._unsaid:,} more sentences about single files, which are not shown")
        if self.left_out:
            count = len(self.left_out)
            self._report(
                f"{read - len(self._cut_short):,} files read, {count:,} left out or cut short, with the reasons above"
            )

    def _opened(self, missing: list[MissingExtra]) -> Iterator[Leaf]:
        """Every file that can be read, members of archives too. A bad file in a folder is left out and said; one
        that was named is an error.
        """
        self._cut_short: set[str] = set()
        for file in self._files:

            def refuse(name: str, error: CorpusError, named: bool = file.named, of: str = file.name) -> None:
                if named and name == of:
                    raise error
                self._leave_out(name, error)

            for leaf in self._library.leaves(file, refuse):
                try:
                    ready = self._ready(leaf, refuse)
                except MissingExtra as error:
                    if leaf.named:
                        raise
                    missing.append(error)
                    self._leave_out(leaf.name, error)
                    continue
                if ready is not None:
                    yield ready
        for path in filter(is_hub_name, self._paths):
            yield from self._library.hub_leaves(path)

    def _leave_out(self, name: str, error: OctavoError) -> None:
        if name not in self.left_out:
            self.left_out[name] = error.what
            self._say(f"left out: {error.what}")
            if error.remedy:
                self._say(f"  → {error.remedy}")  # once for all files that it helps

    def _ready(self, leaf: Leaf, refuse: Refuse) -> Leaf | None:
        """A file whose first document is there, so that what is wrong with it is known; errors that come later cut
        it short.
        """
        try:
            first = next(leaf.documents, None)
        except CorpusError as error:
            refuse(leaf.name, error)
            return None
        return leaf if first is None else leaf.checked(chain([first], leaf.documents), self._cut)

    def _cut(self, leaf: Leaf, error: CorpusError) -> None:
        if leaf.named:
            raise error
        self._cut_short.add(leaf.name)
        self.left_out[leaf.name] = f"cut short: {error.what}"
        self._say(f"left out from there on: {error.what}")

    @property
    def _alone(self) -> bool:
        if len(self._files) != 1 or any(map(is_hub_name, self._paths)):
            return False
        return not self._library.is_archive(self._files[0])

    def _whole(self, leaves: Iterator[Leaf]) -> Document:
        if self._alone:
            leaf = next(leaves)
            if not leaf.gives_records:
                return next(leaf.documents)  # to the last character as it is
            leaves = iter([leaf])
        read = (document.pieces for leaf in leaves for document in leaf.documents)
        return Document("the whole text", joined(read))

    def _documents_of(self, leaf: Leaf) -> Iterator[Document]:
        if self._documents == "file":
            texts = filled([joined(document.pieces for document in leaf.documents)])
        elif self._documents == "lines":
            apart = ("\n",) if leaf.gives_records else ()  # a record's last line ends with it
            read = chain.from_iterable(chain(document.pieces, apart) for document in leaf.documents)
            for number, line in numbered_lines(read):
                yield Document(f"{leaf.name}, line {number:,}", iter([line]), leaf.name)
            return
        elif leaf.gives_records:
            if self._documents == "auto":
                self._say(f"{leaf.name}: every record is a document")
            for document in leaf.documents:
                yield from (
                    Document(document.name, text, document.file) for text in filled([document.pieces])
                )
            return
        else:
            document = next(leaf.documents, None)
            if document is None:
                return
            if self._documents == "auto":
                texts = self._chosen(document)
            else:
                boundary = BLANK_LINE if self._documents == "blank_lines" else self._separator
                texts = cut_at(document.pieces, boundary)
        yield from (Document(leaf.name, text, leaf.name) for text in texts)

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
        if not self._alone:
            self._say("every file is a document")
            return filled([pieces])
        self._say(f"{document.name}: the whole text is one document")
        return iter([pieces])


@register("source")
class FilesSource(ReaderOptions, PartConfig):
    """Texts, documents (PDF, Word, EPUB, HTML …), tables, archives and folders of them, stdin, and data sets by
    name (hf:owner/name)."""

    kind: Literal["files"] = "files"
    paths: tuple[str, ...] = ()
    """Files and folders, read in this order; - is stdin. After them data sets of the Hugging Face hub, hf:owner/name,
    which need the network."""
    documents: Literal["auto", "whole", "file", "lines", "blank_lines", "separator"] = "auto"
    """What a document is: the whole text, a file, a line, what stands between blank lines or between separator lines.
    A record is always one, unless whole, file or lines is asked for. auto: split at separator lines where a text has
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
            raise ValueError("the separator must be one line that is not empty")
        return value.strip()

    @property
    def form(self) -> str:
        """What its documents are (see `corpus.records`)."""
        return str(self.records.form)

    @property
    def splits(self) -> tuple[SplitBy, ...]:  # pyrefly: ignore  # those of its records
        return self.records.splits

    def refuse(self, recipe: Any) -> str | None:
        return self.records.refuse(recipe)

    @model_validator(mode="after")
    def _records_stay_whole(self) -> FilesSource:
        if self.records.whole and self.documents != "auto":
            raise ValueError(
                f"documents={self.documents}: {self.form} are documents as they are; leave it out"
            )
        return self

    def build(self, report: Report = _silent) -> Files:
        """Make the source; nothing is read yet. Raises CorpusError when no path was given."""
        if not self.paths:
            raise CorpusError(
                "No text was given.", remedy="Name a file or a folder: --text PATH (or corpus.paths=PATH)."
            )
        return Files(
            self.paths, documents=self.documents, separator=self.separator, options=self, report=report
        )
