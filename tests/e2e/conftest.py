"""What the end-to-end tests share: a server for commands, a small text, a recipe that trains in a moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.forked import Octavo

RECIPE = """\
description: as small as a run can be
tokenizer: char
model: {layers: 1, width: 16, heads: 2, context: 16, dropout: 0.1}
training: {steps: 40, batch: 4, checkpoint_every: 5, precision: float32, device: cpu, threads: 1}
evaluation: {every: 10}
sampling: {tokens: 20}
logging: {every: 1}
"""
SENTENCES = (
    "the brown fox jumps over the lazy dog.\n",
    "a dog runs from the old cat!\n",
    "who saw the fox?\n",
    "nobody saw it, said the cat.\n",
)


@pytest.fixture(scope="session")
def octavo(server: Octavo) -> Octavo:
    """The command line, in a folder with recipe.yaml and text.txt."""
    (server.folder / "recipe.yaml").write_text(RECIPE)
    order = (7 * n * n + 3 * n for n in range(120))
    (server.folder / "text.txt").write_text("".join(SENTENCES[n % 11 % 4] for n in order))
    return server


@pytest.fixture(scope="session")
def finished(octavo: Octavo) -> Path:
    """A run that was never stopped; read it, don't write."""
    out = octavo.folder / "finished"
    done = octavo("train", "recipe.yaml", "--text", "text.txt", "--out", out)
    assert done.code == 0, done.err
    return out
