"""Models whose settings are of wrong kinds, or say what the file does not hold: refused in a sentence, and soon."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from octavo.errors import InputError
from octavo.export import incoming
from octavo.export.folder import write_folder
from octavo.export.incoming import read_model
from octavo.export.incoming_gguf import Words, read_gguf
from octavo.export.weights import weights_of
from unit.export import folders
from unit.export.shapes import V, model_of
from unit.export.test_import_gguf import written

START = "tokenizer.ggml."
GONE: Any = object()
ODD = ["word", "", 0, -1, 7, 10**6, 2**31, 2**63, 10**30, 1.5, math.nan, math.inf, True, False, GONE]
ODD += [[], ["a"], [1, 2], [1.5], [True], [["a"]]]
TRIED = 5  # of these for each key


def changed(settings: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    return {name: each for name, each in (settings | {key: value}).items() if each is not GONE}


def swapped(settings: dict[str, Any]) -> Iterator[dict[str, Any]]:
    chance = random.Random(1)
    for key in settings:
        yield from (changed(settings, key, value) for value in chance.sample(ODD, TRIED))


def refuses_or_reads(path: Path) -> int:
    """Whether it refuses, as 0 or 1; anything but an InputError is raised."""
    try:
        read_model(path)
    except InputError as error:
        assert "\n" not in error.what
        return 1
    return 0


@pytest.fixture(scope="module", params=[("llama", "bpe"), ("gpt2", "byte")], ids=str)
def gguf_file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("gguf"), *request.param, "float32")[2]


Read = tuple[dict[str, Any], dict[str, torch.Tensor], Words]


def given(monkeypatch: pytest.MonkeyPatch, read: Read, settings: dict[str, Any]) -> None:
    """Let a file that was read say this."""
    words = {name.removeprefix(START): each for name, each in settings.items() if name.startswith(START)}
    monkeypatch.setattr(incoming, "read_gguf", lambda path: (dict(settings), dict(read[1]), Words(words)))


def test_gguf_settings_of_any_kind(gguf_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, refused = read_gguf(gguf_file), 0
    for settings in swapped(read[0]):
        given(monkeypatch, read, settings)
        refused += refuses_or_reads(gguf_file)
    assert refused > 50


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("tokens", 3, "'tokens' is not a list of texts"),
        ("merges", [1, 2], "'merges' is not a list of texts"),
        ("pre", ["gpt-2"], "'pre' is not a text"),
        ("model", ["gpt2"], "'model' is not a text"),
        ("token_type", ["a"], "'token_type' is not a list of whole numbers"),
        ("bos_token_id", "0", "'bos_token_id' is not an id"),
        ("eos_token_id", 1.0, "'eos_token_id' is not an id"),
    ],
)
def test_what_of_a_tokenizer_is_of_the_wrong_kind_is_named(
    key: str, value: Any, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, "llama", "bpe", "float32")[2]
    read = read_gguf(file)
    given(monkeypatch, read, read[0] | {START + key: value})
    with pytest.raises(InputError, match=said) as caught:
        read_model(file)
    assert "--tokenizer" in str(caught.value.remedy)


@pytest.fixture
def torch_only(tmp_path: Path) -> Path:
    library = pytest.importorskip("tokenizers")
    model, config = model_of("plain")
    write_folder(weights_of(model, config), tmp_path, dtype=torch.float32, start=None, end=None)
    letters = {chr(65 + id): id for id in range(V)}
    library.Tokenizer(library.models.WordLevel(letters, unk_token="A")).save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def test_torch_only_settings_of_any_kind(torch_only: Path) -> None:
    file, refused = torch_only / "model.json", 0
    told = json.loads(file.read_text())
    for shape in swapped(told["shape"]):
        file.write_text(json.dumps(told | {"shape": shape}))
        refused += refuses_or_reads(torch_only)
    assert refused > 50


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_hugging_face_settings_of_any_kind(kind: str, tmp_path: Path) -> None:
    folder, refused = folders.saved(kind, tmp_path / "model"), 0
    told = json.loads((folder / "config.json").read_text())
    for settings in swapped(told):
        (folder / "config.json").write_text(json.dumps(settings))
        refused += refuses_or_reads(folder)
    assert refused > 20


@pytest.fixture
def linear(monkeypatch: pytest.MonkeyPatch) -> list[torch.nn.Linear]:
    """Every linear layer that is built."""
    built: list[torch.nn.Linear] = []
    init = torch.nn.Linear.__init__

    def counted(self: torch.nn.Linear, *given: Any, **options: Any) -> None:
        built.append(self)
        assert len(built) < 500, "it builds what the file does not hold"
        init(self, *given, **options)

    monkeypatch.setattr(torch.nn.Linear, "__init__", counted)
    return built


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_layers_that_a_folder_does_not_hold_are_not_built(
    kind: str, tmp_path: Path, linear: list[torch.nn.Linear]
) -> None:
    folder = folders.saved(kind, tmp_path / "model")
    told = json.loads((folder / "config.json").read_text())
    key = "n_layer" if kind == "gpt2" else "num_hidden_layers"
    (folder / "config.json").write_text(json.dumps(told | {key: 10_000}))
    linear.clear()
    with pytest.raises(InputError, match=r"lack the tensor '.*\.2\."):
        read_model(folder)


def test_layers_that_a_file_does_not_hold_are_not_built(
    gguf_file: Path, monkeypatch: pytest.MonkeyPatch, linear: list[torch.nn.Linear]
) -> None:
    read = read_gguf(gguf_file)
    (key,) = (name for name in read[0] if name.endswith("block_count"))
    given(monkeypatch, read, read[0] | {key: 10_000})
    with pytest.raises(InputError, match=r"lack the tensor 'blk\.2\."):
        read_model(gguf_file)


def test_layers_that_a_folder_of_ours_does_not_hold_are_not_built(
    torch_only: Path, linear: list[torch.nn.Linear]
) -> None:
    file = torch_only / "model.json"
    told = json.loads(file.read_text())
    told["shape"]["layers"] = 10_000
    file.write_text(json.dumps(told))
    with pytest.raises(InputError, match="layers, not 10,000"):
        read_model(torch_only)
