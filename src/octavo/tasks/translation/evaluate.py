"""What a model of pairs writes: translations of held-out sources, beside the targets that stand there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from octavo.config import Recipe
from octavo.data import Dataset, Split
from octavo.data.batches import Known
from octavo.errors import MissingExtra
from octavo.evaluation.result import LeftOut
from octavo.model.base import LanguageModel
from octavo.run.data import stream_of
from octavo.synthetic.bilingual import explained
from octavo.tasks.translation.alignment import (
    CHOSEN_ON,
    Attended,
    Look,
    Sides,
    Truth,
    WordModel,
    diagonal,
    error_rate,
)
from octavo.tasks.translation.batches import Pairs, find_pairs
from octavo.tasks.translation.beam import Search
from octavo.tasks.translation.bleu import Scored, judged
from octavo.tasks.translation.encoder_decoder import EncoderDecoder
from octavo.tasks.translation.source import one_line
from octavo.tasks.translation.translator import Skipped, Translator, left_out_of
from octavo.tokenizers import Tokenizer
from octavo.util.records import OPTIONAL

SHOWN = 20
"""Held-out pairs that a report shows."""

JUDGED = 500
"""Held-out pairs whose alignment is judged."""

SCORED = 300
"""Held-out pairs on which BLEU is measured, and by it the way to search chosen."""

SEARCHES = (Search(1), Search(5, 0.0), Search(5), Search(5, 1.0))

PLOTTED = 24
"""Tokens on a side of a plot of attention, at most."""


def pairs_in(split: Split, recipe: Recipe, tokenizer: Tokenizer) -> Pairs:
    """Where the pairs of a split stand that the model learns from or is judged on."""
    stream = stream_of(split, recipe, tokenizer)
    return find_pairs(stream, joined="source" not in dict(recipe.batches.example(1, 1).items()))


def sides(split: Split, recipe: Recipe, tokenizer: Tokenizer, most: int | None = None) -> list[Sides]:
    """Ids of sources and of targets, without their ends: all of a split, or so many, spread evenly."""
    pairs, tokens = pairs_in(split, recipe, tokenizer), np.asarray(split.tokens)
    count = len(pairs.begins)
    chosen = np.arange(count) if most is None else np.arange(min(count, most)) * count // min(count, most)
    return [
        (tokens[begin:middle], tokens[middle + 1 : stop - 1])
        for begin, middle, stop in zip(
            pairs.begins[chosen], pairs.middles[chosen], pairs.stops[chosen], strict=True
        )
    ]


def left_out(split: Split, recipe: Recipe, tokenizer: Tokenizer) -> LeftOut | None:
    """The pairs that the figures are not of, because they are too long; None where there are none."""
    tokens, edges = split.tokens, np.append(split.starts.astype(np.int64), len(split.tokens))
    why = f"longer than the context of {recipe.model.context:,} tokens"
    skipped = []
    for number in recipe.batches.left_out(stream_of(split, recipe, tokenizer)).tolist():
        begun = tokenizer.decode(np.asarray(tokens[edges[number] : edges[number + 1]][:40])).strip()
        skipped.append(Skipped(f"pair {number + 1:,} of the split, '{begun.splitlines()[0][:40]}'", why))
    return left_out_of(skipped, split.documents)


@dataclass(frozen=True)
class Example:
    """A held-out pair, and what the model writes for its source."""

    source: str
    target: str
    written: str


@dataclass(frozen=True)
class Way:
    """A way to search for translations, and how good they are."""

    beams: int
    length_penalty: float
    bleu: Scored
    chrf: Scored


@dataclass(frozen=True)
class Ways:
    """How good translations of held-out pairs are, the best way to search first."""

    pairs: int
    ways: list[Way]


@dataclass(frozen=True)
class Alignment:
    """How often an alignment of words errs, by where it is from."""

    pairs: int
    layer: int
    error_rates: dict[str, float]


@dataclass(frozen=True)
class Attention:
    """Where each token of a target looks in its source: (T, S) weights of a layer, counted from 1."""

    layer: int
    source: list[str]
    target: list[str]
    weights: list[list[float]]


@dataclass(frozen=True)
class Translations:
    """What a model of pairs writes.

    Attributes:
        known: None where the batches do not tell.
        scores: None without sacrebleu.
    """

    examples: list[Example]
    known: Known | None = field(default=None, metadata=OPTIONAL)
    scores: Ways | None = field(default=None, metadata=OPTIONAL)


@dataclass(frozen=True)
class AttendedTranslations(Translations):
    """The same of an encoder–decoder: where it looks. `alignment`: where the true one is known."""

    alignment: Alignment | None = None
    attention: Attention | None = None


def translations(model: LanguageModel, dataset: Dataset, recipe: Recipe) -> Translations:
    """Let the model translate held-out sources, and look into it where it is an encoder–decoder."""
    tokenizer = dataset.tokenizer
    held_out = sides(dataset.validation, recipe, tokenizer, SHOWN)
    translator = Translator(model, tokenizer, recipe.batches)
    written = translator.translate([one for one, _ in held_out], Search())
    examples = [
        Example(tokenizer.decode(source), tokenizer.decode(target), best[0].text)
        for (source, target), best in zip(held_out, written, strict=True)
    ]
    known, scores = known_there(dataset.validation, dataset, recipe), None
    with suppress(MissingExtra):
        scores = scored(translator, sides(dataset.validation, recipe, tokenizer, SCORED))
    if not isinstance(model, EncoderDecoder):
        return Translations(examples, known, scores)
    start, end = tokenizer.start, tokenizer.end
    assert end is not None
    attended = Attended(model.cpu(), recipe.model, start=end if start is None else start, end=end)
    look, alignment = aligned(attended, dataset, recipe)
    attention = shown_attention(attended, held_out, look, tokenizer)
    return AttendedTranslations(examples, known, scores, alignment, attention)


def known_there(split: Split, dataset: Dataset, recipe: Recipe) -> Known | None:
    """How many pairs a held-out split has, and how many of their sources were learned from; None where the batches do
    not tell."""
    held_out, train = (stream_of(one, recipe, dataset.tokenizer) for one in (split, dataset.train))
    return recipe.batches.known(train, held_out)


def scored(translator: Translator, pairs: Sequence[Sides], searches: Sequence[Search] = SEARCHES) -> Ways:
    """BLEU and chrF of held-out pairs in several ways to search, the best way by BLEU first. It is chosen on these
    pairs, so a figure to quote comes from others. Raises MissingExtra without sacrebleu."""
    tokenizer = translator.tokenizer
    references = [one_line(tokenizer.decode(target)) for _, target in pairs]
    judged(references[:1], references[:1])  # may raise: now, not after the translation
    ways = []
    for search in searches:
        texts = [best[0].text for best in translator.translate([source for source, _ in pairs], search)]
        scores = judged(texts, references)
        ways.append(Way(**asdict(search), bleu=scores.bleu, chrf=scores.chrf))
    return Ways(len(pairs), sorted(ways, key=lambda way: -way.bleu.score))


def chosen_search(translations: Mapping[str, Any]) -> Search:
    """The best way of a stored evaluation; the usual one, where none was measured."""
    ways = (translations.get("scores") or {}).get("ways")
    return Search(ways[0]["beams"], ways[0]["length_penalty"]) if ways else Search()


def aligned(attended: Attended, dataset: Dataset, recipe: Recipe) -> tuple[Look, Alignment | None]:
    """Which attention says best where words come from, and how often it errs, beside IBM model 1 and the diagonal.
    Where the truth is not known: attention of the last layer.

    What is taken is chosen on training pairs, and judged on held-out ones.
    """
    of_words = {side.kind for side in recipe.tokenizer.sides} == {"word"}
    if recipe.corpus.kind != "bilingual" or not of_words:
        return Look(attended.layers - 1, 0), None
    tokenizer, backwards = dataset.tokenizer, recipe.corpus.to == "pidgin"
    learned = sides(dataset.train, recipe, tokenizer)
    first, judged = learned[:CHOSEN_ON], sides(dataset.validation, recipe, tokenizer, JUDGED)
    look = attended.chosen(first, [truth_of(one, tokenizer, backwards=backwards) for one in first])
    truths = [truth_of(one, tokenizer, backwards=backwards) for one in judged]
    words = WordModel(learned)
    ways: dict[str, Callable[[Sides], list[int]]] = {
        "attention": lambda one: attended.align(one, look),
        "ibm1": lambda one: words.align(*one),
        "diagonal": lambda one: diagonal(*one),
    }
    errors = {name: error_rate(map(way, judged), truths) for name, way in ways.items()}
    return look, Alignment(len(judged), look.layer + 1, errors)


def truth_of(pair: Sides, tokenizer: Tokenizer, *, backwards: bool) -> Truth:
    """The true alignment of a pair that the grammar wrote."""
    source, target = (tokenizer.decode(side) for side in pair)
    known = explained(target, source) if backwards else explained(source, target)
    assert known is not None, "the grammar wrote it"
    both = known.sure, known.possible
    return Truth(*(frozenset((b, a) for a, b in links) if backwards else links for links in both))


def shown_attention(
    attended: Attended, pairs: Sequence[Sides], look: Look, tokenizer: Tokenizer
) -> Attention:
    """Of the longest held-out pair that fits a plot: tokens, and how much each target token looks at each place."""
    fitting = [one for one in pairs if max(map(len, one)) <= PLOTTED] or [
        min(pairs, key=lambda one: len(one[1]))
    ]
    source, target = max(fitting, key=lambda one: len(one[1]))
    weights = attended.weights(source, target)[look.layer, look.after : look.after + len(target)]
    return Attention(
        layer=look.layer + 1,
        source=[tokenizer.token_text(int(one)) for one in source],
        target=[tokenizer.token_text(int(one)) for one in target],
        weights=[[round(float(weight), 4) for weight in row] for row in weights],
    )


def source_floor(recipe: Recipe, dataset: Dataset) -> float | None:
    """Nats per target token of the held-out pairs under the grammar that wrote them, which no model can beat. None for
    other pairs."""
    if recipe.corpus.kind != "bilingual" or recipe.cleaning:
        return None
    if recipe.corpus.to == "pidgin":
        return 0.0  # of each English sentence there is one
    tokenizer, total, tokens = dataset.tokenizer, 0.0, 0
    for source, target in sides(dataset.validation, recipe, tokenizer):
        known = explained(tokenizer.decode(source), tokenizer.decode(target))
        assert known is not None, "the grammar wrote it"
        total -= known.log_probability
        tokens += len(target) + 1
    return total / tokens


def samples_of(model: LanguageModel, dataset: Dataset, recipe: Recipe) -> list[str]:
    """Each prompt of the recipe, as a source, and its translation; without one, a held-out source."""
    tokenizer, prompts = dataset.tokenizer, recipe.sampling.prompts
    if prompts == ("",):
        prompts = tuple(
            tokenizer.decode(source) for source, _ in sides(dataset.validation, recipe, tokenizer, 1)
        )
    translator = Translator(model, tokenizer, recipe.batches)
    translations = translator.translate(
        [translator.ids(prompt, f"The prompt '{prompt}'") for prompt in prompts], Search()
    )
    return [f"{prompt}\n{best[0].text}" for prompt, best in zip(prompts, translations, strict=True)]
