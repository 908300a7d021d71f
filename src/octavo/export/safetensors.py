"""Safetensors files of other libraries: one, or several with an index. Nothing in them can run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from octavo.errors import InputError
from octavo.util.records import Record, read_record

WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".h5", ".msgpack")
FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


class Index(Record):
    """model.safetensors.index.json."""

    weight_map: dict[str, str]


def weight_files(folder: Path) -> list[Path]:
    """The files with a folder's weights. Raises InputError where there are none, or files that are no plain data."""
    index = folder / INDEX
    if not index.is_file():
        if (folder / WHOLE).is_file():
            return [folder / WHOLE]
        raise InputError(_no_weights(folder), remedy=REMEDY if _pickles(folder) else None)
    names = sorted(set(read_record(index, Index, of="the model", error=InputError)["weight_map"].values()))
    if not names:
        raise InputError(f"{index} names no files.")
    for name in names:
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise InputError(f"{index} names '{name}', which is no safetensors file of this folder.")
        if not (folder / name).is_file():
            raise InputError(
                f"{index} names {name}, which is missing.", remedy="fetch all files of the model again"
            )
    return [folder / name for name in names]


REMEDY = (
    "where the file comes from somebody you trust, load it with its own library and save it by "
    'model.save_pretrained("FOLDER", safe_serialization=True)'
)


def _pickles(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix.lower() in PICKLES)


def _no_weights(folder: Path) -> str:
    pickles = _pickles(folder)
    if pickles:
        form = f"{pickles[0]}, a form that can run code when it is read"
        return f"{folder} holds its weights as {form}; Octavo reads none."
    return f"{folder} holds no weights (no {WHOLE}, no {INDEX})."


def refuse_pickle(path: Path) -> None:
    """Raise InputError for a file in a form that can run code."""
    if path.suffix.lower() in PICKLES:
        raise InputError(
            f"{path} has a form that can run code when it is read; Octavo reads none.", remedy=REMEDY
        )


def read_weights(folder: Path) -> dict[str, Tensor]:
    """All tensors of a folder, float32. Raises InputError for damage, and for numbers that are no plain floats."""
    tensors: dict[str, Tensor] = {}
    for path in weight_files(folder):
        for name, tensor in _tensors(path):
            if name in tensors:
                raise InputError(f"{path} holds '{name}', which another file of the folder holds too.")
            tensors[name] = tensor
    index = folder / INDEX
    if index.is_file():
        places = read_record(index, Index, of="the model", error=InputError)["weight_map"]
        lacking = sorted(places.keys() - tensors.keys())
        if lacking:
            raise InputError(
                f"{index} names the tensor '{lacking[0]}', which {places[lacking[0]]} does not hold."
            )
    return tensors


def _tensors(path: Path) -> Iterator[tuple[str, Tensor]]:
    try:
        with safe_open(path, "pt") as file:
            for name in file.keys():  # noqa: SIM118 — the handle is no mapping
                tensor = file.get_tensor(name)
                if tensor.dtype not in FLOATS:
                    if tensor.dtype in (torch.bool, torch.uint8, torch.int64):  # masks that some files hold
                        continue
                    kind = str(tensor.dtype).removeprefix("torch.")
                    raise InputError(
                        f"{path} holds '{name}' as {kind}; Octavo reads float32, float16 and bfloat16."
                    )
                yield name, tensor.float()
    except (OSError, SafetensorError, RuntimeError) as error:
        raise InputError(
            f"{path} cannot be read ({str(error).strip() or type(error).__name__}): it is damaged or cut short.",
            remedy="fetch it again",
        ) from error
