"""octavo recipes: what ships, and what a recipe can hold."""

from __future__ import annotations

from textwrap import wrap
from typing import Annotated

from cyclopts import Parameter

from octavo.cli.common import Json, print_json, show, show_text
from octavo.errors import InputError

GROUPS = {
    "Any text, on a laptop": {
        "quick": "seconds: a small model with a memory for short letter groups",
        "minute": "a minute or two: four layers; the default of octavo train",
        "ten-minutes": "ten minutes: six wider layers, many passes, dropout",
    },
    "Nothing to download": {
        "pidgin-demo": "children's stories in a small language; what octavo demo trains",
        "translate-demo": "pidgin to plain English, judged by the best possible model",
        "forecast-demo": "two channels of numbers, forecast as distributions",
        "bouncing-ball": "films of a bouncing ball, pixel by pixel",
        "arithmetic": "sums of numbers below 100, the start for arithmetic-rl",
        "digits": "handwritten digits of 8 × 8 pixels (extra: digits)",
    },
    "Your own pairs, numbers, images and tunes": {
        "multi30k-cpu": "captions, English to German: two files, line by line",
        "forces-cpu": "forces under runners' feet, 200 ms ahead; split by person",
        "mnist-cpu": "digits of 28 × 28 pixels, from an IDX file or a folder",
        "abc-cpu": "folk tunes in ABC notation",
    },
    "Tuning a trained run (octavo tune)": {
        "tune-sft": "learn to answer from conversations",
        "instructions": "the same for some hundred instructions",
        "tune-dpo": "prefer the better of two answers",
        "tune-reward": "learn a reward from preferences",
        "tune-rl": "reinforcement learning by any reward",
        "pidgin-wishes": "stories that keep wishes, from examples",
        "pidgin-wishes-rl": "the same by trying, on a run of pidgin-wishes",
        "arithmetic-rl": "adding by trial, on a run of arithmetic",
    },
    "TinyShakespeare, beside nanoGPT": {
        "shakespeare-char-quick": "seconds, to the loss of nanoGPT's recipe for CPUs",
        "shakespeare-char-modern": "a minute, at nanoGPT's size",
        "shakespeare-char-long": "ten minutes, below nanoGPT's recipe for GPUs",
        "shakespeare-char-cpu": "nanoGPT's recipe for CPUs",
        "shakespeare-char": "nanoGPT's recipe for GPUs",
    },
    "Published models; each also with -cpu, its small form for a laptop": {
        "pidgin-stories": "stories in a closed vocabulary, a token for each word",
        "tensors-only": "one attention layer, plain gradient descent",
        "pdf-folder": "characters of a folder of PDF files",
        "tinystories-gpt2": "GPT-2 small on TinyStories",
        "shakespeare-char-report": "characters, 14.3M parameters",
        "crusoe-char": "the same model on a novel",
        "script-char-large": "the same model on a text too short for it",
        "script-char-small": "a model that is small enough for that text",
        "shakespeare-gpt2": "GPT-2's encoding, narrow and deep",
    },
}
"""The shipped recipes as `octavo recipes` lists them, each in a few words."""


def recipes_command(
    name: Annotated[str | None, Parameter(help="Print this recipe.")] = None,
    *,
    schema: Annotated[
        bool, Parameter(help="Print the JSON schema of recipes, for editors.", negative="")
    ] = False,
    json: Json = False,
) -> int:
    """List the shipped recipes, or print one.

    For example:

    octavo recipes

    octavo recipes minute > mine.yaml

    octavo recipes --schema > recipe.schema.json    (then, first line of mine.yaml:
    # yaml-language-server: $schema=recipe.schema.json)
    """
    from octavo.config import parse_yaml, recipe_names, recipe_text

    if schema and name is not None:
        raise InputError("--schema is of all recipes, and a name of one.", remedy="leave one of them out")
    if schema:
        from octavo.config import Recipe
        from octavo.config.docs import SchemaWithSentences

        print_json(Recipe.model_json_schema(schema_generator=SchemaWithSentences))
    elif name is not None and json:
        print_json(parse_yaml(recipe_text(name), name))
    elif name is not None:
        show_text(recipe_text(name), end="")
    else:
        listed = {name: text for group in GROUPS.values() for name, text in group.items()}
        names = [*listed, *(name for name in recipe_names() if name not in listed)]
        described = {name: parse_yaml(recipe_text(name), name).get("description", "") for name in names}
        if json:
            print_json([{"name": name, "description": text} for name, text in described.items()])
        else:
            _print_groups()
    return 0


def _print_groups() -> None:
    """A table that 80 columns hold."""
    column = max(len(name) for group in GROUPS.values() for name in group) + 2
    for number, (title, group) in enumerate(GROUPS.items()):
        show() if number else None
        show(title)
        for name, text in group.items():
            first, *rest = wrap(text, 78 - column)
            show(f"  {name:{column}}{first}")
            for line in rest:
                show(" " * (column + 2) + line)
    show("\noctavo recipes NAME prints one with all its settings.")
