"""Figures printed in the five reports (A to E) that the product grew out of, and recomputed since."""

from __future__ import annotations

import importlib.util
import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from octavo.config import load_recipe, recipe_names, recipe_text
from octavo.config.parts import parts
from octavo.correction import LanguageTool
from octavo.correction.diff import plain_diff
from octavo.model.attention import ExplicitAttend, causal_mask
from octavo.model.base import build_model
from octavo.model.capture import capture
from octavo.model.config import GPTConfig
from octavo.model.norms import PlainNormConfig
from octavo.model.positions import SinusoidalPositions
from octavo.studies.spec import study_names
from unit.correction.test_languagetool import body, match, server

ROOT = Path(__file__).resolve().parents[2]

# Report E's family: what its three tables share.
E = {
    "positions": "learned",
    "norm": "layer",
    "norm_place": "pre",
    "final_norm": True,
    "qkv_bias": False,
    "output_projection": True,
    "output_bias": True,
    "head_bias": True,
    "tied": False,
    "dropout": 0.3,
}
TABLES = {
    "E1": ((8, 8, 384, 1536, 256), 65, 14_335_553),
    "E2": ((6, 6, 164, 656, 256), 78, 2_006_454),
    "E3": ((10, 10, 96, 576, 64), 50_257, 11_168_977),
}
D = {
    "layers": 12,
    "heads": 12,
    "width": 768,
    "context": 256,
    "positions": "learned",
    "norm": "layer",
    "feed_forward": "gelu",
    "qkv_bias": False,
    "tied": False,
    "head_bias": False,
    "dropout": 0.1,
}


def table(name: str) -> GPTConfig:
    layers, heads, width, features, context = TABLES[name][0]
    return GPTConfig.model_validate(
        E
        | {"layers": layers, "heads": heads, "width": width, "context": context}
        | {"feed_forward": {"kind": "relu", "width": features}}
    )


def built(config: GPTConfig, vocab_size: int) -> int:
    with torch.device("meta"):
        model = build_model(config, vocab_size=vocab_size, seed=0)
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("name", TABLES)
def test_parameters_of_report_e(name: str) -> None:
    _, vocab_size, count = TABLES[name]
    assert table(name).parameters(vocab_size=vocab_size) == count
    assert built(table(name), vocab_size) == count


def test_head_widths_of_report_e() -> None:
    assert [table(name).resolved_head_width for name in TABLES] == [48, 27, 9]
    assert [table(name).query_width for name in TABLES] == [384, 162, 90]


def test_parameters_of_report_d() -> None:
    config = GPTConfig.model_validate(D)
    assert config.parameters(vocab_size=50_257) == 162_419_712 == built(config, 50_257)
    assert config.parameters(vocab_size=50_257, head=False) == 123_822_336


