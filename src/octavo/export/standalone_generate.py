"""Text from a model in a folder by itself: torch, safetensors and the files beside this one are all that it needs.

python generate.py --prompt "Once" --tokens 200 --temperature 0.8
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import unicodedata
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from octavo.export.model import Model, Past

VISIBLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
HIDDEN = [byte for byte in range(256) if byte not in VISIBLE]
LETTERS = {byte: chr(byte) for byte in VISIBLE} | {byte: chr(0x100 + n) for n, byte in enumerate(HIDDEN)}
"""GPT-2's letter for every byte."""
BYTES = {letter: byte for byte, letter in LETTERS.items()}
WORDS = re.compile(
    r"'(?:[sdmt]|ll|ve|re)| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+", re.ASCII
).finditer
"""GPT-2's words in a text whose letters, numbers and spaces are ASCII; see `plain`."""


def plain(character: str) -> str:
    """A character of ASCII that GPT-2's words treat alike."""
    if character.isascii():
        return "!" if "\x1c" <= character <= "\x1f" else character  # no spaces to GPT-2, but to Python
    kind = unicodedata.category(character)[0]
    return {"L": "a", "N": "0"}.get(kind, "\n" if character.isspace() else "!")


class Vocabulary:
    """A `tokenizer.json` of single characters, or of bytes and their merges. Special tokens are no text.

    Raises ValueError for other forms, which Hugging Face's `tokenizers` reads.
    """

    def __init__(self, path: Path) -> None:
        whole = json.loads(path.read_text(encoding="utf-8"))
        model = whole["model"]
        decoder = (whole["decoder"] or {}).get("type")
        self.special = {token["id"] for token in whole["added_tokens"]}
        self.ids: dict[str, int] = model["vocab"]
        self.unknown = self.ids.get(model.get("unk_token") or "")
        self.tokens = {id: token for token, id in self.ids.items()}
        self.by_bytes = model["type"] == "BPE"
        self.whole_words = bool(model.get("ignore_merges"))
        known = (model["type"], decoder) in (("WordLevel", "Fuse"), ("BPE", "ByteLevel"))
        if whole["normalizer"] or not known or not self._cuts(whole.get("pre_tokenizer") or {}, model):
            raise ValueError(f"{path} has a form that the package tokenizers reads; give ids, or use that.")
        self.ranks = {tuple(pair): rank for rank, pair in enumerate(model.get("merges") or ())}

    def _cuts(self, way: dict[str, Any], model: dict[str, Any]) -> bool:
        """Whether a text is cut in a way that is known here: at every character, into bytes, or as GPT-2 does."""
        *before, last = way.get("pretokenizers") or [way]
        if not self.by_bytes:
            return not before and last.get("pattern") == {"Regex": r"[\s\S]"}
        if last.get("type") != "ByteLevel" or last.get("add_prefix_space"):
            return False
        if self.whole_words:
            single = all(str(one.get("pattern", {}).get("Regex"))[:1] == "[" for one in before)
            return single and len(before) < 2 and not last.get("use_regex", True) and not model.get("merges")
        return not before and last.get("use_regex", True)

    def encode(self, text: str) -> list[int]:
        """Ids of a text. Raises ValueError for a character that the vocabulary lacks."""
        if self.by_bytes:
            return [id for word in self.words(text) for id in self.merged(word)]
        ids = [self.ids.get(character, self.unknown) for character in text]
        if None in ids:
            raise ValueError(f"the vocabulary lacks {text[ids.index(None)]!r}")
        return [id for id in ids if id is not None]

    def words(self, text: str) -> list[str]:
        """What merges do not cross, in GPT-2's letters."""
        pieces = list(text)
        if not self.whole_words:
            pieces = [text[found.start() : found.end()] for found in WORDS("".join(map(plain, text)))]
        return ["".join(LETTERS[byte] for byte in piece.encode()) for piece in pieces]

    def merged(self, word: str) -> list[int]:
        """Ids of one word: the earliest merge is made wherever it stands, again and again."""
        if self.whole_words and word in self.ids:
            return [self.ids[word]]
        parts = list(word)
        while len(parts) > 1:
            ranks = [self.ranks.get(pair, len(self.ranks)) for pair in pairwise(parts)]
            best = min(ranks)
            if best == len(self.ranks):
                break
            at = ranks.index(best)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return [self.ids[part] for part in parts]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; bytes that are no UTF-8 become U+FFFD."""
        tokens = [self.tokens[id] for id in ids if id in self.tokens and id not in self.special]
        if not self.by_bytes:
            return "".join(tokens)
        return bytes(BYTES[letter] for token in tokens for letter in token).decode("utf-8", "replace")


def load(folder: Path) -> tuple[Model, dict[str, Any]]:
    """The model of a folder, in float32, and what `model.json` says."""
    settings = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    with torch.device("meta"):
        model = Model(settings["shape"])
    tensors = {name: tensor.float() for name, tensor in load_file(folder / "model.safetensors").items()}
    if settings["shape"]["tied"]:
        tensors["head.weight"] = tensors["embedding.weight"]
    for name, missing in model.state_dict().items():
        if not missing.numel():
            tensors[name] = torch.zeros(missing.shape)
    model.load_state_dict(tensors, assign=True)
    return model.eval(), settings


@torch.no_grad()
def generate(
    model: Model, ids: Sequence[int], count: int, *, temperature: float = 0.0, seed: int = 0
) -> list[int]:
    """`count` ids after `ids`. Where the context is full, its oldest quarter is forgotten."""
    context, draws = model.shape["context"], torch.Generator().manual_seed(seed)
    text, past, written = list(ids)[-context:], (), []
    new: list[int] = text
    while len(written) < count:
        logits, past = step(model, new, past)
        if temperature:
            chances = (logits / temperature).softmax(dim=-1)
            written.append(int(torch.multinomial(chances, 1, generator=draws)))
        else:
            written.append(int(logits.argmax()))
        text, new = [*text, written[-1]], [written[-1]]
        if len(text) > context:
            text = text[-max(1, context - max(1, context // 4)) :]
            new, past = text, ()
    return written


def step(model: Model, ids: Sequence[int], past: Past) -> tuple[torch.Tensor, Past]:
    """Logits (V) after some more ids, and what is known then."""
    logits, past = model(torch.tensor([list(ids)]), past)
    return logits[0, -1], past


def main() -> None:
    """`python generate.py --prompt TEXT`."""
    parser = argparse.ArgumentParser(description="Write a text with the model in this folder.")
    parser.add_argument("--prompt", default="", help="the text to go on from")
    parser.add_argument("--chat", action="store_true", help="the prompt is a question, and is answered")
    parser.add_argument("--tokens", type=int, default=200, help="how many tokens")
    parser.add_argument(
        "--temperature", type=float, default=0.0, help="0 takes the likeliest token each time"
    )
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    folder = Path(__file__).parent
    model, settings = load(folder)
    vocabulary = Vocabulary(folder / "tokenizer.json")
    start, turn = [] if settings["start"] is None else [settings["start"]], settings["turn"]
    if asked.chat and turn is None:
        parser.error("this model has learned no conversation")
    ids = vocabulary.encode(asked.prompt)
    ids = [turn["user"], *ids, turn["end"], turn["assistant"]] if asked.chat else (start + ids) or [0]
    ids_written = generate(model, ids, asked.tokens, temperature=asked.temperature, seed=asked.seed)
    ends = [place for place, id in enumerate(ids_written) if id in settings["ends"]]
    before = "" if asked.chat else asked.prompt
    sys.stdout.write(before + vocabulary.decode(ids_written[: ends[0]] if ends else ids_written) + "\n")


if __name__ == "__main__":
    main()
