"""What is known of a text before anything is trained on it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from octavo.auto.family import (
    BYTES,
    ENOUGH_HELD_OUT,
    HELD_OUT,
    HELD_OUT_A_SECOND,
    MOST_HELD_OUT,
    N_GRAMS,
    PAIRS,
    RECENT,
    SIZES,
    counts_here,
    dropout_for,
    parameters_of,
    recipe_of,
)
from octavo.config import Recipe, check, override_key, override_words
from octavo.corpus.languages import spoken
from octavo.data import Dataset
from octavo.errors import CorpusError, InputError, MissingExtra
from octavo.evaluation.baselines import HIGHEST, LIMIT, unigram_loss
from octavo.evaluation.reading_on import reading_on
from octavo.model.base import build_model
from octavo.ngram.codes import MOST_SYMBOLS, Codes
from octavo.ngram.gate import best_weights, one_thread
from octavo.ngram.kneser_ney import KneserNey, best_order
from octavo.ngram.mixing import READING, ContextMixing, context_mixing
from octavo.ngram.mixing_counts import MOST_HEARD, Mixer, MixingCounts, MixingCountsConfig
from octavo.ngram.mixture import CountedText
from octavo.ngram.recent import Texts
from octavo.run.data import (
    Paths,
    build_batches,
    build_dataset,
    evaluated_on,
    held_out_of,
    rows_at_once,
    with_rows_held_out,
)
from octavo.run.evaluate import evaluate_split, evaluated_by
from octavo.run.settings import resolve
from octavo.task import task_of
from octavo.training.device import Runtime, keep_memory
from octavo.training.loop import training_steps
from octavo.training.step import StepOptions
from octavo.util.processes import Meanwhile
from octavo.util.terminal import Console

QUARTILES = 1.349
"""Standard deviations between the quartiles of a normal distribution."""
MARGIN = 0.02
"""By how much pairs must be better: where a text turns to words that it did not have before, as the last plays of
TinyShakespeare do, they lose more than bytes, and what is held out beside the training text does not tell."""
LONG = 3_000_000
"""Bytes from which on a text is first read as pairs: they are likely to be better there, and are counted sooner."""
MOST_MIXING, VALIDATIONS = 2.5, 2
"""What a context mixer may take in all, in shares of the time for reading; and how often it reads the validation
split."""
USUAL, SLOWEST, TOLD = 6e-6, 3.0, 65_536
"""Seconds for each unit on the processor that this share was chosen on; how many times slower one may be, which is
found out where it matters; and tokens that tell."""
UNHURRIED = 20.0
"""Seconds for reading from which on languages are told apart, which takes most of a second."""
PLACES, EARLIEST = 8, 0.3
"""Of a training text at which what follows is compared with what comes after that, and from which share of it on."""
HARDER = 0.03
"""Bits per byte by which the end of a text is harder for n-grams, in the middle, than what stands before it; not for a
context mixer, which has read that by then."""
PROSE, PLACES_APART, OWN = 0.095, 0.06, 0.6
"""The standard deviation of that, in bits per byte, of prose whose places in its middle differ from each other by so
many, and the power by which a text's own places tell of its end: an index or a letter there shows nowhere before."""
CODE, PLAIN_BITS, EASY, EASIEST = 0.21, 1.8, 0.1, 0.4
"""The same of code and markup with so many bits per byte, and the power by which an easier one's is larger, down to so
many: what repeats itself may end in something new. Its places tell nothing. Fitted by `benchmarks/endings.py`."""
SYMBOLS, FEW_SYMBOLS, MANY_SYMBOLS = "{}[]<>=_\\|&*+#$%@^~`/", 0.01, 0.03
"""Characters of code and markup, and their share of a text up to which it is prose and from which on it is not."""
JUDGED = 200_000
"""Tokens at most that n-grams are judged by."""
TELLING = 0.005
"""The share by which counting must be better than how often each token comes, or nothing tells what comes next."""
BEGIN = 20_000
"""Tokens of the validation split, from its beginning, that a model is judged by before it learns."""


