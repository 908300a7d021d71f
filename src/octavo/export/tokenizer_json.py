"""A tokenizer as `tokenizer.json`, the form of Hugging Face's library. Whatever the text, it gives the run's ids."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from octavo.errors import InputError
from octavo.export.tokenizer_words import FINAL_SIGMA, differs_in_case, word_tokenizer
from octavo.tokenizers import Tokenizer
from octavo.tokenizers.base import UNKNOWN, Extended, printable
from octavo.tokenizers.bpe import BPETokenizer
from octavo.tokenizers.byte import ByteLevelTokenizer, ByteTokenizer, byte_alphabet
from octavo.tokenizers.char import CharTokenizer
from octavo.tokenizers.gpt2 import GPT2Tokenizer
from octavo.tokenizers.huggingface import HuggingFaceTokenizer
from octavo.tokenizers.word import WordTokenizer

KINDS = ("char", "byte", "bpe", "gpt2", "word", "huggingface")
"""Kinds that a `tokenizer.json` says."""


def why_near(tokenizer: Tokenizer | None) -> str:
    """Why the ids of one that was made may differ there; empty where they do not."""
    inner = tokenizer.inner if isinstance(tokenizer, Extended) else tokenizer
    return FINAL_SIGMA if isinstance(inner, WordTokenizer) and differs_in_case(inner) else ""


def tokenizer_json(tokenizer: Tokenizer) -> dict[str, Any]:
    """The content of `tokenizer.json`. Raises InputError for a kind that it cannot say."""
    inner = tokenizer.inner if isinstance(tokenizer, Extended) else tokenizer
    if isinstance(inner, HuggingFaceTokenizer):
        return _as_it_is(inner, tokenizer)
    if isinstance(inner, CharTokenizer):
        body = _char(inner)
    elif isinstance(inner, ByteTokenizer):
        body = _byte(inner)
    elif isinstance(inner, BPETokenizer):
        body = json.loads(inner._files()["tokenizer.json"])
        body = {part: body[part] for part in ("model", "pre_tokenizer", "decoder")}
    elif isinstance(inner, GPT2Tokenizer):
        body = _gpt2(inner)
    elif isinstance(inner, WordTokenizer):
        body = word_tokenizer(inner)
    else:
        raise InputError(
            f"A tokenizer of kind '{tokenizer.kind}' is no text tokenizer that other libraries have."
        )
    special = [
        special_token(name, id) for name, id in sorted(tokenizer.special.items(), key=lambda item: item[1])
    ]
    rest: dict[str, Any] = {"version": "1.0", "truncation": None, "padding": None, "post_processor": None}
    return {"normalizer": None, **rest, "added_tokens": special, **body}


def special_token(name: str, id: int) -> dict[str, Any]:
    """An entry of `added_tokens` in `tokenizer.json`."""
    switches = dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
    return {"id": id, "content": name, "special": True, "normalized": False} | switches


def _as_it_is(inner: HuggingFaceTokenizer, tokenizer: Tokenizer) -> dict[str, Any]:
    """The file that the tokenizer came from, without what cuts or fills texts or leaves merges out at random, and with
    the added special tokens."""
    document = json.loads(inner._files()["tokenizer.json"])
    if document["model"].get("dropout"):
        document["model"]["dropout"] = None
    added = [special_token(name, tokenizer.special[name]) for name in tokenizer.added]
    return document | {
        "truncation": None,
        "padding": None,
        "added_tokens": [*document["added_tokens"], *added],
    }


def _char(tokenizer: CharTokenizer) -> dict[str, Any]:
    vocabulary = {character: id for id, character in enumerate(tokenizer.characters)}
    vocabulary |= {tokenizer.token_text(tokenizer.end): tokenizer.end} if tokenizer.end is not None else {}
    vocabulary |= {UNKNOWN: tokenizer.unknown} if tokenizer.unknown is not None else {}
    return {
        "pre_tokenizer": split_at(r"[\s\S]"),
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": UNKNOWN},
        "decoder": {"type": "Fuse"},
    }


def split_at(pattern: str, *, removed: bool = False) -> dict[str, Any]:
    """A pre-tokenizer that cuts out what a pattern finds, or keeps nothing else."""
    behaviour = (
        {"behavior": "Removed", "invert": True} if removed else {"behavior": "Isolated", "invert": False}
    )
    return {"type": "Split", "pattern": {"Regex": pattern}, **behaviour}


LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False}


def _byte(tokenizer: ByteTokenizer) -> dict[str, Any]:
    vocabulary = {name: id for id, name in enumerate(byte_names(tokenizer)) if name}
    return by_bytes(vocabulary, "".join(tokenizer.characters))


def by_bytes(vocabulary: dict[str, int], characters: str) -> dict[str, Any]:
    """Every byte by itself; characters with an id of their own are cut out first, and are words that stand in the
    vocabulary as they are."""
    steps: list[dict[str, Any]] = [LEVEL | {"use_regex": False}]
    if characters:
        steps.insert(0, split_at("[" + "".join(rf"\x{{{ord(c):X}}}" for c in characters) + "]"))
    return {
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
        "model": _bpe(vocabulary, [], ignore_merges=True),
        "decoder": LEVEL | {"use_regex": False},
    }


def _bpe(
    vocabulary: dict[str, int], merges: list[list[str]], *, ignore_merges: bool = False
) -> dict[str, Any]:
    empty = dict.fromkeys(("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"))
    switches = {"fuse_unk": False, "byte_fallback": False, "ignore_merges": ignore_merges}
    return {"type": "BPE", **empty, **switches, "vocab": vocabulary, "merges": merges}


def _gpt2(tokenizer: GPT2Tokenizer) -> dict[str, Any]:
    names = byte_names(tokenizer)
    vocabulary = {name: id for id, name in enumerate(names) if name}
    return {
        "pre_tokenizer": LEVEL | {"use_regex": True},
        "model": _bpe(vocabulary, [list(pair) for pair in gpt2_merges(names)]),
        "decoder": LEVEL | {"use_regex": True},
    }


def byte_names(tokenizer: ByteLevelTokenizer) -> list[str]:
    """Every token in GPT-2's alphabet for bytes; "" for the special one."""
    letters = {byte: letter for letter, byte in byte_alphabet().items()}
    return ["".join(map(letters.__getitem__, token)) for token in tokenizer._bytes]


def gpt2_merges(names: list[str]) -> list[tuple[str, str]]:
    """The merges behind a vocabulary in the order of its merges: a token is the pair that its letters come to when all
    earlier merges are made."""
    ranks = {name: rank for rank, name in enumerate(names) if name}
    merges = []
    for name, rank in ranks.items():
        if len(name) < 2:
            continue
        parts = list(name)
        while len(parts) > 2:
            pairs = [ranks.get(a + b, rank) for a, b in pairwise(parts)]
            at = min(range(len(pairs)), key=pairs.__getitem__)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        merges.append((parts[0], parts[1]))
    return merges


def named(tokenizer: Tokenizer) -> dict[str, str]:
    """The special tokens as `special_tokens_map.json` has them. The unknown one is a token like others: special ones
    are left out of a text, and that one is not."""
    names = {id: name for name, id in tokenizer.special.items()}
    found = {"bos_token": tokenizer.start, "eos_token": tokenizer.end}
    return {role: names[id] for role, id in found.items() if id is not None}


def shown_end(tokenizer: Tokenizer) -> str:
    """The end of a text in words, for people."""
    if tokenizer.end is None:
        return "none: it writes until it is stopped"
    return printable(tokenizer.token_text(tokenizer.end))
