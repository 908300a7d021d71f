"""Records that are conversations, preferences and prompts: every form of the field, and what is said of the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from octavo.config.parts import parts
from octavo.corpus.records.base import LONGEST, RecordConfig
from octavo.corpus.records.turns import Turns
from octavo.corpus.sources import FilesSource
from octavo.errors import CorpusError, OctavoError

USER, ASSISTANT = {"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello!"}
SYSTEM = {"role": "system", "content": "Be kind."}
PLAIN = {"messages": [USER, ASSISTANT]}
PAIR = {"messages": [USER], "chosen": "Hello!", "rejected": "What?"}


def record(kind: str) -> RecordConfig:
    found = parts("record")[kind]()  # type: ignore[call-arg]
    assert isinstance(found, RecordConfig)
    return found


def read(kind: str, value: object) -> Any:
    return json.loads(record(kind).text(value, "chats.jsonl, line 3", "text"))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (PLAIN, PLAIN),
        ({"messages": [SYSTEM, USER, ASSISTANT], "id": 4}, {"messages": [SYSTEM, USER, ASSISTANT]}),
        ({"instruction": "Hi.", "input": "", "output": "Hello!"}, PLAIN),
        ({"instruction": "Hi.", "output": "Hello!"}, PLAIN),
        (
            {"instruction": "Add.", "input": "1 + 1", "output": "2"},
            {
                "messages": [
                    {"role": "user", "content": "Add.\n\n1 + 1"},
                    {"role": "assistant", "content": "2"},
                ]
            },
        ),
        ({"prompt": "Hi.", "completion": "Hello!"}, PLAIN),
        ({"prompt": [USER], "completion": [ASSISTANT]}, PLAIN),
        ({"prompt": "Hi.\r\nYou.", "completion": " x"}, None),
    ],
)
def test_forms_of_a_conversation(given: object, expected: Any) -> None:
    found = read("conversations", given)
    if expected is None:
        assert found["messages"][0]["content"] == "Hi.\nYou." and found["messages"][1]["content"] == " x"
    else:
        assert found == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"prompt": "Hi.", "chosen": "Hello!", "rejected": "What?"}, PAIR),
        ({"instruction": "Hi.", "output": "x", "chosen": "Hello!", "rejected": "What?"}, PAIR),
        ({"prompt": [USER], "chosen": [ASSISTANT], "rejected": "What?"}, PAIR),
        ({"chosen": [USER, ASSISTANT], "rejected": [USER, {**ASSISTANT, "content": "What?"}]}, PAIR),
        ({"prompt": "Hi.", "chosen": "Hello!", "rejected": ""}, {**PAIR, "rejected": ""}),
    ],
)
def test_forms_of_a_preference(given: object, expected: Any) -> None:
    assert read("preferences", given) == expected


@pytest.mark.parametrize(
    "given",
    [{"prompt": "Hi."}, {"prompt": [USER]}, {"messages": [USER]}, {"instruction": "Hi.", "output": "no"}],
)
def test_forms_of_a_prompt(given: object) -> None:
    assert read("prompts", given) == {"messages": [USER]}


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        ("conversations", ["Hi."], "not a JSON object but list"),
        ("conversations", {"text": "Hi."}, "fits no form of a conversation; it has 'text'"),
        ("conversations", {}, "it has nothing"),
        ("conversations", {"messages": []}, "must be a list of messages"),
        ("conversations", {"messages": [ASSISTANT]}, "message 1: the conversation begins with the assistant"),
        (
            "conversations",
            {"messages": [SYSTEM, ASSISTANT]},
            "message 2: the conversation begins with the assistant",
        ),
        ("conversations", {"messages": [USER]}, "does not end with the assistant"),
        (
            "conversations",
            {"messages": [USER, USER, ASSISTANT]},
            "two messages of the user follow each other",
        ),
        ("conversations", {"messages": [USER, ASSISTANT, SYSTEM]}, "stands first or nowhere"),
        (
            "conversations",
            {"messages": [{**USER, "role": "tool"}]},
            "its role is 'tool'; there are system, user",
        ),
        ("conversations", {"messages": [USER, {**ASSISTANT, "content": " \n"}]}, "'content' is empty"),
        ("conversations", {"messages": [USER, {**ASSISTANT, "content": None}]}, "holds no text but NoneType"),
        ("conversations", {"prompt": "Hi."}, "the field 'completion' is missing"),
        ("conversations", {"instruction": "Hi.", "output": ""}, "the field 'output' is empty"),
        ("conversations", {"prompt": "Hi.", "completion": "a" * (LONGEST + 1)}, "200,001 characters"),
        ("conversations", {"prompt": "Hi \ud800.", "completion": "a"}, "half a character"),
        ("preferences", {"prompt": "Hi.", "chosen": "a"}, "lacks rejected"),
        ("preferences", {"prompt": "Hi.", "chosen": 1, "rejected": "a"}, "'chosen' holds no text but int"),
        (
            "preferences",
            {"chosen": [USER, ASSISTANT], "rejected": [{**USER, "content": "?"}, ASSISTANT]},
            "other things",
        ),
        ("prompts", {"messages": [USER, ASSISTANT]}, "ends with the assistant"),
        ("prompts", {"text": "Hi."}, "no prompt, but 'text'"),
    ],
)
def test_what_fits_no_form_is_named_with_its_line(kind: str, given: object, said: str) -> None:
    with pytest.raises(CorpusError) as caught:
        read(kind, given)
    assert said in caught.value.what and "chats.jsonl, line 3" in caught.value.what
    assert caught.value.remedy


def source(kind: str, *paths: Path, said: list[str] | None = None, **options: Any) -> list[str]:
    config = FilesSource.model_validate({"paths": [str(path) for path in paths], "records": kind, **options})
    return [
        "".join(document.pieces)
        for document in config.build(([] if said is None else said).append).documents()
    ]


def test_files_of_them(tmp_path: Path) -> None:
    lines, listed = tmp_path / "chats.jsonl", tmp_path / "chats.json"
    lines.write_text(json.dumps(PLAIN) + "\n\n" + json.dumps({"prompt": "1\n2", "completion": "3"}) + "\n")
    listed.write_text(json.dumps([PLAIN, {"instruction": "Hi.", "output": "Hello!"}]))
    found = source("conversations", lines, listed)
    assert len(found) == 4 and found[0] == found[2] == found[3] and "\n" not in "".join(found)
    assert Turns.of(found[1]).messages[0].content == "1\n2"
    assert [Turns.of(text).text() for text in found] == found


def test_other_files_hold_none(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Hi.")
    with pytest.raises(OctavoError, match="is no JSON file, so it holds no conversations"):
        source("conversations", tmp_path / "a.txt")
    (tmp_path / "bad.jsonl").write_text(json.dumps(PLAIN) + '\n{"prompt": "x"}\n')
    with pytest.raises(CorpusError, match=r"bad.jsonl, line 2: the field 'completion' is missing"):
        source("conversations", tmp_path / "bad.jsonl")
    with pytest.raises(ValueError, match="documents=whole"):
        source("conversations", tmp_path / "bad.jsonl", documents="whole")


def test_real_ones(test_data: Path) -> None:
    folder = test_data / "instructions"
    assert len(source("conversations", folder / "instruction_1100.json")) == 1100
    said: list[str] = []
    pairs = [Turns.of(text) for text in source("preferences", folder / "preference_1100.json", said=said)]
    assert len(pairs) == 1094 and all(len(pair.conversations) == 2 for pair in pairs)
    assert any("record 123: its two answers are equal" in one for one in said)


@pytest.mark.parametrize("ending", ["jsonl", "json"])
def test_where_all_are_left_out_the_reason_is_said(tmp_path: Path, ending: str) -> None:
    equal = [{**PAIR, "chosen": "Hi.", "rejected": "Hi."}] * 2
    path = tmp_path / f"pairs.{ending}"
    path.write_text(json.dumps(equal) if ending == "json" else "".join(json.dumps(e) + "\n" for e in equal))
    with pytest.raises(
        CorpusError, match=r"Every record is left out; the first: .* 1: its two answers are equal"
    ):
        source("preferences", path)
