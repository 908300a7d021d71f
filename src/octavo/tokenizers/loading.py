"""A saved tokenizer, read again: its header, its files, and the special tokens that were added to it."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from octavo.errors import TokenizerError
from octavo.tokenizers.base import (
    FORMAT,
    HEADER,
    SIDECAR,
    VERSION,
    Tokenizer,
    body_hash,
    sha256,
    with_special,
)

OWN = {
    "bpe": ("octavo.tokenizers.bpe", "BPETokenizer"),
    "byte": ("octavo.tokenizers.byte", "ByteTokenizer"),
    "char": ("octavo.tokenizers.char", "CharTokenizer"),
    "word": ("octavo.tokenizers.word", "WordTokenizer"),
}


def load_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer saved in a folder; needs no recipe, corpus or network.

    Raises:
        TokenizerError: the folder holds none, or it is damaged, or written by a later version.
        MissingExtra: its kind needs a package that is not installed.
    """
    folder = Path(folder)
    return _restored(lambda name: (folder / name).read_bytes(), folder)


def restored(files: Mapping[str, bytes]) -> Tokenizer:
    """The same from the contents of its files, by their names."""

    def read(name: str) -> bytes:
        if name not in files:
            raise FileNotFoundError(name)
        return files[name]

    return _restored(read, Path())


def _restored(read: Callable[[str], bytes], folder: Path) -> Tokenizer:
    """The tokenizer whose files `read` gives; messages say that they stand in `folder`."""
    header, path = _read_header(read, folder)
    kind = header["kind"]
    if (found := own(kind) or of_a_part(kind) or of_a_task(kind)) is None:
        from octavo.config.parts import kinds

        raise TokenizerError(
            f"{path} is of kind {kind!r}, which this Octavo does not have ({', '.join(kinds('tokenizer'))}).",
            remedy="Update Octavo to the version that wrote it.",
        )
    try:
        files = {name: read(Path(name).name) for name in header["files"]}
    except OSError as error:
        raise _damaged(path, f"a file that it needs cannot be read: {error}") from error
    for name, content in files.items():
        if sha256(content) != header["files"][name]:
            raise _damaged(folder / name, "its content was altered")
    try:
        tokenizer = found._restore(header["data"], files)
        return with_special(tokenizer, header["added"]) if "added" in header else tokenizer
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path, f"{type(error).__name__}: {error}") from error


def own(kind: str) -> type[Tokenizer] | None:
    """Find a built-in kind, without importing any options; None for another one."""
    if kind not in OWN:
        return None
    module, name = OWN[kind]
    return getattr(importlib.import_module(module), name)


def of_a_part(kind: str) -> type[Tokenizer] | None:
    """Find the kind that a recipe names; None for an unknown name."""
    from octavo.config.parts import PartOf
    from octavo.tokenizers.config import TokenizerConfig

    config = PartOf("tokenizer").named(kind)
    return config.tokenizer if config is not None and issubclass(config, TokenizerConfig) else None


def of_a_task(name: str) -> type[Tokenizer] | None:
    """The kind that a task encodes its data by, which no recipe names; None if none has this one."""
    from octavo.config.parts import parts

    own = (getattr(task, "tokenizer", None) for task in parts("task").values())
    return next((kind for kind in own if kind is not None and kind.kind == name), None)


def _read_header(read: Callable[[str], bytes], folder: Path) -> tuple[dict[str, Any], Path]:
    """Read and check everything that is the same for every kind; also where it stands."""
    path = folder / SIDECAR
    try:
        try:
            content = read(SIDECAR)
        except FileNotFoundError:
            path = folder / HEADER
            content = read(HEADER)
        header = json.loads(content)
    except FileNotFoundError as error:
        raise TokenizerError(f"{path.parent} holds no tokenizer: there is no {path.name}.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path, str(error)) from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise TokenizerError(
            f"{path} is not a tokenizer that Octavo saved (its format is not {FORMAT!r}).",
            remedy=f"Give the folder of a run's tokenizer; a byte-pair tokenizer also needs its {SIDECAR}.",
        )
    if not isinstance(header.get("version"), int) or header["version"] > VERSION:
        raise TokenizerError(
            f"{path} has format version {header.get('version')!r}; this Octavo reads up to {VERSION}.",
            remedy="Update Octavo to the version that wrote it.",
        )
    body = {key: header.get(key) for key in ("data", "files")}
    whole = all(isinstance(value, dict) for value in body.values())
    if "added" in header:
        body["added"] = header["added"]
        whole = (
            whole and isinstance(body["added"], list) and all(isinstance(one, str) for one in body["added"])
        )
    if not whole or not isinstance(header.get("kind"), str):
        raise _damaged(path, "parts of it are missing")
    if header.get("sha256") != body_hash(body):
        raise _damaged(path, "its content was altered")
    return header, path


def _damaged(path: Path, why: str) -> TokenizerError:
    return TokenizerError(
        f"The tokenizer file {path} is damaged ({why}).",
        remedy="Take the tokenizer folder of another checkpoint of the run.",
    )