@dataclass(frozen=True)
class TextFacts:
    """A text's size, and how hard it is.

    Attributes:
        tokenizer: what the text was read as, as plain data.
        documents: of the training split.
        duplicates: documents that stood there before, and were left out.
        alphabet: different characters of the training split (of a long text, of its beginning).
        train_tokens, validation_tokens, test_tokens, vocabulary: of this tokenizer.
        train_bytes, validation_bytes: UTF-8.
        counted: bits per byte of counting alone on the validation split: of a context mixer that reads on, or where
            there is no compiler for one, of the best n-gram with what the text has said so far.
        counts: what counts beside the models of the family, as plain data.
        start: bits per byte there of a model before its first step.
        idle: whether no token tells what comes after it, as in random letters.
        token_seconds: that counting takes for a token.
        drift: how much harder than the validation split the test split should be, in bits per byte; 0 where documents
            are held out by chance.
        spread: standard deviation of that.
        held_out: share of the text for the validation split, and for the test split.
        symbols: of its characters, the share of `SYMBOLS` (of a long text, of its beginning).
        languages: of the training split, code → share, by samples; empty where they were not looked at.
        others: bits per byte of counting by the kind of tokenizer, where the text was read in another way too.
        piloted: what a pilot had after its steps, as a share of what it had before; None without one.
        pilot_steps: these.
        pilot_seconds: that it took.
    """

    tokenizer: Mapping[str, Any]
    documents: int
    duplicates: int
    alphabet: int
    train_tokens: int
    validation_tokens: int
    test_tokens: int
    train_bytes: int
    validation_bytes: int
    vocabulary: int
    counted: float
    counts: Mapping[str, Any]
    start: float
    idle: bool
    token_seconds: float
    drift: float
    spread: float
    held_out: float = HELD_OUT
    symbols: float = 0.0
    languages: Mapping[str, float] = field(default_factory=dict)
    others: Mapping[str, float] = field(default_factory=dict)
    piloted: float | None = None
    pilot_steps: int = 0
    pilot_seconds: float = 0.0

    @property
    def mixed(self) -> bool:
        """Whether a context mixer counted."""
        return self.counts["kind"] == "mixing"

    @property
    def bytes_per_token(self) -> float:
        """Mean over the training split."""
        return self.train_bytes / self.train_tokens


def survey(
    text: Paths | None,
    overrides: Iterable[str] | Mapping[str, Any],
    console: Console,
    *,
    seconds: float = math.inf,
) -> tuple[TextFacts, Pilot]:
    """The best of a text's `readings`, beside the others; and a model of it that has not learned yet. Another thread
    counts the baselines of a run on this reading, for there are cores to spare."""
    best, *others = readings(text, overrides, console, seconds=seconds)
    refuse_too_short(best.dataset, best.recipe)
    task_of(best.recipe).count_ahead(best.dataset, best.recipe)
    facts, pilot = best.facts, Pilot(best)
    if seconds >= UNHURRIED:
        facts = replace(facts, languages=languages_of(best.dataset.train.text_path))
    if not facts.mixed:
        facts = replace(facts, start=pilot.before * best.tokens_a_byte * whole_to_beginning(best))
    return replace(facts, others={each.facts.tokenizer["kind"]: each.facts.counted for each in others}), pilot


def refuse_too_short(dataset: Dataset, recipe: Recipe) -> None:
    """Raise InputError for a text in which no model of a recipe can learn, or nothing can be judged on the test
    split."""
    learned, own = len(dataset.train.tokens), recipe.model.context
    context = own if own != SIZES[0].context else min(size.context for size in SIZES)
    held_out = None if dataset.test is None else len(dataset.test.tokens)
    if learned > context and (held_out is None or held_out >= 2):
        return
    what = (
        f"{learned:,} tokens are left to learn from, and the smallest model reads {context:,} at once"
        if learned <= context
        else f"the test split has {held_out:,} of its tokens, and 2 are the least"
    )
    raise InputError(
        f"The text is too short for --minutes: {what}.",
        remedy="more text; or octavo train --text PATH, without minutes, with a shorter model.context",
    )


def with_pilot(facts: TextFacts, pilot: Pilot, most_seconds: float, console: Console) -> TextFacts:
    """The facts with what a pilot tells that learns for about so many seconds, if there is time for one."""
    steps = pilot.steps_in(most_seconds)
    share = pilot.share(steps, console, most_seconds=SLOWER * most_seconds) if steps else None
    return replace(facts, piloted=share, pilot_steps=steps, pilot_seconds=pilot.seconds)


