"""The typed, strict config tree of a run: defaults < recipe file < `key=value`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from octavo.util.lazily import lazily

if TYPE_CHECKING:
    from octavo.config.load import (
        ANY_TEXT,
        DEFAULT_RECIPE,
        all_keys,
        apply_override,
        apply_overrides,
        apply_value,
        apply_values,
        check,
        default_said,
        flatten,
        load_recipe,
        may_be_text,
        override_key,
        override_words,
        recipe_tree,
        stored_recipe,
        stored_tree,
        to_yaml,
    )
    from octavo.config.parts import PartConfig, PartOf, Strict, load_parts, register
    from octavo.config.plain import (
        cleaning_names,
        cleaning_steps,
        file_text,
        parse_yaml,
        recipe_names,
        recipe_text,
    )
    from octavo.config.schema import Recipe, SamplingConfig

__all__ = [
    "ANY_TEXT",
    "DEFAULT_RECIPE",
    "PartConfig",
    "PartOf",
    "Recipe",
    "SamplingConfig",
    "Strict",
    "all_keys",
    "apply_override",
    "apply_overrides",
    "apply_value",
    "apply_values",
    "check",
    "cleaning_names",
    "cleaning_steps",
    "default_said",
    "file_text",
    "flatten",
    "load_parts",
    "load_recipe",
    "may_be_text",
    "override_key",
    "override_words",
    "parse_yaml",
    "recipe_names",
    "recipe_text",
    "recipe_tree",
    "register",
    "stored_recipe",
    "stored_tree",
    "to_yaml",
]
__getattr__ = lazily(
    __name__,
    {
        "load": "ANY_TEXT DEFAULT_RECIPE all_keys apply_override apply_overrides apply_value apply_values check "
        "default_said flatten load_recipe may_be_text override_key override_words recipe_tree stored_recipe "
        "stored_tree to_yaml",
        "parts": "PartConfig PartOf Strict load_parts register",
        "plain": "cleaning_names cleaning_steps file_text parse_yaml recipe_names recipe_text",
        "schema": "Recipe SamplingConfig",
    },
)
