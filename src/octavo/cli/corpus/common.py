"""What the sub-verbs of `octavo corpus` that read a text share."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

RecipeOption = Annotated[
    str | None, Parameter(help="Take the corpus and its cleaning from this recipe: a name, or a YAML file.")
]
Steps = Annotated[
    str | None,
    Parameter(help="Clean first: pidgin, plain or web, or a YAML file with steps under the key cleaning."),
]