def piloted_in(facts: TextFacts, seconds: float) -> TextFacts:
    """What is known in a time of which a pilot may take so many seconds, where one of a longer time has learned."""
    if LEAST * facts.pilot_seconds > facts.pilot_steps * seconds:
        return replace(facts, piloted=None, pilot_steps=0, pilot_seconds=0.0)
    return replace(facts, pilot_seconds=min(facts.pilot_seconds, seconds))


class Reading(NamedTuple):
    """A text as one tokenizer reads it, the recipe that it was read by, and what was counted of it: a run need not
    count it anew."""

    facts: TextFacts
    dataset: Dataset
    recipe: Recipe
    counts: CountedText

    @property
    def tokens_a_byte(self) -> float:
        """Tokens of the validation split that are predicted, for each of its bytes."""
        return tokens_a_byte(self.dataset)


def tokens_a_byte(dataset: Dataset) -> float:
    """Tokens of a dataset's validation split that are predicted, for each of its bytes."""
    return (len(dataset.validation.tokens) - 1) / dataset.validation.bytes


def readings(
    text: Paths | None,
    overrides: Iterable[str] | Mapping[str, Any],
    console: Console,
    *,
    seconds: float = math.inf,
) -> list[Reading]:
    """Read a text as the family's recipes do, with the caller's own settings on top: as bytes where a context mixer
    counts, which knows words by itself, of so much of a long text as goes into its share of so many `seconds`; as bytes
    and as byte pairs where n-grams do, for there is no compiler.

    The first is the one of which counting alone has fewer bits per byte, for with it models do better, too; pairs need
    fewer by `MARGIN`. A long text is read as pairs alone, if bytes would take too long. The datasets stay in the cache.
    Raises what reading a text raises: too short to hold anything out, no such file, and so on.
    """
    began, held_out = time.monotonic(), HELD_OUT

    def read(way: Mapping[str, Any], counts: Mapping[str, Any] | None = None) -> tuple[Dataset, Recipe]:
        tree = recipe_of(SIZES[0], steps=1, tokenizer=way, counts=counts, held_out=held_out)
        recipe = resolve(tree, text, overrides)
        return build_dataset(recipe, console), recipe

    def known(dataset: Dataset, recipe: Recipe, way: Mapping[str, Any]) -> Reading:
        found = counted(dataset, recipe, way)
        return found._replace(facts=replace(found.facts, held_out=held_out))

    first, usual = read(BYTES), seconds
    is_mixed = isinstance(first[1].model.counts, MixingCountsConfig)
    if is_mixed and read_in(seconds, first[0]) < SLOWEST * first[0].train.bytes:
        usual *= min(1.0, USUAL / unit_seconds_here(first[0]))
    most_held_out = min(MOST_HELD_OUT, max(ENOUGH_HELD_OUT, HELD_OUT_A_SECOND * usual))
    if HELD_OUT * first[0].train.bytes > most_held_out:
        held_out = most_held_out / first[0].train.bytes
        first = read(BYTES)
    if is_mixed and (most := read_in(usual, first[0])) < first[0].train.bytes:
        first = read(BYTES, counts_here(int(most)))
    if is_mixed or any(override_key(word).split(".")[0] == "tokenizer" for word in override_words(overrides)):
        task_of(first[1]).count_ahead(*first)  # while one core reads
        return [known(*first, BYTES)]
    if first[0].train.bytes <= LONG:  # both at once
        as_bytes = Meanwhile(lambda: known(*first, BYTES))
        found = [known(*read(PAIRS), PAIRS), as_bytes.result()]
    else:  # bytes take twice as long as pairs, and are unlikely to be better
        found = [known(*read(PAIRS), PAIRS)]
        if 2 * (time.monotonic() - began) < seconds:
            found.append(known(*first, BYTES))
    return sorted(found, key=lambda each: each.facts.counted * (1 + MARGIN * (each.facts.tokenizer is PAIRS)))


def read_in(seconds: float, dataset: Dataset) -> float:
    """Bytes of a training split that a context mixer reads, with so many seconds for reading, besides the held-out
    ones."""
    held_out = VALIDATIONS * dataset.validation.bytes + (dataset.test.bytes if dataset.test else 0)
    return max(MOST_HEARD, MOST_MIXING * seconds / READING - held_out)


