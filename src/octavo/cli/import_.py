"""octavo import: a model of another library becomes a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from octavo.cli.common import Json, print_json, show


def import_command(
    path: Annotated[
        Path, Parameter(help="A local folder in Hugging Face's form, or a GGUF file; nothing is downloaded.")
    ],
    *,
    out: Annotated[Path, Parameter(help="The run folder that is made.")],
    tokenizer: Annotated[
        Path | None, Parameter(help="A tokenizer.json, where the model comes without its own.")
    ] = None,
    json: Json = False,
) -> int:
    """Make a run of a model from elsewhere: GPT-2, Llama, Qwen3, Apertus and others, also as octavo export writes them.

    The run writes, is judged, exported and tuned like any other. It has no text of its own: name one to judge it.

    For example:

    octavo import ~/models/gpt2 --out runs/gpt2

    octavo eval runs/gpt2 --text my-book.txt
    """
    from octavo.config.parts import command
    from octavo.export.imported import import_model
    from octavo.run.list import run_info

    folder = import_model(path, out, tokenizer=tokenizer)
    facts = run_info(folder.path)
    if json:
        print_json(facts)
        return 0
    show(f"{folder.path}: {facts['description']}")
    show(f"{facts['shape']}; vocabulary {facts['vocabulary']:,}")
    show(f"  → {command('octavo', 'generate', folder.path, '--prompt', 'Once upon a time')}")
    show(f"  → {command('octavo', 'eval', folder.path, '--text', 'PATH')}")
    return 0
