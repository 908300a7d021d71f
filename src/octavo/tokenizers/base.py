"""What every tokenizer is: text to ids, ids to text, a folder that it is saved to and loaded from.

A saved tokenizer is a JSON header with the format, its version, the kind, the tokenizer's own data and the
SHA-256 of that data; larger contents stand beside it in files that the header names with their SHA-256.
Any damage is found on load.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np

from octavo.config.parts import PartConfig, parts
from octavo.errors import TokenizerError

END_OF_TEXT = "<|endoftext|>"
"""The special token between documents, start and end at once, of every tokenizer but `word`."""

UNKNOWN = "<unk>"
"""Stands for what the vocabulary lacks, where the recipe says `unknown: token`."""

CODE_POINTS = 0x110000
"""Numbers that a character can have."""

FORMAT = "octavo-tokenizer"
VERSION = 1

# The header is `tokenizer.json`; a kind whose `tokenizer.json` is another library's uses the second name.
HEADER = "tokenizer.json"
SIDECAR = "octavo.json"


class UnknownTextError(TokenizerError):
    """A text holds what the vocabulary lacks.

    Args:
        counts: how often each missing character or word occurs.
        unit: "characters" or "words".
    """

    LISTED = 10

    def __init__(self, counts: Mapping[str, int], unit: str) -> None:
        self.counts = Counter(counts)
        self.unit = unit
        order = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        names = [f"{_name(text)} ({count}×)" for text, count in order[: self.LISTED]]
        more = f" and {len(order) - self.LISTED} more" if len(order) > self.LISTED else ""
        super().__init__(
            f"The tokenizer's vocabulary lacks {len(order)} {unit if len(order) != 1 else unit[:-1]} "
            f"of this text: {', '.join(names)}{more}.",
            remedy="Take them out of the text, train on one that has them, or set tokenizer.unknown=token.",
        )


class StreamDecoder(ABC):
    """Turns ids into text one by one; `push` and `finish` together return what `decode` does."""

    @abstractmethod
    def push(self, id: int) -> str:
        """The text that can be printed now that this id has come (may be empty)."""

    def finish(self) -> str:
        """The text still held back, once no more ids come."""
        return ""


class Tokenizer(ABC):
    """Text to ids and back. Immutable.

    Attributes:
        vocab_size: ids are 0 … vocab_size - 1.
        start: id that stands before a document; None when the tokenizer has none.
        end: id that ends a document; may equal `start`.

    Special tokens are not text: `encode` never yields them, whatever the text, and `decode` leaves them out.
    """

    kind: ClassVar[str]
    header: ClassVar[str] = HEADER
    cuts_anywhere: ClassVar[bool] = False
    """Whether a text may be cut between any two characters and encoded piece by piece, with the same ids."""

    def __init__(self, *, vocab_size: int, start: int | None, end: int | None) -> None:
        self.vocab_size = vocab_size
        self.start = start
        self.end = end

    @abstractmethod
    def encode(self, text: str) -> np.ndarray:
        """Ids of a text, int32, 1-D. Raises UnknownTextError for what the vocabulary lacks."""

    @abstractmethod
    def decoder(self) -> StreamDecoder:
        """A fresh decoder, for ids that come one by one."""

    @abstractmethod
    def token_text(self, id: int) -> str:
        """One token for the eye: white space and control characters escaped, special ones by their names."""

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids. Raises TokenizerError for an id outside the vocabulary."""
        decoder = self.decoder()
        return "".join(map(decoder.push, self._checked(ids).tolist())) + decoder.finish()

    def encode_document(self, text: str) -> np.ndarray:
        """Ids of a document as it stands in a dataset: between its special tokens."""
        before, after = self.around_document()
        return np.concatenate([before, self.encode(text), after])

    def around_document(self) -> tuple[np.ndarray, np.ndarray]:
        """Ids that a dataset puts before and after each document (int32, each of length 0 or 1)."""
        before = [] if self.start is None or self.start == self.end else [self.start]
        after = [] if self.end is None else [self.end]
        return np.array(before, np.int32), np.array(after, np.int32)

    # Saving and loading

    @abstractmethod
    def _data(self) -> dict[str, Any]:
        """What `_restore` needs, as JSON values."""

    @classmethod
    @abstractmethod
    def _restore(cls, data: dict[str, Any], files: dict[str, bytes]) -> Self:
        """The inverse of `_data` and `_files`. KeyError, TypeError and ValueError are taken as damage."""

    def _files(self) -> dict[str, bytes]:
        """Contents of the files that stand beside the header."""
        return {}

    def save(self, folder: Path) -> None:
        """Write the tokenizer into a folder, which is made if it is missing. Raises OSError."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        contents = self._saved()
        if SIDECAR not in contents and _is_ours(folder / SIDECAR):
            (folder / SIDECAR).unlink()  # another tokenizer saved here before must not speak for this one
        for name, content in contents.items():
            (folder / name).write_bytes(content)

    def fingerprint(self) -> str:
        """SHA-256 (hex) over what `save` writes: equal exactly when two tokenizers are."""
        return _sha256(
            b"".join(f"{name} {_sha256(content)}\n".encode() for name, content in self._saved().items())
        )

    def _saved(self) -> dict[str, bytes]:
        files = self._files()
        body = {"data": self._data(), "files": {name: _sha256(content) for name, content in files.items()}}
        header = {"format": FORMAT, "version": VERSION, "kind": self.kind, "sha256": _body_hash(body), **body}
        return {self.header: (json.dumps(header, indent=1) + "\n").encode(), **files}

    def _checked(self, ids: Iterable[int]) -> np.ndarray:
        array = np.asarray(ids) if hasattr(ids, "__array__") else np.fromiter(ids, np.int64)
        assert array.ndim == 1 and array.dtype.kind in "iu", f"ids of {array.dtype} in shape {array.shape}"
        lowest, highest = (int(array.min()), int(array.max())) if array.size else (0, 0)
        if lowest < 0 or highest >= self.vocab_size:
            wrong = lowest if lowest < 0 else highest
            raise TokenizerError(
                f"Token id {wrong} is outside this tokenizer's vocabulary (0 to {self.vocab_size - 1}).",
                remedy="Use the tokenizer that was saved with the model.",
            )
        return array

    def _check(self, id: int) -> int:
        """The same for one id, as decoders meet them (a negative index would silently count from the end)."""
        if not 0 <= id < self.vocab_size:
            self._checked([id])
        return id


class TokenizerConfig(PartConfig):
    """Base of every tokenizer's options."""

    tokenizer: ClassVar[type[Tokenizer]]
    trains_on: ClassVar[Literal["corpus", "train"] | None] = None
    """Which text `build` reads: all of it, the training split, or none."""

    @abstractmethod
    def build(self, pieces: Callable[[], Iterator[str]], *, documents: bool) -> Tokenizer:
        """Make the tokenizer.

        Args:
            pieces: starts a fresh pass over the text, in pieces of bounded size that may be cut anywhere.
            documents: whether the corpus has more than one document, so that a special token between them is needed.
        """


