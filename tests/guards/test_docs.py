"""Every Python snippet of the documentation runs, and every command line in it is one that exists."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

from e2e.forked import Octavo
from guards.common import ROOT, name_of
from guards.snippets import SHELLS, Block, blocks, commands

SHOWN = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md")))
PAGES = [path for path in SHOWN if path.is_file()]
LINES = [
    pytest.param(command, id=f"{name_of(path)}:{block.line}:{' '.join(command)}")
    for path in PAGES
    for block in blocks(path.read_text("utf-8"))
    if block.language in SHELLS
    for command in commands(block)
]

LONG = ("docs/guide/python.md",)  # several trainings and a study

# Runs the blocks of each page in order, with one set of names and a folder of its own; line numbers are the page's.
RUNNER = """
import json, os, sys
for folder, blocks in json.load(sys.stdin):
    os.mkdir(folder)
    os.chdir(folder)
    names = {"__name__": "__main__"}
    for page, line, text in blocks:
        exec(compile("\\n" * (line - 1) + text, page, "exec"), names)
"""


def python_blocks(page: Path) -> list[Block]:
    return [block for block in blocks(page.read_text("utf-8")) if block.language == "python"]


@pytest.mark.parametrize("slow", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_python_snippets_run(slow: bool, tmp_path: Path, server: Octavo) -> None:
    pages = [page for page in PAGES if python_blocks(page) and (name_of(page) in LONG) == slow]
    given = [
        (
            str(tmp_path / str(number)),
            [(name_of(page), block.line, block.text) for block in python_blocks(page)],
        )
        for number, page in enumerate(pages)
    ]
    done = server(program=RUNNER, stdin=json.dumps(given).encode(), folder=tmp_path, patch="drawn")
    assert pages and done.code == 0, done.err


@pytest.mark.parametrize("command", [line for line in LINES if line.values[0][0] == "octavo"])
def test_command_lines_exist(command: list[str]) -> None:
    from cyclopts import CycloptsError

    from octavo.cli.app import app, hyphens_bound

    if {"--help", "-h", "--version"} & set(command):
        command = [word for word in command if word not in {"--help", "-h", "--version"}]
        assert len(command) == 1 or command[1] in app
        return
    try:
        _, common, _ = app.meta.parse_args(hyphens_bound(command[1:]), print_error=False, exit_on_error=False)
        app.parse_args(list(common.args), print_error=False, exit_on_error=False)
    except CycloptsError as error:
        pytest.fail(f"{' '.join(command)}: {error}")


@pytest.mark.parametrize("command", [line for line in LINES if line.values[0][0] == "make"])
def test_make_targets_exist(command: list[str]) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert {word for word in command[1:] if "=" not in word} <= targets


def test_blocks_are_found() -> None:
    page = "a\n```python\nx = 1\n```\n<!-- setup\ny = 2\n-->\n"
    page += "- b\n  ```console\n  $ octavo demo\n  done\n  ```\n"
    assert [(block.language, block.text, block.line) for block in blocks(page)] == [
        ("python", "x = 1", 3),
        ("python", "y = 2", 6),
        ("console", "$ octavo demo\ndone", 10),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$ octavo demo\nloss 1.2", [["octavo", "demo"]]),
        ("octavo train a \\\n  --out b  # why", [["octavo", "train", "a", "--out", "b"]]),
        ("pip install -e . && octavo demo", [["pip", "install", "-e", "."], ["octavo", "demo"]]),
        ("cat x.txt | octavo eval r > y.json", [["cat", "x.txt"], ["octavo", "eval", "r"]]),
        ("A=1 octavo train r a.b=2 'c d'", [["octavo", "train", "r", "a.b=2", "c d"]]),
        ("torchrun --nnodes 2 -m octavo train r a=b", [["octavo", "train", "r", "a=b"]]),
    ],
)
def test_commands_are_found(text: str, expected: list[list[str]]) -> None:
    (block,) = blocks(f"```console\n{text}\n```\n")
    assert commands(block) == expected


def test_every_word_of_the_glossary_has_a_meaning_and_a_term() -> None:
    page = (ROOT / "docs" / "design" / "architecture.md").read_text("utf-8").partition("\n## Words")[2]
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    words = [row for row in rows if row[0] not in ("word", "---")]
    assert len(words) >= 20 and len({word for word, *_ in words}) == len(words)
    assert all(len(row) == 3 and all(row) for row in words)


HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    found: dict[str, int] = {}
    names = set()
    for title in HEADING.findall(text):
        name = re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")
        count = found.get(name, 0)
        found[name] = count + 1
        names.add(f"{name}-{count}" if count else name)
    return names


@pytest.mark.parametrize("page", [*PAGES, *sorted((ROOT / "benchmarks").glob("**/*.md"))], ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    for link in (one or other for one, other in LINK.findall(text)):
        path, _, anchor = link.partition("#")
        if "://" not in link:
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), f"{name_of(page)}: there is no {link}"
            assert not anchor or anchor in anchors(target), f"{name_of(page)}: no heading for {link}"
        else:
            assert re.match(r"https://(?:[a-z0-9-]+\.)+[a-z]+(?:/|$)", link), f"{name_of(page)}: {link}"


@pytest.mark.parametrize(
    ("answers", "code", "expected"),
    [
        (("silent", "silent"), 0, "No site answers from here, so none of 2 links to other sites was tried:"),
        (("silent", "working"), 1, "README.md:3: https://0.org/: Max retries exceeded with url: /"),
        (("working", "gone"), 1, "README.md:3: https://1.org/: 404 Client Error"),
        (("working", "working"), 0, "All of 2 links to other sites answer."),
    ],
)
def test_without_a_network_no_link_is_called_dead(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], answers: tuple[str, str], code: int, expected: str
) -> None:
    told = {
        "silent": ("broken", "Max retries exceeded with url: /"),
        "gone": ("broken", "404 Client Error"),
        "working": ("working", ""),
    }
    lines = [{"uri": "#here", "status": "unchecked", "filename": "README.md", "lineno": 1, "info": ""}]
    for number, answer in enumerate(answers):
        status, info = told[answer]
        lines.append({"uri": f"https://{number}.org/", "status": status, "filename": "README.md"})
        lines[-1] |= {"lineno": 3, "info": info}
    (tmp_path / "output.json").write_text("\n".join(map(json.dumps, lines)))
    app = SimpleNamespace(builder=SimpleNamespace(name="linkcheck"), outdir=tmp_path, statuscode=1)
    app.statuscode = int(set(answers) != {"working"})  # Sphinx's own verdict
    runpy.run_path(str(ROOT / "docs" / "conf.py"))["with_verdict"](app, None)
    assert expected in capsys.readouterr().out.splitlines() and app.statuscode == code


def test_the_documentation_stays_readable() -> None:
    """What is written by hand; the reference and the results are generated."""
    made = {"reference.md", "results.md", "ship-recipes.md"}
    words = {name_of(page): len(page.read_text("utf-8").split()) for page in PAGES if page.name not in made}
    assert words["README.md"] <= 800
    # 22,000, and what is said of serving, of looking inside and of context mixing
    assert sum(words.values()) - words["CONTRIBUTING.md"] <= 24_400, words
