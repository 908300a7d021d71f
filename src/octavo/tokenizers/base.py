"""What every tokenizer is: text to ids, ids to text, a folder that it is saved to (`loading.py` reads it again).

A saved tokenizer is a JSON header with the format, its version, the kind, the tokenizer's own data and the
SHA-256 of that data; larger contents stand beside it in files that the header names with their SHA-256.
Any damage is found on load.
"""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from octavo.errors import TokenizerError
from octavo.util.json_text import json_text

END_OF_TEXT = "<|endoftext|>"
"""The special token between documents, start and end at once, of every tokenizer but `word`."""

CHAT_END = "<|end|>"
"""The special token that ends a turn of a conversation (see `chat.py`)."""

UNKNOWN = "<unk>"
"""Stands for what the vocabulary lacks, where the recipe says `unknown: token`."""

LONGEST_NAMED = 80
"""Characters of a missing word that an error shows."""

CODE_POINTS = 0x110000
"""Numbers that a character can have."""

FORMAT = "octavo-tokenizer"
PLAIN, VERSION = (
    1,
    2,
)  # without special tokens that were added, and with them, which a version that lacks them refuses

# The header is `tokenizer.json`; a kind whose `tokenizer.json` is another library's uses the second name.
HEADER = "tokenizer.json"
SIDECAR = "octavo.json"


