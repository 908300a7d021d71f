"""How many records of a model are valid, and where and why the others go wrong; and records of n-grams, its control."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from octavo.config import Recipe
from octavo.corpus.validators.base import Validator, Verdict
from octavo.data import Dataset
from octavo.evaluation.samples import GeneratedTexts
from octavo.generation.constrain import Referee
from octavo.ngram.kneser_ney import KneserNey, best_order
from octavo.util.records import OPTIONAL
from octavo.util.stats import wilson


@dataclass(frozen=True)
class FirstWrong:
    """Where a record that is not valid goes wrong, and why."""

    symbol: int | None
    why: str


@dataclass(frozen=True)
class Checked:
    """How many of some records are valid.

    Attributes:
        interval: of their share, 95 %.
        typical: of the others, the one whose first wrong symbol stands at the median place; None where there is none.
        order: of the n-grams that wrote them, if these did.
    """

    records: int
    valid: int
    interval: tuple[float, float]
    typical: FirstWrong | None = None
    order: int | None = field(default=None, metadata=OPTIONAL)


@dataclass(frozen=True)
class Validity:
    """Of the model's records, of held-out ones, and of those that n-grams write."""

    generated: Checked
    held_out: Checked
    control: Checked | None = field(default=None, metadata=OPTIONAL)


def judged(validator: Validator, records: Iterable[tuple[Sequence[str], bool]]) -> Checked:
    """Check records, each with whether it came to its end; one that did not is not valid."""
    verdicts = []
    for record, ended in records:
        verdict = validator.check(record)
        late = verdict.valid or verdict.wrong == len(record) + 1  # nothing was wrong so far
        if not ended and late:
            verdict = Verdict(False, len(record) + 1, f"it has no end after {len(record)} symbols")
        verdicts.append(verdict)
    wrong = sorted((one for one in verdicts if not one.valid), key=lambda one: one.wrong or 0)
    typical = wrong[(len(wrong) - 1) // 2] if wrong else None
    valid = len(verdicts) - len(wrong)
    first = None if typical is None else FirstWrong(typical.wrong, typical.why)
    return Checked(len(verdicts), valid, wilson(valid, len(verdicts)), first)


def following(model: KneserNey, contexts: np.ndarray, *, order: int) -> np.ndarray:
    """(S, V) probabilities of the token after each of contexts (S, ≤ order − 1)."""
    count, size = len(contexts), model.vocab_size
    each = np.repeat(contexts, size, axis=0)
    tried = np.column_stack((each, np.tile(np.arange(size), count)))
    probabilities = model.probabilities(tried.ravel())[
        order - 1
    ]  # the last of a chunk looks back no further than the chunk
    return probabilities.reshape(count, size, -1)[:, :, -1]


def written_by_ngrams(
    train: np.ndarray, *, vocab_size: int, order: int, end: int, count: int, length: int, seed: int
) -> list[tuple[list[int], bool]]:
    """Records drawn from n-grams, the control of a model's: ids without the end, and whether they came to it. Each
    begins where a record of the training text does."""
    model = KneserNey(train, vocab_size=vocab_size, highest=order)
    order = model.highest
    begins = np.flatnonzero(train == end)[order:]
    random = np.random.Generator(np.random.Philox(key=seed))
    if not len(begins):
        return []
    text = np.stack([train[at - order + 2 : at + 1] for at in random.choice(begins, count)])  # (S, order − 1)
    written: list[list[int]] = [[] for _ in range(count)]
    going = np.arange(count)
    for _ in range(length):
        total = following(model, text[going], order=order).cumsum(axis=1)
        chosen = (random.random(len(going))[:, None] * total[:, -1:] >= total).sum(axis=1)
        chosen = np.minimum(chosen, vocab_size - 1)
        if order > 1:
            text[going] = np.column_stack((text[going, 1:], chosen))
        for row, token in zip(going.tolist(), chosen.tolist(), strict=True):
            written[row].append(token)
        going = going[chosen != end]
        if not len(going):
            break
    return [(ids[:-1], True) if ids[-1] == end else (ids, False) for ids in written]


# Whether what a model writes is valid, for its evaluation: beside n-grams, and held-out records.

COUNTED = 500_000
"""Training tokens that the n-grams of the control are counted on: the last ones."""
CONTROLS = 50
"""Records that the n-grams write."""
HELD_OUT = 200
"""Held-out records that are checked."""


def validity(written: GeneratedTexts, dataset: Dataset, recipe: Recipe) -> Validity | None:
    """None where the recipe names no validator."""
    validator, tokenizer = recipe.validator.build(recipe.corpus), dataset.tokenizer
    if validator is None:
        return None
    referee = Referee(validator, tokenizer)
    own = judged(
        validator, [(referee.record(sample.ids), sample.finish == "end") for sample in written.samples]
    )
    split, edges = dataset.validation, np.append(dataset.validation.starts, len(dataset.validation.tokens))
    chosen = np.unique(np.linspace(0, split.documents - 1, min(HELD_OUT, split.documents)).astype(int))
    texts = [split.tokens[int(edges[at]) : int(edges[at + 1])] for at in chosen]
    held_out = judged(validator, [(referee.record(ids.tolist()), True) for ids in texts])
    if tokenizer.end is None:
        return Validity(own, held_out)
    train = np.asarray(dataset.train.tokens[-COUNTED:])
    order = best_order(train, vocab_size=tokenizer.vocab_size, highest=8)
    controls = written_by_ngrams(
        train,
        vocab_size=tokenizer.vocab_size,
        order=max(order, 1),
        end=tokenizer.end,
        count=CONTROLS,
        length=written.tokens,
        seed=recipe.seed,
    )
    if not controls:
        return Validity(own, held_out)
    control = judged(validator, [(referee.record(ids), ended) for ids, ended in controls])
    return Validity(own, held_out, replace(control, order=order))


def validity_sentence(validity: Mapping[str, Any]) -> str:
    """The sentence for the verdict."""
    own = validity["generated"]
    low, high = own["interval"]
    sentence = (
        f"{own['valid'] / own['records']:.1%} of {own['records']} records that it wrote are valid "
        f"({low:.1%} to {high:.1%})"
    )
    if own["typical"]:
        sentence += (
            f"; typically first wrong at symbol {own['typical']['symbol']}, because {own['typical']['why']}"
        )
    beside = []
    if control := validity.get("control"):
        beside.append(f"{control['valid'] / control['records']:.0%} of those of {control['order']}-grams")
    held_out = validity["held_out"]
    beside.append(f"{held_out['valid'] / held_out['records']:.0%} of held-out ones")
    return f"{sentence}. Beside that: {', '.join(beside)}."
