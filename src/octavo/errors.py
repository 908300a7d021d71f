"""What can go wrong, as a reader should hear it: what is wrong, the limit, what to do.

Each kind carries the exit code that the command line ends with. Messages are whole sentences;
`remedy` is printed on its own line, so keep it one concrete step.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_FLAG = re.compile(r"(?<![\w-])--([a-z]+(?:-[a-z]+)*)(?:[ =]([A-Z]+|\d+)\b)?")
_TRAIN = re.compile(r"\boctavo train RECIPE((?: --[a-z]+ [A-Z]+)*)")
_SWITCHES = ("resume", "overwrite", "quiet", "force")
_VALUES = (
    "text",
    "out",
    "jobs",
    "cluster",
    "size",
    "coverage",
    "near",
    "vocabulary",
    "max_usd",
    "accept_change",
    "minutes",
)


class OctavoError(Exception):
    """Base of every error that is meant for the reader; the command line prints it without a traceback.

    `what` and `remedy` name options as the command line does (`--text PATH`). In Python, `str` names the same as
    arguments (`text=…`).
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
    """A message with its command-line options named as arguments: `--text PATH` becomes `text=PATH`."""

    def argument(flag: re.Match[str]) -> str:
        name, value = flag[1].replace("-", "_"), flag[2]
        if name not in (*_SWITCHES, *_VALUES):
            return flag[0]  # an option of another program, or of a command that has no call
        if value is not None:
            return f"{name}={value}"
        return f"{name}=True" if name in _SWITCHES else f"{name}="

    def call(command: re.Match[str]) -> str:
        options = [_FLAG.sub(argument, flag[0]) for flag in _FLAG.finditer(command[1])]
        return f"octavo.train({', '.join(['RECIPE', *options])})"

    # Other commands stay as they are: they have no call in Python.
    lines = [_TRAIN.sub(call, line) for line in text.split("\n")]
    return "\n".join(
        line if re.search(r"\boctavo [a-z]", line) else _FLAG.sub(argument, line) for line in lines
    )


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
