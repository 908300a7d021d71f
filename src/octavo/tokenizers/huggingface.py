"""A tokenizer of another model: its `tokenizer.json` as it is, read by Hugging Face `tokenizers`.

Ids are the file's own. Whatever it does to a text stays (lower case, added spaces, lost white space), so a text need
not come back as it was. Special tokens are never made from a text: the library is told to read their names as text, and
where its vocabulary would still give their ids, their names are taken apart.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from heapq import nsmallest
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np

from octavo.config.parts import FilePath, register
from octavo.errors import TokenizerError
from octavo.tokenizers.base import (
    END_OF_TEXT,
    HEADER,
    SIDECAR,
    StreamDecoder,
    Tokenizer,
    UnknownTextError,
    printable,
    utf8,
    whole_words,
)
from octavo.tokenizers.byte import ByteDecoder, byte_alphabet, from_alphabet
from octavo.tokenizers.config import TokenizerConfig

SETTINGS = "tokenizer_config.json"
"""Stands beside a `tokenizer.json`, and names the tokens that begin and end a text."""

_PIECE, _BATCH = 1 << 12, 64  # characters at a time, and pieces given to the library at once
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")  # how vocabularies spell bytes of characters that they lack
_BEHIND, _AT_ONCE = (
    8,
    32,
)  # ids that a stream's decoder looks at again, and how many it gathers before it forgets
_MOST = 1 << 24  # tokens; far more than any model has, and few enough for a list of them
_TRIED = 256  # tokens that are decoded before any text is


class _Panic(Exception):
    """The library met a case that its makers did not think of."""


@contextmanager
def _calling() -> Iterator[None]:
    """Turns the library's panics, which are no exceptions (and whose class has no name to import), into one."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise _Panic(f"the library 'tokenizers' fails: {error}") from error


