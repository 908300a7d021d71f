"""A tokenizer in the words of llama.cpp, such that it gives the run's ids.

Characters and bytes go in as its kind `rwkv`: the longest token that fits, over bytes. That kind has no end of text
unless one is given; the kind `gpt2` has token 11. Where characters are beyond ASCII, its search does not come back
from a byte that begins one and goes on otherwise; these go in as the kind `gpt2`, each a token that is cut out first.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from octavo.ship.targets.base import Said
from octavo.ship.tokenizer_json import byte_names, tokenizer_json
from octavo.tokenizers import Tokenizer
from octavo.tokenizers.byte import ByteTokenizer
from octavo.tokenizers.bytelevel import ByteLevelTokenizer
from octavo.tokenizers.char import CharTokenizer
from octavo.tokenizers.special import Extended

NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4
"""What llama.cpp calls the types of tokens."""
NEVER = "\ue000 \ue000"
"""A merge that no text asks for: an empty list is refused."""
NO_TEXT = b"\xff"
"""No UTF-8 has that byte, so no text is taken for a token that begins with it."""


@dataclass(frozen=True)
class Vocabulary:
    """What a GGUF file says of a tokenizer; `model` as llama.cpp calls the kinds."""

    model: str
    tokens: list[str] = field(default_factory=list)
    types: list[int] = field(default_factory=list)
    merges: list[str] = field(default_factory=list)
    unknown: int | None = None


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
    return Vocabulary("no_vocab")


def _types(size: int, special: dict[int, str], unknown: int | None, usual: int = NORMAL) -> list[int]:
    found = [CONTROL if id in special else usual for id in range(size)]
    if unknown is not None:
        found[unknown] = UNKNOWN
    return found


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


def said(kind: str, made: Tokenizer | None) -> Said:
    """How llama.cpp says a tokenizer of a kind, or the one that was made."""
    if kind == "word":
        return Said(
            "approximate", "no_vocab", (), "llama.cpp has no such words: it takes and gives ids alone"
        )
    if kind not in ("char", "byte", "bpe", "gpt2"):
        return Said("impossible", "none", (), f"llama.cpp has no tokenizers of kind '{kind}'")
    found = vocabulary(made) if made is not None else None
    if found is not None and made is not None and found.model == "gpt2" and made.end is None:
        why = "llama.cpp takes token 11 for the end of text where a tokenizer like this has none; set "
        return Said("impossible", "gpt2", (), why + "tokenizer.special=[<|endoftext|>] and train again")
    if made is not None and made.unknown is not None:
        why = "a character that the vocabulary lacks is left out, or stands there once for each of its bytes"
        return Said("approximate", found.model if found else kind, (), why)
    return Said("exact", found.model if found else {"char": "rwkv", "byte": "rwkv"}.get(kind, "gpt2"))
