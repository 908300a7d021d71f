"""Options without effect are named, and only those. What an objective names by its path is held to be the same: files,
and the weights of a learned reward."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import octavo
from octavo.config import load_recipe
from octavo.errors import InputError
from octavo.run import settings
from octavo.run.run import Run
from octavo.run.settings import idle_options
from octavo.studies.provenance import Origins
from unit.run.small import RECIPE


def numbers(kind: str, **options: object) -> dict:
    return {
        "corpus": {"kind": "dynamics"},
        "batches": "series",
        "objective": "forecast",
        "model": {"input": "linear", "output": {"kind": kind, **options}},
        "sampling": {"every": 0},
    }


def images(**options: object) -> dict:
    return {
        "corpus": {"kind": "images", "paths": ["a.png"], **options},
        "split": "documents",
        "tokenizer": {"kind": "symbols", "size": 4},
        "batches": {"kind": "documents", "alone": True},
    }


NUMBERS = numbers("gaussian")


@pytest.mark.parametrize(
    ("tree", "named"),
    [
        ({}, None),
        ({"evaluation": {"every": 90}}, None),
        ({"evaluation": {"every": 101}}, "evaluation.every=101"),
        ({"logging": {"every": 500}}, "logging.every=500"),
        ({"sampling": {"every": 200}}, "sampling.every=200"),
        ({"sampling": {"top_k": 5}}, None),
        ({"sampling": {"top_k": 5, "temperature": 0}}, "sampling.top_k=5"),
        ({"sampling": {"min_p": 0.1, "temperature": 0}}, "sampling.min_p=0.1"),
        ({"training": {"patience": 1}, "evaluation": {"every": 50}}, None),
        ({"training": {"patience": 2}, "evaluation": {"every": 50}}, "training.patience=2"),
        ({"training": {"patience": 10}}, "training.patience=10"),
        ({"training": {"patience": 9}}, None),
        ({"training": {"teachers": {"weight": 0.5}}}, "training.teachers.weight=0.5"),
        ({"training": {"teachers": {"weight": 0.5, "runs": "runs/one"}}}, None),
        ({"training": {"teachers": {"weight": 0.5, "trained": 1, "trained_steps": 9}}}, None),
        ({"training": {"teachers": {"trained_steps": 9}}}, "training.teachers.trained_steps=9"),
        ({"training": {"teachers": {"trained_dropout": 0.1}}}, "training.teachers.trained_dropout=0.1"),
        (NUMBERS, None),
        (NUMBERS | {"tokenizer": "bpe"}, "tokenizer"),
        (numbers("gaussian", hidden=99), "model.output.hidden=99"),
        (numbers("gaussian", hidden=99, channels="chained"), None),
        (numbers("gaussian", floor=0.5), None),
        (numbers("bins", floor=0.5), "model.output.floor=0.5"),
        (images(levels=2, threshold=90), None),
        (images(levels=4, threshold=90), "corpus.threshold"),
    ],
)
def test_idle_options(tree: dict, named: str | None) -> None:
    said = idle_options(load_recipe(tree), steps=100)
    assert len(said) == (named is not None)
    assert all(sentence.startswith(f"{named} has no effect") for sentence in said)


def test_a_grid_follows_the_raster() -> None:
    grid = {"model": {"context": 65, "positions": {"kind": "grid", "axes": [8]}}}
    (said,) = idle_options(load_recipe(images(order="hilbert", levels=4) | grid), steps=100)
    assert "positions=grid counts rows and columns in the raster's order" in said
    assert idle_options(load_recipe(images(levels=4) | grid), steps=100) == []


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text("a fox and a dog. " * 60 + "the hen sat on a mat. " * 20)
    return octavo.train(RECIPE, tmp_path / "text.txt", tmp_path / "base", quiet=True)


def test_other_prompts_make_another_run(base: Run, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("a fox\nthe hen\n")
    tuned = {
        "objective": {
            "kind": "policy-gradient",
            "group": 2,
            "tokens": 4,
            "reward": {"kind": "length", "least": 1, "most": 3},
            "prompts": str(prompts),
        },
        "training": {"start_from": str(base.path), "batch": 4, "steps": 2, "precision": "float32"},
        "evaluation": {"every": 2},
        "sampling": {"tokens": 10},
    }
    text, out = tmp_path / "text.txt", tmp_path / "tuned"
    run = octavo.train(tuned, text, out, quiet=True)
    manifest = json.loads((out / "manifest.json").read_text())
    assert list(manifest[settings.MATERIALS]) == ["objective.prompts"]
    assert run.folder is not None and list(Origins().changed(run.folder, run.config)) == []
    octavo.train(out=out, resume=True, quiet=True)
    prompts.write_text("a dog\nthe hen\n")
    assert list(Origins().changed(run.folder, run.config)) == ["something else behind objective.prompts"]
    with pytest.raises(InputError, match=r"What objective\.prompts names has changed"):
        octavo.train(out=out, resume=True, quiet=True)
    del manifest[settings.MATERIALS]
    (out / "manifest.json").write_text(json.dumps(manifest))
    octavo.train(out=out, resume=True, quiet=True)  # of an earlier version, of which nothing is known


def test_a_reward_is_known_by_its_weights_and_a_pipe_not_at_all(base: Run, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reward = {"reward": {"kind": "model", "run": str(base.path)}}
    objective = {"kind": "policy-gradient", "reward": {"kind": "product", "of": [reward, reward]}}
    recipe = load_recipe(RECIPE | {"objective": objective | {"prompts": str(pipe)}})
    before = {settings.MATERIALS: settings.hashes_of_files(recipe)}
    assert list(before[settings.MATERIALS]) == [f"objective.reward.of.{index}.reward.run" for index in (0, 1)]
    assert settings.changed_files(recipe, before) == []
    octavo.train(RECIPE | {"seed": 9}, tmp_path / "text.txt", base.path, overwrite=True, quiet=True)
    assert settings.changed_files(recipe, before) == list(before[settings.MATERIALS])
