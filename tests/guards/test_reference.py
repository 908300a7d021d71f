"""The reference of all settings is the one that the schema gives, and leaves no setting without a sentence."""

from __future__ import annotations

import pytest

from guards.common import ROOT
from octavo.config import all_keys
from octavo.config.reference import reference


@pytest.fixture(scope="module")
def made() -> str:
    return reference()


def test_reference_is_current(made: str) -> None:
    page = (ROOT / "docs" / "reference.md").read_text("utf-8")
    assert page == made, "make it anew: python -m octavo.config.reference > docs/reference.md"


def test_reference_names_every_setting(made: str) -> None:
    keys = list(all_keys())
    groups = {key.rpartition(".")[0] for key in keys}
    missing = [
        key for key in keys if key not in groups and not key.endswith(".kind") and f"`{key}`" not in made
    ]
    # Muon's AdamW for the rest has AdamW's own settings, and a side's tokenizer those of tokenizers, which stand there.
    elsewhere = ("training.optimizer.rest.", "tokenizer.source.", "tokenizer.target.")
    assert [key for key in missing if not key.startswith(elsewhere)] == []
