"""From a spec to a written corpus: the folder, the cap, the writers; and the comparison of prompts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from octavo.config import parse_yaml
from octavo.errors import ConfigError, InputError
from octavo.llm_corpus.calls import Backend, Message
from octavo.llm_corpus.checks import Judge, words_of
from octavo.llm_corpus.export import export
from octavo.llm_corpus.money import PICO, Hours, Prices, Tokens, dollars
from octavo.llm_corpus.progress import Progress
from octavo.llm_corpus.prompts import Prompt
from octavo.llm_corpus.report import figures, write_page
from octavo.llm_corpus.spec import WritingSpec, check_spec, spec_yaml
from octavo.llm_corpus.store import (
    Store,
    locked,
    prompts_in,
    reading_if_begun,
    spent_in,
    storage,
    write_aside,
)
from octavo.llm_corpus.writer import Writing
from octavo.util.files import claim_folder, drop_asides

# The price before the run: tokens of a sample of prompts × the price table.

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


STORE = "stories.sqlite"
"""The database in a corpus' folder."""

COMPARED = "compare"
"""The folder in it where prompts are compared."""

_FIXED = ("rules", "diversity", "seed")  # what may not change between two sessions of one corpus

Tell = Callable[[Progress], None]
Say = Callable[[str], None]


class WritingJob:
    """A corpus to write into a folder.

    Args:
        spec: what is asked, of whom, by which rules.
        out: the folder; one that exists is continued.
        stories: wanted in all, with those that are there.
        max_usd: the cap in dollars on all calls of this corpus, of all sessions; None for none.
        max_hours: no calls after so many hours of this session.
        off_peak: calls at these hours only, such as 10:00-18:30@America/Denver.

    Raises InputError (ConfigError) for what cannot work: a cap without prices, prices without a cap, a key that is
    not set.
    """

    def __init__(
        self,
        spec: WritingSpec,
        out: str | Path,
        *,
        stories: int,
        max_usd: float | None = None,
        max_hours: float | None = None,
        off_peak: str | None = None,
    ) -> None:
        if stories < 1:
            raise InputError(f"{stories} stories were asked for; it has to be at least one.")
        if max_usd is not None and not 0 <= max_usd < 10**6:
            raise InputError(f"The cap is {max_usd} dollars; it has to be from 0 to a million.")
        if max_hours is not None and max_hours <= 0:
            raise InputError(f"{max_hours} hours were given; there has to be some time.")
        self.spec, self.out, self.stories, self.max_hours = spec, Path(out), stories, max_hours
        self.max_usd = max_usd
        self.cap = None if max_usd is None else int(max_usd * PICO)
        self.hours = Hours.parse(off_peak) if off_peak else None
        self.words = words_of(spec.rules)
        self.prompt = Prompt(spec.prompt, spec, self.words)
        self._check_money()

    @property
    def store(self) -> Path:
        """Path of the SQLite database."""
        return self.out / STORE

    def _check_money(self) -> None:
        prices = {
            name: getattr(writer, "prices", Prices(input=0, output=0))
            for name, writer in self.spec.writers.items()
        }
        unknown = [name for name, price in prices.items() if price is None]
        if self.cap is not None and unknown:
            raise ConfigError(
                f"A cap in dollars cannot be kept: the spec has no prices for {', '.join(unknown)}.",
                remedy=f"writers.{unknown[0]}.prices='{{input: 0.28, output: 0.42}}'    (dollars for a million tokens)",
            )
        if self.cap is None and any(price and (price.input or price.output) for price in prices.values()):
            raise ConfigError(
                "This writer costs money, and no cap is set.", remedy="say how much at most: --max-usd 2"
            )

    def estimate(self) -> Estimate:
        """The price of the stories that are missing, by the dearest writer."""
        prices = [
            p for writer in self.spec.writers.values() if (p := getattr(writer, "paid", None)) is not None
        ]
        dearest = max(prices, key=lambda price: price.input + price.output, default=None)
        return estimate(self.spec, self.prompt, dearest, self.stories, self.store)

    def run(
        self,
        *,
        tell: Tell = lambda _: None,
        say: Say = lambda _: None,
        stop: Callable[[], bool] = lambda: False,
        backends: dict[str, Backend] | None = None,
    ) -> dict[str, Any]:
        """Write until the stories are there, the cap or the hours are reached, or `stop` says so; then export and
        report.

        Returns the figures, with `ended`: stories, budget, hours or stopped. Raises WritersGone when no writer
        answers; what was written until then is kept and exported.
        """
        if backends is None:
            backends = {name: writer.build(seed=self.spec.seed) for name, writer in self.spec.writers.items()}
        claim_folder(self.out, "a corpus", is_one=lambda out: self.store.exists(), passing=[COMPARED])
        with locked(self.out):
            for folder in (self.out, self.out / "report"):
                with storage(folder):
                    drop_asides(folder)  # of a process that was killed
            store = Store(self.store, near_duplicates=self.spec.rules.near_duplicates)
            try:
                self._same_corpus(store)
                writing = Writing(
                    spec=self.spec,
                    prompt=self.prompt,
                    judge=Judge(self.spec.rules, self.words),
                    store=store,
                    backends=backends,
                    stories=self.stories,
                    cap=self.cap,
                    deadline=time.monotonic() + self.max_hours * 3600 if self.max_hours else float("inf"),
                    off_peak=self.hours,
                )
                say(
                    f"{self.out}: {writing.progress.stories:,} stories are there, {self.stories:,} are wanted"
                )
                try:
                    ended = asyncio.run(writing.run(tell, stop))
                finally:
                    report = self.publish()
            finally:
                store.close()
            return {"ended": ended, "out": str(self.out), **writing.progress.facts(), "report": report}

    def publish(self) -> dict[str, Any]:
        """Write corpus.txt, corpus.jsonl and the report from the store; returns the report's figures."""
        export(self.store, self.out)
        found = {"name": self.spec.name, **figures(self.store, self.words)}
        write_page(self.out / "report", found)
        return found

    def _same_corpus(self, store: Store) -> None:
        """One corpus, one set of rules: refuse to continue with others."""
        mine = {name: self.spec.model_dump(mode="json")[name] for name in _FIXED}
        before = store.fact("spec")
        if before is None:
            store.keep_fact("spec", mine)
        elif differing := [name for name in _FIXED if before.get(name) != mine[name]]:
            raise ConfigError(
                f"{self.out} was begun with another spec: {', '.join(differing)} differ.",
                remedy="continue with the spec.yaml in that folder, or write into a new one with --out",
            )
        write_aside(self.out / "spec.yaml", lambda file: file.write(spec_yaml(self.spec)))


