"""GGUF files: settings, tensors in float types, and the tokenizer inside, by the package `gguf`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from octavo.errors import InputError, MissingExtra
from octavo.export.tokenizer_gguf import CONTROL, CUTS, NO_TEXT, NORMAL, UNKNOWN, USER_DEFINED
from octavo.export.tokenizer_json import LEVEL, by_bytes, special_token, split_at
from octavo.tokenizers.base import printable
from octavo.tokenizers.byte import byte_alphabet
from octavo.tokenizers.huggingface import HuggingFaceTokenizer
from octavo.util.records import json_text

FLOATS = ("F32", "F16", "BF16", "F64")
NAME_IT = "--tokenizer FILE, with the tokenizer.json of the model"


def _library() -> ModuleType:
    try:
        import gguf
    except ImportError as error:
        raise MissingExtra("gguf", "ship", "Reading a GGUF file") from error
    return gguf


def _all(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(type(each) is kind for each in value)


_TEXT, _NUMBER = (lambda value: isinstance(value, str), "a text"), (lambda value: type(value) is int, "an id")
_TEXTS, _NUMBERS = (_all(str), "a list of texts"), (_all(int), "a list of whole numbers")
WRITTEN: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "model": _TEXT,
    "pre": _TEXT,
    "tokens": _TEXTS,
    "token_type": _NUMBERS,
    "merges": _TEXTS,
    "bos_token_id": _NUMBER,
    "eos_token_id": _NUMBER,
}
"""What a file may say of its tokenizer: whether it is of the right kind, and what that is called."""


@dataclass(frozen=True)
class Words:
    """What a file says of its tokenizer, under `tokenizer.ggml.`."""

    settings: Mapping[str, Any]

    @property
    def size(self) -> int:
        """Tokens; 0 where the file names none."""
        tokens = self.settings.get("tokens")
        return len(tokens) if isinstance(tokens, list) else 0

    def tokenizer(self, path: Path) -> HuggingFaceTokenizer:
        """The same as a `tokenizer.json`. Raises InputError for kinds that Octavo does not read from here."""
        for name, (fits, what) in WRITTEN.items():
            if name in self.settings and not fits(self.settings[name]):
                raise InputError(
                    f"The tokenizer in {path} is damaged ('{name}' is not {what}).", remedy=NAME_IT
                )
        kind, pre = self.settings.get("model"), self.settings.get("pre")
        known = {"gpt2": _merged, "rwkv": _letters}
        if kind not in known or (kind == "gpt2" and pre not in CUTS):
            named = f"{kind} ({pre})" if kind == "gpt2" else str(kind)
            raise InputError(
                f"{path} has a tokenizer of kind {printable(named)}, which Octavo does not read from here.",
                remedy=NAME_IT,
            )
        try:
            content = json_text(known[kind](self.settings))
            ends = {
                role: self.settings.get(f"{key}_token_id") for role, key in (("start", "bos"), ("end", "eos"))
            }
            return HuggingFaceTokenizer(content, size=self.size, **ends)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise InputError(
                f"The tokenizer in {path} is damaged ({type(error).__name__}: {error}).", remedy=NAME_IT
            ) from error


def _frame(settings: Mapping[str, Any], **body: Any) -> dict[str, Any]:
    kinds = dict(enumerate(settings["token_type"]))
    added = [
        special_token(token, id) | {"special": kinds.get(id) == CONTROL}
        for id, token in enumerate(settings["tokens"])
        if kinds.get(id) in (CONTROL, USER_DEFINED)
    ]
    empty = dict.fromkeys(("truncation", "padding", "post_processor", "normalizer"))
    return {"version": "1.0", **empty, "added_tokens": added, **body}


def _merged(settings: Mapping[str, Any]) -> dict[str, Any]:
    """GPT-2's kind: bytes, merges, how words are cut, and what is cut out first."""
    cut = CUTS[settings["pre"]]
    vocabulary = {token: id for id, token in enumerate(settings["tokens"])}
    merges = [pair.split(" ") for pair in settings["merges"]]
    made = [
        pair
        for pair in merges
        if len(pair) == 2 and "".join(pair) in vocabulary and set(pair) <= vocabulary.keys()
    ]
    empty = dict.fromkeys(("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"))
    switches = dict.fromkeys(("fuse_unk", "byte_fallback", "ignore_merges"), False)
    switches["ignore_merges"] = cut.whole_words
    model = {"type": "BPE", **empty, **switches, "vocab": vocabulary, "merges": made}
    level, parts = LEVEL | {"use_regex": True}, {"pre_tokenizer": cut.pre_tokenizer}
    return _frame(settings, model=model, decoder=level, **parts) | {"normalizer": cut.normalizer}


