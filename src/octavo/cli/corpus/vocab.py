"""octavo corpus vocab: report A's vocabulary from data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from octavo.cli.common import (
    Force,
    Json,
    Overrides,
    Text,
    Whole,
    print_json,
    print_table,
    show,
    split_overrides,
)
from octavo.cli.corpus.common import RecipeOption, Steps
from octavo.errors import InputError


def vocab_command(
    *overrides: Overrides,
    text: Text = None,
    size: Annotated[Whole | None, Parameter(help="How many words and marks.")] = None,
    coverage: Annotated[
        float | None, Parameter(help="Or as few as make up this share of the text, such as 0.99.")
    ] = None,
    recipe: RecipeOption = None,
    steps: Steps = None,
    case: Annotated[bool, Parameter(help="Keep Cat apart from cat.", negative="")] = False,
    out: Annotated[Path | None, Parameter(help="A file for the words, one a line.")] = None,
    picture: Annotated[Path | None, Parameter(help="A file for the curve, .svg.")] = None,
    force: Force = False,
    json: Json = False,
) -> int:
    """The most frequent words and marks of a text, and how many documents pass under vocabularies of other sizes.

    Without --size and --coverage the knee of that curve is taken: where more words begin to bring few documents.
    The file fits the word tokenizer (tokenizer.words=FILE) and the cleaning step closed_vocabulary.

    For example:

    octavo corpus vocab --text stories.txt --steps pidgin --picture curve.svg

    octavo corpus vocab --text stories.txt --steps pidgin --coverage 0.99 --out vocabulary.txt
    """
    text, settings = split_overrides(text, overrides)
    from octavo.corpus.vocabulary import chosen_size, count_vocabulary
    from octavo.run.corpus import corpus_recipe, read_by
    from octavo.run.data import build_source
    from octavo.util.output import Output, all_or_none
    from octavo.util.terminal import Console

    wanted = corpus_recipe(text, recipe, steps, settings)
    if picture and picture.suffix.lower() != ".svg":
        raise InputError(f"{picture} does not end in .svg; pictures are written as SVG.")
    how: Any = {"inputs": read_by(wanted, recipe, steps), "force": force}
    words_to, picture_to = (Output(path, **how) if path else None for path in (out, picture))
    console = Console(quiet=json)
    with console.working("counting", None):
        counted = count_vocabulary(build_source(wanted, console), lowercase=not case, progress=console.read)
    chosen = chosen_size(counted, size, coverage)
    curve = counted.curve(chosen)
    with all_or_none(words_to, picture_to):
        if words_to:
            with words_to.writing() as file:
                file.writelines(f"{word}\n" for word in counted.words[:chosen])
        if picture_to:
            from octavo.report.plots import kept_plot

            with picture_to.writing() as file:
                file.write(kept_plot(curve, chosen))
    if json:
        shown = {
            "size": chosen,
            "knee": counted.knee,
            "documents": len(counted.needed),
            "exact": counted.exact,
        }
        print_json({**shown, "distinct": len(counted.words), "curve": curve, "words": counted.words[:chosen]})
        return 0
    _print_curve(curve, chosen, counted.knee)
    if out or not picture:
        hint = "--out FILE writes the words, --picture FILE.svg the curve"
        show(f"\n{out}: {chosen:,} words and marks, the most frequent first" if out else f"\n{hint}")
    return 0


def _print_curve(curve: list[dict[str, Any]], chosen: int, knee: int | None) -> None:
    names = {chosen: "← chosen", knee: "knee"}
    names = {**names, chosen: "← chosen, knee"} if chosen == knee else names
    rows = [
        [
            f"{row['size']:,}",
            f"{row['coverage']:.2%}",
            f"{row['documents']:,}",
            f"{row['share']:.1%}",
            names.get(row["size"], ""),
        ]
        for row in curve
    ]
    print_table(rows, head=["words", "of the text", "documents that pass", "share", ""])
