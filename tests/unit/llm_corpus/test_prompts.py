"""Prompts are files: filled for each story, replaceable one by one, and unable to do harm."""

from __future__ import annotations

from pathlib import Path

import pytest

from octavo.errors import ConfigError
from octavo.llm_corpus.prompts import Prompt, call_seed, prompt_names, seeds_of
from octavo.llm_corpus.spec import load_spec
from octavo.synthetic.vocabulary import vocabulary

SPEC = load_spec("pidgin")
WORDS = frozenset(vocabulary())


@pytest.mark.parametrize("name", prompt_names())
def test_shipped_prompts_hold_what_a_writer_needs(name: str) -> None:
    prompt = Prompt(name, SPEC, WORDS)
    system, request = prompt.first(7)
    assert set(system["content"].replace(",", " ").split()) >= WORDS  # every word that there is
    for part in ("ing", "ed", "will", "ha "):
        assert part in system["content"]
    assert "60" in request["content"] and "160" in request["content"] and "the end." in request["content"]
    for seed in seeds_of(SPEC, 7).values():
        assert seed in request["content"]


def test_the_seeds_are_words_of_the_vocabulary() -> None:
    used = {word for choices in SPEC.diversity.values() for choice in choices for word in choice.split()}
    assert used <= WORDS


def test_the_beginning_is_the_same_for_all_stories_and_seeds_differ() -> None:
    prompt = Prompt("pidgin", SPEC, WORDS)
    said = [prompt.first(number) for number in range(200)]
    assert len({system["content"] for system, _ in said}) == 1
    assert len({request["content"] for _, request in said}) > 195
    again = Prompt("pidgin", SPEC, WORDS)
    assert said == [again.first(number) for number in range(200)]


def test_calls_have_seeds_of_their_own() -> None:
    seeds = {call_seed(SPEC, number, attempt) for number in range(300) for attempt in range(3)}
    assert len(seeds) == 900 and all(0 <= seed < 2**31 for seed in seeds)


def test_one_file_of_your_own_takes_the_place_of_the_shipped_one(tmp_path: Path) -> None:
    (tmp_path / "universe.j2").write_text("UNIVERSE\nA farm by the sea.\n", encoding="utf-8")
    mine, shipped = Prompt(str(tmp_path), SPEC, WORDS), Prompt("pidgin", SPEC, WORDS)
    assert "A farm by the sea." in mine.system and "grocery store, and a forest" not in mine.system
    assert "GRAMMAR" in mine.system
    assert mine.hash != shipped.hash


def test_asking_again_says_what_was_wrong() -> None:
    prompt = Prompt("pidgin", SPEC, WORDS)
    first = prompt.first(1)
    said = prompt.again(first, "a pelican.", ("Not in the vocabulary: pelican.",))
    assert said[:2] == first and said[2] == {"role": "assistant", "content": "a pelican."}
    assert "- Not in the vocabulary: pelican." in said[3]["content"]
    assert prompt.again(first, " \n", ("The reply is empty.",)) == first


def test_a_free_vocabulary_lists_no_words() -> None:
    system = Prompt("pidgin", load_spec("pidgin-free"), None).system
    assert "thrown away" not in system and "simple, frequent words" in system


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ seeds.__init__.__globals__ }}",
        "{{ unknown }}",
        "{{ 1 / 0 }}",
        "{% if %}",
        "{% include 'nothing.j2' %}",
        "{% include '../system.j2' %}",
        "{{ number.foo.bar }}",
    ],
)
def test_a_wrong_or_hostile_template_is_a_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "request.j2").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match="prompt"):
        Prompt(str(tmp_path), SPEC, WORDS)


def test_an_unknown_prompt_is_refused() -> None:
    with pytest.raises(ConfigError, match="shipped ones are pidgin"):
        Prompt("pidgni", SPEC, WORDS)