def load_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer saved in a folder; needs no recipe, corpus or network.

    Raises:
        TokenizerError: the folder holds none, or it is damaged, or written by a later version.
        MissingExtra: its kind needs a package that is not installed.
    """
    folder = Path(folder)
    path = folder / SIDECAR if (folder / SIDECAR).exists() else folder / HEADER
    header = _read_header(path)
    kinds = parts("tokenizer")
    config = kinds.get(header["kind"])
    if config is None or not issubclass(config, TokenizerConfig):
        raise TokenizerError(
            f"{path} is of kind {header['kind']!r}, which this Octavo does not have ({', '.join(kinds)}).",
            remedy="Update Octavo to the version that wrote it.",
        )
    try:
        files = {name: (folder / Path(name).name).read_bytes() for name in header["files"]}
    except OSError as error:
        raise _damaged(path, f"a file that it needs cannot be read: {error}") from error
    for name, content in files.items():
        if _sha256(content) != header["files"][name]:
            raise _damaged(folder / name, "its content was altered")
    try:
        return config.tokenizer._restore(header["data"], files)
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path, f"{type(error).__name__}: {error}") from error


def _is_ours(path: Path) -> bool:
    """Whether a file is a tokenizer's header."""
    try:
        header = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(header, dict) and header.get("format") == FORMAT


def _read_header(path: Path) -> dict[str, Any]:
    """Read and check everything that is the same for every kind."""
    try:
        header = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise TokenizerError(f"{path.parent} holds no tokenizer: there is no {path.name}.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path, str(error)) from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise TokenizerError(
            f"{path} is not a tokenizer that Octavo saved (its format is not {FORMAT!r}).",
            remedy=f"Give the folder of a run's tokenizer; a byte-pair tokenizer also needs its {SIDECAR}.",
        )
    if not isinstance(header.get("version"), int) or header["version"] > VERSION:
        raise TokenizerError(
            f"{path} has format version {header.get('version')!r}; this Octavo reads up to {VERSION}.",
            remedy="Update Octavo to the version that wrote it.",
        )
    body = {key: header.get(key) for key in ("data", "files")}
    if not all(isinstance(value, dict) for value in body.values()) or not isinstance(header.get("kind"), str):
        raise _damaged(path, "parts of it are missing")
    if header.get("sha256") != _body_hash(body):
        raise _damaged(path, "its content was altered")
    return header


def _damaged(path: Path, why: str) -> TokenizerError:
    return TokenizerError(
        f"The tokenizer file {path} is damaged ({why}).",
        remedy="Take the tokenizer folder of another checkpoint of the run.",
    )


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _body_hash(body: dict[str, Any]) -> str:
    return _sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode())


def utf8(text: str) -> bytes:
    """UTF-8 of a text. Raises TokenizerError where it holds half a surrogate pair, which is no character."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise TokenizerError(
            f"The text holds half a character (U+{ord(text[error.start]):04X} at position {error.start}), "
            "which UTF-8 cannot express.",
            remedy="Take it out, or save the text as UTF-8 again.",
        ) from error


def code_points(text: str) -> np.ndarray:
    """Each character's number, uint32; half a surrogate pair passes as one."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.dtype("<u4"))


def printable(text: str) -> str:
    """A text for the eye: what cannot be printed as an escape such as \\n or \\u200b."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _name(text: str) -> str:
    """How an error names a missing character or word: quoted, or by code point where it cannot be seen."""
    if len(text) == 1 and not text.isprintable():
        return f"U+{ord(text):04X}"
    return f"'{printable(text)}'"
