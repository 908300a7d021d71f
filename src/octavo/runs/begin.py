"""What there is when a training begins: the run's folder, its manifest, and a model with its first weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from octavo.config import Recipe, to_yaml
from octavo.dataset import Dataset
from octavo.generation import Engine
from octavo.ground.files import replace_text, storage_errors
from octavo.ground.records import AnyRecord, json_text, read_record
from octavo.model.build import build_model
from octavo.model.kind import LanguageModel
from octavo.runs.folder import RunFolder
from octavo.runs.manifest import run_manifest
from octavo.runs.samples import prompts_of
from octavo.runs.tensorboard import writer
from octavo.training.runtime import Runtime


def fresh_model(recipe: Recipe, dataset: Dataset, held_out: np.ndarray | None) -> LanguageModel:
    """The recipe's model with its first weights and its adapters. Raises where it could not write after the recipe's
    prompts: now, not after the training."""
    model = build_model(recipe.model, vocab_size=dataset.tokenizer.vocab_size, seed=recipe.seed)
    model.take_text(dataset.train.tokens, held_out)
    for prompt in prompts_of(recipe, dataset, model.context)[0]:
        Engine(model, dataset.tokenizer).prompt_ids(prompt)
    recipe.training.adapters.attach(model, added=len(dataset.tokenizer.added), seed=recipe.seed)
    return model


def begin(
    folder: RunFolder, recipe: Recipe, told: Mapping[str, Any] | None = None
) -> Mapping[str, Any] | None:
    """Make the folder a run; returns what is told of it for the manifest, which is kept until that is written, for a
    process that is killed before. A run that resumes keeps its recipe until nothing refuses the new one (`note_down`).
    Raises MissingExtra."""
    if recipe.logging.tensorboard:
        writer()
    if not folder.manifest.is_file():
        if folder.config.is_file():
            told = read_record(folder.told, AnyRecord) if folder.told.is_file() else told
        elif told or folder.told.is_file():  # before the recipe, with which the run can be resumed
            replace_text(folder.made.file(folder.told), json_text(told or {}))
        replace_text(folder.made.file(folder.config), to_yaml(recipe))
    with storage_errors(folder.path):
        folder.made.folder(folder.samples)
    return told


def note_down(
    folder: RunFolder, recipe: Recipe, dataset: Dataset, runtime: Runtime, told: Mapping[str, Any] | None
) -> None:
    """Save the recipe and the tokenizer, and of a run that begins, the manifest with what else is `told` of it."""
    replace_text(folder.config, to_yaml(recipe))
    with storage_errors(folder.path):
        dataset.tokenizer.save(folder.tokenizer)
    if told is not None:
        _write_manifest(folder, run_manifest(recipe, dataset, runtime, told=told))
        with storage_errors(folder.path):
            folder.told.unlink(missing_ok=True)  # `begin` wrote it


def add_to_manifest(folder: RunFolder, told: Mapping[str, Any]) -> None:
    """What is known only after the run has begun."""
    _write_manifest(folder, {**(folder.made_by() or {}), **told})


def _write_manifest(folder: RunFolder, manifest: Mapping[str, Any]) -> None:
    replace_text(folder.manifest, json_text(manifest, indent=1, ensure_ascii=False))