def unit_seconds_here(dataset: Dataset) -> float:
    """Seconds that a context mixer takes here for each unit of a training split: it reads the beginning, by tables that
    are as large as all of it needs. As usual where that is too short to tell."""
    size, tokens = dataset.tokenizer.vocab_size, np.asarray(dataset.train.tokens[:TOLD]).astype(np.int32)
    if size > MOST_SYMBOLS:  # which no mixer takes
        return USUAL
    codes = Codes.of(np.bincount(tokens, minlength=size), dataset.tokenizer.spelt())
    mixer = context_mixing(codes, capacity=max(len(dataset.train.tokens), codes.taken_by(tokens)))
    if not isinstance(mixer, ContextMixing):
        return USUAL
    mixer.unit_seconds = USUAL
    mixer.read(tokens)
    return mixer.unit_seconds


def counted(dataset: Dataset, recipe: Recipe, tokenizer: Mapping[str, Any]) -> Reading:
    """A dataset that was made with a tokenizer, with what counting alone tells of it."""
    train, validation, vocabulary = dataset.train, dataset.validation, dataset.tokenizer.vocab_size
    counts = recipe.model.counts.build(width=recipe.model.width, vocab_size=vocabulary)
    began = time.thread_time()
    counts.take_text(train.tokens, held_out_of(recipe, dataset), spelt=dataset.tokenizer.spelt)
    counts.eval()
    tokens, read = np.asarray(validation.tokens), len(train.tokens)
    if isinstance(counts, MixingCounts):
        read = len(counts.tokens)
        bits = reading(counts.alone, tokens)
        own = unlike(counts.nats / math.log(2), len(tokens))
    else:
        bits, own = by_ngrams(np.asarray(train.tokens[-LIMIT:]), tokens, vocab_size=vocabulary), 0.0
    taken = (time.thread_time() - began) / (read + len(tokens))
    alone = bits * tokens_a_byte(dataset)
    unigrams = unigram_loss(np.asarray(train.tokens), tokens, vocab_size=vocabulary) / math.log(2)
    characters, symbols = characters_of(train.text_path)
    facts = TextFacts(
        tokenizer=tokenizer,
        documents=len(train.starts),
        duplicates=dataset.manifest["duplicates_removed"],
        alphabet=characters,
        train_tokens=len(train.tokens),
        validation_tokens=len(tokens),
        test_tokens=len(dataset.test.tokens) if dataset.test else 0,
        train_bytes=train.bytes,
        validation_bytes=validation.bytes,
        vocabulary=vocabulary,
        counted=alone,
        counts=recipe.model.counts.model_dump(exclude_unset=True)
        if isinstance(counts, MixingCounts)
        else N_GRAMS,
        start=alone,
        idle=bits > (1 - TELLING) * unigrams,
        token_seconds=taken,
        drift=0.0,
        spread=own * tokens_a_byte(dataset),
        symbols=symbols,
    )
    if dataset.manifest["split"] in ("contiguous", "files"):
        spread = float(end_spread(facts.spread, facts.counted, symbols))
        drift = 0.0 if isinstance(counts, MixingCounts) else HARDER
        facts = replace(facts, drift=drift, spread=spread)
    return Reading(facts, dataset, recipe, counts)


def reading(mixer: Mixer, tokens: np.ndarray) -> float:
    """Bits of each token of a text (N,) but the first, by a mixer that reads on in it."""
    units = int(mixer.codes.lengths[tokens].sum(dtype=np.int64))
    return float(mixer.copy(more=units).read(tokens)[1:].astype(np.float64).mean()) / math.log(2)


def whole_to_beginning(read: Reading) -> float:
    """What n-grams have on all of the validation split, divided by what they have on its beginning, by which a model is
    judged that has not learned."""
    tokens, train = (np.asarray(split.tokens) for split in (read.dataset.validation, read.dataset.train))
    if len(tokens) <= BEGIN:
        return 1.0
    begun = by_ngrams(train[-LIMIT:], tokens[:BEGIN], vocab_size=read.facts.vocabulary)
    return read.facts.counted / (begun * read.tokens_a_byte)


def by_ngrams(train: np.ndarray, tokens: np.ndarray, *, vocab_size: int) -> float:
    """The same by the best n-gram of a training text."""
    order = best_order(train, vocab_size=vocab_size, highest=HIGHEST)
    model = KneserNey(train, vocab_size=vocab_size, highest=order)
    return float(counting(model, tokens, spaced(1, len(tokens), JUDGED)).mean())


