"""What was said of a run before it was trained, and what came out; why its settings are what they are."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from octavo.report.about import split_of
from octavo.report.test_looks import looks_of, of_result, reached
from octavo.util.records import Number, Record, parse_json
from octavo.util.terminal import in_minutes

GAIN = 0.02
"""The share of the bits per byte that a longer training must bring to be worth a word."""


APART = 0.05
"""The least difference to new text, in shares of 1, that is worth a word."""
HARDLY = 0.1
"""The share of the loss of counting below which a model's sentences hang together little longer than counting's."""


class Promised(Record):
    """The promise, as the manifest has it."""

    minutes: Number
    bits: Number
    within: Number


class Auto(Record):
    """What the manifest says of a run that was chosen for a time."""

    promise: Promised
    reasons: dict[str, str]
    longer: Promised | None = None
    """What the same law says of a longer training."""


def of_promise(
    manifest: Mapping[str, Any],
    evaluation: Mapping[str, Any] = MappingProxyType({}),
    settings: Mapping[str, Any] = MappingProxyType({}),
    metrics: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """For the page: the promise beside what came out on the test split, and the reasons; nothing for other runs.

    What came out is what the audit saw. Where there was none, it is what was seen of the result, unless the run got
    other minutes (`settings`: of the run) than it was promised for. Beside the planned steps stand those that were done
    (`metrics`).
    """
    try:
        found = parse_json(json.dumps(manifest.get("auto")), Auto)
    except ValueError:
        return {"promise": None, "reasons": {}, "like": ""}
    promised = found["promise"]["minutes"]
    same_time = (settings.get("training") or {}).get("minutes", promised) == promised
    audits = [look for look in looks_of(manifest) if look.get("audits")]
    looks = audits or (of_result(manifest, evaluation) if same_time else ())
    came_out = reached(looks[0]) if looks else None
    reasons, done = dict(found["reasons"]), max((row["step"] for row in metrics), default=0)
    if done and "training.steps" in reasons:
        reasons["training.steps"] += f" Came out: {done:,} steps{passes_done(manifest, metrics, reasons)}."
    like = written_like(evaluation, found["promise"], found.get("longer"), came_out)
    reads_on = bool(looks) and "reading_on" in looks[0]
    said = audit(**found["promise"], came_out=came_out, reads_on=reads_on)
    return {"promise": said, "reasons": reasons, "like": like}


def passes_done(
    manifest: Mapping[str, Any], metrics: Sequence[Mapping[str, Any]], reasons: Mapping[str, str]
) -> str:
    """How often the text was seen; of a run with teachers, whose passes are planned together with its own, nothing."""
    whole = split_of(manifest, "train").get("tokens")
    seen = max((row["tokens"] for row in metrics if row["event"] == "train"), default=0)
    return f", {seen / whole:,.3g} passes" if whole and seen and "training.teachers" not in reasons else ""


def written_like(
    evaluation: Mapping[str, Any],
    promised: Mapping[str, Any],
    longer: Mapping[str, Any] | None,
    came_out: float | None,
) -> str:
    """What the text is like, and what a longer training would bring by the law of the promise; nothing where what it
    writes was not measured, and nothing of the law where this promise did not hold (`came_out`)."""
    said = in_plain_words(evaluation)
    if (
        not said
        or not longer
        or (came_out is not None and _held(promised["bits"], promised["within"], came_out) != "as")
    ):
        return said
    would, gain = in_minutes(longer["minutes"]), promised["bits"] - longer["bits"]
    if gain < GAIN * promised["bits"]:
        return f"{said} {would} would hardly change that, by the law of the promise."
    figures = interval(longer["bits"], longer["within"])
    return f"{said} {would} would bring {figures} bits per byte on new text, by the law of the promise."


def in_plain_words(evaluation: Mapping[str, Any]) -> str:
    """What the text that a model writes is like, in a sentence; nothing where too little was measured."""
    words, diversity = evaluation.get("known_words") or {}, evaluation.get("diversity") or {}
    counted, loss = (evaluation.get("baselines") or {}).get("ngram") or {}, evaluation.get("val_loss")
    if not {"generated", "held_out"} <= words.keys() or loss is None or not counted.get("loss"):
        return ""
    own, new = words["generated"], words["held_out"]
    invented = new - own > APART
    said = f"{1 - own:.0%} of its words are made up" if invented else "Its words are right"
    said += f" ({own:.0%} of them stand in the training text; of the words of new text, {new:.0%})"
    joined = (", and ", ", but ") if invented else (", but ", ", and ")
    again, usual = (
        (diversity.get(side) or {}).get("repeated", {}).get("mean") for side in ("generated", "held_out")
    )
    if again is not None and usual is not None and again - usual > APART:
        return f"{said}{joined[0]}its phrases come again and again ({again:.0%}, in new text {usual:.0%})."
    row = f"counting {counted['order']} tokens in a row"
    figures = f"({loss:.2f} nats per token, counting {counted['loss']:.2f})"
    if loss > (1 - HARDLY) * counted["loss"]:
        return f"{said}{joined[0]}its sentences are not right: it is hardly better than {row} {figures}."
    return f"{said}{joined[1]}its sentences hang together longer than {row} lets them {figures}."


def interval(bits: float, within: float) -> str:
    """What is promised, in words: to both sides alike, but for losses below nothing, which there are not."""
    return f"{bits:.2f} ± {within:.2f}" if within <= bits else f"{bits:.2f} (0 to {bits + within:.2f})"


def audit(
    *,
    minutes: float,
    bits: float,
    within: float,
    came_out: float | None,
    reads_on: bool = False,
    **_: Any,
) -> str:
    """The promise beside what came out, in a sentence; `reads_on`: of a model that learns on in the text."""
    said = f"Promised for {in_minutes(minutes)}: {interval(bits, within)} bits per byte on new text"
    if came_out is None:
        return f"{said} (80 of 100 such promises should hold)."
    held = _held(bits, within, came_out)
    how = ", each token learned after it was scored" if reads_on else ""
    return (
        f"{said} (80 of 100 such promises should hold). Came out: {came_out:.3f} on the test split{how}, "
        f"{held} promised."
    )


def _held(bits: float, within: float, came_out: float) -> str:
    return "better than" if came_out < bits - within else "worse than" if came_out > bits + within else "as"
