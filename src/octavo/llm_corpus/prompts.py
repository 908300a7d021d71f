"""The prompt as files: templates that ship with the package, each replaceable, filled for one story.

`system.j2` is the same for every story (grammar, vocabulary, universe, examples), so that a writer with a cache of
prompts charges it once; `request.j2` carries the story's own seeds; `again.j2` says what was wrong. Templates run
in jinja2's sandbox.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

from octavo.errors import ConfigError
from octavo.llm_corpus.calls import Message
from octavo.llm_corpus.spec import WritingSpec
from octavo.synthetic.storyteller import Storyteller
from octavo.synthetic.universe import UNIVERSE
from octavo.synthetic.vocabulary import word_classes

BASE = "pidgin"
"""The shipped prompt that lends its files to those that lack some."""


def prompt_names() -> list[str]:
    """Names of the shipped prompts."""
    root = resources.files("octavo.llm_corpus").joinpath("prompts")
    return sorted(entry.name for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("_"))


def seeds_of(spec: WritingSpec, number: int) -> dict[str, str]:
    """A story's seeds of diversity: a pure function of the spec's seed, its lists and the story's number."""
    drawn = {}
    for name, choices in spec.diversity.items():
        key = hashlib.sha256(f"{spec.seed}/{name}/{number}".encode()).digest()
        drawn[name] = choices[int.from_bytes(key[:8], "big") % len(choices)]
    return drawn


def call_seed(spec: WritingSpec, number: int, attempt: int) -> int:
    """The seed of one try of one story, below 2³¹: another one for each."""
    key = hashlib.sha256(f"{spec.seed}/call/{number}/{attempt}".encode()).digest()
    return int.from_bytes(key[:4], "big") >> 1


class Prompt:
    """One prompt, filled for a spec. Raises ConfigError for a prompt that is not there or a template that is wrong."""

    def __init__(self, name: str, spec: WritingSpec, words: Collection[str] | None) -> None:
        from jinja2 import FileSystemLoader, StrictUndefined
        from jinja2.sandbox import SandboxedEnvironment

        root = Path(str(resources.files("octavo.llm_corpus"))) / "prompts"
        folder = root / name if name in prompt_names() else Path(name)
        if not folder.is_dir():
            raise ConfigError(
                f"There is no prompt '{name}': neither a shipped one nor a folder.",
                remedy=f"the shipped ones are {', '.join(prompt_names())}",
            )
        self.name, self._spec, self._words = name if name in prompt_names() else folder.name, spec, words
        self._environment = SandboxedEnvironment(
            loader=FileSystemLoader([folder, root / BASE]),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
            autoescape=False,
        )
        sample = self._request(dict.fromkeys(spec.diversity, "?"), 0)
        again = self._fill("again.j2", problems=("?",))
        self.hash = hashlib.sha256("\0".join((self.system, sample, again)).encode()).hexdigest()[:16]

    @cached_property
    def system(self) -> str:
        """What every story's prompt begins with."""
        teller = Storyteller(self._spec.seed)
        return self._fill(
            "system.j2",
            vocabulary=sorted(self._words) if self._words is not None else None,
            classes=self._classes(),
            universe=UNIVERSE,
            examples=[teller.story((1 << 40) + i).text for i in range(self._spec.examples)],
        )

    def _classes(self) -> dict[str, list[str]]:
        """The vocabulary by class, as far as words have one."""
        if self._words is None:
            return {}
        rest = set(self._words)
        classes = {name: sorted(rest & words) for name, words in word_classes().items() if name != "other"}
        other = sorted(rest.difference(*classes.values()))
        return {name: words for name, words in {**classes, "other": other}.items() if words}

    def first(self, number: int) -> list[Message]:
        """What is said for a story for the first time."""
        return [
            {"role": "system", "content": self.system},
            {"role": "user", "content": self._request(seeds_of(self._spec, number), number)},
        ]

    def again(self, said: list[Message], reply: str, problems: tuple[str, ...]) -> list[Message]:
        """The conversation after a reply that did not pass; after an empty one the same again."""
        if not reply.strip():
            return said
        return [
            *said,
            {"role": "assistant", "content": reply},
            {"role": "user", "content": self._fill("again.j2", problems=problems)},
        ]

    def _request(self, seeds: Mapping[str, str], number: int) -> str:
        return self._fill("request.j2", seeds=seeds, number=number)

    def _fill(self, template: str, **values: Any) -> str:
        from jinja2 import TemplateError, TemplateSyntaxError

        rules = self._spec.rules
        try:
            return self._environment.get_template(template).render(
                fewest=rules.words[0], most=rules.words[1], ending=rules.ending, **values
            )
        except TemplateSyntaxError as error:
            raise ConfigError(
                f"The prompt '{self.name}': {error.name}, line {error.lineno}: {error.message}."
            ) from error
        except TemplateError as error:
            raise ConfigError(f"The prompt '{self.name}': {template} cannot be filled: {error}.") from error
        except (TypeError, ValueError, ArithmeticError, AttributeError, RecursionError) as error:
            raise ConfigError(f"The prompt '{self.name}': {template} cannot be filled: {error}.") from error
