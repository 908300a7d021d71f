"""What an export says, measured through its target's own library in a process of its own, beside what the run said."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from octavo.errors import InputError, OctavoError
from octavo.export.reference_outputs import Reference, filled, nats, written
from octavo.export.targets import targets
from octavo.util.records import json_text

BOUNDS: dict[str, float] = {
    "float32": 1e-4,
    "float16": 0.1,
    "bfloat16": 1.0,
    "q8_0": 1.0,
    "q4_1": 10.0,
    "q4_0": 10.0,
}
"""The largest difference of a logit that an exact export may have, by its number type."""
NEAR = 1.0
"""The same where the target was said to be approximate."""
LARGE = 16.0
"""Where logits are larger than that, the bounds grow as they do: a float32 has seven digits."""


@dataclass(frozen=True)
class Strings:
    """How many texts have other ids, or are spaced otherwise, than in the run.

    Attributes:
        other_ids, other_text: of those compared.
        refused_by_the_run, taken_still: those that the run has no ids for, and of them those that the export has.
    """

    compared: int
    other_ids: int
    other_text: int
    refused_by_the_run: int
    taken_still: int


@dataclass(frozen=True)
class Measurement:
    """What an export says beside its run.

    Attributes:
        largest_logit_difference: over `positions` and `columns`; `largest_logit` is the run's.
        loss, loss_of_the_run: of `loss_tokens`, which are some `of_tokens`.
        first_greedy_difference: of each greedy text, the first token that is another one, of `greedy_tokens`.
    """

    largest_logit_difference: float
    positions: int
    columns: int
    largest_logit: float
    loss: float
    loss_of_the_run: float
    loss_tokens: int
    of_tokens: int
    first_greedy_difference: list[int | None]
    greedy_tokens: int
    strings: Strings
    versions: dict[str, str]

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Measurement:
        """As the process that measured it, or a certificate, has it; NaN and infinity are null there."""
        known: dict[str, Any] = {name: math.nan if value is None else value for name, value in stored.items()}
        known["strings"] = Strings(**stored["strings"])
        return cls(**known)


def measure(name: str, folder: Path) -> Measurement:
    """Open an export by its target and compare. Everything is a number; nothing is judged here."""
    kept, opened = Reference.load(folder), targets()[name].reopen(folder)
    largest, total, at = 0.0, 0.0, 0
    for window in map(filled, kept.windows):
        found = opened.logits(window[:-1].tolist())
        total += nats(found, window[1:])
        wanted = kept.logits[at : at + len(found)]
        if len(wanted):
            difference = np.abs(found[:, kept.columns] - wanted).max()
            largest = float(np.maximum(largest, difference))  # keeps what is no number
        at += len(wanted)
    differs: list[int | None] = []
    for prompt, expected in zip(kept.prompts, kept.greedy, strict=True):
        found = written(lambda ids, count: opened.greedy(ids, count), prompt.tolist(), kept.context)
        wrong = np.flatnonzero(np.array(found) != expected)
        differs.append(int(wrong[0]) if len(wrong) else None)
    return Measurement(
        largest_logit_difference=largest,
        positions=len(kept.logits),
        columns=len(kept.columns),
        largest_logit=float(np.abs(kept.logits).max()),
        loss=total / kept.loss_tokens,
        loss_of_the_run=kept.loss,
        loss_tokens=kept.loss_tokens,
        of_tokens=kept.of_tokens,
        first_greedy_difference=differs,
        greedy_tokens=int(kept.greedy.shape[1]),
        strings=compared(opened, kept.strings),
        versions=opened.versions(),
    )


def compared(opened: Any, strings: list[dict[str, Any]]) -> Strings:
    """Encode and decode texts; all differ, where an export takes ids alone."""
    known = [one for one in strings if one["ids"] is not None]
    refused = [one for one in strings if one["ids"] is None]
    ids = [opened.encode(one["text"]) for one in known]
    texts = [opened.decode(one["ids"]) for one in known]
    return Strings(
        compared=len(known),
        other_ids=sum(found != one["ids"] for found, one in zip(ids, known, strict=True)),
        other_text=sum(found != one["decoded"] for found, one in zip(texts, known, strict=True)),
        refused_by_the_run=len(refused),
        taken_still=sum(opened.encode(one["text"]) is not None for one in refused),
    )


def measured(name: str, folder: Path) -> Measurement:
    """`measure` in a fresh process, so that nothing of the export's making helps. Raises OctavoError where it fails."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "octavo.export.prove", name, str(folder)],
        stdin=subprocess.DEVNULL,  # a library may ask whether to run what lies in the folder
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    try:
        document = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError) as error:
        last = (done.stderr.strip().splitlines() or ["it ended without a word"])[-1]
        raise OctavoError(f"{folder} could not be opened by {targets()[name].title}: {last}.") from error
    if "error" in document:
        raise InputError(document["error"])
    return Measurement.of(document)


def bound_of(measurement: Measurement, *, dtype: str, model: str) -> float:
    """The largest difference of a logit that an export may have."""
    return max(BOUNDS[dtype], NEAR if model != "exact" else 0.0) * max(1.0, measurement.largest_logit / LARGE)


def misses(measurement: Measurement, *, dtype: str, model: str, tokenizer: str) -> list[str]:
    """What an export promised and does not hold, in sentences. `model` and `tokenizer` are the statuses promised."""
    bound = bound_of(measurement, dtype=dtype, model=model)
    sentences = []
    if not measurement.largest_logit_difference <= bound:
        sentences.append(
            f"logits differ by {measurement.largest_logit_difference:.3g}; the bound is {bound:g}"
        )
    wrong = [one for one in measurement.first_greedy_difference if one is not None]
    if wrong and dtype == "float32" and model == "exact":
        sentences.append(f"{len(wrong)} greedy texts differ, the first after {min(wrong)} tokens")
    if not abs(measurement.loss - measurement.loss_of_the_run) <= bound:
        sentences.append(f"the loss is {measurement.loss:.6f}, in the run {measurement.loss_of_the_run:.6f}")
    strings = measurement.strings
    for key, what in (("other_ids", "have other ids"), ("other_text", "are decoded otherwise")):
        if tokenizer == "exact" and getattr(strings, key):
            sentences.append(f"{getattr(strings, key)} of {strings.compared} texts {what}")
    return sentences


def near(measurement: Measurement, *, model: str, tokenizer: str) -> list[str]:
    """By how much something is off that was said to be approximate, in sentences."""
    sentences, strings = [], measurement.strings
    if model == "approximate":
        wrong = [one for one in measurement.first_greedy_difference if one is not None]
        texts = (
            f", and {len(wrong)} greedy texts differ, the first after {min(wrong)} tokens" if wrong else ""
        )
        sentences.append(
            f"the model is approximate: logits differ by {measurement.largest_logit_difference:.2g}{texts}"
        )
    if tokenizer == "approximate":
        count = strings.compared
        ids, texts = (f"{getattr(strings, key) / max(1, count):.1%}" for key in ("other_ids", "other_text"))
        sentences.append(
            f"the tokenizer is approximate: of {count} texts {ids} have other ids, {texts} are decoded otherwise"
        )
    return sentences


def _main(name: str, folder: str) -> None:
    try:
        document: Any = measure(name, Path(folder))
    except OctavoError as error:
        document = {"error": error.what}
    sys.stdout.write("\n" + json_text(document) + "\n")


if __name__ == "__main__":
    _main(*sys.argv[1:])
