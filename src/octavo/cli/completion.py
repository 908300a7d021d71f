"""octavo completion: verbs and options by the Tab key."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import App, Parameter

from octavo.cli.common import show_text


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
