"""ONNX: a graph with a key/value cache and one without, for onnxruntime, whatever the run's switches are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from octavo.errors import InputError
from octavo.export.onnx_graph import CACHED, UNCACHED, write_onnx
from octavo.export.rewrites.positions import TABLE
from octavo.export.targets.base import Opened, Parcel, Support, Target
from octavo.export.targets.hf import HuggingFace, prompt_of, write_tokenizer
from octavo.export.weights import Shape
from octavo.tokenizers import Tokenizer


def as_it_is(shape: Shape, how: str) -> Support:
    """How a form says a model that says all of them."""
    after = TABLE.shape(shape, {}) if shape.positions == "sinusoidal" else None
    return Support("exact", how, () if after is None else (TABLE.says(shape, after),))


def as_in_hugging_face(kind: str, made: Tokenizer | None) -> Support:
    """How a `tokenizer.json` says a tokenizer; one that it cannot say is left out."""
    theirs = HuggingFace().tokenizer(kind, made)
    if theirs.status != "impossible":
        return theirs
    return Support("approximate", "none", (), "the folder has no tokenizer: it takes and gives ids alone")


def write_tokenizer_if_any(parcel: Parcel, folder: Path) -> bool:
    """Write the tokenizer where it can be said; whether it is there."""
    if as_in_hugging_face(parcel.tokenizer.kind, parcel.tokenizer).how == "none":
        return False
    write_tokenizer(parcel.tokenizer, folder, context=parcel.weights.shape.context)
    return True


class Onnx(Target):
    """The model's own graph."""

    name = "onnx"
    title = "ONNX"
    rank = 2
    packages: ClassVar[dict[str, str]] = {
        "onnx": "onnx",
        "onnxruntime": "onnxruntime",
        "tokenizers": "tokenizers",
    }

    def model(self, shape: Shape) -> Support:
        return as_it_is(shape, "a graph of its own")

    def tokenizer(self, kind: str, made: Tokenizer | None = None) -> Support:
        return as_in_hugging_face(kind, made)

    def write(self, parcel: Parcel, folder: Path) -> None:
        write_onnx(parcel.weights, folder, dtype=getattr(torch, parcel.dtype))
        write_tokenizer_if_any(parcel, folder)

    def how_to_run(self, parcel: Parcel) -> str:
        if as_in_hugging_face(parcel.tokenizer.kind, parcel.tokenizer).how == "none":
            return HOW.format(before="", ids="[0]", after="ids")
        prompt = f"tokenizer.encode({prompt_of(parcel)!r}, add_special_tokens=False).ids"
        return HOW.format(before=TOKENIZER, ids=prompt, after="tokenizer.decode(ids)")

    def reopen(self, folder: Path) -> Opened:
        return OpenedGraphs(folder)


TOKENIZER = """from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file("tokenizer.json")
tokenizer.encode_special_tokens = True  # text that reads like a special token is text
"""
HOW = """```python
import numpy
import onnxruntime
{before}
model = onnxruntime.InferenceSession("model_without_cache.onnx")
ids = {ids}
for _ in range(8):
    (logits,) = model.run(None, {{"input_ids": numpy.array([ids])}})
    ids.append(int(logits[0, -1].argmax()))
print({after})
```

`model.onnx` is the same with a cache: it takes `past_key_values.N.key` and `.value` (at first with no positions in
them) and gives `present.N.key` and `.value`, the next step's past. Batch and lengths are free."""


class OpenedGraphs(Opened):
    """The folder through onnxruntime and `tokenizers`."""

    def __init__(self, folder: Path) -> None:
        import onnxruntime

        self.library: Any = onnxruntime
        quiet = onnxruntime.SessionOptions()
        quiet.log_severity_level = 3
        try:
            self.whole: Any = onnxruntime.InferenceSession(folder / UNCACHED, quiet)
            self.cached: Any = onnxruntime.InferenceSession(folder / CACHED, quiet)
        except Exception as error:  # the library's own kinds have no common base
            raise InputError(f"{folder} cannot be opened: {str(error).splitlines()[0]}.") from error
        self.tokenizer: Any = opened_tokenizer(folder)

    def logits(self, ids: Sequence[int]) -> np.ndarray:
        return self.whole.run(None, {"input_ids": np.array([list(ids)], np.int64)})[0][0]

    def greedy(self, ids: Sequence[int], count: int) -> list[int]:
        past = nothing_read(self.cached)
        names = [each.name for each in self.cached.get_outputs()]
        new, written = list(ids), []
        while len(written) < count:
            fed = {"input_ids": np.array([new], np.int64), **past}
            given = dict(zip(names, self.cached.run(None, fed), strict=True))
            new = [int(given["logits"][0, -1].argmax())]
            written += new
            past = {name: given[after(name)] for name in past}
        return written

    def encode(self, text: str) -> list[int] | None:
        try:
            return (
                None if self.tokenizer is None else self.tokenizer.encode(text, add_special_tokens=False).ids
            )
        except Exception:  # the library raises nothing more special for a character that it lacks
            return None

    def decode(self, ids: Sequence[int]) -> str | None:
        return None if self.tokenizer is None else self.tokenizer.decode(list(ids), skip_special_tokens=True)

    def versions(self) -> dict[str, str]:
        import onnx
        import tokenizers

        return {
            "onnxruntime": self.library.__version__,
            "onnx": onnx.__version__,
            "tokenizers": tokenizers.__version__,
        }


def opened_tokenizer(folder: Path) -> Any:
    """The folder's tokenizer by its library, for which special tokens in a text are text; None where there is none."""
    import tokenizers

    file = folder / "tokenizer.json"
    if not file.is_file():
        return None
    tokenizer = tokenizers.Tokenizer.from_file(str(file))
    tokenizer.encode_special_tokens = True
    return tokenizer


def nothing_read(session: Any, batch: int = 1) -> dict[str, np.ndarray]:
    """The cache's inputs before anything is read."""
    empty: dict[str, np.ndarray] = {}
    for each in session.get_inputs():
        if each.name == "past_ids":
            empty[each.name] = np.zeros((batch, 0), np.int64)
        elif each.name != "input_ids":
            empty[each.name] = np.zeros((batch, each.shape[1], 0, each.shape[3]), np.float32)
    return empty


def after(name: str) -> str:
    """The output that is the next step's input of a name."""
    return name.replace("past_key_values.", "present.").replace("past_ids", "present_ids")