class HuggingFaceTokenizer(Tokenizer):
    """A foreign tokenizer.

    Args:
        content: of its `tokenizer.json`.
        start, end: ids that begin and end a document.
        size: ids that the model knows, where these are more than the file names.

    Raises:
        ValueError: the library cannot read it, or its ids do not fit.
    """

    kind = "huggingface"
    header = SIDECAR

    def __init__(
        self, content: str, *, start: int | None = None, end: int | None = None, size: int | None = None
    ) -> None:
        self._content, self._size = content, size
        self._encoder = _encoder(content)
        self._tokens = {id: token for token, id in self._encoder.get_vocab(with_added_tokens=True).items()}
        named = max(self._tokens, default=-1) + 1
        if not named:
            raise ValueError("it has no tokens")
        if size is not None and size < named:
            raise ValueError(f"it has ids up to {named - 1:,}, and the model has {size:,} tokens")
        if named > _MOST:
            raise ValueError(
                f"it has ids up to {named - 1:,}, and {_MOST - 1:,} is the highest that Octavo reads"
            )
        super().__init__(vocab_size=named if size is None else size, start=start, end=end)
        for id in (start, end):
            if id is not None and id not in self._tokens:
                raise ValueError(f"its tokens do not include the id {id}")
        settings = json.loads(content)
        added = self._encoder.get_added_tokens_decoder()
        self.unknown = self._unknown(settings["model"])
        marked = {id for id, token in added.items() if token.special}
        marked |= {id for id in (start, end) if id is not None}
        self._names: dict[int, str] = {id: self._tokens[id] for id in marked if id != self.unknown}
        self.cuts_at_words = _may_be_cut(settings)
        self._bytes = self._token_bytes(set(added)) if _is_byte_level(settings["decoder"]) else None
        self._try()

    def _try(self) -> None:
        """Encode and decode a little. Raises ValueError where the library panics, so that no model comes without."""
        try:
            with _calling():
                self._encoder.encode("a b\n", add_special_tokens=False)
        except _Panic as error:
            raise ValueError(str(error)) from error
        except Exception:  # noqa: S110 - a vocabulary need not have these letters
            pass
        if self._bytes is None:  # the shortest tokens are the ones that a decoder stumbles over
            for id in nsmallest(_TRIED, self._tokens, key=lambda id: len(self._tokens[id])):
                try:
                    self.text_of([id])
                except TokenizerError as error:
                    raise ValueError(str(error.__cause__)) from error

    def _unknown(self, model: Mapping[str, Any]) -> int | None:
        token = model.get("unk_token")
        return model.get("unk_id") if token is None else self._encoder.token_to_id(token)

    def _token_bytes(self, added: set[int]) -> list[bytes]:
        alphabet, found = byte_alphabet(), [b""] * self.vocab_size
        for id, token in self._tokens.items():
            if id not in self._names:
                plain = id in added or not all(c in alphabet for c in token)
                found[id] = token.encode() if plain else from_alphabet(token, alphabet)
        return found

    @cached_property
    def special(self) -> Mapping[str, int]:
        return {name: id for id, name in sorted(self._names.items())}

    def encode(self, text: str) -> np.ndarray:
        utf8(text)
        ids = np.concatenate([np.zeros(0, np.int32), *self._ids(text)])
        return ids if not self._names or not np.isin(ids, list(self._names)).any() else self._apart(text)

    def _ids(self, text: str) -> Iterator[np.ndarray]:
        pieces = whole_words([text], _PIECE) if self.cuts_at_words else iter([text])
        while batch := list(islice(pieces, _BATCH)):
            try:
                with _calling():
                    found = self._encoder.encode_batch_fast(batch, add_special_tokens=False)
            except Exception as error:  # the library's own has no other name
                raise self._unreadable("".join(batch), error) from error
            for encoding in found:
                yield np.array(encoding.ids, np.int32)

    def _unreadable(self, text: str, error: Exception) -> TokenizerError:
        """Why a text has no ids: mostly, the vocabulary lacks a character and has no token for unknown ones."""

        def lacks(character: str) -> bool:
            try:
                with _calling():
                    self._encoder.encode(character, add_special_tokens=False)
            except Exception:
                return True
            return False

        counts = Counter(text)
        missing = {character: count for character, count in counts.items() if lacks(character)}
        if 0 < len(missing) < len(counts):
            return UnknownTextError(missing, "characters")
        return TokenizerError(f"This tokenizer cannot read the text: {error}.")

    def _apart(self, text: str) -> np.ndarray:
        """Ids of a text whose special names the vocabulary takes for their tokens: cut after their first character."""
        names = [(re.escape(name[:1]), re.escape(name[1:])) for name in self._names.values() if name[1:]]
        parts = (
            re.split("|".join(f"(?<={first})(?={rest})" for first, rest in names), text) if names else [text]
        )
        ids = np.concatenate([np.zeros(0, np.int32), *(each for part in parts for each in self._ids(part))])
        wrong = ids[np.isin(ids, list(self._names))]
        if wrong.size:
            raise TokenizerError(
                f"This tokenizer makes its special token '{printable(self._names[int(wrong[0])])}' of plain text."
            )
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        array = self._checked(ids).tolist()
        if self._bytes is not None:
            return b"".join(map(self._bytes.__getitem__, array)).decode("utf-8", "replace")
        return self.text_of(array)

    def text_of(self, ids: list[int]) -> str:
        """The library's own decoding, without special tokens and ids that have no token.

        Raises TokenizerError where it fails.
        """
        plain = [id for id in ids if id in self._tokens and id not in self._names]
        try:
            with _calling():
                return self._encoder.decode(plain, skip_special_tokens=False)
        except Exception as error:  # as above
            raise TokenizerError(f"This tokenizer cannot write the text of its tokens: {error}.") from error

    def decoder(self) -> StreamDecoder:
        return _Decoder(self) if self._bytes is None else ByteDecoder(self._bytes, self._check)

    def token_text(self, id: int) -> str:
        if self._check(id) in self._names:
            return printable(self._names[id])
        if id not in self._tokens:
            return f"<unused {id}>"
        if self._bytes is not None:
            return printable(self._bytes[id].decode("utf-8", "backslashreplace")) or "<empty>"
        return printable(self._tokens[id]) or "<empty>"

    def _data(self) -> dict[str, Any]:
        return {"start": self.start, "end": self.end, "size": self._size}

    def _files(self) -> dict[str, bytes]:
        return {HEADER: self._content.encode()}

    @classmethod
    def _restore(cls, data: dict[str, Any], files: dict[str, bytes]) -> Self:
        return cls(files[HEADER].decode(), start=data["start"], end=data["end"], size=data["size"])


class _Decoder(StreamDecoder):
    """Text as far as no later id changes it: what is behind a gap in a character waits."""

    def __init__(self, tokenizer: HuggingFaceTokenizer) -> None:
        self.tokenizer = tokenizer
        self.ids: list[int] = []
        self.said = ""  # of the text of `ids`, what was given already

    def push(self, id: int) -> str:
        self.ids.append(self.tokenizer._check(id))
        text = self.tokenizer.text_of(self.ids)
        if _BYTE.fullmatch(self.tokenizer.token_text(id)):  # a later byte may change what those before it are
            return ""
        if text.endswith("\ufffd") or not text.startswith(self.said):
            return ""
        piece, self.said = text[len(self.said) :], text
        if len(self.ids) > _AT_ONCE and piece:
            self._forget()
        return piece

    def _forget(self) -> None:
        """Keep the last ids alone, if their text is the end of all of it, as it is unless a letter was cut."""
        kept = self.ids[-_BEHIND:]
        end = self.tokenizer.text_of(kept)
        if end and self.said.endswith(end):
            self.ids, self.said = kept, end

    def finish(self) -> str:
        return self.tokenizer.text_of(self.ids)[len(self.said) :]