class UnknownTextError(TokenizerError):
    """A text holds what the vocabulary lacks.

    Args:
        counts: how often each missing character, word or symbol occurs.
        unit: "characters", "words" or "symbols".
    """

    LISTED = 10
    REMEDIES: ClassVar[dict[str, str]] = {
        "symbols": "A symbol is one of tokenizer.alphabet or, without that, a whole number below tokenizer.size; white "
        "space stands around it, unless the alphabet is a text."
    }

    def __init__(self, counts: Mapping[str, int], unit: str) -> None:
        self.counts = Counter(counts)
        self.unit = unit
        order = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        names = [f"{_name(text)} ({count}×)" for text, count in order[: self.LISTED]]
        more = f" and {len(order) - self.LISTED} more" if len(order) > self.LISTED else ""
        super().__init__(
            f"The tokenizer's vocabulary lacks {len(order)} {unit if len(order) != 1 else unit[:-1]} "
            f"of this text: {', '.join(names)}{more}.",
            remedy=self.REMEDIES.get(
                unit, "Take them out of the text, train on one that has them, or set tokenizer.unknown=token."
            ),
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
        unknown: id that stands for what the vocabulary lacks, where there is one.
        added: names of the special tokens that were added to a finished vocabulary (see `special.py`); theirs are the
            last ids.

    Special tokens are not text: `encode` never yields them, whatever the text, and `decode` leaves them out.
    """

    kind: str
    header: str = HEADER
    cuts_anywhere: bool = False
    """Whether a text may be cut between any two characters and encoded piece by piece, with the same ids."""
    cuts_at_words: bool = True
    """Whether it may at least be cut where `pieces.whole_words` does."""

    encoding: ClassVar[Mapping[str, Any]] = {}
    """What else than the tokenizer decides which ids a document has, for the name of a dataset."""

    unknown: int | None = None
    added: tuple[str, ...] = ()

    def __init__(self, *, vocab_size: int, start: int | None, end: int | None) -> None:
        self.vocab_size = vocab_size
        self.start = start
        self.end = end

    @property
    def marks(self) -> dict[str, Any]:
        """What batches need to know of it."""
        return {
            "start_id": self.start,
            "end_id": self.end,
            "line_id": self.line,
            "special": self.special,
            "halves": self.halves,
        }

    @abstractmethod
    def encode(self, text: str) -> np.ndarray:
        """Ids of a text, int32, 1-D. Raises UnknownTextError for what the vocabulary lacks."""

    def encode_source(self, text: str) -> np.ndarray:
        """Ids of the source of a pair, which may have a tokenizer of its own."""
        return self.encode(text)

    def halves(self) -> np.ndarray | None:
        """The two ids that each token was merged from, (V, 2), smaller than its own; −1 where it was not. None where
        no merges are known."""
        return None

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

    def spelt(self) -> list[str]:
        """What each id is as text, by itself; nothing for a special one."""
        special = set(self.special.values())
        return ["" if id in special else self.decode([id]) for id in range(self.vocab_size)]

    @cached_property
    def special(self) -> Mapping[str, int]:
        """The id of each special token, by its name."""
        own = sorted({id for id in (self.start, self.end) if id is not None})
        ids = [*own, *range(self.vocab_size - len(self.added), self.vocab_size)]
        return {self.token_text(id): id for id in ids}

    @cached_property
    def line(self) -> int | None:
        """Id of a line break, where one token of this text alone stands for it."""
        try:
            ids = self.encode("\n")
        except UnknownTextError:
            return None
        return int(ids[0]) if len(ids) == 1 else None

    @cached_property
    def ends(self) -> frozenset[int]:
        """Ids after which a text that is being written is whole: the document's end, and that of a turn."""
        return frozenset(id for id in (self.end, self.special.get(CHAT_END)) if id is not None)

    def decode_with_names(self, ids: Iterable[int]) -> str:
        """The text of ids with special tokens by their names, and what stands between them decoded by itself."""
        names = {id: name for name, id in self.special.items()}
        runs = groupby(self._checked(ids).tolist(), key=names.get)
        return "".join(name * len(list(run)) if name else self.decode(run) for name, run in runs)

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
        return sha256(
            b"".join(f"{name} {sha256(content)}\n".encode() for name, content in self._saved().items())
        )

    def _saved(self) -> dict[str, bytes]:
        files = self._files()
        body: dict[str, Any] = {
            "data": self._data(),
            "files": {name: sha256(content) for name, content in files.items()},
        }
        if self.added:
            body["added"] = list(self.added)
        version = VERSION if self.added else PLAIN
        header = {"format": FORMAT, "version": version, "kind": self.kind, "sha256": body_hash(body), **body}
        return {self.header: (json_text(header, indent=1) + "\n").encode(), **files}

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


def _is_ours(path: Path) -> bool:
    """Whether a file is a tokenizer's header."""
    try:
        header = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(header, dict) and header.get("format") == FORMAT


def sha256(content: bytes) -> str:
    """Hash of some bytes, as hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def body_hash(body: dict[str, Any]) -> str:
    """SHA-256 of a header's content."""
    return sha256(json_text(body, sort_keys=True, separators=(",", ":")).encode())


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
    return f"'{printable(text if len(text) <= LONGEST_NAMED else text[:LONGEST_NAMED] + '…')}'"


# How many ids there are, and of pairs whose sides have tokenizers of their own, how many are the source's.


class Vocabulary(int):
    """The number of ids. Those of the `source` are the last ones; 0: it has none of its own."""

    source: int

    def __new__(cls, ids: int, *, source: int = 0) -> Self:
        found = super().__new__(cls, ids)
        found.source = source
        return found


def of_sides(vocab_size: int) -> tuple[int, int]:
    """Ids of the source and of the target; where they have one vocabulary, each has all of it."""
    source = vocab_size.source if isinstance(vocab_size, Vocabulary) else 0
    return (source, vocab_size - source) if source else (vocab_size, vocab_size)


class Extended(Tokenizer):
    """A tokenizer with more special tokens; all else is the one inside.

    Where that has no end of text and `<|endoftext|>` is added, this becomes start and end.

    Args:
        inner: has no added tokens itself.
        added: their names, in the order of their ids.
    """

    def __init__(self, inner: Tokenizer, added: Sequence[str]) -> None:
        first = inner.vocab_size
        start, end = inner.start, inner.end
        if end is None and END_OF_TEXT in added:
            start = end = first + list(added).index(END_OF_TEXT)
        super().__init__(vocab_size=first + len(added), start=start, end=end)
        self.inner, self.added = inner, tuple(added)
        self.kind, self.header = inner.kind, inner.header
        self.cuts_anywhere, self.cuts_at_words = inner.cuts_anywhere, inner.cuts_at_words
        self.unknown = inner.unknown

    def spelt(self) -> list[str]:
        """What each id is as text, by itself; nothing for a special one."""
        special = set(self.special.values())
        return ["" if id in special else self.decode([id]) for id in range(self.vocab_size)]

    @cached_property
    def special(self) -> Mapping[str, int]:
        """Those inside, and the added ones."""
        first = self.inner.vocab_size
        return {**self.inner.special, **{name: first + at for at, name in enumerate(self.added)}}

    def encode(self, text: str) -> np.ndarray:
        return self.inner.encode(text)

    def encode_source(self, text: str) -> np.ndarray:
        return self.inner.encode_source(text)

    def halves(self) -> np.ndarray | None:
        known = self.inner.halves()
        return None if known is None else np.pad(known, ((0, len(self.added)), (0, 0)), constant_values=-1)

    def decode(self, ids: Iterable[int]) -> str:
        array = self._checked(ids)
        return self.inner.decode(array[array < self.inner.vocab_size])

    def decoder(self) -> StreamDecoder:
        return _Decoder(self)

    def token_text(self, id: int) -> str:
        at = self._check(id) - self.inner.vocab_size
        return self.inner.token_text(id) if at < 0 else self.added[at]

    def _data(self) -> dict[str, Any]:
        return self.inner._data()

    def _files(self) -> dict[str, bytes]:
        return self.inner._files()

    @classmethod
    def _restore(cls, data: dict[str, Any], files: dict[str, bytes]) -> Self:
        raise TypeError("the tokenizer inside is restored, and extended again")


class _Decoder(StreamDecoder):
    """The decoder of the tokenizer inside, which hears nothing of what was added."""

    def __init__(self, tokenizer: Extended) -> None:
        self.tokenizer, self.inner = tokenizer, tokenizer.inner.decoder()

    def push(self, id: int) -> str:
        return self.inner.push(id) if self.tokenizer._check(id) < self.tokenizer.inner.vocab_size else ""

    def finish(self) -> str:
        return self.inner.finish()


def with_special(tokenizer: Tokenizer, names: Iterable[str]) -> Tokenizer:
    """A tokenizer that has these special tokens: those that it lacks get ids after all others, in this order.

    Raises TokenizerError for a name that stands for text.
    """
    lacking = [name for name in dict.fromkeys(names) if name not in tokenizer.special]
    if not lacking:
        return tokenizer
    if UNKNOWN in lacking:
        raise TokenizerError(f"{UNKNOWN} stands for text, so it is no special token.")
    inner = tokenizer.inner if isinstance(tokenizer, Extended) else tokenizer
    return Extended(inner, [*tokenizer.added, *lacking])


# A long text is encoded in bounded memory, cut where that changes no id: between a character that is not white space
# and a space or line break. Words end there; and no match of GPT-2's pattern spans it: only a *leading* space joins a
# word, and the look-ahead in `\s+(?!\S)` sees to the end of a run of white space, which stays whole on the right side
# of the cut.

WINDOW = 1 << 20  # characters gathered before a cut is looked for

_UP_TO_LAST_CUT = re.compile(r".*\S(?=[ \n])", re.DOTALL)


def encode_pieces(tokenizer: Tokenizer, pieces: Iterable[str]) -> Iterator[np.ndarray]:
    """Ids of one document given in pieces, cut anywhere: put together, exactly `tokenizer.encode(whole)`.

    Memory stays bounded by the pieces' size and about `WINDOW` characters, if the text has white space and the
    tokenizer can be cut there.

    Raises:
        UnknownTextError: after the last piece, so that it counts everything that the vocabulary lacks.
    """
    missing: Counter[str] = Counter()
    unit = ""
    if not tokenizer.cuts_anywhere:
        pieces = whole_words(pieces) if tokenizer.cuts_at_words else ["".join(pieces)]
    for piece in pieces:
        try:
            ids = tokenizer.encode(piece)
        except UnknownTextError as error:
            missing += error.counts
            unit = error.unit
        else:
            if not missing:
                yield ids
    if missing:
        raise UnknownTextError(missing, unit)


def whole_words(pieces: Iterable[str], window: int = WINDOW) -> Iterator[str]:
    """The same text cut in safe places, about every `window` characters, later where no cut is safe."""
    held: list[str] = []  # the text since the last cut; no safe place lies inside it
    for piece in _of_size(pieces, window):
        edge = held[-1][-1] if held else ""
        found = _UP_TO_LAST_CUT.match(edge + piece)
        if found is None:
            held.append(piece)
            continue
        cut = found.end() - len(edge)
        held.append(piece[:cut])
        yield "".join(held)
        held = [piece[cut:]]
    if held:
        yield "".join(held)


def _of_size(pieces: Iterable[str], size: int) -> Iterator[str]:
    """The same text in pieces of exactly `size` characters, and a last one that may be shorter."""
    held: list[str] = []
    length = 0
    for piece in pieces:
        held.append(piece)
        length += len(piece)
        if length < size:
            continue
        text = "".join(held)
        whole = length - length % size
        yield from (text[at : at + size] for at in range(0, whole, size))
        held = [text[whole:]]
        length -= whole
    if length:
        yield "".join(held)
