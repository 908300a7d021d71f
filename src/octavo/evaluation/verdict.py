"""The verdict on a run in words, from its own numbers, with the evidence beside each sentence."""

from __future__ import annotations

from typing import Any

from octavo.evaluation.finding import Facts, Finding, Weight
from octavo.evaluation.learning import diverged, over_fit, pace, too_large, under_fit
from octavo.evaluation.writing import (
    drift,
    end_mark,
    likeness,
    memorization,
    repetition,
    short_context,
)


def verdicts(facts: Facts) -> list[Finding]:
    """All that the figures of a run say, what matters most first. A pure function; what is missing is not judged."""
    judges = (
        diverged,
        over_fit,
        too_large,
        under_fit,
        pace,
        trained_or_broken,
        memorization,
        repetition,
        likeness,
        drift,
        end_mark,
        short_context,
    )
    return [finding for judge in judges if (finding := judge(facts)) is not None]


def trained_or_broken(facts: Facts) -> Finding | None:
    """Is what it writes garbage because of a bug, or of too little training? The simple predictors tell."""
    loss, known = facts.evaluation.get("val_loss"), facts.evaluation.get("baselines") or {}
    if loss is None or "unigram" not in known:
        return None
    losses = {
        name: known[name]["loss"] for name in ("uniform", "unigram", "bigram", "ngram") if name in known
    }
    order = (known.get("ngram") or {}).get("order")
    own = facts.evaluation.get("bits_per_byte") or 0.0
    bits = {name: known[name]["bits_per_byte"] for name in ("gzip", "xz") if name in known}
    evidence: dict[str, Any] = {"loss": loss, **losses, "bits_per_byte": own}
    evidence |= {f"{name}_bits_per_byte": value for name, value in bits.items()}
    packers = [name for name in ("gzip", "xz") if name in bits and own >= bits[name]]

    def finding(said: str, weight: Weight, remedy: str = "", settings: tuple[str, ...] = ()) -> Finding:
        return Finding("baselines", said, evidence, weight, remedy, settings)

    if loss >= losses.get("uniform", float("inf")):
        slower = (facts.setting("training.optimizer.learning_rate", 0.1),)
        said = "Garbage here points to a bug, or a far too high learning rate: it predicts no better than guessing."
        return finding(said, "bad", "a tenth of the learning rate", slower)
    if loss >= losses.get("ngram", 0.0) and over_fit(facts) is not None:
        said = "Garbage here is over-fitting, not a bug nor too little training: the text was too little for so long."
        return finding(said, "bad", "more text, dropout or an earlier stop", facts.firmer)
    if loss >= losses["unigram"]:
        said = "Garbage here is too little training or a bug: it knows less than how often each token occurs (unigram)."
        return finding(said, "bad", "train longer; if that changes nothing, look for the bug", facts.longer)
    untrained = "Garbage here is too little training, not a bug: "
    if loss >= losses.get("bigram", 0.0):
        said = f"{untrained}it knows which tokens are frequent, not yet which follows which (bigram)."
        return finding(said, "bad", "train longer", facts.longer)
    if loss >= losses.get("ngram", 0.0):
        said = f"{untrained}it learns from what stands before, but less than counting {order}-grams does."
        return finding(said, "bad", "train longer", facts.longer)
    if packers:
        need = f"{' and '.join(packers)} need{'s' if len(packers) == 1 else ''}"
        said = f"Not a bug, but little learned: below every n-gram, yet {need} fewer bits for the validation text."
        return finding(said, "note", "more text, a longer context and longer training", facts.longer)
    beaten = "every n-gram" + (" and gzip" if "gzip" in bits else "")
    said = (
        f"Not a bug, and not untrained: it is below {beaten}. What its text still lacks is a matter of size, "
        "text and training time."
    )
    return finding(said, "good")