def unlike(bits: np.ndarray, length: int) -> float:
    """By how much what comes after the next so many tokens of a text differs from these, in bits per token: the
    standard deviation over places all over the text (N,), of which each token had so many bits when it was read; 0
    where it is too short. A validation split is the next piece of a training text, a test split the one after it."""
    first, last = int(EARLIEST * len(bits)), len(bits) - 2 * length
    if length < 2 or last < max(first, 2):
        return 0.0
    sums = np.concatenate(([0.0], np.cumsum(bits, dtype=np.float64)))
    at = np.linspace(first, last, PLACES).astype(int)
    near, far = (sums[at + end] - sums[at + end - length] for end in (length, 2 * length))
    # Quartiles, for a title page is no outlier worth counting.
    low, high = np.percentile((far - near) / length, (25, 75))
    return float(high - low) / QUARTILES


def end_spread(
    own: Any,
    bits: Any,
    symbols: Any,
    *,
    prose: float = PROSE,
    power: float = OWN,
    code: float = CODE,
    easy: float = EASY,
) -> Any:
    """The standard deviation of how much harder than what stands before it the end of a text is: from that of places in
    its middle (0 where it is too short to have any), from its bits per byte, and from its share of symbols, by which
    it is prose, code, or between them. Numbers, or arrays (n,) of as many texts."""
    share = np.clip((symbols - FEW_SYMBOLS) / (MANY_SYMBOLS - FEW_SYMBOLS), 0, 1)
    in_prose = prose * np.where(np.equal(own, 0), 1.0, own / PLACES_APART) ** power
    in_code = code * (PLAIN_BITS / np.maximum(bits, EASIEST)) ** easy
    return in_prose ** (1 - share) * in_code**share


def languages_of(text: Path) -> dict[str, float]:
    """Shares of a text by their codes; none without what tells languages apart (extra: data)."""
    try:
        return spoken(text)
    except MissingExtra:
        return {}


def characters_of(text: Path) -> tuple[int, float]:
    """Different characters, line breaks aside, and the share of symbols in the first `LONG` bytes of a UTF-8 file."""
    with text.open("rb") as file:
        read = file.read(LONG).decode("utf-8", errors="ignore")
    return len(set(read) - {"\n", "\r"}), sum(map(read.count, SYMBOLS)) / max(1, len(read))


def counting(model: KneserNey, tokens: np.ndarray, places: np.ndarray) -> np.ndarray:
    """(n,) bits of the tokens at some places (n,) of a text (N,): the n-gram model's, mixed with what the text has said
    so far by the share that is best for them all."""
    counted = model.probabilities(tokens)[-1][places]
    said, rest = Texts.at(tokens, places, most=RECENT, vocab_size=model.vocab_size).shares_of(tokens[places])
    both = np.stack((counted, said + rest * counted), axis=1)
    mixed, alone = -np.log2(both @ best_weights(both)), -np.log2(counted)
    return mixed if mixed.mean() < alone.mean() else alone  # a share of nothing is found slowly


def spaced(first: int, end: int, most: int) -> np.ndarray:
    """Places from `first` on before `end`, all or so many of them, evenly."""
    return np.unique(np.linspace(first, end - 1, min(most, end - first)).astype(np.int64))


LEAST, MOST = 300, 1200
"""Steps of a pilot: as the shortest runs that the law was fitted on, which tell whether a text is of another kind, and
as many as tell what can be learned of a text about as well as all of a training would. Beside a context mixer, where
texts' ends differ by far more than what is learned of them, the fewest."""
TRIED = 10
"""Steps that are timed before it is known how many there are."""
SHORTEST = 2.0
"""Seconds that LEAST steps take anywhere (10 to 40 ms each): where there are fewer, none is tried, which takes half a
second itself."""
SLOWER = 2.0
"""How much longer than that a pilot may take before it is given up."""
SIZE = SIZES[0]
QUIET = Console(quiet=True)


