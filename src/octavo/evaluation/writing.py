"""Diagnostics on what a model writes and where: copies, repetition, drift, the context's end, the end token."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from octavo.evaluation.diagnostic import Diagnostic, Facts

COPIED = 50
"""Characters of a run that is no longer a turn of phrase."""

APART = 0.05
"""The least difference to held-out text, in shares of 1, that is worth a word."""

LEAST, LEAST_HELD_OUT = 500, 200
"""Characters that must have been written to be judged, and held out to compare them with."""

GAIN = 0.01
"""The least share of the loss that a context twice as long must promise."""


def memorization(facts: Facts) -> Diagnostic | None:
    """Whether it recites, against how much held-out text repeats the training text."""
    found = facts.evaluation.get("memorization")
    if not found or found["generated"]["characters"] < LEAST:
        return None
    if found["held_out"]["characters"] < LEAST_HELD_OUT:
        return None
    own, control = (found[group]["shares"][str(COPIED)] for group in ("generated", "held_out"))
    error = found["difference_error"]
    runs = {group: found[group]["longest"] for group in ("generated", "held_out")}
    longest = {group: run["length"] if run else 0 for group, run in runs.items()}
    evidence = {
        "copied": own,
        "copied_held_out": control,
        "standard_error": error,
        "longest": longest["generated"],
        "longest_held_out": longest["held_out"],
    }
    figures = (
        f"{own:.0%} of what it writes stands in the training text in runs of {COPIED} characters or more "
        f"(held-out text: {control:.0%}); the longest run has {longest['generated'] or 'fewer than 10'} characters "
        f"(held-out text: {longest['held_out'] or 'fewer than 10'})."
    )
    if own - control <= max(APART, 3 * (error or 0.0)):
        said = f"It does not recite its training text more than new text does: {figures}"
        return Diagnostic("memorization", said, evidence, "good")
    remedy = "fewer passes over the text, dropout, a smaller model, or more text"
    return Diagnostic("memorization", f"It recites: {figures}", evidence, "bad", remedy, facts.firmer)


def _beside(facts: Facts, name: str) -> tuple[float, float, float] | None:
    """A figure of the generated texts, the same of the held-out ones, the standard error of their difference."""
    found = facts.evaluation.get("diversity")
    if not found:
        return None
    own, control = found["generated"][name], found["held_out"][name]
    if None in (own["mean"], control["mean"], control["error"]):
        return None
    scatter = control["error"] * math.sqrt(found["held_out"]["texts"])
    # A single sample (greedy) has no scatter of its own.
    error = scatter if own["error"] is None else own["error"]
    return own["mean"], control["mean"], math.hypot(error, control["error"])


def _evidence(values: tuple[float, float, float]) -> dict[str, float | str | None]:
    return {"generated": values[0], "held_out": values[1], "standard_error": values[2]}


def repetition(facts: Facts) -> Diagnostic | None:
    """A text that goes round in circles."""
    values = _beside(facts, "repeated")
    if values is None or values[0] - values[1] <= max(APART, 3 * values[2]):
        return None
    unit = facts.evaluation["diversity"]["unit"]
    said = (
        f"It repeats itself: {values[0]:.0%} of the 4-grams ({unit}s) in a sample stood in it before; "
        f"in held-out text {values[1]:.0%}."
    )
    greedy = facts.recipe.sampling.temperature < 0.5
    settings = "sampling.temperature=0.8" if greedy else "sampling.repetition_penalty=1.1"
    remedy = "longer training is the cure; sampling can hide it"
    return Diagnostic("repetition", said, _evidence(values), "bad", remedy, (settings,))


def likeness(facts: Facts) -> Diagnostic | None:
    """Samples that resemble each other."""
    values = _beside(facts, "alike")
    if values is None or values[0] - values[1] <= max(APART, 3 * values[2]):
        return None
    unit = facts.evaluation["diversity"]["unit"]
    said = (
        f"Its samples are alike: {values[0]:.0%} of a sample's 4-grams ({unit}s) stand in another one too; "
        f"in held-out text {values[1]:.0%}."
    )
    remedy = "draw more freely, or train on more and more varied text"
    return Diagnostic("likeness", said, _evidence(values), "note", remedy, ("sampling.temperature=1.0",))


def drift(facts: Facts) -> Diagnostic | None:
    """Texts that lose their thread, where texts of this kind have one."""
    values = _beside(facts, "thread")
    if values is None:
        return None
    own, control, error = values
    if control < 0.02 or own > control / 2 or control - own <= 3 * error:
        return None
    said = (
        f"It loses its thread within a page: two halves of a sample have {own:+.3f} more in common than halves "
        f"of different samples; in held-out text it is {control:+.3f}."
    )
    remedy = "longer training and a longer context"
    settings = (facts.setting("model.context", 2),)
    return Diagnostic("drift", said, _evidence(values), "note", remedy, settings)


def short_context(facts: Facts) -> Diagnostic | None:
    """The loss still falls where the window ends, or the documents are longer than it."""
    context = facts.recipe.model.context
    cut = facts.evaluation.get("documents_cut")
    if facts.recipe.batches.kind == "documents":
        if not cut or cut < 0.1:
            return None
        said = (
            f"Too short a context: {cut:.0%} of the held-out documents are longer than its {context:,} tokens, "
            "and are cut."
        )
        settings = (facts.setting("model.context", 2),)
        return Diagnostic(
            "short context", said, {"documents_cut": cut}, "note", "twice the context", settings
        )
    places, loss = facts.evaluation.get("positions"), facts.evaluation.get("val_loss")
    if not places or loss is None or places["error"] is None:
        return None
    # Of a loss that falls with the logarithm of the position, log2 of the place doubles where this has half of it.
    gain = places["gain"] / math.log2(7 / 5)
    if places["gain"] <= 3 * places["error"] or gain < GAIN * loss:
        return None
    said = (
        f"Too short a context: the loss still falls at the end of its {context:,} tokens, from "
        f"{places['middle']:.3f} in the third quarter to {places['end']:.3f} in the last; twice the context promises "
        f"some {gain:.3f} {facts.unit.name} more."
    )
    evidence: Mapping[str, Any] = {
        "loss_third_quarter": places["middle"],
        "loss_last_quarter": places["end"],
        "gain": places["gain"],
        "standard_error": places["error"],
        "promised": gain,
    }
    settings = (facts.setting("model.context", 2),)
    return Diagnostic("short context", said, evidence, "note", "twice the context", settings)


def end_token(facts: Facts) -> Diagnostic | None:
    """Whether it knows that documents end, and ends its own."""
    ends = facts.evaluation.get("ends")
    if not ends or ends["documents"] < 5:
        return None
    there, rate = ends["probability"], ends["rate"]
    evidence = dict(ends)
    settings = facts.longer if facts.recipe.batches.kind == "documents" else ("batches=documents",)
    if there < 3 * rate:
        said = (
            f"End token never learned: where documents end it gives that a probability of {there:.2%}, "
            f"hardly more than its share of all tokens ({rate:.2%}), so what it writes does not know where to stop."
        )
        return Diagnostic("end token", said, evidence, "bad", "train longer, on whole documents", settings)
    own, control = ends.get("samples_ended"), ends.get("held_out_ended")
    if own is None or control is None or ends["samples"] < 8 or own >= control / 3:
        return None
    said = (
        f"It seldom ends: {own:.0%} of its samples came to an end in time; of held-out documents {control:.0%} would "
        f"(it gives the end token {there:.1%} where documents end)."
    )
    return Diagnostic("end token", said, evidence, "note", "train longer, on whole documents", settings)
