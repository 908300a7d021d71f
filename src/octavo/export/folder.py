"""A folder that needs torch and safetensors alone: the weights, what they are, and the code that reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from octavo.errors import InputError
from octavo.export.safetensors import read_weights
from octavo.export.weights import Shape, Weights
from octavo.util.records import Record, json_text, read_record

SETTINGS, CODE = "model.json", {"model.py": "model.py", "generate.py": "standalone_generate.py"}
FORMAT = "octavo-torch"


class Settings(Record):
    """model.json."""

    format: str
    shape: dict[str, Any]
    start: int | None
    end: int | None


def code() -> dict[str, str]:
    """The files of code by their names in the folder, where they stand side by side and import nothing of Octavo."""
    here = resources.files("octavo.export")
    texts = {name: here.joinpath(own).read_text(encoding="utf-8") for name, own in CODE.items()}
    return {
        name: text.replace("from octavo.export.model import", "from model import")
        for name, text in texts.items()
    }


def write_folder(
    weights: Weights,
    folder: Path,
    *,
    dtype: torch.dtype,
    start: int | None,
    end: int | None,
    ends: Iterable[int] = (),
    turn: Mapping[str, int] | None = None,
) -> None:
    """Put all but the tokenizer into a folder; `ends` are the ids that end a text or an answer, `turn` those of a
    conversation's roles and of a turn's end. Raises OSError."""
    settings = {"format": FORMAT, "shape": weights.shape.as_dict(), "start": start, "end": end}
    settings |= {"ends": sorted({*ends, *(() if end is None else (end,))}), "turn": turn}
    (folder / SETTINGS).write_text(json_text(settings, indent=1) + "\n", encoding="utf-8")
    tensors = {name: tensor.to(dtype).contiguous() for name, tensor in weights.tensors.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    for name, text in code().items():
        (folder / name).write_text(text, encoding="utf-8")


def read_folder(folder: Path) -> tuple[Shape, Weights, dict[str, Any]]:
    """The way back. The code in the folder is not looked at. Raises InputError."""
    settings = read_record(folder / SETTINGS, Settings, of="the model", error=InputError)
    if settings["format"] != FORMAT:
        raise InputError(f"{folder / SETTINGS} is of the format '{settings['format']}', not '{FORMAT}'.")
    try:
        shape = Shape(**settings["shape"] | {"slowness": tuple(settings["shape"].get("slowness", ()))})
    except TypeError as error:
        raise InputError(f"{folder / SETTINGS} describes no model ({error}).") from error
    return shape, Weights(shape, read_weights(folder)), settings
