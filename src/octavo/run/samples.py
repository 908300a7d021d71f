"""What a model writes on the way and at the end of its training, as files."""

from __future__ import annotations

from pathlib import Path

from octavo.config import Recipe
from octavo.data import Dataset
from octavo.model.base import LanguageModel
from octavo.task import task_of
from octavo.util.files import replace_text


def write_samples(
    folder: Path, step: int, model: LanguageModel, dataset: Dataset, recipe: Recipe
) -> list[str]:
    """What the model writes after each prompt of the recipe, each as a file.

    `step-000500.txt` where there is one, else `step-000500-1.txt` and so on in the prompts' order.
    """
    texts = task_of(recipe).samples(model, dataset, recipe)
    for number, text in enumerate(texts, start=1):
        name = f"step-{step:06d}" + (f"-{number}" if len(texts) > 1 else "")
        replace_text(folder / f"{name}.txt", text)
    return texts


def shortened(text: str, limit: int = 120) -> str:
    """One line of a text."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
