"""Looks at the test split, as a manifest keeps them: of which model each was, and which of them is the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from octavo.config import Recipe
from octavo.config.parts import command
from octavo.report.about import split_of
from octavo.util.terminal import finite


def looks_of(manifest: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """All of them, the first one first."""
    return manifest.get("test_looks") or ()


def of_result(manifest: Mapping[str, Any], evaluation: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Those at the model that the run's evaluation is of: a run that went on since has another one."""
    return [look for look in looks_of(manifest) if look.get("step") == evaluation.get("step")]


def is_to_be_audited(manifest: Mapping[str, Any], recipe: Recipe) -> bool:
    """Whether what was promised of a run is to be compared with its test split by who made the promise: it has one,
    nobody has looked at it, and the run got the minutes that it was promised for."""
    promised: Any = manifest
    for name in ("auto", "promise", "minutes"):
        promised = promised.get(name) if isinstance(promised, dict) else None
    looked = bool(looks_of(manifest))
    return promised is not None and promised == recipe.training.minutes and bool(recipe.test) and not looked


def chosen_and_tested(
    folder: Path, recipe: Recipe, manifest: Mapping[str, Any], evaluation: Mapping[str, Any]
) -> str:
    """What the figures are of: the split that things were chosen on, or the one that was kept out of everything."""
    if not split_of(manifest, "validation"):
        return ""
    if not recipe.test:
        chosen = "The validation split is what was chosen on, this checkpoint too."
        if recipe.training.start_from is not None:  # a tuning is judged beside what it started from
            return chosen
        return f"{chosen} There is no test split (test=0) that would give a result."
    looks = len(looks_of(manifest))
    if not looks or not of_result(manifest, evaluation):
        seen = f"was {looked_at(looks)} on the way" if looks else "nobody has looked at it yet"
        return (
            "The validation split is what was chosen on. The test split was kept out of everything and "
            f"{seen}: {command('octavo', 'eval', folder, '--test')} gives the result."
        )
    return (
        "The validation split is what was chosen on; the result is that of the test split, which was kept out of "
        f"everything ({looked_at(looks)})."
    )


def looked_at(looks: int) -> str:
    """`looked at once`, `looked at 3 times`."""
    return "looked at once" if looks == 1 else f"looked at {looks:,} times"


def reached(look: Mapping[str, Any]) -> float | None:
    """Bits per byte on the test split: of a model that reads on where it can."""
    found = look.get("reading_on")
    return finite((found if isinstance(found, Mapping) else look).get("bits_per_byte"))


def counting_there(look: Mapping[str, Any]) -> str:
    """What counting alone has on the test split, the control beside the result; nothing where it is not known."""
    if isinstance(found := look.get("reading_on"), Mapping):
        bits = finite(found.get("alone_bits_per_byte"))
        return (
            ""
            if bits is None
            else f"each token learned after it was scored; counting alone has {bits:.3f} there"
        )
    baselines = look.get("baselines")
    ngram = baselines.get("ngram") if isinstance(baselines, Mapping) else None
    bits = finite(ngram.get("bits_per_byte")) if isinstance(ngram, Mapping) else None
    return "" if bits is None else f"the best n-gram has {bits:.3f} there"
