"""What an objective names by its path is held to be the same: files, and the weights of a learned reward."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import octavo
from octavo.config import load_recipe
from octavo.errors import InputError
from octavo.run import dependencies
from octavo.run.run import Run
from octavo.studies.provenance import Origins
from unit.run.small import RECIPE


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
    assert list(manifest[dependencies.KEY]) == ["objective.prompts"]
    assert run.folder is not None and list(Origins().changed(run.folder, run.config)) == []
    octavo.train(out=out, resume=True, quiet=True)
    prompts.write_text("a dog\nthe hen\n")
    assert list(Origins().changed(run.folder, run.config)) == ["something else behind objective.prompts"]
    with pytest.raises(InputError, match=r"What objective\.prompts names has changed"):
        octavo.train(out=out, resume=True, quiet=True)
    del manifest[dependencies.KEY]
    (out / "manifest.json").write_text(json.dumps(manifest))
    octavo.train(out=out, resume=True, quiet=True)  # of an earlier version, of which nothing is known


def test_a_reward_is_known_by_its_weights_and_a_pipe_not_at_all(base: Run, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reward = {"reward": {"kind": "model", "run": str(base.path)}}
    objective = {"kind": "policy-gradient", "reward": {"kind": "product", "of": [reward, reward]}}
    recipe = load_recipe(RECIPE | {"objective": objective | {"prompts": str(pipe)}})
    before = {dependencies.KEY: dependencies.hashes(recipe)}
    assert list(before[dependencies.KEY]) == [f"objective.reward.of.{index}.reward.run" for index in (0, 1)]
    assert dependencies.changed(recipe, before) == []
    settings = RECIPE | {"seed": 9}
    octavo.train(settings, tmp_path / "text.txt", base.path, overwrite=True, quiet=True)
    assert dependencies.changed(recipe, before) == list(before[dependencies.KEY])
