"""How the tests of the command line ask, and what a refusal must look like."""

from __future__ import annotations

import re
from pathlib import Path

from e2e.forked import Octavo, Result


def train(octavo: Octavo, out: Path, *more: str, text: str = "text.txt", patch: str = "") -> Result:
    return octavo("train", "recipe.yaml", "--text", text, "--out", out, *more, patch=patch)


def refused(result: Result, *words: str, code: int = 2) -> None:
    """The command ended with a sentence that holds all words, and printed nothing else as a result."""
    assert result.code == code, result
    assert "Traceback" not in result.err
    assert re.search(r"^(error|interrupted)", result.err, re.MULTILINE), result.err
    for word in words:
        assert word in result.err, result.err
    assert result.out == ""
