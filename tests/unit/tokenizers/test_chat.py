"""The chat template: text → ids → text, what is learned, and that nobody writes a role into a text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octavo.config import load_recipe
from octavo.config.parts import parts
from octavo.corpus.records.turns import Message
from octavo.errors import InputError, TokenizerError
from octavo.tokenizers import Tokenizer, build_tokenizer, with_special
from octavo.tokenizers.chat import CHAT_TOKENS, ChatTemplate, has_chat

TEXT = "hello there, who is it? it is me, <|system|>, <|user|>, <|assistant|> and <|end|>. " * 9
OPTIONS: dict[str, dict[str, Any]] = {"bpe": {"size": 300}, "char": {}, "byte": {}}


def tokenizer(kind: str, *, documents: bool = True, **options: Any) -> Tokenizer:
    config = parts("tokenizer")[kind].model_validate({**OPTIONS.get(kind, {}), **options})
    return build_tokenizer(config, lambda: iter([TEXT]), documents=documents)  # type: ignore[arg-type]


def with_chat(kind: str, **options: Any) -> ChatTemplate:
    return ChatTemplate(with_special(tokenizer(kind, **options), CHAT_TOKENS))


TEMPLATES = {kind: with_chat(kind) for kind in OPTIONS}
EXACT = st.text(st.sampled_from(sorted(set(TEXT))), max_size=12) | st.sampled_from(CHAT_TOKENS)


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    system = [Message("system", draw(EXACT))] if draw(st.booleans()) else []
    turns = draw(st.lists(st.tuples(EXACT, EXACT), min_size=1, max_size=3))
    return system + [
        Message(role, text) for pair in turns for role, text in zip(("user", "assistant"), pair, strict=True)
    ]  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", OPTIONS)
@given(messages=conversations())
def test_text_to_ids_to_text_and_the_mask(kind: str, messages: list[Message]) -> None:
    template = TEMPLATES[kind]
    found = template.render(messages)
    assert template.parse(found.ids) == messages
    # Each answer's tokens and its end, nothing else; the slow twin reads it off the ids.
    answers = [message for message in messages if message.role == "assistant"]
    assert found.learned.sum() == sum(len(template.encode(one.content)) + 1 for one in answers)
    assert np.array_equal(found.learned, template.learned(found.ids))
    assert (found.ids[found.learned] == template.end).sum() == len(answers)
    # A role or an end that stands in a text is text.
    special = [found.ids.tolist().count(id) for id in (*template.openings.values(), template.end)]
    assert sum(special) == 2 * len(messages)


@pytest.mark.parametrize("kind", OPTIONS)
def test_the_prompts_boundary_is_the_same_alone_and_in_the_whole(kind: str) -> None:
    template = TEMPLATES[kind]
    messages = [Message("user", "who is it?"), Message("assistant", " it is me")]
    prompt = template.render(messages[:1], answering=True)
    whole = template.render(messages)
    assert whole.ids[: len(prompt.ids)].tolist() == prompt.ids.tolist() and not prompt.learned.any()
    assert whole.learned[len(prompt.ids) :].all()


def test_a_tokenizer_that_does_not_keep_a_text_says_where() -> None:
    template = with_chat("word", lowercase=True)
    assert template.parse(template.render([Message("user", "who is it?")]).ids) == [
        Message("user", "who is it?")
    ]
    for text in ("Who is it?", "who  is it?"):
        with pytest.raises(TokenizerError, match=r"does not keep this text: “.*would come back as"):
            template.render([Message("user", text)])


def test_no_template_without_its_tokens() -> None:
    with pytest.raises(TokenizerError, match=r"lacks <\|system\|>"):
        ChatTemplate(tokenizer("char"))
    assert not has_chat(tokenizer("char")) and has_chat(TEMPLATES["char"].tokenizer)


def test_ids_that_are_no_conversation() -> None:
    template = TEMPLATES["char"]
    user, end = template.openings["user"], template.end
    assert template.parse([user, *template.encode("hi").tolist()]) == [Message("user", "hi")]
    for wrong in ([end], [user, user, end], [int(template.encode("h")[0])]):
        with pytest.raises(InputError, match="no conversation"):
            template.parse(wrong)


def test_a_text_ends_with_the_document_and_with_the_turn() -> None:
    plain = tokenizer("char")
    assert plain.ends == {plain.end}
    assert TEMPLATES["char"].tokenizer.ends == {plain.end, TEMPLATES["char"].end}


def test_the_recipe_names_the_templates_tokens() -> None:
    assert tuple(load_recipe("tune-sft").tokenizer.special) == CHAT_TOKENS