# The shipped recipes of the reports, with the printed counts: in all, and without the head where that is printed.
GOLDEN = {
    "shakespeare-char-report": (65, 14_335_553, None),
    "script-char-small": (78, 2_006_454, None),
    "shakespeare-gpt2": (50_257, 11_168_977, None),
    "tinystories-gpt2": (50_257, 162_419_712, 123_822_336),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_parameters_of_the_shipped_recipes(name: str) -> None:
    vocab_size, count, without_head = GOLDEN[name]
    recipe = load_recipe(name)
    assert recipe.expected_vocabulary == vocab_size
    assert recipe.model.parameters(vocab_size=vocab_size) == count == built(recipe.model, vocab_size)
    if without_head is not None:
        assert recipe.model.parameters(vocab_size=vocab_size, head=False) == without_head


@pytest.mark.slow
def test_the_plan_of_a_shipped_recipe() -> None:
    name = "tinystories-gpt2"
    command = [sys.executable, "-m", "octavo", "plan", name, "--json", "training.device=cpu"]
    command += ["training.precision=float32"]  # else both are timed
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    facts = json.loads(found.stdout)
    _, count, without_head = GOLDEN[name]
    assert facts["parameters"] == count
    assert facts["parameters_without_head"] == without_head


REPORTS = {
    "A": ["pidgin-stories"],
    "B": ["tensors-only"],
    "C": ["pdf-folder"],
    "D": ["tinystories-gpt2"],
    "E": [
        "shakespeare-char-report",
        "crusoe-char",
        "script-char-large",
        "script-char-small",
        "shakespeare-gpt2",
    ],
}


@pytest.mark.parametrize("letter", REPORTS)
def test_each_configuration_is_a_recipe_with_a_small_sibling(letter: str) -> None:
    for name in REPORTS[letter]:
        for each in (name, f"{name}-cpu"):
            assert each in recipe_names()
            assert f"report {letter}" in load_recipe(each).description.rpartition("(")[2]
        large, small = load_recipe(name).model, load_recipe(f"{name}-cpu").model
        for choice in ("positions", "norm", "norm_place", "residual", "qkv_bias", "head_bias", "tied"):
            assert getattr(large, choice) == getattr(small, choice), choice
        assert large.feed_forward.kind == small.feed_forward.kind


@pytest.mark.parametrize("name", recipe_names())
def test_a_recipe_describes_what_it_does_and_names_its_report_in_brackets(name: str) -> None:
    """It is shown over runs on any text, so it claims none of them to be its own."""
    said = load_recipe(name).description
    assert (
        "--text" not in said
        and "characters of" not in said.lower()
        and "TinyShakespeare characters" not in said
    )
    for place in re.finditer("[Rr]eports? [A-E]", said):
        assert said.count("(", 0, place.start()) > said.count(")", 0, place.start()), said


def test_the_page_on_the_reports_names_their_recipes_and_what_it_names_exists() -> None:
    page = (ROOT / "docs" / "reports.md").read_text("utf-8")
    for letter, names in REPORTS.items():
        assert f"\n## {letter}: " in page
        assert all(f"`{name}`" in page for name in names)
    named = set(re.findall(r"`([a-z0-9]+(?:-[a-z0-9]+)+)`", page))
    known = {*recipe_names(), *study_names()}
    assert named <= known, named - known
    for module in re.findall(r"`(octavo(?:\.\w+)+)`", page):
        assert importlib.util.find_spec(module) is not None
    for away in ("README.md", "docs/guide/studies.md"):
        assert "reports.md)" in (ROOT / away).read_text("utf-8")


def test_what_only_report_e_says_of_its_texts_and_scores() -> None:
    assert load_recipe("crusoe-char").expected_vocabulary == 85
    for name in recipe_names():
        assert "attention_scale: head     # ours" not in recipe_text(name)


def test_report_c_crops_while_it_samples() -> None:
    assert {load_recipe(name).sampling.window for name in ("pdf-folder", "pdf-folder-cpu")} == {"crop"}


def test_the_numbers_of_report_a() -> None:
    recipe = load_recipe("pidgin-stories")
    model = recipe.model
    assert (model.layers, model.heads, model.width, model.context) == (6, 6, 384, 256)
    assert (model.feed_forward.kind, model.feed_forward.width, model.qkv_bias) == ("relu", 1536, False)
    dropout = model.dropout
    assert dropout.attention == dropout.projection > 0 == dropout.feed_forward == dropout.embedding
    assert (recipe.training.batch, recipe.tokenizer.kind, recipe.batches.kind) == (32, "word", "windows")
    assert (recipe.split, recipe.validation, recipe.corpus.stories) == ("contiguous", 0.1, 5000)


def test_the_numbers_of_report_b() -> None:
    recipe = load_recipe("tensors-only")
    model, training = recipe.model, recipe.training
    assert (model.layers, model.heads, model.width, model.context) == (1, 5, 60, 10)
    assert (model.residual, model.output_projection, model.feed_forward.kind) == (False, False, "none")
    assert (training.optimizer.kind, training.optimizer.learning_rate) == ("sgd", 0.001)
    assert (training.epochs, training.batch, training.clip) == (1, 1, None)
    assert (recipe.batches.kind, recipe.batches.stride, recipe.batches.shuffle) == ("prefixes", 1, False)
    assert (recipe.sampling.temperature, recipe.sampling.window) == (0, "crop")
    assert (recipe.sampling.prompts, recipe.sampling.tokens) == (("To be or not ",), 100)
    assert recipe.sampling.temperature == 0


def test_the_loop_of_report_d() -> None:
    recipe = load_recipe("tinystories-gpt2")
    training = recipe.training
    assert (training.epochs, training.batch, training.optimizer.learning_rate) == (20, 8, 5e-4)
    assert (training.optimizer.kind, training.optimizer.weight_decay) == ("adamw", 0.1)
    assert training.accumulation > 1
    for name in ("tinystories-gpt2", "tinystories-gpt2-cpu"):
        recipe = load_recipe(name)
        assert (recipe.batches.kind, recipe.batches.stride, recipe.validation) == ("sliding", None, 0.1)
        assert recipe.sampling.every == "epoch"
        assert recipe.sampling.prompts == ("testing the waters", "lily went out", "going out to the sea")


@pytest.mark.parametrize(
    ("name", "shape"),
    {
        "shakespeare-char-report": (8, 8, 384, 1536, 256),
        "crusoe-char": (8, 8, 384, 1536, 256),
        "script-char-large": (8, 8, 384, 1536, 256),
        "script-char-small": (6, 6, 164, 656, 256),
        "shakespeare-gpt2": (10, 10, 96, 576, 64),
    }.items(),
)
def test_the_numbers_of_report_e(name: str, shape: tuple[int, ...]) -> None:
    recipe = load_recipe(name)
    model, training = recipe.model, recipe.training
    assert (model.layers, model.heads, model.width, model.feed_forward.width, model.context) == shape
    assert (training.steps, training.batch, training.optimizer.learning_rate) == (6000, 64, 3e-4)
    assert (model.dropout.attention, model.dropout.projection, model.dropout.feed_forward) == (0.3, 0.3, 0.3)
    assert recipe.evaluation.initial


def weights(q: Tensor, k: Tensor, *, scale: float) -> Tensor:
    """What our attention gives to each position, (T, S); the queries are the last of the positions."""
    attend = ExplicitAttend(scale=scale, dropout=0.0)
    with capture(attend, ["weights"]) as captured:
        attend(q[None, None], k[None, None], k[None, None])
    return captured["weights"][0, 0]


def test_worked_attention_of_report_b() -> None:
    rows = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]])
    third = weights(rows, rows, scale=1 / math.sqrt(3))[2]
    # As printed: e^0.577 = 1.78, sum 3.78, [0.265, 0.265, 0.470, 0]; the third cut, not rounded, to three digits.
    assert third.tolist() == pytest.approx([1 / 3.78, 1 / 3.78, 1.78 / 3.78, 0], abs=5e-4)
    growth = math.exp(1 / math.sqrt(3))
    assert third.tolist() == pytest.approx([1 / (2 + growth)] * 2 + [growth / (2 + growth), 0], abs=1e-6)


