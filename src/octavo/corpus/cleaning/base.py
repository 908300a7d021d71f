"""What every cleaning step is: text in, text out, or the reason why the document is left out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter

from octavo.config.parts import PartConfig

# A step sees a document whole. One that is longer than this is cleaned in portions, each as a document.
LONGEST = 1 << 22  # characters
EXAMPLES = 3  # left-out documents that are named for each step


class Dropped(Exception):
    """Raised by a step to leave a document out.

    Args:
        reason: a short phrase, the same for all documents of its kind, so that reasons can be counted.
        detail: what it was in this document.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        self.reason = reason
        self.detail = detail
        super().__init__(f"{reason}: {detail}" if detail else reason)


class Step(ABC):
    """One step over one pass through a corpus; it may remember what came before.

    Attributes:
        found: what the step met, counted by name, for the summary.
    """

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()

    @abstractmethod
    def clean(self, text: str, number: int) -> str:
        """The document's text after this step; `number` counts the corpus's documents from 1. Raises Dropped."""


class StepConfig(PartConfig):
    """Base of every step's config."""

    @abstractmethod
    def build(self) -> Step:
        """A fresh step for one pass. Raises InputError if a file or a library is missing."""
