"""Errors name things as their reader does: options on the command line, arguments in Python."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from inspect import signature

import pytest

import octavo
from guards.common import PACKAGE, tree
from octavo.config import check
from octavo.errors import ConfigError, DivergedError, InputError, in_python
from octavo.generation.sampling import SamplingFields
from octavo.util.terminal import Console


@pytest.mark.parametrize(
    ("command_line", "python"),
    [
        ("add --out DIR", "add out=DIR"),
        ("choose another --out", "choose another out="),
        (
            "go on with it by --resume, or choose another --out",
            "go on with it by resume=True, or choose another out=",
        ),
        (
            "octavo train RECIPE --text PATH --out DIR makes one",
            "octavo.train(RECIPE, text=PATH, out=DIR) makes one",
        ),
        (
            "give files or folders: --text PATH (or - for stdin)",
            "give files or folders: text=PATH (or - for stdin)",
        ),
        ("--jobs 1", "jobs=1"),
        (
            "octavo train --text 'my book.txt'    trains on it",
            'octavo.train(text="my book.txt")    trains on it',
        ),
        (
            """octavo train --text 'it'"'"'s.txt' --minutes 5""",
            'octavo.train(text="it\'s.txt", minutes=5)',
        ),
        (
            "octavo train --out runs/x --resume, or name a checkpoint in it: x",
            'octavo.train(out="runs/x", resume=True), or name a checkpoint in it: x',
        ),
        (
            "octavo train runs/x/config.yaml --out runs/y model.width=64 'batches={kind: sliding}'",
            'octavo.train("runs/x/config.yaml", out="runs/y", overrides=["model.width=64", "batches={kind: sliding}"])',
        ),
        (
            "octavo train --parts geglu.py --out runs/x --resume",
            'octavo.load_parts("geglu.py"); octavo.train(out="runs/x", resume=True)',
        ),
        (
            "look at what is in it, and add --parts /a/b.py --parts '/a b/c.py'",
            'look at what is in it, and add octavo.load_parts("/a/b.py") and octavo.load_parts("/a b/c.py")',
        ),
        ("octavo eval RUN --test gives it", "octavo.Run.open(RUN).evaluate(test=True) gives it"),
        ("octavo eval runs/x --test    says it", 'octavo.Run.open("runs/x").evaluate(test=True)    says it'),
        ("octavo study run STUDY --out DIR makes one", "octavo.study(STUDY, out=DIR) makes one"),
        (
            "leave --only-valid out; octavo recipes --schema lists those",
            "leave only_valid=True out; octavo recipes --schema lists those",
        ),
        ("octavo tune sft RUN --text chats.jsonl", "octavo tune sft RUN --text chats.jsonl"),
        ("octavo plan RECIPE --base RUN", "octavo plan RECIPE --base RUN"),
        ("add --text PATH, or --vocabulary NUMBER", "add text=PATH, or vocab_size=NUMBER"),
        ("octavo corpus get x --accept-change", "octavo corpus get x --accept-change"),
        (
            "for example: ocrmypdf --skip-text in.pdf out.pdf",
            "for example: ocrmypdf --skip-text in.pdf out.pdf",
        ),
        ("a text -- with dashes, and its pre--fix", "a text -- with dashes, and its pre--fix"),
    ],
)
def test_words(command_line: str, python: str) -> None:
    error = InputError("There is no text.", remedy=command_line)
    assert str(error) == f"There is no text.\n  → {python}"
    assert error.as_command_line == f"There is no text.\n  → {command_line}"
    assert in_python(python) == python


def test_every_option_that_a_message_names_and_a_call_takes_is_called_an_argument() -> None:
    calls = [octavo.train, octavo.plan, octavo.study, octavo.replay, octavo.Run.open]
    calls += [getattr(octavo.Run, name) for name in ("generate", "samples", "stream", "evaluate", "forecast")]
    taken = {name for call in calls for name in signature(call).parameters} - {"on"}  # a list of machines
    taken |= set(SamplingFields.__annotations__)
    named = {
        flag
        for path in sorted(PACKAGE.rglob("*.py"))
        if "cli" not in path.relative_to(PACKAGE).parts
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for flag in re.findall(r"(?<![\w-])--([a-z]+(?:-[a-z]+)*)", node.value)
    }
    both = [flag for flag in sorted(named) if flag.replace("-", "_") in taken]
    assert {"text", "out", "minutes", "resume", "overwrite", "samples", "only-valid"} <= set(both)
    assert [flag for flag in both if "--" in in_python(f"give --{flag}")] == []


def test_a_run_in_python_speaks_of_arguments_on_its_way_too(capsys: pytest.CaptureFixture[str]) -> None:
    sentence = "octavo eval runs/x --test says it; or another --out"
    Console().say(sentence)
    Console.in_python().say(sentence)
    typed, called = capsys.readouterr().err.splitlines()
    assert typed == sentence
    assert called == 'octavo.Run.open("runs/x").evaluate(test=True) says it; or another out='


def test_the_names_of_the_package_are_known_before_they_are_used() -> None:
    program = "import octavo, sys; print(*dir(octavo)); print('torch' in sys.modules); octavo.train"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    names, loaded = done.stdout.splitlines()
    assert {"train", "plan", "replay", "Run", "Hook", "OctavoError", "load_recipe"} <= set(names.split())
    assert loaded == "False"


def test_the_facts_of_an_error_are_its_fields() -> None:
    diverged = DivergedError(7, "the loss is nan", remedy="a lower rate")
    assert (diverged.step, diverged.event) == (7, "Step 7 diverged: the loss is nan.")
    assert diverged.what.startswith(diverged.event) and diverged.remedy == "a lower rate"
    assert ConfigError("Only this.").problems == ["Only this."]
    with pytest.raises(ConfigError, match="2 problems in the config:\n  · ") as found:
        check({"seed": "x", "sede": 1})
    assert len(found.value.problems) == 2 and all(each in found.value.what for each in found.value.problems)
