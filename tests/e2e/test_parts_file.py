"""docs/extending.md's part in a file of the user's own: `--parts FILE` trains, judges, resumes and studies with it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from e2e.forked import Octavo
from guards.common import ROOT
from guards.snippets import blocks

STUDY = """\
baseline: recipe.yaml
seeds: 2
noise: 0
budget: {steps: 10}
changes:
- {name: gated, hypothesis: It helps., set: {model.feed_forward: geglu}}
"""


@pytest.fixture(scope="module")
def own_parts(octavo: Octavo) -> Path:
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    code = next(block.text for block in blocks(page) if block.language == "python")
    path = octavo.folder / "geglu.py"
    path.write_text(code, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def trained(octavo: Octavo, own_parts: Path) -> Path:
    out = octavo.folder / "gated"
    train = ("train", "recipe.yaml", "--text", "text.txt", "--out", out)
    done = octavo("--parts", own_parts, *train, "model.feed_forward=geglu")
    assert done.code == 0, done.err
    return out


def test_the_run_says_what_it_was_made_with(trained: Path, own_parts: Path) -> None:
    (told,) = json.loads((trained / "manifest.json").read_text(encoding="utf-8"))["parts"]
    digest = hashlib.sha256(own_parts.read_bytes()).hexdigest()
    assert told == {"path": str(own_parts), "sha256": digest, "parts": ["feed_forward.geglu"]}


def test_code_is_never_loaded_because_a_run_names_it(octavo: Octavo, trained: Path, own_parts: Path) -> None:
    for place in (trained, trained / "checkpoints" / "step-000040"):
        done = octavo("eval", place)
        assert done.code == 2 and "there is no feed_forward 'geglu'" in done.err, done.err
        assert f"--parts {own_parts}" in done.err and "Traceback" not in done.err


def test_other_commands_take_the_file(octavo: Octavo, trained: Path, own_parts: Path) -> None:
    assert octavo("eval", trained, "--parts", own_parts).code == 0
    assert octavo("generate", trained, f"--parts={own_parts}", "--tokens", "5").code == 0
    done = octavo("train", "--replay", trained, "--out", octavo.folder / "gated-again", "--parts", own_parts)
    assert done.code == 0, done.out + done.err


def test_going_on_says_that_the_file_has_changed(octavo: Octavo, trained: Path, own_parts: Path) -> None:
    before = own_parts.read_text(encoding="utf-8")
    try:
        own_parts.write_text(before + "\n# changed\n", encoding="utf-8")
        more = (
            "train",
            "recipe.yaml",
            "--text",
            "text.txt",
            "--out",
            trained,
            "--resume",
            "training.steps=42",
        )
        done = octavo(*more, "model.feed_forward=geglu", "--parts", own_parts)
        assert done.code == 0 and "geglu.py has changed since the run began" in done.err + done.out, done.err
    finally:
        own_parts.write_text(before, encoding="utf-8")


@pytest.mark.slow
def test_a_studys_processes_have_the_parts(octavo: Octavo, own_parts: Path) -> None:
    (octavo.folder / "gated.yaml").write_text(STUDY, encoding="utf-8")
    out = octavo.folder / "gated-study"
    study = ("study", "run", "gated.yaml", "--text", "text.txt", "--out", out, "--jobs", "1")
    done = octavo("--parts", own_parts, *study)
    assert done.code == 0, done.err
    outcomes = [json.loads(path.read_text(encoding="utf-8"))["status"] for path in out.rglob("outcome.json")]
    assert outcomes == ["done"] * 4


@pytest.mark.parametrize("content", [None, "1 / 0", "x = 1"])
def test_wrong_files(octavo: Octavo, content: str | None) -> None:
    path = octavo.folder / "wrong.py"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    done = octavo("--parts", "wrong.py", "recipes")
    path.unlink(missing_ok=True)
    assert done.code == 2 and "wrong.py" in done.err and "Traceback" not in done.err
