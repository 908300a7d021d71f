"""The folder that needs torch and safetensors alone: opened where nobody has heard of Octavo."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from octavo.config.parts import parts
from octavo.errors import InputError
from octavo.export import standalone_generate
from octavo.export.folder import code, read_folder, write_folder
from octavo.export.imported import import_model
from octavo.export.onnx_graph import sayable
from octavo.export.standalone_generate import Vocabulary
from octavo.export.targets import targets
from octavo.export.targets.base import Parcel
from octavo.export.to_config import config_of, tensors_of
from octavo.export.tokenizer_json import LEVEL, split_at, tokenizer_json
from octavo.export.weights import weights_of
from octavo.generation.cached import CachedDecoder
from octavo.run.run import Run
from octavo.tokenizers import build_tokenizer
from octavo.tokenizers.chat import CHAT_TOKENS
from unit.export.shapes import OPTIONS, T, V, model_of

IDS, PROMPT, COUNT = torch.randint(V, (T,), generator=torch.Generator().manual_seed(1)).tolist(), [5, 7], 200
ALONE = f"""
import json, sys
sys.modules["octavo"] = None  # nobody has heard of it
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from generate import generate, load
import torch
for folder in sys.argv[1:]:
    model, told = load(Path(folder))
    with torch.no_grad():
        logits = model(torch.tensor([{IDS}]))[0][0].tolist()
    print(json.dumps([logits, generate(model, {PROMPT}, {COUNT})]))
print(json.dumps(sorted(name for name in sys.modules if name.startswith("octavo."))))
"""


def asked(folders: list[Path]) -> list[Any]:
    """What the model in each folder says, and what else was imported; the code is the first one's."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", ALONE, *map(str, folders)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


FIRST, *OTHERS = OPTIONS


@pytest.mark.parametrize(
    "names", [[FIRST], pytest.param(OTHERS, marks=pytest.mark.slow)], ids=[FIRST, "others"]
)
def test_the_same_logits_and_the_same_200_tokens(names: list[str], tmp_path: Path) -> None:
    models = [model_of(name) for name in names]
    for name, (model, config) in zip(names, models, strict=True):
        (tmp_path / name).mkdir()
        weights = sayable(weights_of(model, config))
        write_folder(weights, tmp_path / name, dtype=torch.float32, start=None, end=3)
    *found, others = asked([tmp_path / name for name in names])
    assert others == []
    for name, (model, _), (logits, written) in zip(names, models, found, strict=True):
        expected = model(torch.tensor([IDS]))[0].detach()
        torch.testing.assert_close(torch.tensor(logits), expected, rtol=0, atol=1e-5)
        decoder = CachedDecoder(model, slots=1)
        own, after = [], decoder.feed({0: PROMPT})
        for _ in range(COUNT):
            own.append(int(after[0].argmax()))
            after = decoder.feed({0: [own[-1]]})
        assert written == own, name


def test_the_code_imports_nothing_else() -> None:
    texts = code()
    assert texts.keys() == {"model.py", "generate.py"}
    lines = [
        line.split()[1].partition(".")[0]
        for text in texts.values()
        for line in text.splitlines()
        if line.startswith(("import ", "from "))
    ]
    others = set(lines) - set(sys.stdlib_module_names)
    assert others == {"torch", "safetensors", "model"}
    assert "octavo." not in texts["generate.py"]


@pytest.mark.parametrize("name", OPTIONS)
def test_it_comes_back_to_the_bit(name: str, tmp_path: Path) -> None:
    model, config = model_of(name)
    weights = sayable(weights_of(model, config))
    write_folder(weights, tmp_path, dtype=torch.float32, start=1, end=2)
    shape, back, told = read_folder(tmp_path)
    assert shape == weights.shape and (told["start"], told["end"]) == (1, 2)
    assert back.tensors.keys() == weights.tensors.keys()
    assert all(torch.equal(back.tensors[each], weights.tensors[each]) for each in back.tensors)
    tensors_of(back, config_of(shape))


