"""What is said of recipes before training: current in the docs, and the same that an export says."""

from __future__ import annotations

import pytest

from guards.common import ROOT
from octavo.config import load_recipe, recipe_names
from octavo.export.table import lines, page, support


def test_the_page_is_current() -> None:
    found = (ROOT / "docs" / "ship-recipes.md").read_text(encoding="utf-8")
    assert found == page(), "python -m octavo.export.table > docs/ship-recipes.md"


@pytest.mark.parametrize(
    "name", ["shakespeare-char-modern", "shakespeare-char-long", "crusoe-char", "pdf-folder"]
)
def test_these_are_exact_everywhere(name: str) -> None:
    found = support(load_recipe(name))
    assert {one.status for target, one in found.items() if target in ("hf", "gguf")} == {"exact"}


def test_every_recipe_has_an_answer_with_a_reason() -> None:
    for name in recipe_names():
        for one in support(load_recipe(name)).values():
            assert one.how or one.why
            assert (one.status == "exact") == (not one.why)


def test_a_model_of_ones_own_is_impossible_in_a_sentence() -> None:
    found = support(load_recipe("tensors-only"))
    assert "needs residual connections" in found["hf"].why
    assert any(line.startswith("  because") for line in lines(found))
