"""How many wishes the stories of a tuned model keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from octavo.evaluation.diversity import Mean
from octavo.evaluation.samples import GeneratedTexts
from octavo.synthetic.wishes import Wish
from octavo.util.records import OPTIONAL


@dataclass(frozen=True)
class Kept:
    """Wishes in combinations that no training has seen.

    Attributes:
        asked: how many.
        kept, all_kept: the mean share that a story keeps, and the share of stories that keep all.
        before: the same as `kept`, of the model as it started.
    """

    asked: int
    kept: Mean
    all_kept: Mean
    before: Mean | None = field(default=None, metadata=OPTIONAL)


def kept_by(written: GeneratedTexts) -> Kept:
    """What the texts keep of what was asked."""
    kept = np.array(
        [Wish.of(wish).kept(text) for wish, text in zip(written.asked, written.texts, strict=True)]
    )
    return Kept(len(kept), Mean.of(kept.tolist()), Mean.of((kept == 1).astype(float).tolist()))


def sentence(wishes: Mapping[str, Any]) -> str:
    """Which share of the wishes is kept."""
    before = f", before the tuning {wishes['before']['mean']:.0%}" if "before" in wishes else ""
    return (
        f"It keeps {wishes['kept']['mean']:.0%} of the wishes in {wishes['asked']} combinations that it never saw"
        f"{before}; {wishes['all_kept']['mean']:.0%} of the stories keep all."
    )