def test_heads_and_mask_of_report_b() -> None:
    mask = causal_mask(4, 4, torch.device("cpu"))
    assert mask.tolist() == [[column <= row for column in range(4)] for row in range(4)]
    config = GPTConfig.model_validate({"layers": 1, "heads": 2, "width": 6, "context": 4})
    model = build_model(config, vocab_size=5, seed=0, explicit_attention=True)
    name = "blocks.0.attention.attend"
    with capture(model, [name, f"{name}.weights"]) as captured:
        model(torch.zeros(1, 4, dtype=torch.long))
    assert captured[name].shape == (1, 2, 4, 3)
    assert captured[f"{name}.weights"].shape == (1, 2, 4, 4)


def test_layer_norm_of_report_b_has_no_parameters() -> None:
    norm = PlainNormConfig().build(width=6)
    x = torch.tensor([[1.0, 2, 3, 4, 5, 6]])
    expected = (x - x.mean()) / (x.var(correction=0) + 1e-5).sqrt()
    assert not list(norm.parameters())
    assert torch.allclose(norm(x), expected, atol=1e-6)


def test_sinusoidal_positions_of_reports_b_and_c() -> None:
    table = SinusoidalPositions(context=10, width=60).table
    for position in range(10):
        for i in range(30):
            angle = position / 10_000 ** (2 * i / 60)
            assert table[position, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-5)
            assert table[position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-5)


