"""All verbs as one program, one file per verb."""

from __future__ import annotations

import inspect
import shlex
from keyword import iskeyword
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Group, Parameter

from octavo.cli.common import show_text
from octavo.errors import InputError
from octavo.util.files import exists

if TYPE_CHECKING:
    from cyclopts import CycloptsError, UnknownOptionError, UnusedCliTokensError

# octavo completion: verbs and options by the Tab key.


def completion_of(app: App) -> App:
    """The verb that prints a shell's script for all verbs of `app`."""
    verb = App(name="completion", help_format="plaintext")

    @verb.default
    def completion_command(
        shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="The shell.")],
    ) -> int:
        """Print a script with which a shell completes verbs and options.

        For example:

        octavo completion bash > ~/.local/share/bash-completion/completions/octavo

        octavo completion zsh > ~/.zfunc/_octavo    (with fpath+=~/.zfunc before compinit in ~/.zshrc)

        octavo completion fish > ~/.config/fish/completions/octavo.fish
        """
        show_text(app.generate_completion(shell=shell), end="")
        return 0

    return verb


def version() -> str:
    """What --version says: version, commit and kernels in a line."""
    import octavo
    from octavo.util.kernels import commit, in_use

    found = commit()
    of = f"commit {found[:12]}{'+' * found.endswith('+')}, " if found else ""
    return f"{octavo.__version__} ({of}kernels: {in_use().name})"


app = App(
    name="octavo",
    help="Octavo: from your own text to a small GPT that you can train, trust and look inside.\n\n"
    "First steps: 'octavo demo' trains a story writer in about a minute, with nothing to download; "
    "'octavo train --text PATH' trains on your own text.",
    version=version,
    version_flags=["--version"],
    help_format="plaintext",
    suppress_keyboard_interrupt=False,  # main says so
)
VERBS = {
    "Begin": ("demo", "open", "train", "plan", "recipes", "doctor"),
    "Use a model": ("generate", "write", "chat", "translate", "forecast", "serve"),
    "Look at runs": ("runs", "info", "eval", "explain"),
    "Compare": ("compare", "study"),
    "Tune": ("tune",),
    "Ship": ("export", "verify", "import"),
    "Corpora": ("corpus", "tokenizer"),
}
"""The verbs in groups, as `octavo --help` and the README list them."""

for title, names in VERBS.items():
    group = Group.create_ordered(title)
    for name in names:
        module = f"{name}_" if iskeyword(name) else name  # as PEP 8 spells such names
        # Imported when it is asked for.
        app.command(f"octavo.cli.{module}:{name}_command", name=name, group=group)
app.command(completion_of(app))
app.group_commands = Group.create_ordered("The program")
app.meta.suppress_keyboard_interrupt = False
app.meta.group_parameters = Group("Parameters of every command", sort_key=0)


@app.meta.default
def command(
    *words: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
    parts: Annotated[
        list[Path] | None,
        Parameter(
            help="A Python file with parts of your own: tokenizers, layers, optimizers, whatever a recipe can name. "
            "It is run.",
            negative="",
            consume_multiple=False,
        ),
    ] = None,
) -> int | None:
    """Run a verb with what the user typed."""
    if parts:
        from octavo.config import load_parts

        for path in parts:
            load_parts(path)
    return app(words, exit_on_error=False, print_error=False, result_action="return_value")


def import_verbs(words: list[str]) -> None:
    """Import every verb, unless the words are a command that begins with one: help tells of all that there are."""
    verbs = {name for names in VERBS.values() for name in names}
    if not words or words[0] not in verbs or not {"--help", "-h"}.isdisjoint(words):
        for name in verbs:
            app[name]


def hyphens_bound(words: list[str]) -> list[str]:
    """`--text -` as the one word `--text=-`: alone, the hyphen would be taken for an option."""
    bound: list[str] = []
    for word in words:
        if word == "-" and bound and bound[-1] == "--text":
            bound[-1] = "--text=-"
        else:
            bound.append(word)
    return bound


# What is said where the words of a command do not fit its verb: one sentence, and the command that was meant.

RUNS = ("run", "base")
"""What verbs call a run that they begin with."""


def mended(error: CycloptsError) -> InputError | None:
    """The sentence for a word that is missing, too much, or a setting that is written like an option; None for another
    error, which says it itself."""
    from cyclopts import MissingArgumentError, UnknownOptionError, UnusedCliTokensError

    if isinstance(error, MissingArgumentError):
        return _missing(error)
    if isinstance(error, UnknownOptionError):
        return _setting(error)
    return _too_much(error) if isinstance(error, UnusedCliTokensError) else None


def _command(error: CycloptsError) -> str:
    return " ".join(("octavo", *(error.command_chain or ())))


def _missing(error: CycloptsError) -> InputError | None:
    """A word without an option's name is missing, such as the run that a verb is about; said as the help calls it."""
    argument, command = error.argument, _command(error)
    if getattr(error, "keyword", None) or argument is None or argument.index is None:  # an option
        return None
    if argument.field_info.name in RUNS:
        return InputError(
            f"{command} needs a run.", remedy=f"name a run: {command} runs/book (octavo runs lists them)"
        )
    name = argument.name.lstrip("-").upper()
    return InputError(f"{command} needs {name}.", remedy=f"{command} --help says what that is")


def _setting(error: UnknownOptionError) -> InputError | None:
    """`--layers 2`: an option that is not there, and a setting that is, of a verb that takes settings."""
    if not any(argument.field_info.name == "overrides" for argument in error.argument_collection):
        return None
    written, _, value = (error.token.keyword or error.token.value).partition("=")
    keys = _keys_like(written.lstrip("-").replace("-", "_"))
    words = error.root_input_tokens or []
    if not value and written in words[:-1]:
        behind = words[words.index(written) + 1]
        value = "" if behind.startswith("--") else behind
    if not keys:
        return None
    meant = " or ".join(f"{key}={shlex.quote(value or 'VALUE')}" for key in keys)
    return InputError(
        f"{written} is not an option of {_command(error)}; it is a setting of its recipe, written key=value.",
        remedy=f"in place of {f'{written} {value}'.strip()}: {meant}",
    )


def _keys_like(name: str) -> list[str]:
    """The settings that a name means: as it is, by its last part, or by the first letters of that (lr)."""
    from octavo.config import all_keys

    keys = [key for key in all_keys() if ".0." not in key]
    if name in keys:
        return [name]
    last = {key: key.rpartition(".")[2] for key in keys}
    matches = [key for key in keys if last[key] == name]
    matches = matches or [key for key in keys if "".join(word[0] for word in last[key].split("_")) == name]
    depth = min((key.count(".") for key in matches), default=0)
    return [key for key in matches if key.count(".") == depth]


def _too_much(error: UnusedCliTokensError) -> InputError:
    """Words that have no place: a prompt, or a text, without its option."""
    words, command = list(error.unused_tokens or ()), _command(error)
    takes = inspect.signature(error.target).parameters if error.target else {}
    option, meant = "", words
    if "text" in takes and all(exists(word) for word in words):
        option = "--text"
    elif "prompt" in takes:
        option, meant = "--prompt", [" ".join(words)]
    quoted = ", ".join(f"'{word}'" for word in words)
    if not option:
        return InputError(f"{command} does not take {quoted}.", remedy=f"{command} --help")
    before = list(error.root_input_tokens or ())
    for word in words:
        before.reverse()
        before.remove(word)
        before.reverse()
    return InputError(
        f"{command} does not take {quoted} without an option.",
        remedy=shlex.join(["octavo", *before, option, *meant]),
    )
