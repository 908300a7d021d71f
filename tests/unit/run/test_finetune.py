"""Runs that start from another: what they begin with, what they keep, and what may not differ."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import octavo
from octavo.config import apply_value, check, flatten
from octavo.errors import CheckpointError, ConfigError, InputError, OctavoError
from octavo.model.gpt import GPT
from octavo.run.finetune import start_of, with_start
from octavo.run.run import Run
from octavo.run.settings import default_recipe, resolve
from octavo.studies.resolve import load_study
from octavo.training.checkpoint import read_tensors
from octavo.util.files import file_hash
from octavo.util.terminal import Console

RECIPE: dict[str, Any] = {
    "model": {
        "layers": 1,
        "width": 16,
        "heads": 2,
        "context": 16,
        "positions": {"kind": "rotary", "base": 500},
    },
    "training": {
        "batch": 4,
        "steps": 6,
        "checkpoint_every": 2,
        "precision": "float32",
        "schedule": "constant",
    },
    "evaluation": {"every": 3},
    "sampling": {"tokens": 10},
    "logging": {"every": 1},
}
NEW: dict[str, Any] = {key: value for key, value in RECIPE.items() if key != "model"}
QUIET = Console(quiet=True)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two texts of the same characters, and runs to start from."""
    folder = tmp_path_factory.mktemp("start")
    (folder / "text.txt").write_text("a fox and a dog. " * 60)
    (folder / "other.txt").write_text("dog god fad. " * 60)
    (folder / "many.jsonl").write_text('{"text": "dog god fad."}\n{"text": "a fox"}\n' * 40)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OCTAVO_CACHE", str(folder / "cache"))
        octavo.train(RECIPE, folder / "text.txt", folder / "base", console=QUIET)
        learned = RECIPE | {"model": RECIPE["model"] | {"positions": "learned", "tied": True}}
        octavo.train(learned, folder / "text.txt", folder / "learned", console=QUIET)
    return folder


@pytest.fixture(autouse=True)
def cache(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(place / "cache"))


def tuned(
    place: Path,
    out: Path,
    *overrides: str,
    base: Path | None = None,
    recipe: Mapping[str, Any] = NEW,
    text: str = "other.txt",
    **options: Any,
) -> Run:
    start = f"training.start_from={base or place / 'base'}"
    return octavo.train(recipe, place / text, out, overrides=[start, *overrides], console=QUIET, **options)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return read_tensors(folder / "model.safetensors")


def losses(folder: Path) -> list[tuple[int, float]]:
    rows = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [(row["step"], row["loss"]) for row in rows]


def test_it_begins_with_the_best_weights_to_the_bit(place: Path, tmp_path: Path) -> None:
    run = tuned(place, tmp_path / "run")
    base = Run.open(place / "base")
    before, kept = weights(base.checkpoint.folder), read_tensors(tmp_path / "run" / "start.safetensors")
    assert before.keys() == kept.keys() and all(torch.equal(kept[name], before[name]) for name in before)
    assert run.tokenizer.fingerprint() == base.tokenizer.fingerprint()
    assert run.config.model == base.config.model and run.config.training.start_from == place / "base"
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["start_from"] == {
        "checkpoint": str(base.checkpoint.folder.resolve()),
        "step": base.step,
        "sha256": file_hash(base.checkpoint.folder / "model.safetensors"),
        "added": [],
        "kept_sha256": file_hash(tmp_path / "run" / "start.safetensors"),
    }
    # Nothing of the base's optimizer, batches or steps goes on.
    alone = octavo.train(RECIPE, place / "other.txt", tmp_path / "alone", console=QUIET)
    assert run.step <= 6 and losses(tmp_path / "run")[1:] != losses(tmp_path / "alone")
    assert "start_from" not in json.loads((alone.folder.path / "manifest.json").read_text())
    assert not (alone.folder.path / "start.safetensors").exists() and alone.started is None


def test_what_it_started_from_stands_beside_what_it_became(place: Path, tmp_path: Path) -> None:
    run = tuned(place, tmp_path / "run")
    found = json.loads((tmp_path / "run" / "evaluation.json").read_text())
    base = Run.open(place / "base")
    untouched = base.evaluate(place / "other.txt")
    start = found["baselines"]["start"]
    first = next(row for row in run.metrics if row["event"] == "validation")
    assert first["step"] == 0 and first["loss"] == pytest.approx(start["loss"], rel=1e-6)
    assert start["loss"] > found["val_loss"] and untouched["val_loss"] > found["val_loss"]
    assert any("what it started from" in line for line in found["verdict"])
    page = (tmp_path / "run" / "report" / "index.html").read_text()
    assert "its start" in page and "It began with the weights of base after step" in page
    # The same line, on the same split, when it is judged again; and on a text that is named.
    assert Run.open(tmp_path / "run").evaluate()["baselines"]["start"] == pytest.approx(start, rel=1e-6)
    elsewhere = Run.open(tmp_path / "run").evaluate(place / "other.txt")
    assert elsewhere["baselines"]["start"]["loss"] == pytest.approx(untouched["val_loss"], rel=1e-6)


