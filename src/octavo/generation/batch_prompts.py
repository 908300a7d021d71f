"""A file of prompts: one a line, or a YAML or JSON list."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from octavo.config import parse_yaml
from octavo.errors import InputError
from octavo.util.records import parse_json

_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", "#": "#"}


def read_prompts(path: Path) -> list[str]:
    r"""The prompts of a file, in its order; one that stands there twice is taken once.

    `.yaml`, `.yml` and `.json` hold a list of texts. In any other file each line is a prompt as it stands, spaces at
    its end too; `\n`, `\t` and `\\` mean a line break, a tab and a backslash, blank lines and lines that begin with `#`
    are left out, and `\#` begins a prompt with `#`.

    Raises InputError for a file that cannot be read or holds no prompts; ConfigError for what is not YAML.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(f"The prompts in {path} cannot be read: {why}.") from error
    kind = path.suffix.lower()
    if kind in (".yaml", ".yml", ".json"):
        prompts = _listed(_parsed(text, path), path)
    else:
        prompts = [unescaped(line) for line in text.split("\n") if line.strip() and not line.startswith("#")]
    if not prompts:
        raise InputError(f"{path} holds no prompts.", remedy="write one prompt on each line")
    return list(dict.fromkeys(prompts))


def _parsed(text: str, path: Path) -> Any:
    if path.suffix.lower() != ".json":
        return parse_yaml(text, str(path))
    try:
        return parse_json(text, Any)
    except ValueError as error:
        raise InputError(f"{path} is not valid JSON: {error}.") from error


def _listed(entries: Any, path: Path) -> list[str]:
    if not isinstance(entries, list):
        raise InputError(f"{path} is not a list of prompts.", remedy='for example ["ROMEO:", "JULIET:"]')
    wrong = [number for number, prompt in enumerate(entries, 1) if not isinstance(prompt, str)]
    if wrong:
        raise InputError(
            f"In {path} these prompts are not texts: number {', '.join(map(str, wrong))}.",
            remedy='put them in quotes; in YAML, ROMEO: without quotes is a key, and 5 a number: "ROMEO:", "5"',
        )
    return entries


def unescaped(line: str) -> str:
    r"""A line with its `\n`, `\t`, `\\` and `\#` as what they mean."""
    return re.sub(r"\\([nt\\#])", lambda match: _ESCAPES[match[1]], line)
