"""A folder that needs torch and safetensors alone, for what no other library knows: its code beside its weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from octavo.errors import InputError
from octavo.export.folder import code, read_folder, write_folder
from octavo.export.onnx_graph import sayable
from octavo.export.standalone_generate import Vocabulary, generate, load
from octavo.export.targets.base import Opened, Parcel, Support, Target
from octavo.export.targets.hf import prompt_of
from octavo.export.targets.onnx import as_in_hugging_face, as_it_is, opened_tokenizer, write_tokenizer_if_any
from octavo.export.weights import Shape
from octavo.tokenizers import Tokenizer
from octavo.tokenizers.base import CHAT_END
from octavo.tokenizers.chat import OPENINGS, has_chat

ITSELF = ("char", "byte", "bpe", "gpt2")
"""Tokenizers that the code beside the weights reads by itself."""


class TorchOnly(Target):
    """Weights, what they are, and some hundred lines of code."""

    name = "torch"
    title = "torch alone"
    rank = 3
    packages: ClassVar[dict[str, str]] = {"tokenizers": "tokenizers"}

    def model(self, shape: Shape) -> Support:
        return as_it_is(shape, "code beside the weights")

    def tokenizer(self, kind: str, made: Tokenizer | None = None) -> Support:
        return as_in_hugging_face(kind, made)

    def write(self, parcel: Parcel, folder: Path) -> None:
        tokenizer, dtype = parcel.tokenizer, getattr(torch, parcel.dtype)
        roles = {"user": OPENINGS["user"], "assistant": OPENINGS["assistant"], "end": CHAT_END}
        turn = (
            {role: tokenizer.special[name] for role, name in roles.items()} if has_chat(tokenizer) else None
        )
        ends = {"start": tokenizer.start, "end": tokenizer.end, "ends": tokenizer.ends, "turn": turn}
        write_folder(sayable(parcel.weights), folder, dtype=dtype, **ends)
        write_tokenizer_if_any(parcel, folder)

    def how_to_run(self, parcel: Parcel) -> str:
        if parcel.tokenizer.kind not in ITSELF:
            return HOW_IDS
        if has_chat(parcel.tokenizer):
            return HOW_CHAT
        return HOW.format(prompt=repr(prompt_of(parcel)))

    def reopen(self, folder: Path) -> Opened:
        return OpenedCode(folder)


HOW = """```python
from pathlib import Path

from generate import Vocabulary, generate, load

model, told = load(Path("."))
vocabulary = Vocabulary(Path("tokenizer.json"))
ids = vocabulary.encode({prompt})
print(vocabulary.decode(ids + generate(model, ids, 40)))
```

Or `python generate.py --prompt TEXT`. Nothing but torch and safetensors is needed."""
HOW_CHAT = """`python generate.py --chat --prompt QUESTION` answers; without `--chat` a text is gone on from. Nothing
but torch and safetensors is needed."""
HOW_IDS = """```python
from pathlib import Path

from generate import generate, load

model, told = load(Path("."))
print(generate(model, [0], 40))
```

It takes and gives ids. Nothing but torch and safetensors is needed."""


class OpenedCode(Opened):
    """The folder by the code in it, of which nothing runs unless it is, to the letter, what this Octavo writes."""

    def __init__(self, folder: Path) -> None:
        for name, text in code().items():
            file = folder / name
            if not file.is_file() or file.read_text(encoding="utf-8") != text:
                raise InputError(
                    f"{file} is not what this version of Octavo writes, so it is not run.",
                    remedy="verify with the version that exported it, or run it yourself if you trust it",
                )
        read_folder(folder)
        self.model, _ = load(folder)
        self.tokenizer: Any = opened_tokenizer(folder)
        try:
            self.own = None if self.tokenizer is None else Vocabulary(folder / "tokenizer.json")
        except ValueError:
            self.own = None

    @torch.no_grad()
    def logits(self, ids: Sequence[int]) -> np.ndarray:
        return self.model(torch.tensor([list(ids)]))[0][0].numpy()

    def greedy(self, ids: Sequence[int], count: int) -> list[int]:
        return generate(self.model, ids, count)

    def encode(self, text: str) -> list[int] | None:
        try:
            if self.own is not None:
                return self.own.encode(text)
            return (
                None if self.tokenizer is None else self.tokenizer.encode(text, add_special_tokens=False).ids
            )
        except Exception:  # the library raises nothing more special for a character that it lacks
            return None

    def decode(self, ids: Sequence[int]) -> str | None:
        if self.own is not None:
            return self.own.decode(ids)
        return None if self.tokenizer is None else self.tokenizer.decode(list(ids), skip_special_tokens=True)

    def versions(self) -> dict[str, str]:
        from importlib import metadata

        return {"torch": torch.__version__, "safetensors": metadata.version("safetensors")}
