"""What a run itself says, kept beside an export so that anybody can compare: logits, loss, greedy texts, ids of texts.

    proof/reference.safetensors   windows of validation text, logits at some of them, the run's greedy tokens
    proof/strings.json            texts with the run's ids; null where it refuses them
B windows, T positions, V vocabulary, K columns. A window that is not full ends in -1.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file, save_file

from octavo.errors import CheckpointError, InputError
from octavo.model.base import LanguageModel
from octavo.tokenizers import Tokenizer
from octavo.util.records import json_text

POSITIONS, COLUMNS = 1024, 1024
EFFORT = 2e11
"""Floating-point operations that the loss may cost in one library, some seconds: where all of the validation text
costs more, windows spread evenly over it are taken."""
TEXTS, WRITTEN, STRINGS = 5, 200, 1000
FOLDER, TENSORS, TEXT_IDS = "proof", "reference.safetensors", "strings.json"


@dataclass(frozen=True)
class Reference:
    """What a run says.

    Attributes:
        windows: (B, T + 1) ids of validation text, each with one id more than it has positions.
        logits: (at least 1,024 positions, K), after the ids of the first windows, for the ids in `columns`.
        prompts: (texts, P) ids that the greedy texts go on from; `greedy` (texts, 200) is what follows.
        loss: of all windows, nats a token.
        of_tokens: targets in the whole text.
        strings: texts with their ids, None where the run refuses them, and what the ids are decoded to.
    """

    windows: np.ndarray
    logits: np.ndarray
    columns: np.ndarray
    prompts: np.ndarray
    greedy: np.ndarray
    loss: float
    of_tokens: int
    strings: list[dict[str, Any]]

    @property
    def context(self) -> int:
        """T, the positions of a window."""
        return self.windows.shape[1] - 1

    @property
    def loss_tokens(self) -> int:
        """Targets in all windows, which the loss is over."""
        return int((self.windows[:, 1:] >= 0).sum())

    def save(self, folder: Path) -> None:
        """Write it into an export."""
        place = folder / FOLDER
        place.mkdir()
        arrays = {name: np.ascontiguousarray(getattr(self, name)) for name in ARRAYS}
        numbers = {"loss": np.array([self.loss]), "of_tokens": np.array([self.of_tokens])}
        save_file(arrays | numbers, place / TENSORS)
        (place / TEXT_IDS).write_text(json_text(self.strings, ensure_ascii=True), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Reference:
        """Read it back. Raises InputError where an export has none, CheckpointError where it is damaged."""
        place = folder / FOLDER
        if not (place / TENSORS).is_file() or not (place / TEXT_IDS).is_file():
            raise InputError(
                f"{folder} holds no proof: there is no {FOLDER}/{TENSORS} with {TEXT_IDS}.",
                remedy="octavo export makes such a folder",
            )
        try:
            arrays = load_file(place / TENSORS)
            strings = json.loads((place / TEXT_IDS).read_bytes())
            numbers = {"loss": float(arrays["loss"][0]), "of_tokens": int(arrays["of_tokens"][0])}
            return cls(**{name: arrays[name] for name in ARRAYS}, **numbers, strings=strings)
        except Exception as error:  # whatever a file that was altered leads to
            raise CheckpointError(f"The proof in {place} is damaged ({error}).") from error


ARRAYS = ("windows", "logits", "columns", "prompts", "greedy")


@torch.no_grad()
def reference(model: LanguageModel, tokenizer: Tokenizer, tokens: np.ndarray, text: str) -> Reference:
    """What a run says about validation `tokens`, of which `text` is a part. Raises InputError for a text too short."""
    context = model.context
    if len(tokens) <= POSITIONS:
        raise InputError(
            f"The validation text has {len(tokens):,} tokens; a proof needs {POSITIONS + 1:,}.",
            remedy="name a longer text: --text PATH",
        )
    parameters = sum(parameter.numel() for parameter in model.parameters())
    windows = spread(tokens, context, most=int(EFFORT / (2 * parameters)))
    columns = np.arange(model.vocab_size, dtype=np.int32)
    if len(columns) > COLUMNS:
        columns = np.sort(np.random.default_rng(0).choice(columns, COLUMNS, replace=False)).astype(np.int32)

    def logits(row: Sequence[int]) -> np.ndarray:
        return model(torch.tensor([list(row)]))[0].numpy()

    kept, seen, total = [], 0, 0.0
    for window in map(filled, windows):
        scores = logits(window[:-1].tolist())
        total += nats(scores, window[1:])
        if seen < POSITIONS:
            kept.append(scores[:, columns])
            seen += len(scores)
    length = prompt_length(context)
    prompts = np.asarray(tokens[: TEXTS * length], np.int32).reshape(TEXTS, -1)
    greedy = np.array([written(stepwise(model), row.tolist(), context) for row in prompts], np.int32)
    loss = total / int((windows[:, 1:] >= 0).sum())
    strings = [described(tokenizer, one) for one in texts(tokenizer, text)]
    return Reference(windows, np.concatenate(kept), columns, prompts, greedy, loss, len(tokens) - 1, strings)


def spread(tokens: np.ndarray, context: int, *, most: int) -> np.ndarray:
    """Windows (B, T + 1) of at most `most` targets, but of 1,024 at least: all that lie side by side in the tokens, or
    as many as that is, evenly spread; the first one and the last one are among them."""
    count = -(-(len(tokens) - 1) // context)
    wanted = min(count, max(-(-POSITIONS // context) + 1, most // context))
    windows = np.full((wanted, context + 1), -1, np.int32)
    for row, at in zip(windows, np.linspace(0, count - 1, wanted).round().astype(int), strict=True):
        ids = tokens[at * context : (at + 1) * context + 1]
        row[: len(ids)] = ids
    return windows


def filled(window: np.ndarray) -> np.ndarray:
    """Ids of a window without the -1 at its end."""
    return window[window >= 0]


def nats(logits: np.ndarray, targets: np.ndarray) -> float:
    """The summed loss of targets (T,) under logits (T, V)."""
    wide = logits.astype(np.float64)
    top = wide.max(axis=1, keepdims=True)
    norm = np.log(np.exp(wide - top).sum(axis=1)) + top[:, 0]
    return float((norm - wide[np.arange(len(targets)), targets]).sum())


def prompt_length(context: int) -> int:
    """Ids in a prompt for a model of this context."""
    return max(1, min(16, context // 4))


def written(go_on: Callable[[list[int], int], list[int]], prompt: list[int], context: int) -> list[int]:
    """`WRITTEN` ids after a prompt. Where the context is full, the last half of it is the next prompt: so each library
    decodes with its own cache, and all see the same."""
    ids = list(prompt)
    while len(ids) < len(prompt) + WRITTEN:
        seen = ids[-max(1, context // 2) :] if len(ids) >= context else ids
        ids += go_on(seen, min(context - len(seen), len(prompt) + WRITTEN - len(ids)) or 1)
    return ids[len(prompt) :]


def stepwise(model: LanguageModel) -> Callable[[list[int], int], list[int]]:
    """Greedy decoding, with a cache where the model has one."""

    def go_on(seen: list[int], count: int) -> list[int]:
        cache, ids, new = model.new_cache(1), list(seen), list(seen)
        for _ in range(count):
            read = new if cache is not None else ids
            following = int(model(torch.tensor([read]), cache)[0, -1].argmax())
            new = [following]
            ids += new
        return ids[len(seen) :]

    return go_on


def described(tokenizer: Tokenizer, text: str) -> dict[str, Any]:
    """A text with the run's ids and what they are decoded to."""
    try:
        ids = tokenizer.encode(text).tolist()
    except InputError:
        return {"text": text, "ids": None, "decoded": None}
    return {"text": text, "ids": ids, "decoded": tokenizer.decode(ids)}


def texts(tokenizer: Tokenizer, text: str) -> list[str]:
    """`STRINGS` texts: of the validation text, random tokens, characters of all scripts, and what is special."""
    random = np.random.default_rng(0)
    found = ["", " ", "\n", "  \n\n ", "\x00", "🙂", "日本語", "é" * 3, *tokenizer.special, "a<|endoftext|>b"]
    while len(found) < STRINGS // 2:
        at, length = int(random.integers(max(1, len(text) - 1))), int(random.integers(1, 200))
        found.append(text[at : at + length])
    while len(found) < STRINGS * 19 // 20:
        ids = random.integers(tokenizer.vocab_size, size=int(random.integers(1, 60)))
        found.append(tokenizer.decode(ids))
    while len(found) < STRINGS:
        codes = random.integers(32, 0x3000, size=int(random.integers(1, 20)))
        found.append("".join(map(chr, codes.tolist())))
    return found
