"""What is right and wrong with a run, in words, from its own numbers: a verdict with what to do, and its evidence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from octavo.evaluation.diagnostic import Diagnostic, Facts, Severity
from octavo.evaluation.learning import RUN_DOWN, course, diverged, too_large, under_fit
from octavo.evaluation.stored_forecasts import OWN, ahead, main_horizon, scores_at
from octavo.evaluation.writing import (
    drift,
    end_token,
    likeness,
    memorization,
    repetition,
    short_context,
)
from octavo.ground.shown import finite, listed

BROKEN = ("diverged", "unsteady")
"""Trainings that came apart."""
ALIKE = 0.01
"""The share by which a loss may differ from that of single tokens, to be no better than these."""


def diagnose(facts: Facts) -> list[Diagnostic]:
    """The diagnostics of a run: first the verdict, which alone says what to do, then its evidence.

    A pure function. Nothing is said about what is missing.
    """
    taught_by_texts = facts.recipe.objective.build().learns_texts
    how = course(facts) if taught_by_texts else diverged(facts)
    writing = (memorization, repetition, likeness, drift, end_token, short_context)
    judged = [how, standing(facts, how) if facts.unit.text else None]
    if taught_by_texts:
        judged = [too_large(facts, how), how, under_fit(facts), standing(facts, how)]
    if (nothing := nothing_to_learn(facts)) is not None:
        judged = [how, nothing]
    found = [one for one in (*judged, *(judge(facts) for judge in writing)) if one is not None]
    if not found:
        return []
    first = verdict(found, how)
    return [first, *(replace(one, remedy="", settings=()) for one in found if one is not first)]


def verdict(found: list[Diagnostic], how: Diagnostic | None) -> Diagnostic:
    """Of all diagnostics the one to act on: what spoilt the run, then how it learned, then what else is bad."""
    kinds = {one.kind: one for one in found}
    if "nothing to learn" in kinds and (how is None or how.kind not in BROKEN):
        return kinds["nothing to learn"]
    if how is not None and how.severity == "bad":
        return kinds.get("too large", how)
    bad = [one for one in found if one.severity == "bad" and one.remedy]
    urgent = [kinds[kind] for kind in ("memorization", "baselines") if kinds.get(kind) in bad]
    return urgent[0] if urgent else how or (bad or found)[0]


def nothing_to_learn(facts: Facts) -> Diagnostic | None:
    """A text like random letters: the best n-gram looks at single tokens, and the model is no better."""
    loss, known = facts.evaluation.get("val_loss"), facts.evaluation.get("baselines") or {}
    if loss is None or not facts.unit.text or (known.get("ngram") or {}).get("order") != 1:
        return None
    counted = known["ngram"]["loss"]
    if abs(loss - counted) > ALIKE * counted:
        return None
    said = (
        "Next to nothing to learn: no token of this text tells what comes after it. The best n-gram looks at single "
        f"tokens and has {counted:.4f}, the model {loss:.4f}."
    )
    evidence = {"loss": loss, "ngram": counted}
    return Diagnostic("nothing to learn", said, evidence, "note", "another text, or another tokenizer for it")


def standing(facts: Facts, how: Diagnostic | None) -> Diagnostic | None:
    """Which simple predictors the model beats; and if what it writes is garbage, whether a bug is the reason. A run
    that started from another is judged against that, one with counts by what its network adds to them."""
    loss, known = facts.evaluation.get("val_loss"), facts.evaluation.get("baselines") or {}
    if (forecast := facts.evaluation.get("forecast")) is not None:
        horizon = main_horizon(forecast)
        scores = scores_at(forecast, horizon)
        where = f"By CRPS, {ahead(horizon, forecast.get('rate'))}, it"
        return among_its_own(facts, how, scores.pop(OWN), scores, where)
    if loss is not None and known and not facts.unit.text:
        return among_its_own(facts, how, loss, {name: one["loss"] for name, one in known.items()})
    if loss is None or "unigram" not in known:
        return None
    losses = {
        name: known[name]["loss"] for name in ("uniform", "unigram", "bigram", "ngram") if name in known
    }
    order = (known.get("ngram") or {}).get("order")
    own = facts.evaluation.get("bits_per_byte") or 0.0
    packed = (
        ("gzip", "xz") if "unit" not in facts.evaluation else ()
    )  # they compare with nothing else than bits
    bits = {name: known[name]["bits_per_byte"] for name in packed if name in known}
    evidence: dict[str, Any] = {"loss": loss, **losses, "bits_per_byte": own}
    evidence |= {f"{name}_bits_per_byte": value for name, value in bits.items()}
    packers = [name for name in ("gzip", "xz") if name in bits and own >= bits[name]]

    def diagnostic(
        said: str, severity: Severity, remedy: str = "", settings: tuple[str, ...] = ()
    ) -> Diagnostic:
        return Diagnostic("baselines", said, evidence, severity, remedy, settings)

    knows = {
        "uniform": "it predicts no better than guessing",
        "unigram": "it knows less than how often each token occurs (unigram)",
        "bigram": "it knows which tokens are frequent, but not which follows which (bigram)",
        "ngram": f"it learns from what stands before, but less than counting {order}-grams does",
    }
    above = next((name for name in knows if loss >= losses.get(name, float("inf"))), None)
    start = (known.get("start") or {}).get("loss")
    if start is not None and not facts.elsewhere:
        return beside_start(facts, how, start, evidence, knows[above] if above else "")
    if above is not None and facts.elsewhere:
        said = (
            f"On this text {knows[above]}: it is unlike what the model learned from, or little was learned."
        )
        return diagnostic(said, "bad", "look at the run's own evaluation: octavo eval RUN")
    if above is not None:
        cause, remedy, settings = _cause(facts, how, above)
        return diagnostic(f"Garbage here {cause}: {knows[above]}.", "bad", remedy, settings)
    if (counted := counting_alone(facts, how, evidence)) is not None:
        return counted
    if packers:
        need = f"{' and '.join(packers)} need{'s' if len(packers) == 1 else ''}"
        if facts.elsewhere:
            return diagnostic(f"Below every n-gram, yet {need} fewer bits for this text.", "note")
        said = f"Not a bug, but little learned: below every n-gram, yet {need} fewer bits for the validation text."
        return diagnostic(said, "note", "more text, a longer context and longer training", facts.longer)
    beaten = "every n-gram" + (" and gzip" if "gzip" in bits else "")
    return diagnostic(f"Not a bug, and not untrained: it is below {beaten}.", "good")


def beside_start(
    facts: Facts, how: Diagnostic | None, start: float, evidence: dict[str, Any], knows: str
) -> Diagnostic:
    """A run beside what it started from, on the same text. `knows`: what it knows less than, if that is simple."""
    loss, evidence = evidence["loss"], {**evidence, "start": start}
    figures = f"{loss:.4f} {facts.unit} on the validation split, {start:.4f} before"
    also = f"; {knows}" if knows else ""
    if loss > start + ALIKE * abs(start):
        tuned = hasattr(facts.recipe.objective, "beta")
        severity: Severity = "bad" if knows or not tuned else "note"
        remedy = "a third of the learning rate or fewer steps" + (
            ", or a larger objective.beta" if tuned else ""
        )
        slower = (facts.setting("training.optimizer.learning_rate", 1 / 3),)
        said = f"Worse than what it started from: {figures}{also}."
        return Diagnostic("baselines", said, evidence, severity, remedy, slower)
    if loss < start - ALIKE * abs(start):
        said = f"Better than what it started from: {figures}{also}."
        remedy, settings = _longer(facts, how) if knows else ("", ())
        return Diagnostic("baselines", said, evidence, "note" if knows else "good", remedy, settings)
    said = f"As good as what it started from: {figures}{also}."
    return Diagnostic("baselines", said, evidence, "note" if knows else "good")


def _longer(facts: Facts, how: Diagnostic | None) -> tuple[str, tuple[str, ...]]:
    """More training as a remedy, where the course of the run does not speak against it."""
    against = how is not None and how.kind in (*BROKEN, "over-fit")
    return ("", ()) if against else ("train longer", facts.longer)


def counting_alone(facts: Facts, how: Diagnostic | None, evidence: dict[str, Any]) -> Diagnostic | None:
    """Whether counting does all the work of a model with counts; None where its network adds to that. All its figures
    are of the same tokens."""
    if not (found := facts.evaluation.get("counted")):
        return None
    together, counting, network = (found[f"{name}loss"] for name in ("", "counting_", "network_"))
    simple = {"unigrams": 1, "bigrams": 2}
    orders = {side["order"]: side["loss"] for side in found["sides"] if side["order"]}
    above = next((name for name, order in simple.items() if network >= orders.get(order, math.inf)), None)
    adds = counting - together > ALIKE * counting or network < counting
    if adds and above != "unigrams":
        return None
    knows = f", more than counting {above} ({orders[simple[above]]:.3f})" if above else ""
    said = (
        f"Counting does all of it: alone it has {counting:.3f} nats per token, with the network {together:.3f}. The "
        f"network alone has {network:.3f}{knows}: it has learned too little to help."
    )
    evidence = {**evidence, "counting_loss": counting, "network_loss": network, "together_loss": together}
    return Diagnostic("baselines", said, evidence, "bad", *_longer(facts, how))


def among_its_own(
    facts: Facts, how: Diagnostic | None, loss: float, losses: Mapping[str, float], it: str = ""
) -> Diagnostic:
    """Which of its objective's own baselines it beats, by a loss or by what else is better if it is smaller."""
    better = [name for name, reached in losses.items() if loss < reached]
    worse = [name for name in losses if name not in better]
    evidence = {name: finite(reached) for name, reached in {"loss": loss, **losses}.items()}
    if "start" in worse and not facts.elsewhere:
        others = [name for name in worse if name != "start"]
        knows = f"it is not below {listed(others)}" if others else ""
        return beside_start(facts, how, losses["start"], evidence, knows)
    if not worse:
        said = f"{it} is below {listed(better)}." if it else f"Better {_than(better)}."
        return Diagnostic("baselines", said, evidence, "good")
    if it:
        said = f"{it} is {f'below {listed(better)}, but ' if better else ''}not below {listed(worse)}."
    else:
        said = f"Better {_than(better)}, but not {_than(worse)}." if better else f"Not better {_than(worse)}."
    severity: Severity = "note" if better else "bad"
    if facts.elsewhere:
        return Diagnostic("baselines", said, evidence, severity)
    return Diagnostic("baselines", said, evidence, severity, "train longer", facts.longer)


