"""From a reply to a story, or to what is wrong with it: stripped, cleaned, repaired where the spec says so,
checked."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from octavo.corpus.cleaning import Dropped
from octavo.corpus.cleaning.closed import read_vocabulary
from octavo.errors import ConfigError
from octavo.llm_corpus.calls import Reply
from octavo.llm_corpus.export import SEPARATOR
from octavo.llm_corpus.spec import Rules
from octavo.llm_corpus.store import Candidate
from octavo.synthetic.checker import check, check_plain
from octavo.synthetic.grammar import TOKEN
from octavo.synthetic.vocabulary import MARKS
from octavo.synthetic.vocabulary import vocabulary as own_vocabulary


def words_of(rules: Rules) -> frozenset[str] | None:
    """The words that may stand in a story; None for any. Raises InputError for a file that holds none."""
    if rules.vocabulary == "free":
        return None
    if rules.vocabulary == "pidgin":
        return frozenset(own_vocabulary())
    words = frozenset(read_vocabulary(Path(rules.vocabulary))) - MARKS
    if not words:
        raise ConfigError(f"rules.vocabulary: {rules.vocabulary} holds marks alone, no words.")
    return words


class Judge:
    """Decides about replies by a spec's rules; knows no other story. Raises ConfigError for a wrong pattern."""

    def __init__(self, rules: Rules, words: Collection[str] | None) -> None:
        self.rules, self.words = rules, words
        try:
            self._strip = [re.compile(pattern) for pattern in rules.strip]
        except re.error as error:
            raise ConfigError(f"rules.strip: '{error.pattern}' is no regular expression: {error}.") from error
        self._steps = [step.build() for step in rules.cleaning]

    def judge(self, reply: Reply, seeds: dict[str, str]) -> tuple[Candidate | None, tuple[str, ...]]:
        """The story in a reply, or None with every problem, each a sentence for the one who wrote it."""
        if reply.finish != "stop":
            return None, (f"The reply was cut off before its end ({reply.finish}).",)
        text = reply.text
        for pattern in self._strip:
            text = pattern.sub("", text)
        try:
            for step in self._steps:
                text = step.clean(text, "a reply")
        except Dropped as why:
            return None, (
                f"{why.reason[0].upper()}{why.reason[1:]}" + (f": {why.detail}." if why.detail else "."),
            )
        text = text.strip().removesuffix(SEPARATOR).rstrip()
        if not text:
            return None, ("The reply is empty.",)
        repairs = []
        for name in ("repeats", "ending"):
            if name in self.rules.repair:
                better = getattr(self, f"_{name}")(text)
                if better != text:
                    repairs.append(name)
                text = better
        problems = self.problems(text)
        if problems:
            return None, problems
        count = sum(token not in MARKS for token in TOKEN.findall(text))
        checks = (
            self.rules.checker,
            "vocabulary" if self.words is not None else "any words",
            "length",
            "ending",
        )
        return Candidate(text, count, checks, tuple(repairs), seeds), ()

    def problems(self, text: str) -> tuple[str, ...]:
        """What is wrong with a story as it stands."""
        rules = self.rules
        if SEPARATOR in text:
            return (f"There is {SEPARATOR} in it, which ends a story.",)
        if rules.checker == "pidgin":
            return check(text, vocabulary=self.words, words=rules.words).problems
        return check_plain(text, vocabulary=self.words, words=rules.words, ending=rules.ending).problems

    def _ending(self, text: str) -> str:
        """Nothing after the closing sentence; a missing one added after a whole sentence."""
        ending = self.rules.ending
        if not ending:
            return text
        found = re.search(rf"(?:^|(?<=[.?] )){re.escape(ending)}", text)
        if found:
            return text[: found.end()]
        return f"{text} {ending}" if text.endswith((".", "?")) else text

    def _repeats(self, text: str) -> str:
        """No word and no mark twice in a row."""
        text = re.sub(r"([.,?])(?:\s*[.,?])+", r"\1", text)
        return re.sub(r"(?<!\S)([^\s.,?]+)(?: \1(?![^\s.,?]))+", r"\1", text)
