"""Models of other libraries, read from local files: Hugging Face's folders, GGUF, Octavo's own torch-only folders."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from octavo.errors import InputError
from octavo.export.architectures import architectures
from octavo.export.architectures.base import Architecture
from octavo.export.folder import SETTINGS, read_folder
from octavo.export.incoming_gguf import read_gguf, slowness_of
from octavo.export.safetensors import read_weights, refuse_pickle, weight_files
from octavo.export.to_config import config_of, tensors_of
from octavo.export.weights import Shape, Weights
from octavo.model.config import GPTConfig
from octavo.tokenizers import Tokenizer
from octavo.tokenizers.huggingface import named_tokens, read_huggingface
from octavo.util.files import file_hash, is_file, is_folder
from octavo.util.records import read_record

CONFIG, TOKENIZER = "config.json", "tokenizer.json"
BUFFERS = re.compile(r"(^|\.)(attn\.(bias|masked_bias)|attention\.(bias|masked_bias)|rotary_emb\.inv_freq)$")
"""Tensors in older files that follow from the settings."""


@dataclass(frozen=True)
class Incoming:
    """A model from elsewhere.

    Attributes:
        form: in words, such as "Hugging Face (gpt2)".
        files: SHA-256 of every file that was read, by its name.
    """

    path: Path
    form: str
    weights: Weights
    config: GPTConfig
    tokenizer: Tokenizer
    files: Mapping[str, str]


def read_model(path: Path, *, tokenizer: Path | None = None) -> Incoming:
    """Read a model's folder or file. `tokenizer`: a tokenizer.json that takes the place of its own.

    Raises InputError (and TokenizerError, which is one) for whatever Octavo cannot read or say.
    """
    found = _read(path, tokenizer)
    if wrong := next(
        (name for name, each in found.weights.tensors.items() if not bool(each.isfinite().all())), None
    ):
        raise InputError(f"{path} has weights that are no finite numbers, in {wrong}: its training diverged.")
    return found


def _read(path: Path, tokenizer: Path | None) -> Incoming:
    if is_file(path):
        refuse_pickle(path)
        if path.suffix.lower() == ".gguf":
            return _gguf(path, tokenizer)
    if not is_folder(path):
        what = "is no folder with a model" if is_file(path) else "does not exist"
        raise InputError(f"{path} {what}.", remedy="give a folder that holds config.json and *.safetensors")
    if (path / SETTINGS).is_file():
        return _torch_only(path, tokenizer)
    if not (path / CONFIG).is_file():
        inside = sorted(path.glob("*.gguf"))
        if len(inside) == 1:
            return _gguf(inside[0], tokenizer)
        weight_files(path)  # a folder of pickles alone is told so
        raise InputError(f"{path} holds weights without settings: there is no {CONFIG}.")
    return _hugging_face(path, tokenizer)


def _torch_only(folder: Path, tokenizer: Path | None) -> Incoming:
    shape, weights, settings = read_folder(folder)
    wrong = _wrong_fields(shape)
    if wrong:
        raise InputError(f"{folder / SETTINGS} has no usable value for the model's {wrong[0]}.")
    config = config_of(shape)
    tensors_of(weights, config)
    file = tokenizer or folder / TOKENIZER
    ends = {"bos_token_id": settings["start"], "eos_token_id": settings["end"]}
    tokenizer_read = tokenizer_of(file, ends, shape.vocab_size)
    read = {each.name: file_hash(each) for each in (folder / SETTINGS, *weight_files(folder), file)}
    return Incoming(folder, "Octavo's folder for torch alone", weights, config, tokenizer_read, read)


def _gguf(path: Path, tokenizer: Path | None) -> Incoming:
    settings, tensors, words = read_gguf(path)
    architecture = _architecture(settings.get("general.architecture"), "gguf", path)
    if words.size:
        settings.setdefault(f"{architecture.name}.vocab_size", words.size)
    shape = shape_of(
        architecture, settings, path, **slowness_of(tensors), tied="output.weight" not in tensors
    )
    config = config_of(shape)
    weights = weights_of(architecture, shape, tensors, path)
    tensors_of(weights, config)
    read = [path] if tokenizer is None else [path, tokenizer]
    tokenizer_read = (
        words.tokenizer(path) if tokenizer is None else tokenizer_of(tokenizer, {}, shape.vocab_size)
    )
    hashes = {each.name: file_hash(each) for each in read}
    return Incoming(path, f"GGUF ({architecture.name})", weights, config, tokenizer_read, hashes)


def _hugging_face(folder: Path, tokenizer: Path | None) -> Incoming:
    settings = read_record(folder / CONFIG, of="the model", error=InputError)
    architecture = _architecture(settings.get("model_type"), "hf", folder / CONFIG)
    shape = shape_of(architecture, settings, folder / CONFIG)
    config = config_of(shape)
    files = weight_files(folder)
    weights = weights_of(architecture, shape, read_weights(folder), folder)
    tensors_of(weights, config)
    file = tokenizer or folder / TOKENIZER
    tokenizer_read = tokenizer_of(file, settings, shape.vocab_size)
    beside = [folder / CONFIG, *files, file]
    return Incoming(
        folder,
        f"Hugging Face ({architecture.name})",
        weights,
        config,
        tokenizer_read,
        {each.name: file_hash(each) for each in beside},
    )


def _architecture(kind: object, library: str, path: Path) -> Architecture:
    known = architectures(library)
    if not isinstance(kind, str) or kind not in known:
        named = f"'{kind}'" if isinstance(kind, str) else "nothing"
        raise InputError(
            f"{path} says {named} as the kind of model; those that Octavo reads are: {', '.join(sorted(known))}."
        )
    return known[kind]


def shape_of(architecture: Architecture, settings: Mapping[str, Any], path: Path, **more: Any) -> Shape:
    """The shape that settings say. Raises InputError where they say none."""
    try:
        shape = architecture.shape_of(settings, **more)
        wrong = _wrong_fields(shape)
        if wrong:
            raise InputError(f"It has no usable value for the model's {wrong[0]}.")
    except InputError as error:
        raise InputError(f"{path} cannot be used. {error.what}", remedy=error.remedy) from error
    except (TypeError, ValueError, KeyError, ArithmeticError, AttributeError) as error:
        raise InputError(
            f"{path} holds settings that make no model ({type(error).__name__}: {error})."
        ) from error
    return shape


def _wrong_fields(shape: Shape) -> list[str]:
    """Fields that do not hold what they should, in words."""
    kinds: dict[object, tuple[type, ...]] = {
        "int": (int,),
        "bool": (bool,),
        "float": (int, float),
        "str": (str,),
    }
    strange = [
        each.name
        for each in fields(Shape)
        if each.type in kinds and type(getattr(shape, each.name)) not in kinds[each.type]
    ]
    if not strange:  # all other sizes are options of the GPT, which limits them
        strange = [name for name in ("vocab_size", "head_width") if not 0 < getattr(shape, name) < 2**31]
    return [name.replace("_", " ") for name in strange]


def weights_of(architecture: Architecture, shape: Shape, theirs: Mapping[str, Tensor], path: Path) -> Weights:
    """The weights under our names. Raises InputError where they do not fit the settings."""
    whole = _with_prefix(architecture, theirs)
    whole = {name: tensor for name, tensor in whole.items() if not BUFFERS.search(name)}
    try:
        tensors = architecture.weights_of(shape, whole)
    except InputError as error:
        raise InputError(f"{path} does not hold what its settings say. {error.what}") from error
    except (RuntimeError, ValueError, IndexError) as error:
        raise InputError(f"{path}: the weights do not fit the settings ({_line(error)}).") from error
    tied = {f"{name.theirs}.weight" for name in architecture.names if name.ours == ("head",) and shape.tied}
    tables = [f"{name.theirs}.weight" for name in architecture.names if name.ours == ("embedding",)]
    for name in tied & whole.keys():
        if not all(torch.equal(whole[name], whole[table]) for table in tables if table in whole):
            raise InputError(
                f"{path} ties its head to the embedding (tie_word_embeddings), and holds another head: {name}.",
                remedy="tie_word_embeddings: false in its config.json, if the head is meant",
            )
    strange = sorted(whole.keys() - architecture.reads(shape) - tied)
    if strange:
        raise InputError(f"{path} holds the tensor '{strange[0]}', which its settings have no place for.")
    return Weights(shape, tensors)


def _line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]


def _with_prefix(architecture: Architecture, theirs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Their tensors as a model with a head names them: files of the model without its head lack the first word."""
    first = architecture.names[0].theirs.partition(".")[0] + "."
    if any(name.startswith(first) for name in theirs):
        return dict(theirs)
    heads = {name.theirs.partition(".")[0] for name in architecture.names} - {first[:-1]}
    return {
        name if name.partition(".")[0] in heads else first + name: tensor for name, tensor in theirs.items()
    }


def tokenizer_of(file: Path, settings: Mapping[str, Any], size: int) -> Tokenizer:
    """The tokenizer of a model with so many tokens. Where its own settings do not name the end, the model's do."""
    if not file.is_file():
        raise InputError(
            f"{file} is missing, and without a tokenizer nobody can read what the model writes.",
            remedy="--tokenizer FILE, with the tokenizer.json of the model",
        )
    config = {}
    named = named_tokens(file)
    for role, key, name in (("start", "bos_token_id", "bos_token"), ("end", "eos_token_id", "eos_token")):
        id = settings.get(key)
        id = id[0] if isinstance(id, list) and id else id
        if named[name] is None and type(id) is int and 0 <= id < size:
            config[role] = id
    return read_huggingface(file, **config, size=size)