def test_it_goes_on_and_repeats_to_the_bit_when_the_base_is_gone(place: Path, tmp_path: Path) -> None:
    base = tmp_path / "base"
    shutil.copytree(place / "base", base, symlinks=True)
    more = ("model.dropout=0.1", "tokenizer.special=[<|user|>]")
    tuned(place, tmp_path / "whole", *more, base=base)
    tuned(place, tmp_path / "parts", *more, "training.steps=3", base=base)
    shutil.rmtree(base)
    octavo.train(
        out=tmp_path / "parts", resume=True, overrides=["training.steps=6"], console=QUIET
    )  # its own recipe
    assert losses(tmp_path / "parts") == losses(tmp_path / "whole")
    again = tuned(
        place, tmp_path / "parts", *more, "training.steps=7", base=base, resume=True
    )  # the command again
    assert again.config.training.steps == 7
    second, differing = octavo.replay(tmp_path / "whole", tmp_path / "again", console=QUIET)
    assert differing == []
    whole = Run.open(tmp_path / "whole")
    assert weights(second.checkpoint.folder).keys() == weights(whole.checkpoint.folder).keys()
    third, differing = octavo.replay(tmp_path / "again", tmp_path / "third", console=QUIET)
    assert differing == [] and third.started is not None
    assert isinstance(whole.generate("a fox", tokens=5), str)
    assert whole.evaluate()["baselines"]["start"]["loss"] > 0
    with pytest.raises(InputError, match="does not exist"):
        tuned(place, tmp_path / "new", base=base)
    assert not (tmp_path / "new").exists()


def test_before_its_first_checkpoint_it_begins_again_with_what_it_kept(place: Path, tmp_path: Path) -> None:
    base = tmp_path / "base"
    shutil.copytree(place / "base", base, symlinks=True)
    tuned(place, tmp_path / "whole", base=base)
    tuned(place, tmp_path / "run", base=base)
    for name in ("checkpoints", "best", "last"):  # as if it had been killed before
        path = tmp_path / "run" / name
        path.unlink() if path.is_symlink() else shutil.rmtree(path)
    shutil.rmtree(base)
    kept = (tmp_path / "run" / "start.safetensors").read_bytes()
    (tmp_path / "run" / "start.safetensors").write_bytes(kept[:-1] + bytes([kept[-1] ^ 1]))
    with pytest.raises(CheckpointError, match="is not what this run began with"):
        octavo.train(out=tmp_path / "run", resume=True, console=QUIET)
    (tmp_path / "run" / "start.safetensors").write_bytes(kept)
    octavo.train(out=tmp_path / "run", resume=True, console=QUIET)
    assert losses(tmp_path / "run") == losses(tmp_path / "whole")


def test_a_run_that_started_from_another_can_be_started_from(place: Path, tmp_path: Path) -> None:
    tuned(place, tmp_path / "one", "tokenizer.special=[<|user|>]")
    two = tuned(place, tmp_path / "two", "tokenizer.special=[<|tool|>]", base=tmp_path / "one")
    assert two.tokenizer.added == ("<|user|>", "<|tool|>")
    told = json.loads((tmp_path / "two" / "manifest.json").read_text())["start_from"]
    assert told["added"] == ["<|tool|>"]
    assert two.config.tokenizer.special == ("<|user|>", "<|tool|>")
    three = octavo.train(
        None,
        place / "text.txt",
        tmp_path / "three",
        overrides={"training.start_from": str(tmp_path / "two"), "training.steps": 2},
        console=QUIET,
    )
    assert three.tokenizer.fingerprint() == two.tokenizer.fingerprint()


def test_added_tokens_make_rows_of_their_own(place: Path, tmp_path: Path) -> None:
    run = tuned(place, tmp_path / "run", "tokenizer.special=[<|endoftext|>, <|user|>]", text="many.jsonl")
    base = Run.open(place / "base")
    assert base.tokenizer.end is None and run.tokenizer.end == base.tokenizer.vocab_size
    before, kept = weights(base.checkpoint.folder), read_tensors(tmp_path / "run" / "start.safetensors")
    for name in ("embedding.weight", "lm_head.weight"):
        old, new = before[name], kept[name]
        assert torch.equal(new[:-2], old) and torch.equal(new[-1], old.double().mean(dim=0).float())
    dataset = json.loads((tmp_path / "run" / "manifest.json").read_text())["data"]
    assert dataset["vocab_size"] == base.tokenizer.vocab_size + 2
    assert dataset["tokenizer"] == run.tokenizer.fingerprint() == dataset["tokenizer_fingerprint"]
    assert np.isfinite(run.logits("a dog")).all()


