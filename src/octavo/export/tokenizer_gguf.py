"""A tokenizer in the words of llama.cpp, such that it gives the run's ids.

Characters and bytes go in as its kind `rwkv`: the longest token that fits, over bytes. That kind has no end of text
unless one is given; the kind `gpt2` has token 11. Where characters are beyond ASCII, its search does not come back
from a byte that begins one and goes on otherwise; these go in as the kind `gpt2`, each a token that is cut out first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from octavo.export.targets.base import Support
from octavo.export.tokenizer_json import LEVEL, byte_names, split_at, tokenizer_json
from octavo.tokenizers import Tokenizer
from octavo.tokenizers.base import Extended
from octavo.tokenizers.byte import ByteLevelTokenizer, ByteTokenizer
from octavo.tokenizers.char import CharTokenizer
from octavo.tokenizers.huggingface import HuggingFaceTokenizer
from octavo.util.records import json_text

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED = 1, 2, 3, 4, 5
"""What llama.cpp calls the types of tokens."""
NEVER = "\ue000 \ue000"
"""A merge that no text asks for: an empty list is refused."""
NO_TEXT = b"\xff"
"""No UTF-8 has that byte, so no text is taken for a token that begins with it."""


def _cut(digits: str) -> list[dict[str, Any]]:
    """Words as Llama 3 and Qwen cut them, who differ in how many digits stand together."""
    endings, letters = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)", r"[^\r\n\p{L}\p{N}]?\p{L}+"
    others = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    return [split_at(rf"{endings}|{letters}|{digits}|{others}"), LEVEL | {"use_regex": False}]


@dataclass(frozen=True)
class Cut:
    """How a byte-level tokenizer cuts words; `whole_words`: one that stands in the vocabulary is its token at once."""

    pre_tokenizer: dict[str, Any]
    whole_words: bool = False
    normalizer: dict[str, Any] | None = None


CUTS: Mapping[str, Cut] = {
    "gpt-2": Cut(LEVEL | {"use_regex": True}),
    "llama-bpe": Cut({"type": "Sequence", "pretokenizers": _cut(r"\p{N}{1,3}")}, whole_words=True),
    "qwen2": Cut({"type": "Sequence", "pretokenizers": _cut(r"\p{N}")}, normalizer={"type": "NFC"}),
}
"""By llama.cpp's names."""


@dataclass(frozen=True)
class Vocabulary:
    """What a GGUF file says of a tokenizer; `model` and `pre` as llama.cpp calls the kinds and the cuts."""

    model: str
    tokens: list[str] = field(default_factory=list)
    types: list[int] = field(default_factory=list)
    merges: list[str] = field(default_factory=list)
    unknown: int | None = None
    pre: str = "gpt-2"


def vocabulary(tokenizer: Tokenizer) -> Vocabulary:
    """The tokenizer in llama.cpp's words; those that it cannot say stay outside (kind `no_vocab`)."""
    inner = tokenizer.inner if isinstance(tokenizer, Extended) else tokenizer
    special = {id: name for name, id in tokenizer.special.items()}
    if isinstance(inner, CharTokenizer) and not inner.characters.isascii():
        return _cut_out(inner, special, tokenizer.vocab_size)
    if isinstance(inner, CharTokenizer | ByteTokenizer):
        return _by_bytes(inner, special, tokenizer.vocab_size)
    if isinstance(inner, ByteLevelTokenizer):
        return _merged(inner, special, tokenizer.vocab_size)
    if isinstance(inner, HuggingFaceTokenizer):
        return _foreign(tokenizer)
    return Vocabulary("no_vocab")


def _types(size: int, special: dict[int, str], unknown: int | None, usual: int = NORMAL) -> list[int]:
    types = [CONTROL if id in special else usual for id in range(size)]
    if unknown is not None:
        types[unknown] = UNKNOWN
    return types


def _by_bytes(inner: CharTokenizer | ByteTokenizer, special: dict[int, str], size: int) -> Vocabulary:
    if isinstance(inner, CharTokenizer):
        texts = [character.encode() for character in inner.characters]
    else:
        texts = [token for id, token in enumerate(inner._bytes) if id not in special]
    texts += [NO_TEXT + special.get(id, "<unk>").encode() for id in range(len(texts), size)]
    types = _types(size, special, inner.unknown)
    return Vocabulary("rwkv", [_escaped(text) for text in texts], types, unknown=inner.unknown)


def _escaped(token: bytes) -> str:
    r"""Bytes as `\xHH`, but for letters, digits and what else cannot be misread."""
    return "".join(chr(b) if 0x21 <= b < 0x7F and b != 0x5C else f"\\x{b:02x}" for b in token)


