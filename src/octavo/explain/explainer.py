"""A model as a piece of a page that runs it: weights, script, and what was measured.

    Subject → explained() → Explanation → `piece` of a report, or `page`, a whole file

Nothing is loaded from elsewhere, and the policy of the page forbids it.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from octavo.config import Recipe
from octavo.data.batch import Batch
from octavo.errors import CheckpointError
from octavo.explain.ablations import changes, difference, in_words, row_losses, variants
from octavo.explain.head_scores import head_scores
from octavo.explain.page_model import (
    as_packed,
    computed_tensors,
    counted_tensors,
    described,
    tokenizer_facts,
    trained_tensors,
)
from octavo.explain.page_weights import WeightType, listed, pack
from octavo.explain.timeline import chapter, with_weights
from octavo.generation.sampling import sampling_of
from octavo.model.gpt import GPT
from octavo.tokenizers import Tokenizer
from octavo.util.html import templates
from octavo.util.records import json_text
from octavo.util.stats import SAID

FORMAT = 1
LARGEST_FLOAT16 = 2_000_000
"""Parameters up to which weights travel as float16, where nothing else is said; above, as int8."""
EFFORT = 1.5e11
"""Floating-point operations that measuring may take; some 10 seconds."""
MOST = 30_000
"""Tokens that are measured on, at most."""
ROWS = 6
"""Rows that an interval needs; with fewer nothing is measured."""
BATCH = 8
STORY_TOKENS = 1500
"""Of the loss at each step that was kept."""
OPENING = 64
"""Tokens of the text that the page begins with, at most."""


@dataclass(frozen=True)
class Subject:
    """What is explained.

    Attributes:
        model: the network, in evaluation mode and on the CPU.
        batches: what it is evaluated on, in so many rows at once, from about so many tokens.
        chapters: steps whose weights were kept, and what reads these.
        texts: some that the source of the corpus may have written, for `floors`.
    """

    title: str
    step: int
    recipe: Recipe
    model: GPT
    tokenizer: Tokenizer
    batches: Callable[[int, int], Iterator[Batch[np.ndarray]]]
    left_out: tuple[str, ...] = ()
    chapters: Sequence[tuple[int, Callable[[], Mapping[str, Tensor]]]] = ()
    texts: Sequence[str] = ()

    @property
    def parameters(self) -> int:
        """Those of the network."""
        return sum(weights.size for weights in trained_tensors(self.model).values())


@dataclass(frozen=True)
class Explanation:
    """What a page is made of. `facts` is what `web/src/facts.ts` reads."""

    title: str
    facts: dict[str, Any]
    weights: bytes = field(repr=False)
    unread: tuple[str, ...] = ()
    """Why a step's weights are not on it, a sentence for each."""

    @property
    def bytes(self) -> int:
        """Of the piece in a page."""
        return len(self.piece())

    def sentences(self) -> list[str]:
        """What was measured, and what the page lacks."""
        found = []
        if (measured := self.facts["measured"]) is not None:
            cost = measured["packing"]
            found.append(
                f"{self.facts['weights']} weights change the loss by {cost['mean']:+.4f} ({SAID} {cost['low']:+.4f} to "
                f"{cost['high']:+.4f}), measured on {measured['tokens']:,} tokens"
            )
            name, change = max(measured["parts"].items(), key=lambda part: part[1]["mean"])
            found.append(f"most is lost without {in_words(name)}: {change['mean']:+.3f} {measured['unit']}")
        if "counts" in self.facts["left_out"]:
            found.append("the page shows the network alone: counts of the training text are not in it")
        return [*found, *(f"a step is left out: {sentence}" for sentence in self.unread)]

    def piece(self) -> str:
        """HTML for a page that has a block of styles of its own and `policy` in its head."""
        from markupsafe import Markup

        values = {
            "style": asset("explain.css"),
            "script": asset("explain.js"),
            "facts": json_text(self.facts).replace("<", "\\u003c"),
            "weights": base64.b64encode(self.weights).decode(),
        }
        marked = {name: Markup(value) for name, value in values.items()}  # noqa: S704 — our own
        return templates(Path(__file__).parent).get_template("explainer.html").render(**marked)

    def page(self) -> str:
        """A whole file."""
        from markupsafe import Markup

        shape = self.facts["config"]
        lead = (
            f"{self.facts['parameters']:,} parameters: {shape['layers']} blocks with {shape['heads']} heads, width "
            f"{shape['width']}, context {shape['context']}, {shape['vocab']:,} tokens."
        )
        report = Path(__file__).parents[1] / "report" / "style.css"
        return (
            templates(Path(__file__).parent)
            .get_template("page.html")
            .render(
                title=self.title,
                lead=lead,
                policy=policy(),
                report_style=Markup(report.read_text(encoding="utf-8")),  # noqa: S704 — our own
                piece=Markup(self.piece()),  # noqa: S704 — our own
            )
        )


@cache
def asset(name: str) -> str:
    """A built file, as it stands in the page."""
    text = (Path(__file__).parent / "assets" / name).read_text(encoding="utf-8").strip()
    assert "</script" not in text and "</style" not in text, f"{name} would end its own element"
    return text


