"""Damaged run folders, study folders, recipes and overrides, the same for the same seed. What `fuzz.py` and a test
give to the command line.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from octavo.config import Recipe, all_keys
from octavo.training.checkpoint_folder import MANIFEST, seal

JUNK: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1,
    7,
    2**31,
    2**53,
    2**64,
    10**400,
    -1e308,
    1e-308,
    0.5,
    float("nan"),
    float("inf"),
    "",
    "x",
    "x" * 5000,
    "../../x",
    "a\0b",
    "\ud800",
    "\x1b[31m\u2028",
    [],
    [[]],
    [None, 5, "x"],
    {},
    {"kind": "nothing"},
    {"x": {"x": {}}},
)
CONTENTS = (
    b"",
    b"\n",
    b"null",
    b"5",
    b"[]",
    b"{}",
    b'"x"',
    b"\xff\xfe\x00",
    b"\0" * 100,
    b"[" * 100_000,
    b'{"a":' * 3000,
    b"NaN",
    b"a: b: c",
    b"- - - -",
    b"&a [*a]",
    b"2026-13-45",
)

Change = Callable[[random.Random, Path], str]


def places(tree: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in plain data."""
    yield place
    if isinstance(tree, dict):
        for key, child in tree.items():
            yield from places(child, (*place, key))
    elif isinstance(tree, list):
        for index, child in enumerate(tree):
            yield from places(child, (*place, index))


def altered(draw: random.Random, tree: Any) -> Any:
    """Plain data with something else, or nothing, in one place."""
    place = draw.choice(list(places(tree)))
    junk = draw.choice(JUNK)
    if not place:
        return junk
    node = tree
    for step in place[:-1]:
        node = node[step]
    if draw.random() < 0.3:
        del node[place[-1]]
    else:
        node[place[-1]] = junk
    return tree


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def _reseal(path: Path) -> None:
    """Let a file of a checkpoint, or a tokenizer, look as if it had been written so."""
    checkpoint = next((parent for parent in path.parents if parent.name.startswith("step-")), None)
    if checkpoint is None or not (checkpoint / MANIFEST).is_file():
        return
    try:
        manifest = json.loads((checkpoint / MANIFEST).read_bytes())
        if path.name != MANIFEST:
            data = path.read_bytes()
            entry = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            manifest["files"][path.relative_to(checkpoint).as_posix()] = entry
        manifest.pop("sha256", None)
        manifest["sha256"] = seal(manifest)
        (checkpoint / MANIFEST).write_text(json.dumps(manifest))
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        pass


def flip(draw: random.Random, folder: Path) -> str:
    """Some bits of a file."""
    path = draw.choice(_files(folder))
    data = bytearray(path.read_bytes())
    for _ in range(draw.choice((1, 1, 1, 10, 100)) if data else 0):
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    path.write_bytes(data)
    _maybe_reseal(draw, path)
    return f"bits of {path.relative_to(folder)}"


def cut(draw: random.Random, folder: Path) -> str:
    """The end of a file is gone."""
    path = draw.choice(_files(folder))
    data = path.read_bytes()
    path.write_bytes(data[: draw.randrange(len(data) + 1)])
    _maybe_reseal(draw, path)
    return f"the end of {path.relative_to(folder)}"


def replace(draw: random.Random, folder: Path) -> str:
    """A file holds something else."""
    path = draw.choice(_files(folder))
    path.write_bytes(draw.choice(CONTENTS))
    _maybe_reseal(draw, path)
    return f"all of {path.relative_to(folder)}"


def gone(draw: random.Random, folder: Path) -> str:
    """A file is not there, or is a folder, or a link that leads nowhere or round in circles."""
    path = draw.choice(_files(folder))
    path.unlink()
    kind = draw.choice(("missing", "folder", "dangling", "circle"))
    if kind == "folder":
        path.mkdir()
    elif kind != "missing":
        path.symlink_to("nowhere" if kind == "dangling" else path.name)
    return f"{kind}: {path.relative_to(folder)}"


def key(draw: random.Random, folder: Path) -> str:
    """A value in a JSON or YAML file, whose hash is right again."""
    path = draw.choice([path for path in _files(folder) if path.suffix in (".json", ".yaml", ".jsonl")])
    if path.suffix == ".jsonl":
        lines = path.read_text().splitlines() or ["{}"]
        at = draw.randrange(len(lines))
        lines[at] = _json(altered(draw, json.loads(lines[at])))
        path.write_text("\n".join(lines))
    elif path.suffix == ".json":
        path.write_text(_json(_with_own_hash(altered(draw, json.loads(path.read_text())))))
    else:
        path.write_text(_yaml(altered(draw, yaml.safe_load(path.read_text()))))
    _reseal(path)
    return f"a value of {path.relative_to(folder)}"