def _than(names: Sequence[str]) -> str:
    plain = {"uniform": "guessing", "start": "before tuning"}
    return listed([f"than {plain.get(name, name)}" for name in names])


def _cause(facts: Facts, how: Diagnostic | None, above: str) -> tuple[str, str, tuple[str, ...]]:
    """Why it stands above a simple predictor, what helps, and its settings. If the course is known, the course
    says what helps, except for a model that only guesses and has stopped improving."""
    kind = None if how is None else how.kind
    if kind in BROKEN:
        return "is a training that came apart", "", ()
    if kind == "over-fit":
        return "is over-fitting, not a bug nor too little training", "", ()
    if above == "uniform" and kind in (None, "plateau"):
        slower = (facts.setting("training.optimizer.learning_rate", 0.1),)
        return "points to a bug, or a far too high learning rate", "a tenth of the learning rate", slower
    if kind == "plateau" and facts.rate_left >= RUN_DOWN:
        return "is not a matter of time, for it has stopped improving", "", ()
    doubtful = above in ("uniform", "unigram") and kind != "learning"
    longer = "train longer; if that changes nothing, look for the bug" if doubtful else "train longer"
    said = "is too little training or a bug" if doubtful else "is too little training, not a bug"
    return (said, longer, facts.longer) if how is None else (said, "", ())