def test_the_context_may_be_shorter_and_longer_where_positions_reach(place: Path, tmp_path: Path) -> None:
    base = Run.open(place / "learned")
    run = tuned(place, tmp_path / "short", "model.context=9", base=place / "learned")
    assert run.model.context == 9 and isinstance(run.model, GPT)
    kept = read_tensors(tmp_path / "short" / "start.safetensors")
    assert torch.equal(kept["positions.weight"], weights(base.checkpoint.folder)["positions.weight"][:9])
    assert run.model.lm_head.weight is run.model.embedding.weight
    assert tuned(place, tmp_path / "long", "model.context=20").model.context == 20  # rotary
    with pytest.raises(
        ConfigError, match=r"model\.context: 20 in the recipe, the run's positions allow 1 to 16"
    ):
        tuned(place, tmp_path / "run", "model.context=20", base=place / "learned")
    assert not (tmp_path / "run").exists()


def test_what_the_recipe_leaves_open_is_the_other_runs(place: Path) -> None:
    base = Run.open(place / "base").config
    start = {"training.start_from": str(place / "base")}
    resolved = resolve(NEW, place / "other.txt", start)
    assert resolved.model == base.model and resolved.tokenizer == base.tokenizer
    same = {"model": {"layers": 1, "positions": {"kind": "rotary"}}, "tokenizer": {"unknown": "error"}}
    for stated in (RECIPE, NEW | same, NEW | {"model": "gpt", "tokenizer": "char"}):
        assert flatten(resolve(stated, place / "other.txt", start)) == flatten(resolved)
    recipe, said = default_recipe(start)
    whole = resolve(recipe, place / "other.txt", start)
    assert str(place / "base") in said
    assert whole.training.batch == 4 and whole.sampling.tokens == 10 and whole.model == base.model
    assert default_recipe(["training.steps=4"])[0] == "minute"


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"model": {"width": 32}}, "model.width: 32 in the recipe, 16 in the run"),
        (
            {"model": {"positions": "learned"}},
            "model.positions.kind: 'learned' in the recipe, 'rotary' in the run",
        ),
        ({"model": {"positions": {"base": 1000.0}}}, "model.positions.base: 1000.0 in the recipe, 500.0"),
        ({"tokenizer": "byte"}, "tokenizer.kind: 'byte' in the recipe, 'char' in the run"),
        ({"tokenizer": {"unknown": "token"}}, "tokenizer.unknown: 'token' in the recipe, 'error'"),
    ],
)
def test_another_model_or_tokenizer_is_refused(place: Path, stated: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(NEW | stated, place / "other.txt", {"training.start_from": str(place / "base")})
    assert said in str(caught.value) and len(caught.value.problems) == 1
    # A recipe that leaves nothing open is compared with the run too, before the training and at its start.
    full = resolve(NEW, place / "other.txt", {"training.start_from": str(place / "base")}).model_dump(
        mode="json"
    )
    for part, options in stated.items():
        for key, value in flatten_plain(part, options):
            apply_value(full, key, value)
    with pytest.raises(ConfigError, match="has its model and its tokenizer"):
        with_start(full)
    with pytest.raises(ConfigError, match="has its model and its tokenizer"):
        start_of(check(full))


def test_dropout_may_differ(place: Path) -> None:
    start = {"training.start_from": str(place / "base")}
    for stated in (0.2, {"attention": 0.2, "embedding": 0.1}):
        resolved = resolve(NEW | {"model": {"dropout": stated}}, place / "other.txt", start)
        assert resolved.model.dropout.attention == 0.2


@pytest.mark.parametrize(
    "stated", [3, [], "gtp", {"kind": 7}, {"dropout": "x"}, {"depth": 3}, {"positions": [1]}]
)
@pytest.mark.parametrize("part", ["model", "tokenizer"])
def test_what_is_no_model_at_all_is_said_like_everywhere(place: Path, part: str, stated: Any) -> None:
    with pytest.raises(ConfigError, match=part):
        resolve(NEW | {part: stated}, place / "other.txt", {"training.start_from": str(place / "base")})


def flatten_plain(key: str, value: Any) -> list[tuple[str, Any]]:
    """Dotted keys of plain data."""
    if not isinstance(value, dict):
        return [(key, value)]
    return [found for name, inner in value.items() for found in flatten_plain(f"{key}.{name}", inner)]


def refusal(place: Path, out: Path, base: Path) -> str:
    with pytest.raises(OctavoError) as caught:
        tuned(place, out, base=base)
    assert caught.value.exit_code == 2 and not out.exists()
    return caught.value.what


def test_a_base_that_cannot_be_used(place: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert "does not exist" in refusal(place, out, tmp_path / "nothing")
    assert "is not a run folder" in refusal(place, out, place)
    assert "is not a run folder" in refusal(place, out, place / "text.txt")
    whole = octavo.train(
        RECIPE | {"training": RECIPE["training"] | {"steps": 4}},
        place / "text.txt",
        tmp_path / "base",
        console=QUIET,
    )
    best = whole.checkpoint.folder
    weights_file = best / "model.safetensors"
    content = weights_file.read_bytes()
    weights_file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert "damaged" in refusal(place, out, tmp_path / "base")  # and no other checkpoint takes its place
    assert "damaged" in refusal(place, out, best)
    weights_file.write_bytes(content)
    state = json.loads((tmp_path / "base" / "last" / "state.json").read_text())
    assert state["finished"] is True
    shutil.rmtree((tmp_path / "base" / "last").resolve())
    for link in ("best", "last"):
        if not (tmp_path / "base" / link).exists():
            (tmp_path / "base" / link).unlink()
    assert "is not finished: it stands after step" in refusal(place, out, tmp_path / "base")
    (named, *_) = sorted((tmp_path / "base" / "checkpoints").glob("step-*"))
    assert tuned(place, out, base=named).config.training.start_from == named
    assert json.loads((out / "manifest.json").read_text())["start_from"]["step"] == int(named.name[5:])
    shutil.rmtree(tmp_path / "base" / "checkpoints")
    assert "it stands without a checkpoint" in refusal(place, tmp_path / "two", tmp_path / "base")


def test_links_and_single_checkpoints_can_be_named(place: Path, tmp_path: Path) -> None:
    for number, name in enumerate(("best", "last")):
        run = tuned(place, tmp_path / f"run-{number}", "training.steps=1", base=place / "base" / name)
        told = json.loads((run.folder.path / "manifest.json").read_text())["start_from"]
        assert told["checkpoint"] == str((place / "base" / name).resolve())


def test_a_text_with_other_characters_is_refused_with_what_helps(place: Path, tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("Ωmega and more. " * 50)
    with pytest.raises(InputError) as caught:
        tuned(tmp_path, tmp_path / "run", base=place / "base")
    assert "lacks" in caught.value.what and "Ω" in caught.value.what
    assert str(place / "base") in str(caught.value.remedy) and "tokenizer.unknown" not in str(caught.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_study_of_runs_that_start_from_one(place: Path, tmp_path: Path) -> None:
    base = tmp_path / "base"
    shutil.copytree(place / "base", base, symlinks=True)
    study = {
        "baseline": NEW | {"training": NEW["training"] | {"start_from": str(base), "steps": 3}},
        "seeds": 2,
        "noise": 0,
        "changes": [
            {
                "name": "slower",
                "hypothesis": "Less is learned.",
                "set": {"training.optimizer.learning_rate": 1e-5},
            },
        ],
    }
    found = octavo.study(study, place / "other.txt", tmp_path / "study", quiet=True)
    assert [run.status for run in found.runs] == ["done"] * 4
    started = {file_hash(tmp_path / "study" / run.folder / "start.safetensors") for run in found.runs}
    assert len(started) == 1 and {run.initial_loss for run in found.runs} == {None}
    shutil.rmtree(base)
    kept = load_study(tmp_path / "study" / "study.yaml")  # what it was is known when the run is gone
    assert kept.recipe == found.study.recipe and kept.changes == found.study.changes
    with pytest.raises(ConfigError, match=r"model\.width"):
        octavo.study(
            study
            | {
                "baseline": NEW | {"training": {"start_from": str(place / "base")}},
                "changes": [{"name": "wide", "hypothesis": "More.", "set": {"model.width": 32}}],
            },
            place / "other.txt",
            tmp_path / "other",
            quiet=True,
        )


def test_a_plan_knows_the_vocabulary_of_the_base(place: Path) -> None:
    base = Run.open(place / "base")
    start = [f"training.start_from={place / 'base'}", "tokenizer.special=[<|user|>]"]
    without = octavo.plan(NEW, overrides=start, time_step=False)
    assert without["vocabulary"] == base.tokenizer.vocab_size + 1
    assert octavo.plan(NEW, place / "other.txt", overrides=start)["parameters"] == without["parameters"]
    assert octavo.plan(overrides=start, time_step=False)["vocabulary"] == without["vocabulary"]


def test_the_kept_weights_are_taken_away_with_the_run(place: Path, tmp_path: Path) -> None:
    tuned(place, tmp_path / "run")
    tuned(place, tmp_path / "run", overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
