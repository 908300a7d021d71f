"""How long a run is and when its periodic work is due."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from octavo.config import Recipe, check, load_recipe, to_yaml
from octavo.data.batches import Batches
from octavo.errors import ConfigError, InputError
from octavo.run.data import (
    build_batches,
    build_dataset,
    fill,
    in_steps,
    rows_at_once,
    total_steps,
    wanted_steps,
)
from octavo.run.folder import RunFolder
from octavo.run.settings import continued, resolve
from octavo.util.terminal import Console

TOKENS = 1_000


def both(**settings: Any) -> tuple[Recipe, Batches]:
    """A recipe with context 10 and batches of 4, so 40 tokens a step, and its batches."""
    tree = {
        "model": {"context": 10, "layers": 1, "width": 8, "heads": 1},
        "training": {"batch": 4, "steps": 500, **settings.pop("training", {})},
        **settings,
    }
    recipe = check(tree)
    batches = recipe.batches.build(
        np.zeros(TOKENS, np.uint8),
        np.zeros(1, np.uint64),
        context=10,
        batch=recipe.training.text_rows,
        seed=1,
        start_id=None,
        end_id=None,
        accumulation=recipe.training.accumulation,
    )
    return recipe, batches


@pytest.mark.parametrize(
    ("training", "steps"),
    [
        ({}, 500),
        ({"passes": 2}, 50),
        ({"passes": 2.01}, 51),
        ({"passes": 1e-9}, 1),
        ({"passes": 21}, 500),
        ({"passes": 2, "accumulation": 5}, 10),
        ({"passes": 2, "teachers": {"runs": ["run"], "written": 99}}, 100),  # half a batch is the text
    ],
)
def test_a_short_text_is_seen_only_so_often(training: dict[str, Any], steps: int) -> None:
    recipe, batches = both(training=training)
    assert (total_steps(recipe, batches), wanted_steps(recipe, batches)) == (steps, 500)


@pytest.mark.parametrize("kind", ["windows", "sliding", "documents", "prefixes"])
def test_all_batches_know_the_size_of_the_text(kind: str) -> None:
    assert both(batches=kind)[1].size == TOKENS


def test_passes_hold_for_epochs_too() -> None:
    recipe, batches = both(training={"steps": None, "epochs": 3.0, "passes": 2}, batches="sliding")
    assert total_steps(recipe, batches) == 50 < wanted_steps(recipe, batches)


def test_a_period_may_be_a_share_of_the_run() -> None:
    recipe, batches = both(
        training={"checkpoint_every": 0.5}, evaluation={"every": 0.125}, sampling={"every": 0.001}
    )
    found = in_steps(recipe, batches, 80)
    assert (found.evaluation.every, found.training.checkpoint_every, found.sampling.every) == (10, 40, 1)
    assert recipe.evaluation.every == 0.125, "what is written down stays a share"


def test_other_periods_are_what_they_were() -> None:
    recipe, batches = both(batches="sliding", evaluation={"every": "epoch"}, sampling={"every": 0})
    found = in_steps(recipe, batches, 80)
    assert found.evaluation.every == batches.steps_per_epoch
    assert (found.training.checkpoint_every, found.sampling.every) == (250, 0)


def test_a_cpu_is_given_fewer_rows_where_the_vocabulary_is_large() -> None:
    def rows(vocabulary: int, device: str) -> int:
        recipe, _ = both(model={"context": 128}, evaluation={"batch": 64})
        return rows_at_once(recipe, cast(Any, SimpleNamespace(vocab_size=vocabulary)), torch.device(device))

    assert [rows(size, "cpu") for size in (256, 1024, 8192, 10**6)] == [64, 64, 16, 1]
    assert [rows(size, "cuda") for size in (256, 1024, 8192, 10**6)] == [64, 64, 64, 64]


@pytest.mark.parametrize("corpus", ["digits", "files", {"kind": "images", "levels": 2, "paths": ["/old"]}])
def test_another_kind_of_corpus_reads_the_same_files(corpus: Any) -> None:
    tree = {"corpus": corpus}
    fill(tree, "/a.tsv", ["corpus.kind=pairs", "corpus.ratio=4"])
    assert tree == {"corpus": {"kind": "pairs", "ratio": 4, "paths": ["/a.tsv"]}}


@pytest.mark.parametrize(
    ("corpus", "kind"),
    [
        ("bilingual", "pairs"),
        ("dynamics", "series"),
        ({"kind": "digits", "levels": 4}, "images"),
        ("storyteller", "files"),
        ("bouncing-ball", "files"),
        ({"kind": ["no", "name"]}, "files"),
        ("unknown", "files"),
        (7, "files"),
        (None, "files"),
    ],
)
def test_files_are_read_as_what_they_stand_for(corpus: Any, kind: str) -> None:
    tree = {"corpus": corpus}
    fill(tree, "/a.tsv", [])
    assert tree == {"corpus": {"kind": kind, "paths": ["/a.tsv"]}}


def test_overrides_may_name_other_files_or_none() -> None:
    named, made_up = {"corpus": "files"}, {"corpus": "files"}
    fill(named, "/a.txt", ["corpus={kind: files, paths: [/b.txt]}"])
    fill(made_up, "/a.txt", ["corpus={kind: dynamics, rows: 500}"])
    assert named["corpus"] == {"kind": "files", "paths": ["/b.txt"]}
    assert made_up["corpus"] == {"kind": "dynamics", "rows": 500}


PAIRS: dict[str, Any] = {
    "corpus": {"kind": "pairs"},
    "validation": 0.2,
    "tokenizer": {"kind": "word", "lines": "keep"},
    "batches": "pairs",
    "objective": {"kind": "given-source", "label_smoothing": 0.0},
    "model": {"kind": "encoder-decoder", "layers": 1, "width": 8, "heads": 1, "context": 8},
}


@pytest.mark.parametrize("split", ["sources", "documents"])
def test_held_out_sources_that_are_learned_from_are_said(
    split: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    rows = [f"s{number % 60}\tt{number}\n" for number in range(240)]
    (tmp_path / "pairs.tsv").write_text("".join(rows), encoding="utf-8")
    recipe, said = resolve(PAIRS | {"split": split}, tmp_path / "pairs.tsv"), io.StringIO()
    console = Console(stream=said)
    build_batches(recipe, build_dataset(recipe, console), console)
    known = "held-out pairs have a source that stands in the training part too" in said.getvalue()
    assert known == (split == "documents") == ("split=sources keeps them apart" in said.getvalue())
    assert ("240 of 240 pairs share a source or a target" in said.getvalue()) == (split == "sources")


def test_a_run_goes_on_with_its_own_split(tmp_path: Path) -> None:
    """It began before pairs were split by their sources, and names a recipe that leaves the split open."""
    text = tmp_path / "pairs.tsv"
    before = resolve(PAIRS | {"split": "documents"}, text)
    (tmp_path / "config.yaml").write_text(to_yaml(before), encoding="utf-8")
    assert resolve(PAIRS, text).split == "sources"
    wanted = resolve(PAIRS, text, earlier=before)
    assert continued(RunFolder(tmp_path), wanted, Console(quiet=True)) == before
    with pytest.raises(ConfigError, match="started with other settings"):
        continued(
            RunFolder(tmp_path), resolve(PAIRS, text, ["split=sources"], earlier=before), Console(quiet=True)
        )


def test_a_checked_recipe_is_taken_as_it_is(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    by_name, recipe = resolve("quick", text, ["seed=5"]), load_recipe("quick")
    assert resolve(by_name) is by_name
    assert resolve(recipe, text, ["seed=5"]) == by_name and recipe.seed != 5
    with pytest.raises(InputError, match="needs a text"):
        resolve(recipe)
