"""The fenced blocks of a Markdown file, and the `octavo …` lines in them.

A block marked `python` is run, one marked `console`, `bash` or `sh` holds command lines, `text` and all
others are only shown. What a snippet needs but a reader need not see (a small text, a shorter run) stands
before it in a comment that Markdown does not show:

    <!-- setup
    from pathlib import Path
    Path("book.txt").write_text("Once upon a time. " * 500, encoding="utf-8")
    -->
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<body>.*?)^(?P=indent)```\s*$"
    r"|^<!-- setup\n(?P<setup>.*?)^-->",
    re.MULTILINE | re.DOTALL,
)
SHELLS = {"console", "bash", "sh", "shell"}


@dataclass(frozen=True)
class Block:
    """One fenced block: what it is marked as, its text, and the line of the file on which that begins."""

    language: str
    text: str
    line: int


def blocks(markdown: str) -> list[Block]:
    """All fenced blocks and setup comments of a page, in order."""
    found = []
    for match in BLOCK.finditer(markdown):
        group = "setup" if match["setup"] is not None else "body"
        indent = match["indent"] or ""
        text = "\n".join(line.removeprefix(indent) for line in match[group].splitlines())
        language = "python" if group == "setup" else match["language"]
        found.append(Block(language, text, markdown.count("\n", 0, match.start(group)) + 1))
    return found


def commands(block: Block) -> list[list[str]]:
    """The commands of a shell block as words; where some lines begin with `$`, the others are output."""
    lines = re.sub(r"\\\n\s*", " ", block.text).splitlines()
    if any(line.startswith("$ ") for line in lines):
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return [command for line in lines for command in split(line)]


def split(line: str) -> list[list[str]]:
    """One shell line as its simple commands, without redirections and assignments in front."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";|&<>")
    lexer.whitespace_split = True
    found: list[list[str]] = [[]]
    redirected = False
    for word in lexer:
        if set(word) <= set(";|&"):
            found.append([])
        elif set(word) <= set("<>&"):
            redirected = True
        elif redirected:
            redirected = False
        elif found[-1] or not re.fullmatch(r"\w+=\S*", word):
            found[-1].append(word)
    return [_launched(command) for command in found if command]


def _launched(command: list[str]) -> list[str]:
    """What torchrun starts; other commands as they are."""
    started = command[0] == "torchrun" and "octavo" in command
    return command[command.index("octavo") :] if started else command
