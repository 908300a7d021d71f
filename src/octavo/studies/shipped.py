"""The shipped studies, and study files found by name or path."""

from __future__ import annotations

import difflib
from importlib import resources
from pathlib import Path

from octavo.config import file_text
from octavo.errors import ConfigError
from octavo.ground.files import is_file


def study_names() -> list[str]:
    """The shipped studies, in alphabetical order."""
    entries = resources.files("octavo.studies").iterdir()
    return sorted(entry.name[:-5] for entry in entries if entry.name.endswith(".yaml"))


def study_text(study: str | Path) -> str:
    """The YAML of a shipped study, or of a study file.

    Raises ConfigError when there is neither.
    """
    names = study_names()
    if str(study) in names:
        return resources.files("octavo.studies").joinpath(f"{study}.yaml").read_text(encoding="utf-8")
    if is_file(study):
        return file_text(Path(study))
    near = difflib.get_close_matches(str(study), names, n=1)
    raise ConfigError(
        f"There is no study '{study}': neither a shipped one nor a file."
        + (f" Did you mean '{near[0]}'?" if near else ""),
        remedy="octavo study list    lists the shipped ones",
    )
