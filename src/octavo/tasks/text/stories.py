"""How many of the texts that a model wrote are good, by the rules of the source that it learned from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from octavo.evaluation.samples import GeneratedTexts
from octavo.generation import Sampling


@dataclass(frozen=True)
class Stories:
    """How many of the texts that were written a checker passes, and what is wrong with the first others."""

    written: int
    passed: int
    sampling: Sampling
    problems: list[str]


def story_metrics(written: GeneratedTexts, check: Callable[[str], Any]) -> Stories:
    """Let a checker read each text."""
    verdicts = [check(text) for text in written.texts]
    problems = [verdict.problems[0] for verdict in verdicts if not verdict.ok]
    passed = sum(verdict.ok for verdict in verdicts)
    return Stories(len(verdicts), passed, written.sampling, problems[:20])


def stories_sentence(stories: Mapping[str, Any]) -> str:
    """How many stories are good pidgin."""
    how = ", ".join(
        f"{name}={value}" for name, value in stories["sampling"].items() if value != getattr(Sampling(), name)
    )
    drawn = f" (drawn with {how})" if how else ""
    return f"{stories['passed']} of {stories['written']} stories that it wrote{drawn} are good pidgin."
