"""How many wishes the stories of a tuned model keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from octavo.evaluation.diversity import measured
from octavo.evaluation.samples import GeneratedTexts
from octavo.synthetic.wishes import Wish


@dataclass(frozen=True)
class Kept:
    """Wishes in combinations that no training has seen.

    Attributes:
        asked: how many.
        kept, all_kept: the mean share that a story keeps, and the share of stories that keep all, with standard errors.
        before: the same as `kept`, of the model as it started.
    """

    asked: int
    kept: Mapping[str, Any]
    all_kept: Mapping[str, Any]
    before: Mapping[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        found = {"asked": self.asked, "kept": self.kept, "all_kept": self.all_kept}
        return {"wishes": found if self.before is None else {**found, "before": self.before}}


def kept_by(written: GeneratedTexts) -> Kept:
    """What the texts keep of what was asked."""
    kept = np.array(
        [Wish.of(wish).kept(text) for wish, text in zip(written.asked, written.texts, strict=True)]
    )
    return Kept(len(kept), measured(kept.tolist()), measured((kept == 1).astype(float).tolist()))


def said(wishes: Mapping[str, Any]) -> str:
    """The sentence for it."""
    before = f", before the tuning {wishes['before']['mean']:.0%}" if "before" in wishes else ""
    return (
        f"It keeps {wishes['kept']['mean']:.0%} of the wishes in {wishes['asked']} combinations that it never saw"
        f"{before}; {wishes['all_kept']['mean']:.0%} of the stories keep all."
    )
