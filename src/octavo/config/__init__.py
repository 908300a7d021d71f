"""The typed, strict config tree of a run: defaults < recipe file < `key=value`."""

from octavo.config.load import (
    all_keys,
    apply_override,
    apply_value,
    check,
    cleaning_names,
    cleaning_steps,
    flatten,
    load_recipe,
    parse_yaml,
    recipe_names,
    recipe_text,
    to_yaml,
)
from octavo.config.parts import PartConfig, PartOf, Strict, parts, register
from octavo.config.schema import ModelConfig, Recipe, SamplingConfig

__all__ = [
    "ModelConfig",
    "PartConfig",
    "PartOf",
    "Recipe",
    "SamplingConfig",
    "Strict",
    "all_keys",
    "apply_override",
    "apply_value",
    "check",
    "cleaning_names",
    "cleaning_steps",
    "flatten",
    "load_recipe",
    "parse_yaml",
    "parts",
    "recipe_names",
    "recipe_text",
    "register",
    "to_yaml",
]
