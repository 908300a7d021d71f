"""octavo corpus leaks: does the text that a model is evaluated on stand in its training text?"""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from octavo.cli.common import Json, Overrides, Text, Whole, print_json, show, split_overrides
from octavo.cli.corpus.common import RecipeOption, Steps
from octavo.errors import InputError

SHOWN = 20


def leaks_command(
    *overrides: Overrides,
    text: Text = None,
    against: Annotated[
        list[str] | None,
        Parameter(
            help="Text that models are evaluated on; default: the text's own validation split.",
            consume_multiple=True,
            negative="",
        ),
    ] = None,
    recipe: RecipeOption = None,
    steps: Steps = None,
    words: Annotated[Whole, Parameter(help="Words in a run.")] = 13,
    least: Annotated[
        float, Parameter(help="Name a document if at least this share of its runs is found.")
    ] = 0.5,
    json: Json = False,
) -> int:
    """Name the evaluation documents that stand in the training text too: whole, or as runs of words.

    For example:

    octavo corpus leaks --text stories.txt split=documents validation=0.1

    octavo corpus leaks --text train.txt --against valid.txt

    octavo corpus leaks --recipe pidgin-demo
    """
    text, settings = split_overrides(text, overrides)
    from octavo.run.corpus import corpus_recipe, leaks_between
    from octavo.util.records import plain
    from octavo.util.terminal import Console

    if words < 1 or not 0 < least <= 1:
        raise InputError(
            f"--words is {words} and --least {least:g}; at least 1 word, and a share up to 1, are needed."
        )
    training = corpus_recipe(text, recipe, steps, settings)
    judged = corpus_recipe(against, None, steps, settings) if against else None
    check = leaks_between(training, judged, Console(quiet=json), words=words, least=least)
    if json:
        print_json(plain(check))
        return 0
    sample = f", one in {check.sampled} looked at" if check.sampled > 1 else ""
    show(f"{check.documents:,} evaluation documents against {check.training_documents:,} training documents")
    show(f"runs of {check.words} words that both have: {check.share:.2%}{sample}")
    if check.too_short:
        show(f"{check.too_short:,} evaluation documents are shorter than a run; only whole ones are found")
    for leak in check.leaks[:SHOWN]:
        how = "repeated whole" if leak.exact else f"{leak.share:.0%} of its runs"
        show(f"\n{leak.document}: {how}\n    most like {leak.like}")
        if leak.example:
            show(f"    both say: {leak.example}")
    if len(check.leaks) > SHOWN:
        show(f"\n… and {len(check.leaks) - SHOWN:,} more (--json lists all)")
    if not check.leaks:
        show("no evaluation document stands in the training text")
    return 0
