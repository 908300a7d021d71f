"""The price before the run: tokens of a sample of prompts × the price table.

Until a writer has counted some, tokens are taken from letters: of four letters a token is made, and never fewer
than one a word. Once the store holds counted calls, those are the measure: tokens, cached share, and replies for a
story.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from octavo.synthesis.writing.calls import Message
from octavo.synthesis.writing.money import PICO, Prices, Tokens, dollars
from octavo.synthesis.writing.prompts import Prompt
from octavo.synthesis.writing.spec import WritingSpec
from octavo.synthesis.writing.store import reading_if_begun

SAMPLE = 50
"""Prompts that are looked at, and counted calls that make a measure."""


@dataclass(frozen=True)
class Estimate:
    """What so many stories would take. Tokens are means of one call; dollars are None without prices."""

    stories: int
    input_tokens: float
    cached_tokens: float
    output_tokens: float
    calls_per_story: float
    usd: float | None
    most_usd_per_call: float | None
    measured: bool

    def facts(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    def sentence(self, cap: int | None = None) -> str:
        """For the reader; with the cap (picodollars), also what it buys where it is too small."""
        guess = f"by the letters of {SAMPLE} prompts, with nothing cached and 80 % of the replies passing"
        basis = "as measured so far" if self.measured else guess
        what = (
            f"{self.stories:,} stories: about {self.input_tokens:,.0f} tokens in ({self.cached_tokens:,.0f} cached) and"
            f" {self.output_tokens:,.0f} out a call, {self.calls_per_story:.2f} calls a story"
        )
        cost = "" if self.usd is None else f", about {dollars(self.usd * PICO)}"
        short = ""
        if cap is not None and self.usd and cap < self.usd * PICO:
            short = (
                f"; the cap of {dollars(cap)} is enough for about {cap / self.usd / PICO * self.stories:,.0f}"
            )
        return f"{what}{cost} ({basis}){short}"


def estimate(
    spec: WritingSpec, prompt: Prompt, prices: Prices | None, stories: int, store: Path | None = None
) -> Estimate:
    """The price of so many stories more."""
    mean, calls, measured = _measured(store) if store is not None else (None, 1.25, False)
    samples = [prompt.first(number) for number in range(SAMPLE)]
    if mean is None:
        mean = (
            sum(map(letters_as_tokens, samples)) / SAMPLE,
            0.0,
            min(spec.max_tokens, 1.4 * sum(spec.rules.words) / 2),
        )
    usd = most = None
    if prices is not None:
        one = Tokens(*(round(value * 1000) for value in mean))
        usd = prices.cost(one) / 1000 / PICO * calls * stories
        longest = max(sum(len(m["content"].encode()) + 16 for m in sample) + 16 for sample in samples)
        most = prices.most(Tokens(longest, 0, spec.max_tokens)) / PICO
    return Estimate(stories, *mean, calls_per_story=calls, usd=usd, most_usd_per_call=most, measured=measured)


def letters_as_tokens(messages: list[Message]) -> float:
    """Tokens of a prompt, guessed."""
    text = " ".join(message["content"] for message in messages)
    return max(len(text) / 4, len(text.split()))


def _measured(store: Path) -> tuple[tuple[float, float, float] | None, float, bool]:
    with reading_if_begun(store) as con:
        if con is None:
            return None, 1.25, False
        row = con.execute(
            "SELECT count(*) AS n, avg(input_tokens) AS i, avg(cached_tokens) AS c, avg(output_tokens) AS o FROM calls"
            " WHERE output_tokens > 0"
        ).fetchone()
        calls, stories = con.execute("SELECT count(*), (SELECT count(*) FROM stories) FROM calls").fetchone()
    if row["n"] < SAMPLE or not stories:
        return None, 1.25, False
    return (row["i"], row["c"], row["o"]), calls / stories, True
