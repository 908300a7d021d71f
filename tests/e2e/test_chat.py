"""octavo chat through a pipe: answers, history within the context, commands, and what cannot be asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from e2e.asking import refused
from e2e.forked import Octavo
from e2e.test_tune import QUICK, chats


@pytest.fixture(scope="module")
def chatty(octavo: Octavo, finished: Path) -> Path:
    """A run that was tuned a little; its context has 16 positions."""
    text = chats(
        octavo.folder / "few.jsonl", [{"prompt": "who" + n * "o", "completion": "it"} for n in range(9)]
    )
    out = octavo.folder / "chatty"
    done = octavo(
        "tune",
        "sft",
        finished,
        "--text",
        text,
        "--out",
        out,
        *QUICK,
        "validation=0.4",
        "--quiet",
        patch="few_prompts",
    )
    assert done.code == 0, done.err
    return out


def test_a_conversation(octavo: Octavo, chatty: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.jsonl"
    lines = [
        "who",
        "",
        "who",
        "saw",
        f"/save {kept}",
        "/reset",
        "who",
        "/nonsense",
        f"/save {kept}",
        "/quit",
        "who",
    ]
    done = octavo(
        "chat", chatty, "--temperature", "0", "--tokens", "3", "--seed", "4", stdin="\n".join(lines).encode()
    )
    assert done.code == 0, done.err
    assert "seed 4" in done.err and "the 2 oldest messages no longer fit into the context" in done.err
    assert "begun anew" in done.err and "There is no command '/nonsense'" in done.err
    assert "exists" in done.err and str(kept) in done.err, "nothing is written over"
    answers = done.out.splitlines()
    assert len(answers) == 4 and answers[0] == answers[3], done.out
    said = json.loads(kept.read_text())["messages"]
    assert [one["role"] for one in said] == ["user", "assistant"] * 3
    assert [one["content"] for one in said[1::2]] == answers[:3]


def test_what_cannot_be_asked_ends_nothing(octavo: Octavo, chatty: Path) -> None:
    done = octavo("chat", chatty, "--tokens", "3", stdin=("ÜBER\n" + "who saw " * 5 + "\nwho\n").encode())
    assert done.code == 0 and done.out.strip()
    assert "'Ü'" in done.err and "leave room for an answer" in done.err
    assert octavo("chat", chatty, "--system", "be", "--tokens", "2", stdin=b"o\n").code == 0
    refused(octavo("chat", chatty, "--system", "Ü", stdin=b"o\n"), "'Ü'")


UNSAVED = [b"/save /proc/zz", b"/save ~nobody_x/y", b"/save a\0b", b"/save " + 300 * b"n", b"\xff"]


@pytest.mark.parametrize("line", UNSAVED)
def test_what_cannot_be_saved_or_read_ends_nothing(octavo: Octavo, chatty: Path, line: bytes) -> None:
    done = octavo("chat", chatty, "--temperature", "0", "--tokens", "3", stdin=b"who\n" + line + b"\nwho\n")
    assert done.code == 0 and "Traceback" not in done.err, done.err
    assert "error: " in done.err and len(done.out.splitlines()) == 2


def test_a_model_that_was_not_tuned_goes_on(octavo: Octavo, finished: Path) -> None:
    done = octavo("chat", finished, "--tokens", "5", stdin=b"who\n")
    assert done.code == 0 and "was not tuned for conversations: it goes on" in done.err and done.out.strip()
    refused(octavo("chat", finished, "--system", "be", stdin=b"o\n"), "knows no system's message")
