"""Every shipped recipe, trained for a few steps: what the plan calls exact is exact, for every target."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import octavo
from octavo.config import load_recipe, recipe_names
from octavo.errors import InputError
from octavo.export import export as export_module
from octavo.export import reference_outputs
from octavo.export.export import export
from octavo.export.table import support
from unit.export.made import TEXT, measured_here

for package in ("transformers", "gguf", "llama_cpp", "onnxruntime"):
    pytest.importorskip(package, reason=f"{package} is not installed: pip install 'octavo[ship]'")
pytestmark = pytest.mark.slow

NOWHERE = {"quick", "shakespeare-char-quick", "tensors-only", "tensors-only-cpu"}
"""Those that neither Hugging Face nor llama.cpp can say."""
NOT_IN_LLAMA = {"arithmetic"}
NO_TEXT = {
    "bouncing-ball",
    "digits",
    "mnist-cpu",
    "forces-cpu",
    "forecast-demo",
    "multi30k-cpu",
    "translate-demo",
}
"""Those of other sequences, whose models no target can say."""
STORIES = {"kind": "storyteller", "stories": 150}


def shrunk(name: str, data: Path) -> list[str]:
    """The recipe with two layers, narrow heads, a short context, and steps so large that no number stays as it was."""
    recipe = load_recipe(name)
    rate = 0.01
    found = ["training.steps=6", "training.batch=4", "training.threads=1", "training.schedule=constant"]
    found += [
        "training.epochs=null",
        "training.precision=float32",
        "training.checkpoint_every=6",
        "training.accumulation=1",
        "evaluation.every=6",
    ]
    found += [f"training.optimizer.learning_rate={rate}", "sampling.tokens=8", "evaluation.tokens=2000"]
    if recipe.training.optimizer.kind == "muon":
        found.append(f"training.optimizer.rest.learning_rate={rate}")
    found += [f"model.layers={min(2, recipe.model.layers)}", f"model.context={min(64, recipe.model.context)}"]
    if recipe.tokenizer.kind == "gpt2":
        found.append(f"tokenizer.files={data / 'gpt2'}")
    if recipe.model.width > 128 and recipe.model.width % recipe.model.heads == 0:
        found.append(f"model.width={16 * recipe.model.heads}")
    return found


NAMES = [name for name in recipe_names() if not load_recipe(name).objective.tunes]


@pytest.mark.parametrize("name", NAMES)
def test_the_plan_says_what_no_target_can_say(name: str) -> None:
    impossible = {each for each, one in support(load_recipe(name)).items() if one.status == "impossible"}
    assert impossible == (
        {"hf", "gguf", "onnx", "torch"}
        if name in NO_TEXT
        else {"hf", "gguf"}
        if name in NOWHERE
        else {"gguf"}
        if name in NOT_IN_LLAMA
        else set()
    )


@pytest.mark.usefixtures("plain_reports")
@pytest.mark.parametrize("name", [name for name in NAMES if name not in NO_TEXT])
def test_what_the_plan_calls_exact_is_exact(
    name: str, tmp_path: Path, test_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_module, "measured", measured_here)
    monkeypatch.setattr(reference_outputs, "WRITTEN", 80)  # more than fits into a context
    words = shrunk(name, test_data)
    source: dict[str, Any] = {}
    corpus = load_recipe(name).corpus.kind
    if corpus == "storyteller":
        words.append(f"corpus={json.dumps(STORIES)}")
    elif corpus == "files":
        between = getattr(load_recipe(name).corpus, "separator", None) or ""
        pieces = [
            "ROMEO: To be or not",
            *[TEXT.encode("ascii", "ignore").decode()] * 3,
        ]  # all prompts' letters
        text = f"\n{between}\n".join(pieces)
        (tmp_path / "text.txt").write_text(text, encoding="ascii")
        source["text"] = tmp_path / "text.txt"
    octavo.train(name, out=tmp_path / "run", overrides=[*words, "validation=0.4"], quiet=True, **source)
    plan = support(load_recipe(name))
    able = [target for target, one in plan.items() if one.status != "impossible"]
    for target in plan.keys() - set(able):
        with pytest.raises(InputError, match="cannot say this model"):
            export(tmp_path / "run", [target], tmp_path / target)
    for found in export(tmp_path / "run", able, tmp_path / "out"):
        assert found.missed == [], (found.target, found.missed)
        measured, promised = found.certificate["measured"], found.certificate["promised"]
        exact = plan[found.target].status == "exact"
        assert exact == (set(promised.values()) == {"exact"}), found.target
        if promised["model"] == "exact":
            # Report B's normal weights, of variance 1, make logits of some hundreds.
            assert found.certificate["bound"] < 2e-4 or name.startswith("tensors-only")
            assert measured["first_greedy_difference"] == [None] * 5
        if promised["tokenizer"] == "exact":
            assert measured["strings"]["other_ids"] == measured["strings"]["other_text"] == 0