def _cut_out(inner: CharTokenizer, special: dict[int, str], size: int) -> Vocabulary:
    texts = [*inner.characters, *(special.get(id, "<unk>") for id in range(len(inner.characters), size))]
    return Vocabulary(
        "gpt2", texts, _types(size, special, inner.unknown, USER_DEFINED), [NEVER], inner.unknown
    )


def _merged(inner: ByteLevelTokenizer, special: dict[int, str], size: int) -> Vocabulary:
    names = byte_names(inner)
    texts = [special.get(id) or names[id] for id in range(size)]
    merges = [" ".join(pair) for pair in tokenizer_json(inner)["model"]["merges"]]
    return Vocabulary("gpt2", texts, _types(size, special, None), merges or [NEVER])


def _foreign(tokenizer: Tokenizer) -> Vocabulary:
    """The tokenizer of another model, where llama.cpp knows how its words are cut; else kind `none`."""
    whole = tokenizer_json(tokenizer)
    model, added = whole["model"], whole["added_tokens"]
    pre = _pre(whole)
    outside = (one for one in added if not one["special"] and one["id"] not in tokenizer.special.values())
    if pre is None or any(one[switch] for one in outside for switch in ("single_word", "lstrip", "rstrip")):
        return Vocabulary("none")
    ids = {id: token for token, id in model["vocab"].items()} | {one["id"]: one["content"] for one in added}
    types = dict.fromkeys(ids, NORMAL) | {one["id"]: USER_DEFINED for one in added}
    types |= dict.fromkeys(tokenizer.special.values(), CONTROL)
    merges = [one if isinstance(one, str) else " ".join(one) for one in model["merges"]]
    every = range(tokenizer.vocab_size)
    texts = [ids.get(id, f"[PAD{id}]") for id in every]
    return Vocabulary("gpt2", texts, [types.get(id, UNUSED) for id in every], merges or [NEVER], pre=pre)


def _pre(whole: Mapping[str, Any]) -> str | None:
    """llama.cpp's name of the way in which a `tokenizer.json` cuts words, if it has one."""
    model, decoder = whole["model"], whole["decoder"] or {}
    plain = model["type"] == "BPE" and decoder.get("type") == "ByteLevel"
    odd = ("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback")
    if not plain or any(model.get(switch) for switch in odd):
        return None
    told = _plainly(whole["pre_tokenizer"])
    for name, cut in CUTS.items():
        if told == _plainly(cut.pre_tokenizer) and bool(model.get("ignore_merges")) == cut.whole_words:
            return name if whole["normalizer"] in (None, cut.normalizer) else None
    return None


def _plainly(pre_tokenizer: Any) -> str:
    """A pre-tokenizer without what changes no ids."""
    steps = (pre_tokenizer or {}).get("pretokenizers", [pre_tokenizer])
    return json_text(
        [{key: value for key, value in (step or {}).items() if key != "trim_offsets"} for step in steps],
        sort_keys=True,
    )


OTHERS = "it is byte-level and cuts words as GPT-2, Llama 3 or Qwen do"


def supported(kind: str, made: Tokenizer | None) -> Support:
    """How llama.cpp says a tokenizer of a kind, or the one that was made."""
    if kind == "word":
        return Support(
            "approximate", "no_vocab", (), "llama.cpp has no such words: it takes and gives ids alone"
        )
    if kind not in ("char", "byte", "bpe", "gpt2", "huggingface"):
        return Support("impossible", "none", (), f"llama.cpp has no tokenizers of kind '{kind}'")
    if kind == "huggingface" and made is None:
        return Support("approximate", "gpt2", (), f"exact if {OTHERS}; else it is refused")
    known = vocabulary(made) if made is not None else None
    if known is not None and known.model == "none":
        return Support("impossible", "none", (), f"llama.cpp reads a tokenizer from elsewhere if {OTHERS}")
    if known is not None and made is not None and known.model == "gpt2" and made.end is None:
        why = "llama.cpp takes token 11 for the end of text where a tokenizer like this has none; set "
        return Support("impossible", "gpt2", (), why + "tokenizer.special=[<|endoftext|>] and train again")
    if kind == "huggingface" and made is not None and tokenizer_json(made)["normalizer"]:
        return Support("approximate", "gpt2", (), "llama.cpp does not compose characters (NFC) first")
    if made is not None and made.unknown is not None:
        why = "a character that the vocabulary lacks is left out, or stands there once for each of its bytes"
        return Support("approximate", known.model if known else kind, (), why)
    return Support("exact", known.model if known else {"char": "rwkv", "byte": "rwkv"}.get(kind, "gpt2"))
