"""How many of the texts that a model wrote are good, by the rules of the source that it learned from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from octavo.evaluation.samples import GeneratedTexts
from octavo.generation import Sampling


def story_metrics(written: GeneratedTexts, check: Callable[[str], Any]) -> dict[str, Any]:
    """How many of the texts a checker passes, and what is wrong with the others."""
    verdicts = [check(text) for text in written.texts]
    problems = [verdict.problems[0] for verdict in verdicts if not verdict.ok]
    return {
        "written": len(verdicts),
        "passed": sum(verdict.ok for verdict in verdicts),
        "sampling": asdict(written.sampling),
        "problems": problems[:20],
    }


def of_stories(stories: Mapping[str, Any]) -> str:
    """The sentence for it."""
    how = ", ".join(
        f"{name}={value}" for name, value in stories["sampling"].items() if value != getattr(Sampling(), name)
    )
    drawn = f" (drawn with {how})" if how else ""
    return f"{stories['passed']} of {stories['written']} stories that it wrote{drawn} are good pidgin."