def compare_prompts(job: WritingJob, *, say: Say = lambda _: None, **run: Any) -> dict[str, Any]:
    """Have `job.stories` stories written with each prompt of the spec's `compare`, and put their figures side by side.

    Each prompt has its own folder under `compare/`, and a changed one another; the cap holds for all of them together.
    """
    if len(job.spec.compare) < 2:
        raise ConfigError(
            "To compare, the spec has to name at least two prompts.", remedy="compare: [pidgin, pidgin-short]"
        )
    parts = []
    for name in job.spec.compare:
        spec = check_spec({**parse_yaml(spec_yaml(job.spec), "the spec"), "prompt": name})
        part = WritingJob(spec, job.out, stories=job.stories, max_usd=job.max_usd, max_hours=job.max_hours)
        part.hours = job.hours
        part.out = _place_of(part.prompt, job.out / COMPARED, taken={other.out for other in parts})
        parts.append(part)
    rows = []
    for part in parts:
        if job.cap is not None:  # the cap is for all of them together
            others = {path.parent for path in part.out.parent.glob(f"*/{STORE}")} - {part.out}
            part.cap = max(0, job.cap - sum(spent_in(other / STORE) for other in others))
        say(f"the prompt {part.prompt.name}")
        result = part.run(say=say, **run)
        report = result["report"]
        keys = (
            "stories",
            "calls",
            "replies",
            "yield",
            "cost_usd",
            "cost_per_story_usd",
            "distinct",
            "near_duplicates",
        )
        more = {
            "words": report["words"],
            "coverage": report["vocabulary"].get("coverage"),
            "rejects": report["rejects"],
        }
        rows.append(
            {"prompt": part.prompt.name, "ended": result["ended"], **{k: report[k] for k in keys}, **more}
        )
        if result["ended"] == "stopped":
            break
    spent = sum(spent_in(path) for path in (job.out / COMPARED).glob(f"*/{STORE}")) / PICO
    return {"stories_each": job.stories, "spent_usd": spent, "prompts": rows}


def _place_of(prompt: Prompt, folder: Path, *, taken: set[Path]) -> Path:
    """Where a prompt's stories are: by its name, unless those there are of another prompt."""
    plain = folder / prompt.name
    alone = plain not in taken and prompts_in(plain / STORE) <= {prompt.hash}
    return plain if alone else folder / f"{prompt.name}-{prompt.hash[:8]}"
