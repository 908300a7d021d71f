"""What a tuning cost: how well a model predicts the text that it was first trained on, before and after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from octavo.config import stored_recipe
from octavo.errors import OctavoError
from octavo.run.data import build_dataset
from octavo.run.evaluate import evaluate_split
from octavo.run.finetune import find_start
from octavo.task import Trained
from octavo.tasks.chat.prompts import judges_only
from octavo.tokenizers import load_tokenizer
from octavo.training.checkpoint import Checkpoint
from octavo.training.device import Runtime
from octavo.util.terminal import Console


@dataclass(frozen=True)
class BeforeAndAfter:
    """A figure of a model as it started and as it is."""

    before: float | None
    after: float | None


@dataclass(frozen=True)
class Cost:
    """How well both predict the first run's own validation split."""

    bits_per_byte: BeforeAndAfter


def cost_of_tuning(run: Trained, runtime: Runtime, console: Console) -> Cost | None:
    """None where a run only judges, or the first one or its text is gone, which is said."""
    recipe, started = run.config, run.started
    path = recipe.training.start_from
    if judges_only(recipe) or path is None or started is None:
        return None
    try:
        before = first_of_text(path)
        first = stored_recipe(before.folder / "config.yaml")
        tokenizer = load_tokenizer(before.folder / "tokenizer")
        split = build_dataset(first, Console(quiet=True), tokenizer).validation
    except OctavoError as error:
        console.say(f"what the tuning cost is not known, without the text before it: {error.what}")
        return None
    if not first.objective.unit.text or first.model.context > recipe.model.context:
        return None
    sides = (started.to(runtime.device), run.model)
    bits = (evaluate_split(one, split, first, tokenizer, runtime).bits_per_byte for one in sides)
    return Cost(BeforeAndAfter(*bits))


def first_of_text(path: Path) -> Checkpoint:
    """The run at `path`, or where that learned from conversations, the one that its road began with."""
    while True:
        checkpoint = find_start(path)
        recipe = stored_recipe(checkpoint.folder / "config.yaml")
        if recipe.form == "text" or recipe.training.start_from is None:
            return checkpoint
        path = recipe.training.start_from


def sentence(cost: Mapping[str, Any]) -> str:
    """Bits per byte before and after the tuning."""
    bits = cost["bits_per_byte"]
    return (
        f"What the tuning cost: {bits['before']:.3f} bits per byte before and {bits['after']:.3f} after, on the "
        "validation text of the run that its road began with."
    )
