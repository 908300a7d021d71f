"""What a model writes to be judged by, held-out text beside it, and the metrics of both."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from octavo.config import Recipe
from octavo.corpus.words import WORDS
from octavo.data import Dataset
from octavo.evaluation.by_position import DocumentEnds
from octavo.evaluation.diagnostics import COPIED
from octavo.evaluation.diversity import Mean, Unit, Variety, diversity, unit_of
from octavo.evaluation.memorization import Copied, Copying, copying
from octavo.evaluation.result import Finding
from octavo.generation import Engine, Sample, Sampling
from octavo.generation.sampling import sampling_of
from octavo.model.base import LanguageModel
from octavo.util.files import replace_text
from octavo.util.records import json_text

STORIES = 200
"""Samples of a model whose texts can be checked one by one."""
FEWEST, MOST = 4, 16
"""Samples, the fewest and the most, of a model of other texts."""

LENGTH = 512
"""Tokens of such a sample at most; report D's stories fit."""

BUDGET = 2.5e11
"""Floating-point operations for all of them, so that a large model does not write for too long."""

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
        """Text of each sample."""
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


def amount(model: LanguageModel, recipe: Recipe, *, vocab_size: int) -> tuple[int, int]:
    """Tokens of a sample, and how many samples: fewer of a large model, so that it does not write for too long."""
    tokens = min(LENGTH, max(2 * model.context, LENGTH // 2))
    read = tokens
    if recipe.sampling.window == "crop":  # beyond the context each token has all of it read again
        read += max(0, tokens - model.context) * (model.context - 1)
    operations = 2.0 * read * recipe.model.parameters(vocab_size=vocab_size)
    return tokens, max(FEWEST, min(MOST, int(BUDGET / operations)))


def write(
    model: LanguageModel, dataset: Dataset, recipe: Recipe, *, tokens: int, count: int
) -> GeneratedTexts:
    """Let a model write from the document start. The recipe alone says how, so that a repeated run is evaluated on the
    same text."""
    sampling = sampling_of(recipe.sampling)
    if sampling.temperature == 0:
        count = 1  # they would all be the same
    samples = Engine(model, dataset.tokenizer).samples(
        "", tokens=tokens, sampling=sampling, count=count, seed=recipe.seed
    )
    return GeneratedTexts(samples, sampling, tokens, held_out_like(samples, dataset))


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


def text_metrics(written: GeneratedTexts, dataset: Dataset) -> list[Finding]:
    """Copies, variety and known words of the texts."""
    train, diverse = dataset.train.text_path, varied(written)
    findings = [Finding("memorization", memorized(written, train)), Finding("diversity", diverse)]
    if diverse.unit == "word":
        findings.append(Finding("known_words", known_words(written.sides, train)))
    return findings


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


@dataclass(frozen=True)
class Memorization:
    """The memorization meter: what of the generated and of the held-out texts is copied.

    Attributes:
        searched: the share of the training text that was searched.
        difference_error: standard error of the difference of two shares.
    """

    searched: float
    difference_error: float | None
    generated: Copied
    held_out: Copied


def memorized(written: GeneratedTexts, train_text: Path) -> Memorization:
    """Look the texts up in the training text."""
    sides = {"generated": written.texts[:COMPARED], "held_out": written.held_out[:COMPARED]}
    by_side, searched = copying(sides, train_text)
    own, control = by_side["generated"], by_side["held_out"]
    return Memorization(searched, difference_error(own, control), own.together, control.together)


def difference_error(own: Copying, control: Copying) -> float | None:
    """Standard error of the difference of two shares, from their scatter between texts."""
    errors = [Mean.of(one.by_text[COPIED]).error for one in (own, control)]
    known = [error for error in errors if error is not None]  # a single text has no scatter
    return math.hypot(*known) if known else None


@dataclass(frozen=True)
class Diverse:
    """Repetition, variety and drift of the generated and of the held-out texts, by words or by characters."""

    unit: Unit
    generated: Variety
    held_out: Variety


def varied(written: GeneratedTexts) -> Diverse:
    """Repetition, variety and drift, beside held-out texts of the same size."""
    unit = unit_of(written.held_out)
    return Diverse(unit, **{side: diversity(texts, unit=unit).means for side, texts in written.sides.items()})


def with_samples(ends: DocumentEnds, written: GeneratedTexts, dataset: Dataset) -> DocumentEnds:
    """How many samples came to an end of their own, and how many held-out documents are as short."""
    split, count = dataset.validation, len(written.samples)
    stops = np.append(split.starts.astype(np.int64)[1:], len(split.tokens))
    lengths = stops - split.starts.astype(np.int64)
    return replace(
        ends,
        samples=count,
        samples_ended=sum(sample.finish == "end" for sample in written.samples) / count,
        held_out_ended=float((lengths <= written.tokens).mean()),
    )
