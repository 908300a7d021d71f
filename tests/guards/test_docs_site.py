"""The documentation builds as a site without a warning: no dead link, no page that the sidebar lacks, no network."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from guards.common import ROOT

FETCHED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"(?:https?:)?//", re.IGNORECASE)


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_fetches_nothing(tmp_path: Path) -> None:
    pytest.importorskip("sphinx", reason="Sphinx is not installed: pip install -e '.[dev]'")
    strict = ("--quiet", "--fail-on-warning", "--keep-going", "-d", str(tmp_path / "read"))
    command = [
        sys.executable,
        "-m",
        "sphinx",
        *strict,
        "-c",
        str(ROOT / "docs"),
        str(ROOT),
        str(tmp_path / "site"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = sorted((tmp_path / "site").rglob("*.html"))
    written = {path.relative_to(ROOT).with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert written <= {page.relative_to(tmp_path / "site") for page in pages}
    assert [page.name for page in pages if FETCHED.search(page.read_text(encoding="utf-8"))] == []
    assert "README.html" in (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
