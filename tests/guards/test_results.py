"""The page of results says of which code each study is, and which of them today's code may contradict."""

from __future__ import annotations

import warnings

from guards.common import ROOT
from octavo.studies.provenance import marked, stale
from octavo.studies.spec import study_names

PAGE = (ROOT / "docs" / "results.md").read_text("utf-8")


def test_every_study_says_its_code() -> None:
    studies = [part for part in PAGE.split("\n## ")[1:] if part.partition("\n")[0] in study_names()]
    assert studies and all(part.count("*Of code `") == 1 for part in studies)


def test_results_of_other_code_are_named() -> None:
    """A change of the code does not fail here: it is said, and studies.py --mark writes it into the page."""
    unsaid = stale(marked(PAGE)) - stale(PAGE)
    if unsaid > 0:
        warnings.warn(
            f"{unsaid} more studies of docs/results.md are stale: "
            "python benchmarks/studies.py --mark --out docs/results.md",
            stacklevel=1,
        )
