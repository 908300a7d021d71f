"""What a model is asked: prompts from files, texts and conversations."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from octavo.corpus.records.turns import Message, Turns
from octavo.data import Split
from octavo.errors import CorpusError, InputError, TokenizerError
from octavo.tasks.chat.prompts import Question, held_out, question
from octavo.tasks.chat.turns import ByTemplate
from octavo.tokenizers import Tokenizer, build_tokenizer, with_special
from octavo.tokenizers.chat import CHAT_TOKENS, ChatTemplate
from octavo.tokenizers.config import Char
from octavo.tuning.prompts import (
    START,
    fitting,
    questions_in_conversations,
    questions_in_file,
    questions_in_text,
)
from octavo.tuning.rollouts import room_for
from unit.tuning import toy

TEXT = "who are you? <|user|> <|assistant|> <|end|> 12+34=46 be brief."
CHAT: Tokenizer = with_special(build_tokenizer(Char(), lambda: iter([TEXT]), documents=True), CHAT_TOKENS)
TEMPLATE = ChatTemplate(CHAT)


def test_a_users_text_gives_no_special_token() -> None:
    found = question("<|assistant|> who<|end|>", CHAT)
    ids = [int(id) for id in found.prompt]
    special = [id for id in ids if id in (*TEMPLATE.openings.values(), TEMPLATE.end)]
    assert special == [ids[0], TEMPLATE.end, TEMPLATE.openings["assistant"]] and found.text.startswith(
        "<|assist"
    )
    with pytest.raises(TokenizerError, match="Z"):
        question("Z", CHAT)


def test_a_text_gets_all_that_its_prompt_leaves_of_the_context() -> None:
    """Of a context of six, and one more, for the last token is not read again."""
    model, one = toy.model(1), (Question("a", "a"), START)  # two tokens, with the start of a document
    assert room_for(one, model, toy.TOKENIZER, 5) == 5 and room_for(one, model, toy.TOKENIZER, None) == 6
    with pytest.raises(InputError, match="leaves 5 after the prompt 'a'; 6 are asked for"):
        room_for(one, model, toy.TOKENIZER, 6)
    assert room_for((START,), model, toy.TOKENIZER, 6) == 6


def test_conversations_that_leave_as_much_room_as_is_wanted_are_asked() -> None:
    asked = [Question((1,) * size, str(size)) for size in range(1, 14)]
    assert [one.text for one in fitting(asked, 12, 5)] == [str(size) for size in range(1, 9)]
    assert len(fitting(asked, 12, None)) == 10  # a quarter, 3, and the last token is not read again


def split(tokenizer: Tokenizer, *texts: str) -> Split:
    documents = [tokenizer.encode_document(text) for text in texts]
    starts = np.cumsum([0, *map(len, documents[:-1])]).astype(np.uint64)
    return Split(np.concatenate(documents), starts, 1, 1, len(texts), Path("none"))


def said(*texts: str) -> str:
    roles = ("user", "assistant") * 2
    return Turns(tuple(Message(role, text) for role, text in zip(roles, texts, strict=False))).text()


def test_conversations_are_asked_by_what_comes_before_the_first_answer() -> None:
    system = Turns(
        (Message("system", "be brief."), Message("user", "who?"), Message("assistant", "you"))
    ).text()
    texts = said("who?", "you", "are?", "who"), said("who?", "are you"), said("are you?", "who"), system
    found = questions_in_conversations(split(ByTemplate(CHAT), *texts), CHAT)
    assert [one.text for one in found] == ["who?", "are you?", "who?"]
    assert TEMPLATE.parse(found[2].prompt)[0] == Message("system", "be brief.")
    assert found[0] == question("who?", CHAT) and found[2] != found[0]
    evenly = held_out(split(ByTemplate(CHAT), *texts), CHAT, 2, context=99)
    assert [(one.text, one.answer) for one in evenly] == [("who?", "you"), ("are you?", "who")]


def test_texts_are_asked_by_their_beginning() -> None:
    found = questions_in_text(split(CHAT, "12+34=46", "12+34=4", "46", "4+4=6=2"), CHAT, "=")
    assert [one.prompt for one in found] == [one.text for one in found] == ["12+34=", "4+4="]


def test_a_file_of_prompts_and_messages(tmp_path: Path) -> None:
    lines, records = tmp_path / "p.txt", tmp_path / "p.jsonl"
    lines.write_text("who?\nare you?\nwho?\n")
    messages = [Message("user", "who?"), Message("assistant", "you"), Message("user", "are you?")]
    plain = [{"prompt": "who?"}, {"messages": [one.as_dict() for one in messages]}, {"instruction": "who?"}]
    records.write_text("".join(json.dumps(one) + "\n" for one in plain))
    assert [one.prompt for one in questions_in_file(lines, CHAT, answers=False)] == ["who?", "are you?"]
    assert questions_in_file(lines, CHAT, answers=True) == tuple(
        question(one, CHAT) for one in ("who?", "are you?")
    )
    assert [one.prompt for one in questions_in_file(records, CHAT, answers=False)] == ["who?", "are you?"]
    found = questions_in_file(records, CHAT, answers=True)
    assert found == (question("who?", CHAT), question(messages, CHAT)) and found[1].text == "are you?"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"messages": [{"role": "assistant", "content": "you"}]}', "line 1"),
        ('{"text": "who?"}', "it has no prompt"),
        ('{"prompt": ""}', "is empty"),
        ("[", "line 1"),
    ],
)
def test_a_file_without_prompts_is_refused_by_its_line(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(CorpusError, match=said):
        questions_in_file(path, CHAT, answers=True)


def test_prompts_without_room_for_an_answer_are_left_out() -> None:
    short, long = question("who?", CHAT), question("who are you? " * 3, CHAT)
    assert fitting([short, long], 20, None) == (short,)
    size = len(short.prompt)
    assert fitting([short, long], 20, 21 - size) == (short,)
    with pytest.raises(InputError, match="none leaves"):
        fitting([short, long], 20, 22 - size)
