"""The manifest tells runs apart: any changed setting, any changed byte of the text."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from octavo.config import Recipe, check, flatten
from octavo.run.data import build_dataset
from octavo.run.manifest import code_identity, run_manifest
from octavo.training.device import Runtime
from octavo.util.terminal import Console

RUNTIME = Runtime(torch.device("cpu"), "float32", 1)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))


def recipe_on(path: Path) -> Recipe:
    return check({"corpus": {"kind": "files", "paths": [str(path)]}})


def manifest(recipe: Recipe) -> dict[str, Any]:
    return run_manifest(recipe, build_dataset(recipe, Console(quiet=True)), RUNTIME)


def changed(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int | float) else f"{value}x"


def set_in(tree: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    copy = json.loads(json.dumps(tree))
    node = copy
    *path, name = key.split(".")
    for part in path:
        node = node[part]
    node[name] = value
    return copy


def test_every_setting_changes_the_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("octavo.run.manifest.code_identity", dict)
    monkeypatch.setattr("octavo.run.manifest.versions", dict)
    monkeypatch.setattr("octavo.run.manifest.machine", dict)
    (tmp_path / "text.txt").write_text("a fox and a dog. " * 20)
    recipe = recipe_on(tmp_path / "text.txt")
    dataset = build_dataset(recipe, Console(quiet=True))
    before = run_manifest(recipe, dataset, RUNTIME)["config_sha256"]
    tree = recipe.model_dump(mode="json")
    hashes = {before}
    keys = flatten(recipe)
    for key, value in keys.items():
        altered = set_in(tree, key, changed(value))
        assert altered != tree
        other = SimpleNamespace(seed=altered["seed"], model_dump=lambda mode, altered=altered: altered)
        hashes.add(run_manifest(cast(Recipe, other), dataset, RUNTIME)["config_sha256"])
    assert len(hashes) == len(keys) + 1
    assert run_manifest(recipe, dataset, RUNTIME)["config_sha256"] == before


def test_every_byte_of_the_text_changes_the_manifest(tmp_path: Path) -> None:
    text = bytearray(b"a fox and a dog, " * 3)
    path = tmp_path / "text.txt"
    path.write_bytes(text)
    hashes = {manifest(recipe_on(path))["data"]["text"]}
    for place in range(0, len(text), 5):
        altered = bytearray(text)
        altered[place] = ord("x") if altered[place] != ord("x") else ord("y")
        path.write_bytes(altered)
        hashes.add(manifest(recipe_on(path))["data"]["text"])
    assert len(hashes) == 1 + len(range(0, len(text), 5))


def test_the_manifest_is_plain_data_and_says_what_a_replay_needs(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("a fox and a dog. " * 20)
    found = manifest(recipe_on(tmp_path / "text.txt"))
    assert json.loads(json.dumps(found)) == found
    assert found.keys() >= {
        "octavo",
        "code",
        "config_sha256",
        "seed",
        "data",
        "runtime",
        "versions",
        "machine",
        "kernels",
    }
    assert found["runtime"] == RUNTIME.describe()
    assert found["versions"].keys() >= {"python", "torch", "numpy", "safetensors"}
    assert len(code_identity()["source_sha256"] or "") == 64


def test_the_codes_identity_changes_with_its_content_and_with_its_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "octavo"
    (package / "room").mkdir(parents=True)
    monkeypatch.setattr("octavo.__file__", str(package / "__init__.py"))
    found = []

    def note() -> None:
        found.append(code_identity()["source_sha256"])

    (package / "__init__.py").write_text("x = 1\n")
    (package / "one.py").write_text("")
    note()
    (package / "__init__.py").write_text("x = 2\n")
    note()
    (package / "one.py").rename(package / "two.py")
    note()
    (package / "two.py").rename(package / "room" / "two.py")
    note()
    for name in ("kernel.c", "page.html", "page.j2", "recipe.yaml", "words.txt", "py.typed"):
        (package / name).write_text("shipped")
        note()
    assert len(set(found)) == len(found) == 10
    for name in (
        "__pycache__/one.cpython-311.pyc",
        "room/__pycache__/two.pyc.140",
        ".page.html.swp",
        ".git/HEAD",
    ):
        (package / name).parent.mkdir(exist_ok=True)
        (package / name).write_text("not shipped")
        note()
    assert set(found[10:]) == {found[9]}
