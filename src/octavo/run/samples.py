"""What a model writes on the way and at the end of its training, as files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from octavo.config import Recipe
from octavo.corpus.pixels import PixelsConfig
from octavo.corpus.words import WORDS
from octavo.data import Dataset
from octavo.evaluation.diagnostics import COPIED
from octavo.evaluation.diversity import diversity, measured, unit_of
from octavo.evaluation.memorization import Copying, copying
from octavo.generation import Engine, Prompt, Sample, Sampling, TextRequest, in_order
from octavo.generation.sampling import sampling_of
from octavo.model.base import LanguageModel
from octavo.synthetic.checker import check as check_pidgin
from octavo.synthetic.wishes import Wish
from octavo.tasks.chat.prompts import held_out, judges_only, question, wished
from octavo.tasks.translation.evaluate import samples_of
from octavo.util.files import replace_text
from octavo.util.records import json_text


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
    found = [question(prompt, tokenizer) if prompt or not first else first[0] for prompt in prompts]
    return [one.prompt for one in found], [one.shown(tokenizer) for one in found]


def shortened(text: str, limit: int = 120) -> str:
    """One line of a text."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


# What a model writes at the end of its run, and its metrics: one sampling pass for copies, repetition and
# ends.

STORIES = 200
"""Samples of a model whose texts can be checked one by one."""
FEWEST, MOST = 4, 16
"""Samples, the fewest and the most, of a model of other texts."""

LENGTH = 512
"""Tokens of such a sample at most; report D's stories fit."""

BUDGET = 2.5e11
"""Floating-point operations for all of them, so that a large model does not write for too long."""

ANSWERS = 64
"""Held-out prompts that a tuned model answers."""

COMPARED = 64
"""The most samples that are looked up in the training text."""


@dataclass(frozen=True)
class GeneratedTexts:
    """Samples of a model, drawn with its recipe's settings from the document start, or after what was `asked`; held-out
    text cut to the same sizes, its control."""

    samples: list[Sample]
    sampling: Sampling
    tokens: int
    held_out: list[str]
    asked: Sequence[str] = ()

    @property
    def texts(self) -> list[str]:
        """Of the samples."""
        return [sample.text for sample in self.samples]

    @property
    def sides(self) -> dict[str, list[str]]:
        """The samples that have a control, and the control."""
        return {"generated": self.texts[: len(self.held_out)], "held_out": self.held_out}

    def save(self, path: Path) -> None:
        """A line of JSON for each sample, so that everything said about them can be checked."""
        lines = [
            json_text({"text": sample.text, "finish": sample.finish}, ensure_ascii=False)
            for sample in self.samples
        ]
        replace_text(path, "".join(line + "\n" for line in lines))


