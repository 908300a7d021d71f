"""The word tokenizer in the words of `tokenizers`: the run's ids, and the run's spacing of what is decoded.

A decoder there changes one string by patterns, one after the other. Words are joined by spaces first; no token holds
white space, so every space stands between two tokens, and a tab can mark something. The one thing that needs memory is
whether a quote opens or closes: a search that goes on where it stopped (`\\G`) counts them.
"""

from __future__ import annotations

import re
from typing import Any

from octavo.corpus.words import MARKS, WORD
from octavo.tokenizers.base import UNKNOWN
from octavo.tokenizers.word import CLOSING, DASH, OPENING, PAIRED, WordTokenizer

FINAL_SIGMA = "in lower case a word's last Σ is ς in the run and σ there"
"""Why lower case is not the same for a vocabulary with one of these."""


def word_tokenizer(tokenizer: WordTokenizer) -> dict[str, Any]:
    """Normalizer, pre-tokenizer, model and decoder of its `tokenizer.json`."""
    breaks = r"|\n" if tokenizer.lines == "keep" else ""
    pattern = _in_oniguruma(rf"{WORD}|{re.escape(UNKNOWN)}|[{MARKS}]{breaks}")
    return {
        "normalizer": _lower_case() if tokenizer.lowercase else None,
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"Regex": pattern},
            "behavior": "Removed",
            "invert": True,
        },
        "model": {
            "type": "WordLevel",
            "vocab": {token: id for id, token in enumerate(tokenizer._tokens)},
            "unk_token": UNKNOWN,
        },
        "decoder": {"type": "Sequence", "decoders": _spacing(lines=tokenizer.lines == "keep")},
    }


def differs_in_case(tokenizer: WordTokenizer) -> bool:
    """Whether lower case there may lead to other words."""
    return tokenizer.lowercase and any("ς" in word or "σ" in word for word in tokenizer.words)


def _in_oniguruma(pattern: str) -> str:
    """A pattern of Python's in the words of the library that `tokenizers` uses, whose white space is less."""
    pattern = re.sub(r"\\u([0-9a-f]{4})", r"\\x{\1}", pattern)
    return pattern.replace(r"[^\s", r"[^\s\x1C-\x1F")


def _lower_case() -> dict[str, Any]:
    """Before it, `<UNK>` is taken apart, which would else turn into the token `<unk>`."""
    apart = _replaced(r"(?<=<)(?!unk>)(?=[uU][nN][kK\x{212A}]>)", " ")
    return {"type": "Sequence", "normalizers": [apart, {"type": "Lowercase"}]}


def _spacing(*, lines: bool) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = [{"type": "WordPiece", "prefix": "##", "cleanup": False}, {"type": "Fuse"}]
    if lines:
        steps.append(_replaced(r" ?\n ?", "\n"))
    steps += [_replaced(_opening(mark), mark + "\t") for mark in sorted(PAIRED)]
    glued = [
        rf" (?={_one_of(PAIRED)}(?!\t))",  # before one that closes
        r"(?<=\t) ",  # after one that opens
        rf" (?={_one_of(CLOSING)})",
        rf"(?<={_one_of(OPENING)}) ",
        rf"(?<={DASH}) (?={DASH})",
    ]
    return [*steps, _replaced("|".join(glued), ""), _replaced(r"\t", "")]


def _opening(mark: str) -> str:
    """Finds every mark of a kind that opens: the first, and the first after each one that closes or after a line
    break. Within a word the same character is an apostrophe."""
    inside = rf"(?<=[^ \n]){mark}"
    line, text, alone = rf"(?:[^{mark}\n]|{inside})*", rf"(?:[^{mark}]|{inside})*", rf"(?<![^ \n]){mark}"
    return rf"(?:\A|\G{line}(?:\n|{alone})){text}\K{alone}"


def _one_of(characters: frozenset[str]) -> str:
    return "[" + "".join(rf"\x{{{ord(one):X}}}" for one in sorted(characters)) + "]"


def _replaced(pattern: str, by: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": by}
