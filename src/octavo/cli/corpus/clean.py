"""octavo corpus clean: a text through cleaning steps into a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from octavo.cli.common import Force, Json, Overrides, Text, print_json, print_table, show, split_overrides
from octavo.cli.corpus.common import RecipeOption, Steps
from octavo.errors import InputError


def clean_command(
    *overrides: Overrides,
    text: Text = None,
    out: Annotated[Path, Parameter(help="The file to write: .jsonl for records, else text.")],
    recipe: RecipeOption = None,
    steps: Steps = None,
    words: Annotated[
        Path | None, Parameter(help="Also drop documents that have a word outside this list.")
    ] = None,
    mark: Annotated[
        bool, Parameter(help="<sos> and <eos> around each document, and each on one line.", negative="")
    ] = False,
    force: Force = False,
    json: Json = False,
) -> int:
    """Clean a text and write it, with what each step did.

    For example:

    octavo corpus clean --text replies/ --steps pidgin --out stories.txt

    octavo corpus clean --text stories.txt --steps pidgin --words vocabulary.txt --mark --out lines.txt

    octavo corpus clean --text pages.jsonl --steps web --out clean.jsonl cleaning.4.min_words=50
    """
    text, settings = split_overrides(text, overrides)
    from octavo.run.corpus import corpus_recipe, read_by, write_cleaned
    from octavo.util.output import Output
    from octavo.util.terminal import Console

    wanted = corpus_recipe(text, recipe, steps, settings)
    more = [{"kind": "closed_vocabulary", "words": str(words)}] if words else []
    more += [{"kind": "marks"}] if mark else []
    if more:
        wanted = type(wanted).model_validate(
            {**wanted.model_dump(), "cleaning": [*wanted.model_dump()["cleaning"], *more]}
        )
    if not wanted.cleaning:
        raise InputError(
            "There are no steps to clean with.", remedy="--steps plain, or --recipe with a recipe that cleans"
        )
    output = Output(out, inputs=read_by(wanted, recipe, steps), force=force)
    written = write_cleaned(wanted, output, Console(quiet=json), lines=mark)
    if json:
        print_json({**vars(written), "path": str(written.path)})
        return 0
    rows = [
        [name, *(f"{step[key]:,}" for key in ("in", "changed", "dropped", "out"))]
        for name, step in written.cleaning.items()
    ]
    print_table(rows, head=["step", "in", "changed", "dropped", "out"])
    for name, step in written.cleaning.items():
        for example in step.get("examples", []):
            show(f"{name}: {example}")
    speed = written.characters / 1e6 / max(written.seconds, 1e-9)
    show(
        f"{written.path}: {written.documents:,} documents, {written.characters:,} characters, {speed:.1f} MB/s"
    )
    return 0