def test_softmax_table_of_report_c() -> None:
    generator = torch.Generator().manual_seed(42)
    q = torch.rand(7, 5, generator=generator)
    k = torch.rand(7, 5, generator=generator)
    unmasked = weights(q[:1], k, scale=1.0)[0]  # as the last of seven positions it sees them all
    assert unmasked.tolist() == pytest.approx(
        [0.1866, 0.2118, 0.1440, 0.0839, 0.2004, 0.0822, 0.0910], abs=5.1e-5
    )
    masked = weights(q, k, scale=1.0)
    assert masked[0].tolist() == [1, 0, 0, 0, 0, 0, 0]
    assert masked[1].tolist() == pytest.approx([0.4714, 0.5286, 0, 0, 0, 0, 0], abs=5.1e-5)
    assert masked[2].tolist() == pytest.approx([0.3804, 0.4184, 0.2011, 0, 0, 0, 0], abs=5.1e-5)


def test_masked_softmax_of_report_e() -> None:
    scores = torch.tensor([[0.0880, 0.2976, 0.3876], [0.3238, 0.8666, 0.7062], [0.9651, 0.3739, 0.6863]])
    rows = weights(scores, torch.eye(3), scale=1.0)  # with unit keys the scores are the queries
    expected = [[1, 0, 0], [0.3675, 0.6325, 0], [0.4328, 0.2396, 0.3275]]
    for found, row in zip(rows.tolist(), expected, strict=True):
        assert found == pytest.approx(row, abs=1e-4)


def test_scores_by_model_width_are_the_slip_of_report_c() -> None:
    shape = {"layers": 1, "heads": 4, "width": 64, "context": 8}
    for kind, by in (("head", 16), ("model", 64)):
        config = GPTConfig.model_validate(shape | {"attention_scale": kind})
        model = build_model(config, vocab_size=5, seed=0)
        assert model.blocks[0].attention.attend.scale == pytest.approx(1 / math.sqrt(by))


def test_encodings_of_report_e(test_data: Path) -> None:
    pytest.importorskip("tiktoken")
    gpt2 = parts("tokenizer")["gpt2"](files=test_data / "gpt2").build(lambda: iter(()), documents=False)
    assert gpt2.encode("Thank you!").tolist() == [10449, 345, 0]
    char = parts("tokenizer")["char"]().build(lambda: iter(["Thank you!"]), documents=False)
    assert len(char.encode("Thank you!")) == 10


def test_the_printed_sentence_of_report_e_is_corrected_by_a_server() -> None:
    """The server is one of our own; it says what LanguageTool's spelling rule says, in its form."""
    printed = "AThe captanch unical survach ontor the ground."
    repairs = {"AThe": "The", "captanch": "captain", "unical": "unique", "survach": "search", "ontor": "onto"}
    found = [match(printed.index(word), len(word), right) for word, right in repairs.items()]
    with server(body(*found)) as running:
        done = LanguageTool(running.address, language="en-US").correct(printed)
    assert running.asked[0][1]["text"] == [printed]
    assert done.original == printed
    assert done.corrected == "The captain unique search onto the ground."
    assert plain_diff(done).startswith("[-AThe-]{+The+} [-captanch-]{+captain+} [-unical-]{+unique+}")
