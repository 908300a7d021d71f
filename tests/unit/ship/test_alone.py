"""The folder that needs torch and safetensors alone: opened where nobody has heard of Octavo."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from octavo.errors import InputError
from octavo.generation.cached import CachedDecoder
from octavo.runs.run import Run
from octavo.ship.back import config_of, tensors_of
from octavo.ship.folder import code, read_folder, write_folder
from octavo.ship.imported import import_model
from octavo.ship.onnx import sayable
from octavo.ship.weights import weights_of
from unit.ship.shapes import OPTIONS, T, V, model_of

ALONE = """
import json, sys
sys.modules["octavo"] = None  # nobody has heard of it
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from generate import generate, load
model, told = load(Path(sys.argv[1]))
import torch
ids = torch.tensor([json.loads(sys.argv[2])])
with torch.no_grad():
    logits = model(ids)[0][0].tolist()
written = generate(model, json.loads(sys.argv[3]), int(sys.argv[4]))
print(json.dumps([logits, written, sorted(name for name in sys.modules if name.startswith("octavo."))]))
"""


def asked(folder: Path, ids: list[int], prompt: list[int], count: int) -> Any:
    words = [sys.executable, "-I", "-c", ALONE, str(folder), json.dumps(ids), json.dumps(prompt), str(count)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


FIRST, *OTHERS = OPTIONS


@pytest.mark.parametrize("name", [FIRST, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)])
def test_the_same_logits_and_the_same_200_tokens(name: str, tmp_path: Path) -> None:
    model, config = model_of(name)
    write_folder(sayable(weights_of(model, config)), tmp_path, dtype=torch.float32, start=None, end=3)
    ids = torch.randint(V, (T,), generator=torch.Generator().manual_seed(1)).tolist()
    logits, written, others = asked(tmp_path, ids, [5, 7], 200)
    expected = model(torch.tensor([ids]))[0].detach()
    torch.testing.assert_close(torch.tensor(logits), expected, rtol=0, atol=1e-5)
    assert others == []
    decoder = CachedDecoder(model, slots=1)
    own, after = [], decoder.feed({0: [5, 7]})
    for _ in range(200):
        own.append(int(after[0].argmax()))
        after = decoder.feed({0: [own[-1]]})
    assert written == own


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