@pytest.mark.parametrize("change", [{"format": "other"}, {"shape": {}}, {"shape": {"more": 1}}, {"end": "x"}])
def test_settings_that_are_none(change: dict[str, Any], tmp_path: Path) -> None:
    model, config = model_of("plain")
    write_folder(weights_of(model, config), tmp_path, dtype=torch.float32, start=None, end=None)
    file = tmp_path / "model.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(InputError, match=r"model\.json"):
        read_folder(tmp_path)


def test_a_folder_of_ours_becomes_a_run(tmp_path: Path) -> None:
    library = pytest.importorskip("tokenizers")
    model, config = model_of("modern")
    weights = sayable(weights_of(model, config))
    write_folder(weights, tmp_path, dtype=torch.float32, start=None, end=30)
    letters = {chr(65 + id): id for id in range(V)}
    library.Tokenizer(library.models.WordLevel(letters, unk_token="A")).save(str(tmp_path / "tokenizer.json"))
    import_model(tmp_path, tmp_path / "run")
    run = Run.open(tmp_path / "run")
    ids = torch.arange(T)[None]
    assert torch.equal(run.model(ids), model(ids)) and run.tokenizer.end == 30
    told = json.loads((tmp_path / "model.json").read_text())
    told["shape"]["layers"] = "2"
    (tmp_path / "model.json").write_text(json.dumps(told))
    with pytest.raises(InputError, match="layers"):
        import_model(tmp_path, tmp_path / "other")


@pytest.mark.parametrize(
    "change",
    [
        {"pre_tokenizer": None},
        {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "use_regex": True}},
        {
            "pre_tokenizer": {
                "type": "Sequence",
                "pretokenizers": [split_at("[a-z]+"), LEVEL | {"use_regex": False}],
            }
        },
        {"ignore_merges": True},
    ],
    ids=["none", "a space before", "words of its own", "words that are tokens"],
)
def test_a_form_that_it_would_read_in_another_way_is_left_to_the_library(
    change: dict[str, Any], tmp_path: Path
) -> None:
    """Llama 3's tokenizer, say, has GPT-2's letters and cuts words otherwise."""
    config = parts("tokenizer")["bpe"].model_validate({"size": 270})
    whole = tokenizer_json(
        build_tokenizer(config, lambda: iter(["the cat sat on the mat. " * 20]), documents=True)
    )
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(whole))
    assert Vocabulary(file).encode("the cat")
    for key, value in change.items():
        (whole["model"] if key in whole["model"] else whole)[key] = value
    file.write_text(json.dumps(whole))
    with pytest.raises(ValueError, match="the package tokenizers reads"):
        Vocabulary(file)


def test_a_model_of_conversations_answers_and_stops_at_the_end_of_a_turn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, config = model_of("plain")
    config_of_bytes = parts("tokenizer")["byte"].model_validate({"special": CHAT_TOKENS})
    tokenizer = build_tokenizer(config_of_bytes, lambda: iter(()), documents=True)
    parcel = Parcel(weights_of(model, config), tokenizer, "float32", "x")
    targets()["torch"].write(parcel, tmp_path)
    turn = {"user": "<|user|>", "assistant": "<|assistant|>", "end": "<|end|>"}
    ids = {part: tokenizer.special[name] for part, name in turn.items()}
    told = json.loads((tmp_path / "model.json").read_text())
    assert told["turn"] == ids and told["ends"] == sorted(tokenizer.ends)
    asked: list[list[int]] = []

    def write(_: Any, given: list[int], count: int, **how: Any) -> list[int]:
        asked.append(given)
        return [*b"yes", ids["end"], *b"more"]

    monkeypatch.setattr(standalone_generate, "generate", write)
    monkeypatch.setattr(standalone_generate, "__file__", str(tmp_path / "generate.py"))
    for words, said in ((["--chat"], "yes\n"), ([], "whoyes\n")):
        monkeypatch.setattr(sys, "argv", ["generate.py", "--prompt", "who", *words])
        standalone_generate.main()
        assert capsys.readouterr().out == said
    assert asked == [[ids["user"], *b"who", ids["end"], ids["assistant"]], [tokenizer.start, *b"who"]]