class Pilot:
    """The smallest model on a text.

    Attributes:
        seconds: that learning took, with judging.
    """

    def __init__(self, read: Reading) -> None:
        keep_memory()
        self.dataset, self.counts, self.facts = read.dataset, read.counts, read.facts
        self.runtime, self.seconds = Runtime(torch.device("cpu"), "float32", 1), 0.0
        self._steps = 0

    @cached_property
    def before(self) -> float:
        """Bits per token on the beginning of the validation split before it learns: of what counts alone, for the
        network says nothing yet."""
        with one_thread():
            self._build(LEAST)
            return self._bits()[0]

    @property
    def most(self) -> int:
        """Steps that are of use."""
        return LEAST if self.facts.mixed else MOST

    def steps_in(self, seconds: float) -> int:
        """How many steps it learns for in so many seconds; 0 where they are too few to tell anything, or the text is
        too short for them."""
        if seconds < SHORTEST:
            return 0
        began = time.monotonic()
        with one_thread():
            self._build(LEAST)
            learned = self._learn(1, math.inf, QUIET)  # the first step prepares what others use
            warm = time.monotonic()
            learned = learned and self._learn(TRIED, math.inf, QUIET)
        now = time.monotonic()
        self.seconds += now - began
        steps = min(self.most, int(seconds * TRIED / (now - warm))) if learned else 0
        return steps if steps >= LEAST else 0

    def share(self, steps: int, console: Console, *, most_seconds: float = math.inf) -> float | None:
        """What it has after a training of so many steps, as a share of what it had before; None where that takes
        longer than so many seconds, or the text is too short."""
        began = time.monotonic()
        with one_thread(), console.working("a pilot learns", steps):
            self._build(steps)
            alone = 0.0 if isinstance(self.model.counts, MixingCounts) else self._bits()[0]
            learned = self._learn(steps, most_seconds, console)
            before, after = self._bits() if learned else (1.0, 0.0)
        self.seconds += time.monotonic() - began
        return after / (alone or before) if learned else None

    def _build(self, steps: int) -> None:
        """A model that has not learned yet, for so many steps."""
        dataset, vocabulary = self.dataset, self.dataset.tokenizer.vocab_size
        passes = steps * SIZE.step_tokens / len(dataset.train.tokens)
        dropout = dropout_for(passes, parameters_of(SIZE, vocabulary) / len(dataset.train.tokens))
        recipe = check(
            recipe_of(
                SIZE,
                steps=steps,
                dropout=dropout,
                tokenizer=self.facts.tokenizer,
                counts=self.facts.counts,
            )
        )
        self.recipe = evaluated_by(recipe, BEGIN)
        model = build_model(recipe.model, vocab_size=vocabulary, seed=recipe.seed)
        self.held_out = held_out_of(recipe, dataset)
        model.take_text(dataset.train.tokens, self.held_out, spelt=dataset.tokenizer.spelt)
        self.model = model  # only now, for what the one before has counted need not be counted anew

    def _bits(self) -> tuple[float, float]:
        """Bits per token on the beginning of the validation split, of what counts alone and of the model; without a
        context mixer both are the model's."""
        split, tokenizer = self.dataset.validation, self.dataset.tokenizer
        if isinstance(self.model.counts, MixingCounts):
            rows = rows_at_once(self.recipe, tokenizer, self.runtime.device)
            batches = evaluated_on(split, self.recipe, tokenizer, rows=rows, limit=BEGIN)
            found = reading_on(self.model, batches, self.recipe.objective.build(), np.asarray(split.tokens))
            assert found is not None, "a text was taken"
            both = found.alone / found.tokens, found.total / found.tokens
        else:
            loss = evaluate_split(self.model, split, self.recipe, tokenizer, self.runtime).loss
            both = loss, loss
        return both[0] / math.log(2), both[1] / math.log(2)

    def _learn(self, steps: int, most_seconds: float, console: Console) -> bool:
        recipe, dataset = self.recipe, self.dataset
        try:
            batches = build_batches(recipe, dataset, QUIET, self.held_out)
            batches = with_rows_held_out(batches, self.held_out, recipe, dataset)
        except CorpusError:
            return False
        loop = training_steps(
            self.model,
            recipe.training.optimizer.build(self.model),
            batches.batch,
            steps=range(steps),
            seed=recipe.seed,
            schedule=recipe.training.schedule.build(steps=steps),
            objective=recipe.objective.build(),
            options=StepOptions(clip=recipe.training.clip),
        )
        began = time.monotonic()
        for step, _ in enumerate(loop, 1):
            console.advance(step, f"pilot: step {step:,} of {steps:,}")
            if time.monotonic() - began > most_seconds:
                return False
        return True
