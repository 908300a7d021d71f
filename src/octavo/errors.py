"""What can go wrong, as a reader should hear it: what is wrong, the limit, what to do.

Each kind carries the exit code that the command line ends with. Messages are whole sentences;
`remedy` is printed on its own line, so keep it one concrete step.
"""

from __future__ import annotations


class OctavoError(Exception):
    """Base of every error that is meant for the reader; printed without a traceback."""

    exit_code = 1

    def __init__(self, what: str, *, remedy: str | None = None) -> None:
        self.what = what
        self.remedy = remedy
        super().__init__(what if remedy is None else f"{what}\n  → {remedy}")


class InputError(OctavoError):
    """Something that the user gave (a file, an option, a prompt) cannot be used."""

    exit_code = 2


class ConfigError(InputError):
    """A recipe or an override is wrong; the message lists every problem at once."""


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
    """The loss or a gradient stopped being a finite number."""


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
