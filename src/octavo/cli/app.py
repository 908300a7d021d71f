"""All verbs as one program, one file per verb."""

from __future__ import annotations

from importlib import import_module
from keyword import iskeyword
from pathlib import Path
from typing import Annotated

from cyclopts import App, Group, Parameter

import octavo
from octavo.cli.completion import completion_of

app = App(
    name="octavo",
    help="Octavo: from your own text to a small GPT that you can train, trust and look inside.\n\n"
    "First steps: 'octavo demo' trains a story writer in about a minute, with nothing to download; "
    "'octavo train --text PATH' trains on your own text.",
    version=octavo.__version__,
    version_flags=["--version"],
    help_format="plaintext",
    suppress_keyboard_interrupt=False,  # main says so
)
VERBS = {
    "Begin": ("demo", "train", "plan", "recipes", "doctor"),
    "Use a model": ("generate", "write", "chat", "translate", "forecast"),
    "Look at runs": ("runs", "info", "eval"),
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
        verb = getattr(import_module(f"octavo.cli.{module}"), f"{name}_command")
        if isinstance(verb, App):
            verb.group = group
            app.command(verb, name=name)
        else:
            app.command(verb, name=name, group=group)
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
    """Any command."""
    if parts:
        from octavo.config import load_parts

        for path in parts:
            load_parts(path)
    return app(words, exit_on_error=False, print_error=False, result_action="return_value")


def hyphens_bound(words: list[str]) -> list[str]:
    """`--text -` as the one word `--text=-`: alone, the hyphen would be taken for an option."""
    bound: list[str] = []
    for word in words:
        if word == "-" and bound and bound[-1] == "--text":
            bound[-1] = "--text=-"
        else:
            bound.append(word)
    return bound
