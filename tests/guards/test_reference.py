"""The reference of all settings is the one that the schema gives, and leaves no setting without a sentence."""

from __future__ import annotations

from guards.common import ROOT
from octavo.config import all_keys
from octavo.config.reference import reference


def test_reference_is_current() -> None:
    page = (ROOT / "docs" / "reference.md").read_text("utf-8")
    assert page == reference(), "make it anew: python -m octavo.config.reference > docs/reference.md"


def test_reference_names_every_setting() -> None:
    page = reference()
    groups = {key for key in all_keys() if any(other.startswith(key + ".") for other in all_keys())}
    missing = [
        key
        for key in all_keys()
        if key not in groups and not key.endswith(".kind") and f"`{key}`" not in page
    ]
    # Muon's AdamW for the rest has AdamW's own settings, and a side's tokenizer those of tokenizers, which stand there.
    elsewhere = ("training.optimizer.rest.", "tokenizer.source.", "tokenizer.target.")
    assert [key for key in missing if not key.startswith(elsewhere)] == []
