"""Parts that are switched off add nothing, and what that costs is measured on the same rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from octavo.explain.ablations import (
    RowLosses,
    difference,
    in_words,
    names_of_parts,
    row_losses,
    switched_off,
    variants,
)
from octavo.model.gpt import GPT
from octavo.training.objective import NEXT_TOKEN
from unit.explain.subjects import TEXT, subject

ONE = subject(
    layers=2, heads=2, width=16, kv_heads=1, output_bias=False, feed_forward={"kind": "relu", "bias": False}
)
IDS = torch.from_numpy(ONE.tokenizer.encode(TEXT[:20])).long()[None]


def logits(model: GPT) -> torch.Tensor:
    with torch.no_grad():
        return model(IDS)


def by_weights(part: str) -> torch.Tensor:
    """The slow twin: the logits of a model whose weights for a part are zero."""
    model = subject(
        layers=2,
        heads=2,
        width=16,
        kv_heads=1,
        output_bias=False,
        feed_forward={"kind": "relu", "bias": False},
    ).model
    with torch.no_grad():
        if part == "positions":
            model.positions.weight.zero_()
        else:
            number, _, inner = part[1:].partition(".")
            block = model.blocks[int(number)]
            if inner == "attention":
                block.attention.project.weight.zero_()
            elif inner == "feed_forward":
                block.feed_forward.down_proj.weight.zero_()
            else:
                head = int(inner[1:])
                block.attention.project.weight[:, 8 * head : 8 * head + 8] = 0
    return logits(model)


@pytest.mark.parametrize("part", names_of_parts(ONE.model))
def test_switched_off_is_as_without_its_weights(part: str) -> None:
    whole = logits(ONE.model)
    with switched_off(ONE.model, [part]):
        without = logits(ONE.model)
    torch.testing.assert_close(without, by_weights(part))
    assert (without - whole).abs().max() > 1e-3
    torch.testing.assert_close(logits(ONE.model), whole, rtol=0, atol=0)


def test_every_part_has_a_name() -> None:
    names = names_of_parts(ONE.model)
    assert names == [
        *("b0.h0", "b0.h1", "b0.attention", "b0.feed_forward"),
        *("b1.h0", "b1.h1", "b1.attention", "b1.feed_forward", "positions"),
    ]
    bare = subject(layers=1, heads=1, width=8, positions="none", feed_forward="none").model
    assert names_of_parts(bare) == ["b0.h0", "b0.attention"]
    assert variants(bare) == 4


def test_rows_come_to_the_loss_of_the_whole() -> None:
    batches = [batch.to(torch.device("cpu")) for batch in ONE.batches(10_000, 4)]
    rows = row_losses(ONE.model, batches, NEXT_TOKEN)
    tokens = ONE.tokenizer.encode(TEXT)
    assert rows.tokens.sum() == len(tokens) - 1
    with torch.no_grad():
        total = sum(float(NEXT_TOKEN.evaluate(ONE.model, batch).losses.sum()) for batch in batches)
    assert rows.mean == pytest.approx(total / (len(tokens) - 1), rel=1e-5)


def test_differences_are_paired() -> None:
    random = np.random.default_rng(1)
    tokens, losses = random.integers(5, 50, 40).astype(float), random.normal(size=40) * 100
    whole = RowLosses(losses, tokens)
    shifted = difference(RowLosses(losses + 0.25 * tokens, tokens), whole)
    assert shifted == pytest.approx({"mean": 0.25, "low": 0.25, "high": 0.25})
    noisy = difference(RowLosses(losses + random.normal(size=40), tokens), whole)
    assert noisy["low"] < noisy["mean"] < noisy["high"]


def test_counts_are_a_part() -> None:
    both = subject(layers=1, heads=1, width=8, counts={"kind": "kneser-ney", "orders": 3, "hidden": 4})
    alone = subject(layers=1, heads=1, width=8)
    own = {name: weight for name, weight in both.model.state_dict().items() if not name.startswith("counts.")}
    alone.model.load_state_dict(own)
    assert names_of_parts(both.model)[-1] == "counts"
    with switched_off(both.model, ["counts"]), torch.no_grad():
        without = both.model(IDS)
    torch.testing.assert_close(without, logits(alone.model))
    assert (logits(both.model) - without).abs().max() > 1e-3


def test_parts_have_names_for_people() -> None:
    said = [in_words(part) for part in ("b1.h12", "b0.feed_forward", "b2.attention", "positions")]
    assert said == [
        "head 12 of block 1",
        "the feed-forward of block 0",
        "the attention of block 2",
        "positions",
    ]
