"""octavo recipes: what ships, and what a recipe can hold."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from octavo.cli.common import Json, print_json, show, show_text
from octavo.errors import InputError


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
    from octavo.config import ANY_TEXT, parse_yaml, recipe_names, recipe_text

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
        names = [*ANY_TEXT, *(each for each in recipe_names() if each not in ANY_TEXT)]
        described = {each: parse_yaml(recipe_text(each), each).get("description", "") for each in names}
        if json:
            print_json([{"name": each, "description": text} for each, text in described.items()])
        else:
            for each, text in described.items():
                show(f"{each}\n    {text}")
    return 0