@cache
def policy() -> str:
    """The Content-Security-Policy of a page with an explainer: its one script runs, and nothing is loaded."""
    digest = base64.b64encode(hashlib.sha256(asset("explain.js").encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}' 'wasm-unsafe-eval'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def explained(
    subject: Subject,
    *,
    weights: WeightType | Literal["auto"] = "auto",
    effort: float = EFFORT,
) -> Explanation:
    """Pack a model that a page can compute, measure what that costs and what its parts are worth."""
    model, config = subject.model, subject.recipe.model
    kind: WeightType = (
        weights if weights != "auto" else ("float16" if subject.parameters <= LARGEST_FLOAT16 else "int8")
    )
    trained = trained_tensors(model)
    packed = [(name, pack(tensor, kind)) for name, tensor in trained.items()]
    measured, heads = measure(subject, kind, effort)
    with as_packed(model, kind):
        computed = [(name, pack(tensor, "float32")) for name, tensor in computed_tensors(model).items()]
    computed += [(name, pack(tensor, "float32")) for name, tensor in counted_tensors(model).items()]
    if computed:  # from a grid's vectors comes a table, and the page needs that alone
        packed = [(name, tensor) for name, tensor in packed if name != "positions.vectors"]
    entries, deflated = listed([*packed, *computed])
    kept, unread = story(subject)
    facts = {
        "format": FORMAT,
        "title": subject.title,
        "parameters": subject.parameters,
        "step": subject.step,
        "weights": kind,
        "config": described(config, vocab_size=model.vocab_size),
        "tensors": entries,
        "bytes": len(deflated),
        "tokenizer": tokenizer_facts(subject.tokenizer),
        "text": opening(subject),
        "sampling": subject.recipe.sampling.model_dump(include={"temperature", "top_k", "top_p", "min_p"}),
        "left_out": list(subject.left_out),
        "measured": measured,
        "heads": heads,
        "story": kept,
        "floor": floors(model, subject.tokenizer, subject.texts, subject.recipe.corpus.best_guesses),
    }
    return Explanation(subject.title, facts, deflated, tuple(unread))


@torch.no_grad()
def floors(
    model: GPT,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    best: Callable[[str], list[tuple[str, float]] | None],
) -> list[dict[str, Any]]:
    """How probable each token is at best, and how probable the model finds it: of each text that the source could have
    written, and whose tokens are those of the tokenizer; as `web/src/facts.ts` reads it."""
    found = []
    for text in texts:
        try:
            known = best(text)
        except ValueError:
            continue
        ids = tokenizer.encode(text)
        pieces = [tokenizer.encode(piece) for piece, _ in known or ()]
        if tokenizer.start is None or not pieces or any(len(piece) != 1 for piece in pieces):
            continue
        if not np.array_equal(np.concatenate(pieces), ids) or len(ids) > model.context:
            continue
        row = torch.from_numpy(np.concatenate(([tokenizer.start], ids)).astype(np.int64))
        logs = model(row[None, :-1])[0].log_softmax(dim=-1)
        own = logs.gather(1, row[1:, None])[:, 0].exp()
        found.append(
            {
                "tokens": [tokenizer.token_text(int(id)) for id in ids],
                "best": [round(math.exp(cost), 4) for _, cost in known or ()],
                "model": [round(float(p), 4) for p in own],
            }
        )
    return found


def measure(
    subject: Subject, kind: WeightType, effort: float
) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    """The loss, what packing adds to it, what each part takes from it, and the heads' scores. None of it where the
    effort allows too few rows."""
    model, config = subject.model, subject.recipe.model
    each = config.forward_flops(vocab_size=model.vocab_size)
    tokens = min(MOST, int(effort / (each * variants(model))))
    if tokens < ROWS:
        return None, []
    batches = [batch.to(torch.device("cpu")) for batch in subject.batches(tokens, BATCH)]
    objective = subject.recipe.objective.build()
    whole = row_losses(model, batches, objective)
    if len(whole.nats) < ROWS:
        return None, []
    with as_packed(model, kind):
        small = row_losses(model, batches, objective)
    measured = {
        "tokens": int(whole.tokens.sum()),
        "rows": len(whole.nats),
        "loss": whole.mean,
        "unit": str(objective.unit),
        "packing": difference(small, whole),
        "parts": changes(model, batches, objective, whole),
    }
    return measured, head_scores(model, rows_of(batches))


def story(subject: Subject) -> tuple[list[dict[str, Any]], list[str]]:
    """What the model was at the steps that were kept, and what is wrong with files that cannot be read."""
    if not subject.chapters:
        return [], []
    batches = [batch.to(torch.device("cpu")) for batch in subject.batches(STORY_TOKENS, BATCH)]
    found: list[dict[str, Any]] = []
    unread: list[str] = []
    for step, read in subject.chapters:
        try:
            weights = read()
        except CheckpointError as error:
            unread.append(error.what)
            continue
        with with_weights(subject.model, weights):
            found.append(
                chapter(
                    subject.model,
                    subject.tokenizer,
                    step,
                    sentences=rows_of(batches),
                    batches=batches,
                    objective=subject.recipe.objective.build(),
                    sampling=sampling_of(subject.recipe.sampling),
                )
            )
    return found, unread


def rows_of(batches: Sequence[Batch[Any]], *, most: int = 16) -> list[np.ndarray]:
    """The ids of rows, each up to where its first document or its padding ends."""
    found: list[np.ndarray] = []
    for batch in batches:
        for number, row in enumerate(np.asarray(batch.inputs)):
            own = np.ones(len(row), bool)
            if batch.segments is not None:
                segments = np.asarray(batch.segments[number])
                own = segments == segments[0]
            found.append(row[own])
            if len(found) == most:
                return found
    return found


def opening(subject: Subject) -> str:
    """Text that the page begins with: the beginning of what the model is evaluated on."""
    (row,) = rows_of([next(iter(subject.batches(1, 1)))], most=1)
    return subject.tokenizer.decode(row[: min(OPENING, subject.model.context - 1)]).lstrip()
