"""What is known while a corpus is written, for a live line and for the end."""

from __future__ import annotations

import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

from octavo.llm_corpus.money import Budget, dollars

WINDOW = 120.0
"""Seconds over which the rate is taken."""


@dataclass
class Progress:
    """Counts of this session, next to the totals of the corpus."""

    wanted: int
    stories: int
    budget: Budget
    priced: bool
    replies: int = 0
    accepted: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    in_flight: int = 0
    note: str = ""
    started: float = field(default_factory=time.monotonic)
    _times: deque[float] = field(default_factory=deque)

    def story(self) -> None:
        self.stories += 1
        self.accepted += 1
        self._times.append(time.monotonic())

    def per_hour(self) -> float:
        """Stories an hour, of late."""
        now = time.monotonic()
        while self._times and now - self._times[0] > WINDOW:
            self._times.popleft()
        span = min(now - self.started, WINDOW)
        return len(self._times) / span * 3600 if span > 0 else 0.0

    def line(self) -> str:
        """The live line: stories, what is waited for, yield, cost, pace."""
        parts = [f"{self.stories:,} of {self.wanted:,} stories"]
        if self.note:
            parts.append(self.note)
        if self.replies:
            parts.append(f"yield {self.accepted / self.replies:.0%}")
        if self.priced:
            cap = f" of {dollars(self.budget.cap)}" if self.budget.cap is not None else ""
            parts.append(f"{dollars(self.budget.spent)}{cap}")
        rate = self.per_hour()
        if rate:
            parts.append(f"{rate:,.0f} an hour")
        parts.append(f"{self.in_flight} in flight")
        return ", ".join(parts)

    def facts(self) -> dict[str, Any]:
        """Figures of the session, for --json."""
        seconds = time.monotonic() - self.started
        return {
            "wanted": self.wanted,
            "stories": self.stories,
            "session": {
                "stories": self.accepted,
                "replies": self.replies,
                "yield": self.accepted / self.replies if self.replies else None,
                "failures": dict(sorted(self.failures.items())),
                "seconds": round(seconds, 3),
                "stories_per_hour": self.accepted / seconds * 3600 if seconds else 0.0,
            },
            "spent_usd": self.budget.spent / 10**12,
            "cap_usd": None if self.budget.cap is None else self.budget.cap / 10**12,
        }
