"""What a model writes on the way and at the end of its training, as files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from octavo.config import Recipe
from octavo.dataset import Dataset
from octavo.generation import Engine, Prompt, TextRequest, in_order
from octavo.ground.files import replace_text
from octavo.model.kind import LanguageModel
from octavo.runs.asked import asked, held_out, judges_only
from octavo.runs.sampling import sampling_of
from octavo.runs.translated import samples_of


def write_samples(
    folder: Path, step: int, model: LanguageModel, dataset: Dataset, recipe: Recipe
) -> list[str]:
    """Each prompt and what the model writes after it, by the recipe's sampling settings, as a file.

    `step-000500.txt` where there is one prompt, else `step-000500-1.txt` and so on in the prompts' order.
    """
    if recipe.batches.pairs:
        return kept(folder, step, samples_of(model, dataset, recipe))
    settings = recipe.sampling
    # Of seeds of their own, for the same draws would make the samples nearly the same.
    openings, shown = prompts_of(recipe, dataset, model.context)
    requests = [TextRequest(prompt, recipe.seed + number) for number, prompt in enumerate(openings)]
    engine, sampling = Engine(model, dataset.tokenizer), sampling_of(settings)
    written = engine.write_each(requests, tokens=settings.tokens, sampling=sampling) if requests else ()
    samples = in_order(sample for sample, _ in written)
    return kept(folder, step, [shown[number] + sample.text for number, sample in enumerate(samples)])


def kept(folder: Path, step: int, texts: list[str]) -> list[str]:
    """The same texts, each in a file."""
    for number, text in enumerate(texts, start=1):
        name = f"step-{step:06d}" + (f"-{number}" if len(texts) > 1 else "")
        replace_text(folder / f"{name}.txt", text)
    return texts


def prompts_of(recipe: Recipe, dataset: Dataset, context: int) -> tuple[Sequence[Prompt], Sequence[str]]:
    """The recipe's prompts as a model reads them, and as people do. A tuned model is asked them, and in the place of an
    empty one the first held-out prompt; what writes nothing is not asked."""
    tokenizer = dataset.tokenizer
    silent = recipe.model.takes_vectors or judges_only(recipe)
    prompts = () if silent else recipe.sampling.prompts
    if recipe.form == "text" or not prompts:
        return prompts, prompts
    first = held_out(dataset.validation, tokenizer, 1, context=context)
    found = [asked(prompt, tokenizer) if prompt or not first else first[0] for prompt in prompts]
    return [one.ids for one in found], [one.shown(tokenizer) for one in found]


def shortened(text: str, limit: int = 120) -> str:
    """One line of a text."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