def write(model: LanguageModel, dataset: Dataset, recipe: Recipe) -> GeneratedTexts | None:
    """Let a model write, if it writes text. The recipe alone says how much, so that a repeated run is evaluated on the
    same text."""
    if recipe.model.takes_vectors or judges_only(recipe):
        return None
    sampling = sampling_of(recipe.sampling)
    tokens = min(LENGTH, max(2 * model.context, LENGTH // 2))
    read = tokens
    if sampling.window == "crop":  # beyond the context each token has all of it read again
        read += max(0, tokens - model.context) * (model.context - 1)
    operations = 2.0 * read * recipe.model.parameters(vocab_size=dataset.tokenizer.vocab_size)
    count = max(FEWEST, min(MOST, int(BUDGET / operations)))
    if recipe.corpus.kind == "storyteller" or recipe.validator.kind != "none":
        tokens, count = model.context, STORIES
    elif isinstance(recipe.corpus, PixelsConfig):
        tokens = model.context
    if recipe.form != "text":
        return answered(model, dataset, recipe, sampling)
    if sampling.temperature == 0:
        count = 1  # they would all be the same
    samples = Engine(model, dataset.tokenizer).samples(
        "", tokens=tokens, sampling=sampling, count=count, seed=recipe.seed
    )
    return GeneratedTexts(samples, sampling, tokens, held_out_like(samples, dataset))


def answered(model: LanguageModel, dataset: Dataset, recipe: Recipe, sampling: Sampling) -> GeneratedTexts:
    """What a tuned model answers to held-out prompts; the answers that the data has are its control."""
    prompts = held_out(dataset.validation, dataset.tokenizer, ANSWERS, context=model.context)
    if recipe.corpus.kind == "wishes":
        prompts = wished(dataset.tokenizer, STORIES, seed=recipe.seed)
    requests = [TextRequest(prompt.prompt, recipe.seed + number) for number, prompt in enumerate(prompts)]
    tokens = min(recipe.sampling.tokens, model.context)
    written = Engine(model, dataset.tokenizer).write_each(requests, tokens=tokens, sampling=sampling)
    samples = in_order(sample for sample, _ in written)
    answers, questions = [prompt.answer for prompt in prompts], [prompt.text for prompt in prompts]
    return GeneratedTexts(samples, sampling, tokens, answers, questions)


def held_out_like(samples: Sequence[Sample], dataset: Dataset) -> list[str]:
    """Held-out texts as long as the first of the samples, spread evenly over the validation split: as many as do not
    overlap. Of several documents their beginnings, so that they are cut as the samples are."""
    split, lengths = dataset.validation, [len(sample.ids) for sample in samples]
    tokens = np.asarray(split.tokens)
    lengths *= FEWEST if len(lengths) == 1 else 1  # one alone has no scatter to compare with
    if split.documents >= FEWEST:
        count = min(len(lengths), split.documents)
        chosen = np.arange(count) * split.documents // count
        edges = np.append(split.starts.astype(np.int64), len(tokens))
        begins, stops = edges[chosen], edges[chosen + 1]
    else:
        count = max(1, min(len(lengths), len(tokens) // max(lengths)))
        begins = np.arange(count) * len(tokens) // count
        stops = np.full(count, len(tokens))
    return [
        dataset.tokenizer.decode(tokens[begin : min(int(stop), int(begin) + length)])
        for begin, stop, length in zip(begins, stops, lengths, strict=False)
    ]


def text_metrics(written: GeneratedTexts, dataset: Dataset, recipe: Recipe) -> dict[str, Any]:
    """All metrics of the texts, for evaluation.json."""
    found: dict[str, Any] = {
        "memorization": memorized(written, dataset.train.text_path),
        "diversity": varied(written),
    }
    if found["diversity"]["unit"] == "word":
        found["known_words"] = known_words(written.sides, dataset.train.text_path)
    if recipe.corpus.kind in ("storyteller", "wishes"):
        found["stories"] = story_metrics(written)
    if recipe.corpus.kind == "wishes":
        found["wishes"] = wish_metrics(written)
    return found


READ = 1 << 24
"""Characters of the training text in which words are looked for."""


def known_words(sides: Mapping[str, Sequence[str]], train_text: Path) -> dict[str, float]:
    """Of each side's words, the share that stands in the training text (its first `READ` characters); no side without
    words."""
    words = {name: WORDS.findall(" ".join(texts).casefold()) for name, texts in sides.items()}
    missing, left = {word for each in words.values() for word in each}, READ
    with train_text.open(encoding="utf-8", errors="replace") as file:
        while left > 0 and missing and (line := file.read(min(left, 1 << 20))):
            left -= len(line)
            line += file.readline(1 << 10)  # to the end of a word
            missing -= set(WORDS.findall(line.casefold()))
    return {
        name: sum(word not in missing for word in each) / len(each) for name, each in words.items() if each
    }


def memorized(written: GeneratedTexts, train_text: Path) -> dict[str, Any]:
    """The memorization meter: shares copied by length, the longest copied run, and the same of the held-out texts."""
    sides = {"generated": written.texts[:COMPARED], "held_out": written.held_out[:COMPARED]}
    found, searched = copying(sides, train_text)
    return {
        "searched": searched,
        "difference_error": difference_error(found["generated"], found["held_out"]),
        **{name: one.as_dict() for name, one in found.items()},
    }


def difference_error(own: Copying, control: Copying) -> float | None:
    """Standard error of the difference of two shares, from their scatter between texts."""
    errors = [measured(one.by_text[COPIED])["error"] for one in (own, control)]
    known = [error for error in errors if error is not None]  # a single text has no scatter
    return math.hypot(*known) if known else None


def varied(written: GeneratedTexts) -> dict[str, Any]:
    """Repetition, variety and drift, and the same of the held-out texts."""
    unit = unit_of(written.held_out)
    figures = {name: diversity(texts, unit=unit).as_dict() for name, texts in written.sides.items()}
    return {"unit": unit, **figures}


def ended(written: GeneratedTexts, dataset: Dataset) -> dict[str, Any]:
    """How many samples came to an end of their own, and how many held-out documents are as short."""
    split, count = dataset.validation, len(written.samples)
    stops = np.append(split.starts.astype(np.int64)[1:], len(split.tokens))
    lengths = stops - split.starts.astype(np.int64)
    return {
        "samples": count,
        "samples_ended": sum(sample.finish == "end" for sample in written.samples) / count,
        "held_out_ended": float((lengths <= written.tokens).mean()),
    }


def wish_metrics(written: GeneratedTexts) -> dict[str, Any]:
    """How many wishes, in combinations that no training has seen, the stories keep: the mean share of each story's, and
    the share of stories that keep all, with their standard errors."""
    kept = np.array(
        [Wish.of(wish).kept(text) for wish, text in zip(written.asked, written.texts, strict=True)]
    )
    return {
        "asked": len(kept),
        "kept": measured(kept.tolist()),
        "all_kept": measured((kept == 1).astype(float).tolist()),
    }


def wishes_before(model: LanguageModel, dataset: Dataset, recipe: Recipe) -> dict[str, Any]:
    """The share of wishes that a model kept before it was tuned."""
    written = answered(model, dataset, recipe, sampling_of(recipe.sampling))
    return wish_metrics(written)["kept"]


def story_metrics(written: GeneratedTexts) -> dict[str, Any]:
    """How many of the stories that the model wrote the pidgin checker passes, and what is wrong with the others."""
    verdicts = [check_pidgin(text) for text in written.texts]
    problems = [verdict.problems[0] for verdict in verdicts if not verdict.ok]
    return {
        "written": len(verdicts),
        "passed": sum(verdict.ok for verdict in verdicts),
        "sampling": asdict(written.sampling),
        "problems": problems[:20],
    }
