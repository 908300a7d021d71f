"""A run that writes at once: where the kernel knows its model, numpy is enough, and neither torch nor the classes of
settings are imported. The texts are those of `Run.stream`, to the bit.

Whatever is not plainly as it should be (a checkpoint that is damaged, a setting that is not known, a machine without
the kernel) is left to `Run`, which says what is wrong: then `opened` gives None.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from octavo.config.limits import LARGEST, MOST
from octavo.config.plain import parse_yaml
from octavo.errors import OctavoError
from octavo.util.files import file_hash
from octavo.util.json_text import json_text

if TYPE_CHECKING:
    import numpy as np

    from octavo.generation.engine import Engine
    from octavo.generation.sampling import Sampling, SamplingFields, SamplingOptions

MANIFEST, FORMAT = "MANIFEST.json", 1
"""Of a checkpoint; see `training.checkpoint_folder`."""
_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
TEXT: Mapping[str, tuple[str, ...]] = {
    "corpus": ("files", "storyteller"),
    "batches": ("documents", "sliding", "windows"),
    "objective": ("next-token",),
}
"""By setting: the kinds of which nothing but text comes."""
TOKENIZERS = ("bpe", "byte", "char", "word")
WITHIN: Mapping[str, tuple[float, float]] = {
    "tokens": (1, MOST),
    "temperature": (0, LARGEST),
    "top_k": (1, MOST),
    "top_p": (1e-300, 1),
    "min_p": (1e-300, 1),
    "repetition_penalty": (1e-300, LARGEST),
}
"""What a sampling's numbers may be here."""


class _Unlike(Exception):
    """Something is not as it should be, or not known here."""


@dataclass(frozen=True)
class LightRun:
    """What `Run` is for one text after a prompt."""

    engine: Engine
    sampling: Sampling
    tokens: int

    def stream(self, prompt: str = "", **options: Unpack[SamplingFields]) -> Iterator[str]:
        """See `Run.stream`; the options are those that it was opened with."""
        from octavo.generation.streams import TextRequest

        request = TextRequest(prompt, options["seed"])
        stop = options.get("stop", ())
        for _, piece in self.engine.write_each(
            [request], tokens=self.tokens, sampling=self.sampling, stop=stop
        ):
            if piece:
                yield piece


def opened(path: Path, checkpoint: str, options: SamplingOptions) -> LightRun | None:
    """The run in `path` at `checkpoint`, for texts that are written with these options; None: `Run` has to do it."""
    if options.only_valid:
        return None
    try:
        return _opened(path, checkpoint, options)
    except (
        _Unlike,
        OctavoError,
        OSError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        ArithmeticError,
        MemoryError,
    ):
        return None


def _opened(path: Path, checkpoint: str, options: SamplingOptions) -> LightRun:
    folder = path if (path / MANIFEST).is_file() else _checkpoint(path, checkpoint)
    refuse_damaged(folder)
    tree = parse_yaml((folder / "config.yaml").read_text(encoding="utf-8"), "config.yaml")
    _refuse_other_than_text(tree)
    settings = tree["sampling"] | {
        name: value for name in (*WITHIN, "window") if (value := getattr(options, name)) is not None
    }
    _refuse_out_of_bounds(settings)

    from octavo.generation.engine import Engine
    from octavo.generation.from_arrays import NotKnown, network_from
    from octavo.generation.kernel import compiled
    from octavo.generation.sampling import Sampling
    from octavo.tokenizers.loading import load_tokenizer

    if compiled() is None:
        raise _Unlike("there is no kernel")
    tokenizer = load_tokenizer(folder / "tokenizer")
    try:
        network = network_from(
            tree["model"], _weights(folder / "model.safetensors"), vocab_size=tokenizer.vocab_size
        )
    except NotKnown as error:
        raise _Unlike(str(error)) from error
    sampling = Sampling(**{name: settings[name] for name in Sampling.__dataclass_fields__})
    return LightRun(Engine(network, tokenizer, precision=options.precision), sampling, settings["tokens"])


def _checkpoint(run: Path, which: str) -> Path:
    if not (run / "config.yaml").is_file():
        raise _Unlike("no run")
    if which in ("best", "last"):
        if not (run / which).is_symlink():
            raise _Unlike("no link")
        return (run / which).resolve()
    number = which.removeprefix("step-")
    if not (number.isascii() and number.isdecimal()):
        raise _Unlike("no step")
    return run / "checkpoints" / f"step-{int(number):06d}"


def refuse_damaged(folder: Path) -> None:
    """Raise some exception unless the checkpoint in `folder` is whole. `CheckpointFolder.verify` says what is wrong."""
    manifest = json.loads((folder / MANIFEST).read_bytes())
    sealed, step = manifest.pop("sha256"), folder.name.removeprefix("step-")
    content = json_text(manifest, sort_keys=True).encode()
    if manifest["format"] != FORMAT or hashlib.sha256(content).hexdigest() != sealed:
        raise _Unlike(MANIFEST)
    if not step.isdecimal() or type(manifest["step"]) is not int or int(step) != manifest["step"]:
        raise _Unlike("step")
    files: Mapping[str, Mapping[str, Any]] = manifest["files"]
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("[!.]*") if path.is_file()} - {
        MANIFEST
    }
    if there != set(files) or not all(_NAME.fullmatch(name) for name in files):
        raise _Unlike("files")
    for name, entry in files.items():
        path = folder / name
        if path.stat().st_size != entry["bytes"] or file_hash(path) != entry["sha256"]:
            raise _Unlike(name)


def _refuse_other_than_text(tree: Mapping[str, Any]) -> None:
    for name, kinds in TEXT.items():
        if tree[name]["kind"] not in kinds:
            raise _Unlike(name)
    if tree["tokenizer"]["kind"] not in TOKENIZERS:
        raise _Unlike("tokenizer")
    if tree["training"]["adapters"]["kind"] != "none":
        raise _Unlike("adapters")


def _refuse_out_of_bounds(settings: Mapping[str, Any]) -> None:
    for name, (least, most) in WITHIN.items():
        value = settings[name]
        if value is None and name in ("top_k", "top_p", "min_p"):
            continue
        kinds = (int,) if name in ("tokens", "top_k") else (int, float)
        if type(value) not in kinds or not least <= value <= most:
            raise _Unlike(name)
    if settings["window"] not in ("slide", "crop"):
        raise _Unlike("window")


def _weights(path: Path) -> dict[str, np.ndarray]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return load_file(path)
    except SafetensorError as error:
        raise _Unlike(str(error)) from error
