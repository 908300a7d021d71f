"""A conversation keeps what was shown, and nothing that a stop text cut off."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from octavo.config.parts import parts
from octavo.generation import Sample
from octavo.generation.sampling import SamplingOptions
from octavo.tokenizers import build_tokenizer, with_special
from octavo.tokenizers.chat import CHAT_TOKENS
from octavo.tuning.chat_session import Talk

TEXT = "hello there, who is it? it is me. " * 9


def talk(answer: str, written: str, finish: Any) -> Talk:
    """With a model that has `written` more than was shown of it."""
    char = build_tokenizer(
        parts("tokenizer")["char"].model_validate({}), lambda: iter([TEXT]), documents=True
    )
    tokenizer = with_special(char, CHAT_TOKENS)
    ids = tokenizer.encode(written).tolist()
    sizes = [min(at, len(answer)) for at in range(1, len(ids) + 1)]
    sample = Sample(0, ids=ids, sizes=sizes, text=answer, finish=finish)
    run: Any = SimpleNamespace(
        tokenizer=tokenizer,
        refuse_no_text=lambda: None,
        model=SimpleNamespace(context=200),
        config=SimpleNamespace(sampling=SimpleNamespace(tokens=50)),
        write_each=lambda *_, **__: iter([(sample, answer)]),
    )
    found = Talk(run, options=SamplingOptions(stop=["who"]))
    assert "".join(found.ask("hello")) == answer
    return found


def long_talk(context: int, system: str = "") -> tuple[Talk, list[tuple[list[int], int]]]:
    """With a model that always says the same, and what it was given to read, with the seed."""
    char = build_tokenizer(
        parts("tokenizer")["char"].model_validate({}), lambda: iter([TEXT]), documents=True
    )
    tokenizer, given = with_special(char, CHAT_TOKENS), list[tuple[list[int], int]]()

    def write(requests: Any, **_: Any) -> Any:
        given.append((list(requests[0].prompt), requests[0].seed))
        ids = tokenizer.encode("it is me. ").tolist()
        yield Sample(0, ids=ids, sizes=list(range(1, 11)), text="it is me. ", finish="length"), "it is me. "

    run: Any = SimpleNamespace(
        tokenizer=tokenizer,
        refuse_no_text=lambda: None,
        model=SimpleNamespace(context=context),
        config=SimpleNamespace(sampling=SimpleNamespace(tokens=50)),
        write_each=write,
    )
    return Talk(run, system=system, options=SamplingOptions(seed=3)), given


def test_the_same_question_again_is_answered_with_other_random_numbers() -> None:
    found, given = long_talk(1000)
    for _ in range(3):
        list(found.ask("who is it?"))
    assert len({seed for _, seed in given}) == 3


def test_what_no_longer_fits_is_forgotten_by_whole_turns_and_leaves_room_to_answer() -> None:
    found, given = long_talk(120, system="hello")
    for number in range(8):
        list(found.ask("who is it?"))
        ids, _ = given[-1]
        assert len(ids) <= 90, "an answer gets a quarter of the context"
        seen = found.template.parse(ids)[:-1] if found.template else []
        assert [one.role for one in seen] == [
            "system",
            *(["user", "assistant"] * number)[: len(seen) - 2],
            "user",
        ]
        assert found.forgotten % 2 == 0
    assert found.forgotten and len(found.messages) == 1 + 16


def test_what_was_cut_off_is_not_remembered() -> None:
    cut, whole = talk("it is me. ", "it is me. who", "stop"), talk("it is me. ", "it is me. ", "length")
    assert cut.turns == whole.turns and cut.messages == whole.messages


def test_an_answer_that_cannot_be_read_again_is_cut_by_its_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    found = talk("it is ☃", "it is mwho", "stop")  # the character stands for half of one
    assert found.turns[-1][1:-1] == found.run.tokenizer.encode("it is m").tolist()
