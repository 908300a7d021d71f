"""What can go wrong, as a reader should hear it: what is wrong, the limit, what to do.

Each kind carries the exit code that the command line ends with. Messages are whole sentences;
`remedy` is printed on its own line, so keep it one concrete step.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence

_SWITCHES = ("resume", "overwrite", "quiet", "force", "test", "only_valid")
_VALUES = (
    "text",
    "out",
    "minutes",
    "jobs",
    "cluster",
    "size",
    "coverage",
    "near",
    "vocab_size",
    "samples",
    "steps",
    "price",
    "temperature",
    "prompt",
    "checkpoint",
    "tokens",
    "seed",
    "max_usd",
    "accept_change",
)
_RENAMED = {"vocabulary": "vocab_size"}
_CALLS = {
    "train": "octavo.train",
    "plan": "octavo.plan",
    "study run": "octavo.study",
    "eval": "evaluate",
    "generate": "generate",
    "forecast": "forecast",
}
"""Verbs that have a call: a function, or a method of an opened run."""
_WORD = r"""(?:'[^']*'|"'"|[^\s;,'"\\])+"""
_PIECE = re.compile(
    rf"""
    \boctavo[ ](?P<verb>{"|".join(_CALLS).replace(" ", "[ ]")})\b
        (?P<first>[ ](?:[A-Z]+\b|(?!-){_WORD}(?=$|[;,]|[ ]--|[ ]{{2}}|[ ][a-z_.]+=)))?
        (?P<words>(?:[ ]--(?:{"|".join(_SWITCHES).replace("_", "-")})\b
            |[ ]--[a-z-]+[ ]{_WORD}
            |[ ](?:'[a-z_.]+=[^']*'|[a-z_]+\.[a-z_.]+=[^\s;,]+))*)
    | \boctavo[ ][a-z][^;\n]*                                           # a command that has no call stays
    | (?P<parts>--parts[ ]{_WORD}(?:[ ]--parts[ ]{_WORD})*)
    | (?<![\w-])--(?P<flag>[a-z]+(?:-[a-z]+)*)(?:[ =](?P<value>[A-Z]+\b|\d[\d.]*\b))?
    """,
    re.VERBOSE,
)


class OctavoError(Exception):
    """Base of every error that is meant for the reader; the command line prints it without a traceback.

    `what` and `remedy` name options as the command line does (`--text PATH`). In Python, `str` names the same as
    arguments (`text=…`); what a run says on the way is said in the same words (`ground.console.Console`).
    """

    exit_code = 1

    def __init__(self, what: str, *, remedy: str | None = None) -> None:
        self.what = what
        self.remedy = remedy
        super().__init__(what if remedy is None else f"{what}\n  → {remedy}")

    @property
    def as_command_line(self) -> str:
        """The message for somebody who typed a command."""
        return str(self.args[0])

    def __str__(self) -> str:
        return in_python(self.as_command_line)


def in_python(text: str) -> str:
    """A message with its commands as calls and its options as arguments: `--text PATH` becomes `text=PATH`, `--parts
    FILE` a call of `octavo.load_parts`. Commands that have no call, and other programs' options, stay."""
    return _PIECE.sub(_in_python, text)


def _in_python(piece: re.Match[str]) -> str:
    if piece["verb"]:
        first = shlex.split(piece["first"] or "")
        return _call(piece["verb"], first, shlex.split(piece["words"])) or piece[0]
    if piece["parts"]:
        return " and ".join(f"octavo.load_parts({_literal(path)})" for path in shlex.split(piece[0])[1::2])
    return (piece["flag"] and _argument(piece["flag"], piece["value"])) or piece[0]


def _call(verb: str, first: Sequence[str], words: Sequence[str]) -> str | None:
    """A command as a call; `words` are its options and settings. None where one of them has no argument."""
    arguments: list[str | None] = []
    before, settings, left = "", [], iter(words)
    for word in left:
        name = word.removeprefix("--")
        if name == word:
            settings.append(word)
        elif name == "parts":
            before += f"octavo.load_parts({_literal(next(left))}); "
        else:
            arguments.append(_argument(name, None if _name(name) in _SWITCHES else _literal(next(left))))
    given = [each for each in arguments if each is not None]
    if len(given) < len(arguments):
        return None
    given += [f"overrides={json.dumps(settings, ensure_ascii=False)}"] if settings else []
    opened = [_literal(each) for each in first]
    if "." in _CALLS[verb]:
        return f"{before}{_CALLS[verb]}({', '.join([*opened, *given])})"
    return (
        f"{before}{f'octavo.Run.open({opened[0]})' if opened else 'run'}.{_CALLS[verb]}({', '.join(given)})"
    )


def _name(flag: str) -> str:
    name = flag.replace("-", "_")
    return _RENAMED.get(name, name)


def _argument(flag: str, value: str | None) -> str | None:
    """An option as an argument; None for one that no call takes."""
    name = _name(flag)
    if name not in (*_SWITCHES, *_VALUES):
        return None
    if value is None:
        return f"{name}=True" if name in _SWITCHES else f"{name}="
    return f"{name}={value}"


def _literal(word: str) -> str:
    """A word of a command as Python has it: a placeholder (RUN) and a number as they are, anything else as a text."""
    return word if re.fullmatch(r"[A-Z]+|\d+(\.\d+)?", word) else json.dumps(word, ensure_ascii=False)


class InputError(OctavoError):
    """Something that the user gave (a file, an option, a prompt) cannot be used."""

    exit_code = 2


class ConfigError(InputError):
    """A recipe or an override is wrong; the message lists every problem at once.

    Attributes:
        problems: each of them, in a sentence; where none are given, the message is the one problem.
    """

    def __init__(self, what: str, *, remedy: str | None = None, problems: Sequence[str] = ()) -> None:
        super().__init__("\n  · ".join([what, *problems]), remedy=remedy)
        self.problems = list(problems) or [what]


class CorpusError(InputError):
    """A text cannot be read, or is not enough for what was asked."""


class TokenizerError(InputError):
    """A text holds what the vocabulary lacks, or a tokenizer cannot be built or loaded."""


class MissingExtra(OctavoError):
    """An optional library is needed that is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package '{package}', which is not installed.",
            remedy=f"pip install 'octavo[{extra}]'",
        )


class RunFolderError(InputError):
    """A run folder is missing, in the way, in use, or not a run folder."""


class CheckpointError(OctavoError):
    """A checkpoint is incomplete, altered, or of another format."""


class StorageError(OctavoError):
    """The disk is full or the folder cannot be written."""


class DivergedError(OctavoError):
    """The loss or a gradient stopped being a finite number.

    Attributes:
        step: the step that diverged, counted from 1.
        event: step and reason in a sentence, without what was saved.
    """

    def __init__(self, step: int, why: str, *, remedy: str | None = None) -> None:
        self.step = step
        self.event = f"Step {step} diverged: {why}."
        kept = "Nothing of this step was kept; what was saved before it is whole."
        super().__init__(f"{self.event} {kept}", remedy=remedy)


class Interrupted(OctavoError):
    """The user or the system asked the run to stop; its state is saved."""

    exit_code = 130


class LostError(OctavoError):
    """Another process of the same training died, or cannot be reached."""


class EndedElsewhere(OctavoError):
    """Another process of the same training ended it, and says why."""

    def __init__(self, what: str, *, code: int) -> None:
        super().__init__(what)
        self.exit_code = code