def _letters(settings: Mapping[str, Any]) -> dict[str, Any]:
    """RWKV's kind, the longest token that fits, where every token is one character, or one byte."""
    kinds, raw = settings["token_type"], [_unescaped(token) for token in settings["tokens"]]
    usual = {id: token for id, (token, kind) in enumerate(zip(raw, kinds, strict=True)) if kind == NORMAL}
    named = {
        id: token.removeprefix(NO_TEXT).decode("utf-8") for id, token in enumerate(raw) if id not in usual
    }
    unknown = next((name for id, name in named.items() if kinds[id] == UNKNOWN), "<unk>")
    if len(usual) >= 256 and {bytes([byte]) for byte in range(256)} <= set(usual.values()):
        letters = {byte: letter for letter, byte in byte_alphabet().items()}
        spelled = {id: "".join(map(letters.__getitem__, token)) for id, token in usual.items()}
        characters = [token.decode("utf-8") for token in usual.values() if len(token) > 1]
        body = by_bytes({token: id for id, token in spelled.items()}, "".join(characters))
    else:
        spelled = {id: token.decode("utf-8") for id, token in usual.items()}
        characters = list(spelled.values())
        vocabulary = {token: id for id, token in (spelled | named).items()}
        model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": unknown}
        body = {"model": model, "pre_tokenizer": split_at(r"[\s\S]"), "decoder": {"type": "Fuse"}}
    if longer := [token for token in characters if len(token) != 1]:
        raise ValueError(f"the token '{longer[0]}' is no single character")
    names = [(spelled | named)[id] for id in range(len(raw))]
    return _frame(dict(settings) | {"tokens": names}, **body)


def _unescaped(token: str) -> bytes:
    r"""The bytes of a token in which `\xHH` stands for one."""
    parts = re.split(r"\\x([0-9a-f]{2})", token)
    return b"".join(bytes([int(part, 16)]) if at % 2 else part.encode() for at, part in enumerate(parts))


def read_gguf(path: Path) -> tuple[dict[str, Any], dict[str, Tensor], Words]:
    """Settings, tensors in float32 and the tokenizer's part of a file.

    Raises InputError for damage and for numbers that are no floats, MissingExtra without the package.
    """
    library = _library()
    try:
        reader = library.GGUFReader(str(path))
        settings = {name: _plain(field.contents()) for name, field in reader.fields.items()}
        tensors = {}
        for each in reader.tensors:
            if each.tensor_type.name not in FLOATS:
                raise InputError(
                    f"{path} holds '{each.name}' as {each.tensor_type.name}; Octavo reads F32, F16 and BF16.",
                    remedy="fetch the model in a float type",
                )
            numbers = library.dequantize(each.data, each.tensor_type)
            tensors[each.name] = torch.from_numpy(np.array(numbers, np.float32))
    except InputError:
        raise
    except Exception as error:  # whatever a damaged file leads the library to
        raise InputError(
            f"{path} cannot be read ({type(error).__name__}: {str(error)[:200]}): it is damaged or no GGUF file.",
            remedy="fetch it again",
        ) from error
    start = "tokenizer.ggml."
    words = {name.removeprefix(start): value for name, value in settings.items() if name.startswith(start)}
    return settings, tensors, Words(words)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def slowness_of(tensors: dict[str, Tensor]) -> dict[str, Any]:
    """The factors that slow rotary positions down, which are no weights: taken out of the tensors."""
    factors = tensors.pop("rope_freqs.weight", None)
    return {} if factors is None else {"slowness": tuple(factors.tolist())}
