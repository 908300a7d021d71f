"""What an export says, measured through its target's own library in a process of its own, beside what the run said."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from octavo.errors import InputError, OctavoError
from octavo.ship.reference import Reference, nats, written
from octavo.ship.targets import targets

BOUNDS: dict[str, float] = {
    "float32": 1e-4,
    "float16": 0.1,
    "bfloat16": 1.0,
    "q8_0": 1.0,
    "q4_0": 10.0,
}
"""The largest difference of a logit that an exact export may have, by its number type."""
NEAR = 1.0
"""The same where the target was said to be approximate."""


def measure(name: str, folder: Path) -> dict[str, Any]:
    """Open an export by its target and compare. Everything is a number; nothing is judged here."""
    kept, opened = Reference.load(folder), targets()[name].reopen(folder)
    largest, total, at = 0.0, 0.0, 0
    for window in kept.windows:
        found = opened.logits(window[:-1].tolist())
        total += nats(found, window[1:])
        wanted = kept.logits[at : at + kept.context]
        if len(wanted):
            difference = np.abs(found[:, kept.columns] - wanted).max()
            largest = float(np.maximum(largest, difference))  # keeps what is no number
        at += len(wanted)
    differs: list[int | None] = []
    for prompt, expected in zip(kept.prompts, kept.greedy, strict=True):
        found = written(lambda ids, count: opened.greedy(ids, count), prompt.tolist(), kept.context)
        wrong = np.flatnonzero(np.array(found) != expected)
        differs.append(int(wrong[0]) if len(wrong) else None)
    return {
        "largest_logit_difference": largest,
        "positions": len(kept.logits),
        "columns": len(kept.columns),
        "loss": total / kept.windows[:, 1:].size,
        "loss_of_the_run": kept.loss,
        "loss_tokens": int(kept.windows[:, 1:].size),
        "first_greedy_difference": differs,
        "greedy_tokens": int(kept.greedy.shape[1]),
        "strings": compared(opened, kept.strings),
        "versions": opened.versions(),
    }


def compared(opened: Any, strings: list[dict[str, Any]]) -> dict[str, Any]:
    """How many texts have other ids, or are spaced otherwise, than in the run."""
    known = [one for one in strings if one["ids"] is not None]
    refused = [one for one in strings if one["ids"] is None]
    ids = [opened.encode(one["text"]) for one in known]
    if all(one is None for one in ids):
        return {
            "compared": 0,
            "other_ids": 0,
            "other_text": 0,
            "refused_by_the_run": len(refused),
            "taken_still": 0,
        }
    texts = [opened.decode(one["ids"]) for one in known]
    return {
        "compared": len(known),
        "other_ids": sum(found != one["ids"] for found, one in zip(ids, known, strict=True)),
        "other_text": sum(found != one["decoded"] for found, one in zip(texts, known, strict=True)),
        "refused_by_the_run": len(refused),
        "taken_still": sum(opened.encode(one["text"]) is not None for one in refused),
    }


def measured(name: str, folder: Path) -> dict[str, Any]:
    """`measure` in a fresh process, so that nothing of the export's making helps. Raises OctavoError where it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "octavo.ship.prove", name, str(folder)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    try:
        found = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError) as error:
        last = (done.stderr.strip().splitlines() or ["it ended without a word"])[-1]
        raise OctavoError(f"{folder} could not be opened by {targets()[name].title}: {last}.") from error
    if "error" in found:
        raise InputError(found["error"])
    return found


def misses(found: dict[str, Any], *, dtype: str, model: str, tokenizer: str) -> list[str]:
    """What an export promised and does not hold, in sentences. `model` and `tokenizer` are the statuses promised."""
    bound = max(BOUNDS[dtype], NEAR if model != "exact" else 0.0)
    said = []
    if not found["largest_logit_difference"] <= bound:
        said.append(f"logits differ by {found['largest_logit_difference']:.3g}; the bound is {bound:g}")
    wrong = [one for one in found["first_greedy_difference"] if one is not None]
    if wrong and dtype == "float32" and model == "exact":
        said.append(f"{len(wrong)} greedy texts differ, the first after {min(wrong)} tokens")
    if not abs(found["loss"] - found["loss_of_the_run"]) <= bound:
        said.append(f"the loss is {found['loss']:.6f}, in the run {found['loss_of_the_run']:.6f}")
    strings = found["strings"]
    for key, what in (("other_ids", "have other ids"), ("other_text", "are decoded otherwise")):
        if tokenizer == "exact" and strings[key]:
            said.append(f"{strings[key]} of {strings['compared']} texts {what}")
    return said


def _main(name: str, folder: str) -> None:
    try:
        found = measure(name, Path(folder))
    except OctavoError as error:
        found = {"error": error.what}
    sys.stdout.write("\n" + json.dumps(found) + "\n")


if __name__ == "__main__":
    _main(*sys.argv[1:])