def _encoder(content: str) -> Any:
    """The library's own tokenizer, which always gives the same ids for a text. Raises ValueError for what is none."""
    from tokenizers import Tokenizer as Encoder
    from tokenizers.models import BPE

    try:
        with _calling():
            found = Encoder.from_str(content)
    except Exception as error:  # the library raises nothing more special
        raise ValueError(str(error)) from error
    found.no_truncation()
    found.no_padding()
    found.encode_special_tokens = True  # the library does not save this switch
    if isinstance(found.model, BPE):
        found.model.dropout = None  # it leaves out merges at random, which only training wants
    return found


def _is_byte_level(decoder: Mapping[str, Any] | None) -> bool:
    return decoder is not None and decoder["type"] == "ByteLevel"


def _may_be_cut(settings: Mapping[str, Any]) -> bool:
    """Whether a text may be cut where `pieces` cuts it: where the words are GPT-2's and nothing is done to the text."""
    words = settings["pre_tokenizer"] or {}
    return (
        not settings["normalizer"]
        and words.get("type") == "ByteLevel"
        and bool(words.get("use_regex"))
        and not words.get("add_prefix_space")
        and all(token["special"] for token in settings["added_tokens"])
    )


def named_tokens(file: Path) -> dict[str, str | None]:
    """The start ("bos_token") and the end ("eos_token") that `tokenizer_config.json` beside a file names."""
    path = file.parent / SETTINGS
    try:
        settings = json.loads(path.read_bytes()) if path.is_file() else {}
    except (OSError, ValueError, RecursionError) as error:
        raise TokenizerError(f"{path} cannot be read: {error}.") from error
    found = {}
    for key in ("bos_token", "eos_token"):
        value = settings.get(key) if isinstance(settings, dict) else None
        value = value.get("content") if isinstance(value, dict) else value
        found[key] = value if isinstance(value, str) else None
    return found


def read_huggingface(
    file: Path, *, start: int | None = None, end: int | str | None = None, size: int | None = None
) -> HuggingFaceTokenizer:
    """A `tokenizer.json`. Start and end are ids or names. Where they are not given, or the file has no such id,
    `tokenizer_config.json` beside it says them, or they are `<|endoftext|>` where the file has that.

    Raises:
        TokenizerError: the file cannot be read, or is none, or lacks the end that was named.
    """
    try:
        content = file.read_text(encoding="utf-8")
        plain = HuggingFaceTokenizer(content, size=size)
        ids = {token: id for id, token in plain._tokens.items()}
        named = named_tokens(file)
        if isinstance(end, str) and end not in ids:
            raise TokenizerError(f"{file} has no token '{printable(end)}' that could end a text.")
        start, end = (
            None if id not in plain._tokens else id
            for id in (start, ids[end] if isinstance(end, str) else end)
        )
        end = end if end is not None else ids.get(named["eos_token"] or END_OF_TEXT)
        start = start if start is not None else ids.get(named["bos_token"] or "")
        return HuggingFaceTokenizer(content, start=end if start is None else start, end=end, size=size)
    except (OSError, KeyError, TypeError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise TokenizerError(
            f"{file} cannot be used as a tokenizer: {why}.",
            remedy="Give the tokenizer.json that a model of Hugging Face has in its folder.",
        ) from error


@register("tokenizer")
class HuggingFace(TokenizerConfig):
    """The tokenizer of another model, as it is."""

    kind: Literal["huggingface"] = "huggingface"
    file: FilePath
    """Its tokenizer.json, a file of Hugging Face `tokenizers`."""
    end: str | None = None
    """Its token that ends a text; empty: the one that tokenizer_config.json beside it names, or <|endoftext|>."""

    tokenizer: ClassVar[type[Tokenizer]] = HuggingFaceTokenizer
    beside: ClassVar[tuple[str, ...]] = (SETTINGS,)
    """Files in the same folder that decide, too."""

    def build(self, pieces: Callable[[], Iterator[str]], *, documents: bool) -> HuggingFaceTokenizer:
        """Read the file; the text is not read. Raises as `read_huggingface` does."""
        return read_huggingface(self.file, end=self.end)