def _with_own_hash(tree: Any) -> Any:
    """A tokenizer's header carries a hash of itself."""
    if isinstance(tree, dict) and tree.get("format") == "octavo-tokenizer":
        body = {name: tree.get(name) for name in ("data", "files")}
        data = json.dumps(body, sort_keys=True, separators=(",", ":"))
        tree["sha256"] = hashlib.sha256(data.encode()).hexdigest()
    return tree


def header(draw: random.Random, folder: Path) -> str:
    """Tensors of another shape, type, name or place, whose hash is right again."""
    path = draw.choice([path for path in _files(folder) if path.suffix == ".safetensors"])
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    changed = _json(altered(draw, json.loads(data[8 : 8 + size]))).encode("utf-8", "replace")
    path.write_bytes(len(changed).to_bytes(8, "little") + changed + data[8 + size :])
    _reseal(path)
    return f"header of {path.relative_to(folder)}"


def link(draw: random.Random, folder: Path) -> str:
    """`best` or `last` lead elsewhere, or are files."""
    path = draw.choice(
        [path for path in folder.rglob("*") if path.name in ("best", "last")] or [folder / "best"]
    )
    if path.is_symlink():
        path.unlink()
    where = draw.choice(("nowhere", "..", ".", "checkpoints", "best", "last", "/", "file", "bytes"))
    if where == "bytes":
        path.write_bytes(b"\xff\0" * 3000)
    elif where == "file":
        path.write_text("x" * 5000)
    elif not path.exists():
        path.symlink_to(where)
    return f"{path.relative_to(folder)} leads to {where}"


CHANGES: tuple[Change, ...] = (flip, cut, replace, gone, key, key, key, key, header, link)


def _maybe_reseal(draw: random.Random, path: Path) -> None:
    if draw.random() < 0.5:
        _reseal(path)


def _json(tree: Any) -> str:
    return json.dumps(tree).replace(str(10**400), "1" + "0" * 4500)


def _yaml(tree: Any) -> str:
    return yaml.safe_dump(tree, sort_keys=False)


def damaged(source: Path, target: Path, number: int, seed: int) -> str:
    """A copy of a folder with one to three things wrong; says what."""
    draw = random.Random(f"{seed} {number}")
    shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("report"))
    said = []
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        try:
            said.append(draw.choice(CHANGES)(draw, target))
        except (ValueError, OSError, yaml.YAMLError, RecursionError, TypeError, IndexError):
            continue  # what was damaged before cannot be altered in this way
    return "; ".join(said)


# What only takes long; with these a command of the fuzz ends at its printed settings.
LONG = ("steps", "epochs", "accumulation", "tokens", "written", "stories", "rounds", "patience", "buckets")


VALUES = (
    *(
        "",
        "~",
        "none",
        "auto",
        "epoch",
        "true",
        "[]",
        "[1, 2]",
        "[0.9, 1]",
        "{}",
        "{kind: none}",
        "x" * 300,
        "a: b",
    ),
    *(
        "2026-13-45",
        '"\\ud800"',
        "!!int x",
        "&a [*a]",
        "[" * 2000,
        "char",
        "byte",
        "bpe",
        "word",
        "rotary",
        "swiglu",
    ),
    *("muon", "sgd", "wsd", "hashed", "documents", "sliding", "post", "{kind: swiglu, width: 7}"),
    "{kind: hashed, longest: 9}",
)


def values(draw: random.Random) -> str:
    """The right side of an override."""
    whole = draw.choice((0, 1, 2, 3, 5, 16, 17, 64, 1000, 2**20, 2**31 - 1, 2**31, 2**53 + 1, -1, 10**30))
    real = draw.choice(
        ("0.5", "0.999999", "1.0", "1.0e-30", "1.0e+30", "1.0e+39", "-0.1", ".nan", ".inf", "1e5")
    )
    word = draw.choice(VALUES)
    return draw.choice((str(whole), str(whole), real, word))


def overrides(number: int, seed: int) -> tuple[list[str], bool]:
    """Some `key=value`, and whether a training with them could take long."""
    draw = random.Random(f"{seed} override {number}")
    keys = draw.sample(all_keys(), draw.choice((1, 1, 2, 4)))
    words = [f"{name}={values(draw)}" for name in keys]
    return words, any(name.rsplit(".", 1)[-1] in LONG for name in keys)


def recipe(number: int, seed: int) -> tuple[bytes, bool]:
    """A recipe file that is wrong somewhere, or nowhere, and whether a training by it could take long."""
    draw = random.Random(f"{seed} recipe {number}")
    tree = Recipe().model_dump(mode="json")
    if draw.random() < 0.1:
        return draw.choice(CONTENTS), False
    for _ in range(draw.choice((1, 1, 2, 3))):
        if not isinstance(tree, dict):
            break
        tree = altered(draw, tree)
    text = bytearray(_yaml(tree).encode("utf-8", "replace"))
    if draw.random() < 0.2:
        text[draw.randrange(len(text))] ^= 1 << draw.randrange(8)
    return bytes(text), True
