"""The commands of docs/guide/tune.md, from the demo's model to a chat that keeps wishes, with shorter trainings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from e2e.forked import Octavo
from guards.snippets import blocks, commands
from octavo.synthetic.grammar import TOKEN
from octavo.synthetic.vocabulary import vocabulary

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "tune.md"
SHORTER = {
    "demo": ("corpus.stories=300", "training.steps=30", "evaluation.every=0.5"),
    "tune sft": ("corpus.stories=300", "evaluation.every=0.5"),
    "tune rl": ("corpus.stories=300", "training.steps=2", "training.batch=16", "--texts", "64"),
    "tune judge": ("--texts", "64"),
    "chat": ("--tokens", "40"),
}


@pytest.mark.slow
def test_the_road_from_the_demo_to_a_chat_that_keeps_wishes(octavo: Octavo) -> None:
    road = next(block for block in blocks(PAGE.read_text("utf-8")) if "octavo demo" in block.text)
    said, answers, taken = b"", [], []
    for command in commands(road):
        if command[0] == "echo":
            said = (" ".join(command[1:]) + "\n").encode()
            continue
        name = next(name for name in SHORTER if " ".join(command[1:]).startswith(name))
        done = octavo(*command[1:], *SHORTER[name], stdin=said, patch="few_prompts")
        assert done.code == 0, done.err
        taken.append(name)
        answers += [done.out] if name == "chat" else []
        said = b""
    assert taken == ["demo", "tune sft", "tune rl", "chat", "tune judge"]
    (story,) = answers
    words = TOKEN.findall(story)
    assert len(words) > 20 and set(words) <= {*vocabulary(), *".,?"}
    folder = octavo.folder / "runs" / "keeps"
    found = json.loads((folder / "evaluation.json").read_text())
    assert found["wishes"]["asked"] == 16 and "cost" in found
    figures = json.loads((folder / "tuning.json").read_text())
    assert figures["prompts"] * figures["texts_a_prompt"] == 64
    assert figures["prompts_held_out"] and figures["reward"]["kind"] == "wishes"
