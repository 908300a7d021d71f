"""What an evaluation says in a sentence: the loss among simple predictors, and above the source's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from octavo.training.objective import TEXT, Unit
from octavo.util.terminal import listed

NAMES = {
    "uniform": "guessing",
    "unigram": "unigram",
    "bigram": "bigram",
    "trigram": "trigram",
    "ngram": "{order}-gram",
    "mixing": "context mixing",
    "gzip": "gzip",
    "xz": "xz",
    "xz_given_train": "xz after the training text",
    "start": "what it started from",
}


def against_source(result: Mapping[str, Any], unit: Unit = TEXT) -> str:
    """How far a loss is above that of the source, which knows the probability of what it wrote. The distance is taken
    on the same documents: these may be a little harder or easier than others.
    """
    entropy = result["source_entropy"]
    floor = result.get("source_loss", entropy)
    above = result["val_loss"] - floor
    share = f" ({above / floor:.1%})" if floor and not unit.density else ""
    limit = f"The source's own entropy is {entropy:.4f} {unit}, a limit that no model can beat"
    if f"{floor:.4f}" == f"{entropy:.4f}":
        return f"{limit}; this one is {above:.4f}{share} above it."
    return (
        f"{limit} on average; on these documents its own loss is {floor:.4f}, and this model is "
        f"{above:.4f}{share} above that."
    )


def standing(result: Mapping[str, Any], names: Mapping[str, str] | None = None, ahead: str = "") -> str:
    """The loss, and which simple means it beats and which it does not.

    Args:
        names: of baselines that have another one than their key, beside the usual ones.
        ahead: what has to be said with the loss.
    """
    called = {**{name: name for name in result["baselines"]}, **NAMES, **(names or {})}
    beaten: dict[bool, list[str]] = {True: [], False: []}
    for key, name in called.items():
        baseline = result["baselines"].get(key)
        by = "bits_per_byte" if baseline and baseline["loss"] is None else "loss"
        own = result.get("val_loss" if by == "loss" else by)
        if key == "mixing" and "reading_on" in result:  # which reads on, too
            own = result["reading_on"]["bits_per_byte"]
        if baseline and own is not None:
            beaten[own < baseline[by]].append(name.format(order=baseline.get("order")))
    words = {True: "better than", False: "not better than"}
    comparisons = [f"{words[how]} {listed(found)}" for how, found in beaten.items() if found]
    figures = f"Validation loss {result['val_loss']:.4f} {result.get('unit', TEXT)}{ahead}"
    if "bits_per_byte" in result:
        figures += f", {result['bits_per_byte']:.3f} bits per byte"
    return f"{figures}: {', '.join(comparisons)}." if comparisons else f"{figures}."
