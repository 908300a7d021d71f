"""What Octavo prints as a command can be typed as it stands: folders with spaces in their names, files of own parts, a
reward of one's own."""

from __future__ import annotations

import html
import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from e2e.forked import Octavo, Result
from guards.common import ROOT
from guards.snippets import blocks

COMMAND = re.compile(r"(?:^|[ >])(octavo [a-z].*?)(?=    |</pre>|, or name| gives the|$)", re.MULTILINE)


def printed(*texts: str) -> list[list[str]]:
    """The commands in what was printed and on pages, as words; the page's name for a text is a text."""
    found = (html.unescape(match) for text in texts for match in COMMAND.findall(text))
    words = [shlex.split(command) for command in found]
    return [["text.txt" if word in ("PATH", "TEXT") else word for word in each][1:] for each in words]


def page(run: Path) -> str:
    return (run / "report" / "index.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def own_part(octavo: Octavo) -> Path:
    """docs/extending.md's feed-forward, in a folder with a space in its name."""
    text = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    path = octavo.folder / "my parts" / "geglu.py"
    path.parent.mkdir()
    code = next(block.text for block in blocks(text) if block.language == "python")
    path.write_text(code, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def trained(octavo: Octavo, own_part: Path) -> tuple[Path, Result]:
    out = octavo.folder / "my runs" / "with a part"
    train = ("train", "recipe.yaml", "--text", "text.txt", "--out", out, "test=0.1")
    done = octavo(*train, "training.steps=10", "model.feed_forward=geglu", "--parts", own_part)
    assert done.code == 0, done.err
    return out, done


def test_commands_of_a_run_with_own_parts(
    octavo: Octavo, trained: tuple[Path, Result], own_part: Path
) -> None:
    out, done = trained
    commands = printed(done.err, page(out))
    verbs = {words[0] for words in commands}
    assert {"train", "eval", "generate", "info"} <= verbs, commands
    advised = [words for words in commands if words[:2] == ["train", str(out / "config.yaml")]]
    assert advised and advised[0][-2:] == ["--parts", str(own_part)]
    seen = set()
    for words in commands:
        if tuple(words) not in seen:
            seen.add(tuple(words))
            again = octavo(*words)
            assert again.code == 0, (words, again.err)


def test_what_a_run_with_own_parts_asks_for_can_be_added(
    octavo: Octavo, trained: tuple[Path, Result], own_part: Path
) -> None:
    out, _ = trained
    refused = octavo("eval", out)
    added = re.search(r"and add (--parts .*)$", refused.err, re.MULTILINE)
    assert refused.code == 2 and added, refused.err
    assert octavo("eval", out, *shlex.split(added[1])).code == 0


def test_commands_of_a_run_with_a_reward_of_its_own(octavo: Octavo, finished: Path) -> None:
    mine = octavo.folder / "my parts" / "short.py"
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("def reward(prompt, text):\n    return -len(text)\n", encoding="utf-8")
    (octavo.folder / "one.yaml").write_text(
        "objective: {kind: policy-gradient, group: 4, tokens: 8}\n"
        "training: {steps: 2, batch: 8, precision: float32, device: cpu, threads: 1}\n",
        encoding="utf-8",
    )
    out = octavo.folder / "my runs" / "short texts"
    tune = ("tune", "rl", finished, "--recipe", "one.yaml", "--reward", mine, "--out", out, "--texts", "16")
    done = octavo(*tune, patch="few_prompts")
    assert done.code == 0, done.err
    commands = [words for words in printed(done.err, page(out)) if words[0] != "train"]
    assert {"eval", "generate", "info"} <= {words[0] for words in commands}
    for words in commands:
        assert words[-2:] == ["--parts", str(mine)]
        again = octavo(*words)
        assert again.code == 0, (words, again.err)


def test_commands_of_refusals(octavo: Octavo, finished: Path) -> None:
    """A text in the recipe's place; a run that is not finished in that of the one to start from."""
    text = octavo.folder / "my parts" / "a book.txt"
    text.parent.mkdir(exist_ok=True)
    text.write_bytes((octavo.folder / "text.txt").read_bytes())
    (words,) = printed(octavo("train", text).err)
    assert words == ["train", "--text", str(text)]
    again = octavo(*words, "--dry-run")
    assert again.code == 0 and json.dumps(str(text))[1:-1] in again.out, again.err
    out = octavo.folder / "my runs" / "stopped"
    begun = octavo("train", "recipe.yaml", "--text", "text.txt", "--out", out, "training.steps=8")
    assert begun.code == 0, begun.err
    shutil.rmtree(out / "checkpoints" / "step-000008")
    refused = octavo("plan", "tune-sft", "--base", out)
    commands = [words for words in printed(refused.err) if words[0] == "train"]
    assert commands == [["train", "--out", str(out), "--resume"]], refused.err
    assert octavo(*commands[0]).code == 0
