"""From a reply to a story: stripped, cleaned as report A does, repaired by rule, and else refused with reasons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from octavo.errors import ConfigError, InputError
from octavo.llm_corpus.calls import Reply
from octavo.llm_corpus.checks import Judge, words_of
from octavo.llm_corpus.spec import Rules
from octavo.synthetic.storyteller import Storyteller
from octavo.synthetic.vocabulary import vocabulary

STORY = Storyteller(3).story(5).text
GOLDEN = (
    "**The Little Bird and the Big Tree**\n\n"
    "One day, small bird fly ing sky. Bird see big tree. Tree stand ing east."
    ' Bird think, "I will move ing at tree." '
    '\n\nTree say, "Ha bird ing come at me?" Bird say, "Yes, I ing come at you."'
    " \n\nThe end."
)
LINE = (
    "one day, small bird fly ing sky. bird see big tree. tree stand ing east. bird think, i will move ing at tree."
    " tree say, ha bird ing come at me? bird say, yes, i ing come at you. the end."
)


def judged(
    text: str, *, finish: str = "stop", **rules: Any
) -> tuple[str | None, tuple[str, ...], tuple[str, ...]]:
    checked = Rules.model_validate({"checker": "pidgin", **rules})
    story, problems = Judge(checked, words_of(checked)).judge(Reply(text, finish, None), {})
    return (story.text if story else None), (story.repairs if story else ()), problems


def test_a_good_story_passes_as_it_is() -> None:
    assert judged(STORY) == (STORY, (), ())


def test_report_a_is_cleaned_to_the_letter() -> None:
    text, repairs, problems = judged(GOLDEN, checker="plain", vocabulary="free", words=[20, 160])
    assert (text, repairs, problems) == (LINE, (), ())


@pytest.mark.parametrize(
    "around",
    [
        "**The Lost Ball**\n\n{}",
        "<think>let me see, a pelican?</think>{}",
        "```text\n{}\n```",
        "{}\n\nI checked every word. All are in the vocabulary!",
        "\ufeff{}\u200b",
    ],
)
def test_what_stands_around_a_story_is_taken_away(around: str) -> None:
    assert judged(around.format(STORY))[0] == STORY


def test_what_the_rule_allows_is_repaired() -> None:
    doubled = STORY.replace(" and ", " and and ", 1).replace(". ", ".. ", 1)
    without = STORY.removesuffix(" the end.")
    assert judged(doubled) == (STORY, ("repeats",), ())
    assert judged(without) == (STORY, ("ending",), ())
    assert judged(doubled, repair=[])[0] is None
    assert judged(without, repair=[])[0] is None


def test_a_story_that_broke_off_is_not_given_an_end() -> None:
    assert judged(STORY[: len(STORY) // 2].rsplit(" ", 1)[0] + " and")[0] is None


@pytest.mark.parametrize(
    ("text", "finish", "word"),
    [
        (STORY, "length", "cut off"),
        (STORY, "content_filter", "content_filter"),
        ("", "stop", "empty"),
        ("** **", "stop", "empty"),
        (STORY.replace("the end.", "pelican sit. the end."), "stop", "pelican"),
        ("cat sit. the end.", "stop", "60"),
        (STORY.replace(" ed ", " ed will ", 1), "stop", "tense"),
    ],
)
def test_what_is_wrong_is_said(text: str, finish: str, word: str) -> None:
    story, _, problems = judged(text, finish=finish)
    assert story is None
    assert any(word in problem for problem in problems), problems


def test_a_cleaning_step_may_refuse(tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("\n".join([*vocabulary(), ".", ",", "?"]), encoding="utf-8")
    steps = [
        "titles",
        {"kind": "whitespace", "lines": "fold"},
        {"kind": "closed_vocabulary", "words": str(words)},
    ]
    story, _, problems = judged(STORY.replace("the end.", "pelican sit. the end."), cleaning=steps)
    assert story is None and "pelican" in problems[0]


def test_the_vocabulary_can_be_a_file(tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("\n".join([*vocabulary(), "pelican", ".", ",", "?"]), encoding="utf-8")
    text = STORY.replace("the end.", "pelican sit. the end.")
    assert judged(text, vocabulary=str(words))[0] == text
    with pytest.raises(InputError, match="nothing"):
        words_of(Rules(vocabulary=str(tmp_path / "nothing.txt")))
    words.write_text(".\n?\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="no words"):
        words_of(Rules(vocabulary=str(words)))


def test_another_language_has_its_own_end() -> None:
    rules = {"checker": "plain", "vocabulary": "free", "words": [3, 50], "cleaning": []}
    assert judged("Der Vogel fliegt nach Hause. Ende.", ending="Ende.", **rules)[0]
    assert judged("Der Vogel fliegt nach Hause!", ending="", **rules)[0]
    assert judged("Der Vogel fliegt nach", ending="", **rules)[0] is None
    assert (
        judged("Der Vogel fliegt nach Hause. Ende. Der Hund auch.", ending="Ende.", repair=[], **rules)[0]
        is None
    )


def test_no_story_holds_what_parts_stories() -> None:
    rules = {
        "checker": "plain",
        "vocabulary": "free",
        "words": [3, 50],
        "cleaning": [],
        "repair": [],
        "ending": "",
    }
    story, _, problems = judged("The bird flies home.\n<|endoftext|>\nThe dog sits.", **rules)
    assert story is None and "<|endoftext|>" in problems[0]
    assert judged("The bird flies home.\n<|endoftext|>\n", **rules)[0] == "The bird flies home."


def test_a_wrong_pattern_is_a_sentence() -> None:
    with pytest.raises(ConfigError, match=r"rules\.strip"):
        Judge(Rules(strip=("(",)), None)
