"""The models that are chosen from: one kind of recipe in several sizes. Nothing here imports torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from octavo.config import Recipe, check


@dataclass(frozen=True)
class Size:
    """How large a model is, and what it reads in a step."""

    width: int
    layers: int
    context: int
    batch: int

    @property
    def heads(self) -> int:
        """Heads of 32 numbers each."""
        return self.width // 32

    @property
    def step_tokens(self) -> int:
        """Tokens that an optimizer step reads."""
        return self.batch * self.context


SIZES = (
    Size(64, 2, 128, 8),
    Size(96, 3, 96, 8),
    Size(128, 4, 128, 12),
    Size(192, 5, 192, 12),
    Size(256, 6, 256, 12),
    Size(384, 6, 256, 16),
)
"""From 0.1 to 11 million parameters."""


BYTES: Mapping[str, Any] = {"kind": "byte", "characters": 2000}
PAIRS: Mapping[str, Any] = {"kind": "bpe", "size": 8192, "min_frequency": 50}
"""What a text may be read as: bytes, or characters where it has few, and pairs of these that it has often enough to be
learned, so that a longer text has a larger vocabulary."""


RECENT = 2000
"""Tokens of the text so far that are counted beside n-grams, which take the place of a context mixer where there is no
compiler for one."""

MOST_LOOKS, FEWEST_LOOKS, BETWEEN = 10, 4, 150_000
"""How often a run looks at its validation split at most and at least, and tokens that it learns from between two looks:
a context mixer hears the network at 16,000 tokens before each."""
LOOKING, LOOKING_MIXED = 0.15, 0.05
"""Tokens of all looks, for each that it learns from: judging a token takes about a third of the time of learning from
it, and where a context mixer counts about all of it, so all looks together take a twentieth."""
FEWEST_JUDGED, MOST_JUDGED = 8_000, 100_000
"""Tokens of a look at least and at most, if the split has them."""

SOME_DROPOUT, MORE_DROPOUT = 30, 150
"""From how many passes on, times weights for each token of the text, dropout of 0.1 and of 0.2 is better than less."""


def dropout_for(passes: float, weights_per_token: float) -> float:
    """The dropout of a model with so many weights for each token of its text, which it sees so many times. Small models
    may see a text often before they know it by heart."""
    worn = passes * weights_per_token
    return 0.0 if worn < SOME_DROPOUT else 0.1 if worn < MORE_DROPOUT else 0.2


def looks_in(size: Size, steps: int) -> int:
    """How often a run of so many steps looks at its validation split on its way."""
    return min(max(steps * size.step_tokens // BETWEEN, FEWEST_LOOKS), MOST_LOOKS)


def judged_in(size: Size, steps: int, *, mixes: bool) -> int:
    """Tokens of each look of a run that takes so many steps; `mixes`: a context mixer counts."""
    tokens = (LOOKING_MIXED if mixes else LOOKING) * steps * size.step_tokens / looks_in(size, steps)
    return int(min(max(tokens, FEWEST_JUDGED), MOST_JUDGED))


HELD_OUT, ENOUGH_HELD_OUT, HELD_OUT_A_SECOND, MOST_HELD_OUT = 0.05, 30_000, 10_000, 200_000
"""The share of a text that is held out for the validation split, and for the test split; and bytes of each at most: so
many, more for each second that a usual processor has to read, and never more than that, for judging takes its time from
learning."""


N_GRAMS: Mapping[str, Any] = {"kind": "kneser-ney", "recent": RECENT}
"""What counts where a context mixer cannot."""


def counts_here(most: int | None = None) -> Mapping[str, Any]:
    """What counts beside the network: a context mixer, of so many tokens at `most`, or n-grams where there is no kernel
    for one."""
    from octavo.ngram.mixing import compiled

    limit = {} if most is None else {"most": most}
    return {"kind": "mixing", **limit} if compiled() else N_GRAMS


def recipe_of(
    size: Size,
    *,
    steps: int,
    dropout: float = 0.0,
    tokenizer: Mapping[str, Any] = BYTES,
    vocabulary: int = 256,
    counts: Mapping[str, Any] | None = None,
    held_out: float = HELD_OUT,
) -> dict[str, Any]:
    """A recipe as plain data, without a text. `vocabulary`: tokens, as far as known; `counts`: what counts beside the
    model; None: `counts_here`; `held_out`: share of the text for either split that is."""
    counts = counts_here() if counts is None else counts
    mixes = counts["kind"] == "mixing"
    return {
        "split": "files",
        "validation": held_out,
        "test": held_out,
        "tokenizer": dict(tokenizer),
        "expected_vocabulary": vocabulary,
        "batches": "windows",
        "model": {
            "layers": size.layers,
            "heads": size.heads,
            "width": size.width,
            "context": size.context,
            "positions": "rotary",
            "norm": {"kind": "rms", "scale": False},
            "embedding_norm": True,
            "qk_norm": True,
            "attention_scale": 0.3,
            "feed_forward": {"kind": "relu2", "bias": False},
            "output_bias": False,
            "dropout": dropout,
            "counts": dict(counts),
            "initialization": {"kind": "zero_output", "embedding_std": 0.1},
        },
        "training": {
            "steps": steps,
            "batch": size.batch,
            "optimizer": {
                "kind": "muon",
                "learning_rate": 0.03,
                "momentum": 0.9,
                "rounds": 3,
                "rest": {"learning_rate": 0.01, "weight_decay": 0.1},
            },
            "schedule": {"kind": "linear", "floor": 0.0},
            "checkpoint_every": 1 / looks_in(size, steps),
        },
        "evaluation": {"every": 1 / looks_in(size, steps), "tokens": judged_in(size, steps, mixes=mixes)},
        "sampling": {"tokens": 500},
    }


@cache
def parameters_of(size: Size, vocabulary: int) -> int:
    """Weights of the network, without the gate's."""
    tree = recipe_of(size, steps=1)
    tree["model"]["counts"] = "none"
    return check(tree).model.parameters(vocab_size=vocabulary)


@cache
def one_step_of(size: Size) -> Recipe:
    """The checked recipe of one step of a size."""
    return check(recipe_of(size, steps=1))
