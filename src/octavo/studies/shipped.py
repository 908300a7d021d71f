"""The shipped studies, and study files found by name or path."""

from __future__ import annotations

from pathlib import Path

from octavo.config.shipped import shipped_names, shipped_text


def study_names() -> list[str]:
    """The shipped studies, in alphabetical order."""
    return shipped_names("octavo.studies")


def study_text(study: str | Path) -> str:
    """The YAML of a shipped study, or of a study file.

    Raises ConfigError when there is neither.
    """
    return shipped_text("study", study, "octavo.studies", listed_by="octavo study list")
