"""Parts that a reader adds in their files train and write, in a copy of the package that has them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from e2e.forked import Octavo
from guards.common import PACKAGE, ROOT
from guards.snippets import blocks

POSITIONS = '''

class Countdown(RotaryPositions):
    def rotation(self, start: int, length: int) -> Rotation:
        cos, sin = super().rotation(start, length)
        return cos, -sin


@register("positions")
class CountdownConfig(RotaryPositionsConfig):
    """Turned the other way."""

    kind: Literal["countdown"] = "countdown"

    def build(self, *, context: int, width: int, head_width: int) -> Positions:
        return Countdown(context=context, head_width=head_width, base=self.base, share=self.share)
'''
NGRAMS = '''

class Repeated(NGrams):
    before = 1

    def forward(self, x: Tensor, tokens: Tensor, earlier: Tensor | None = None) -> Tensor:
        held = torch.cat((tokens[:, :1] if earlier is None else earlier, tokens), dim=1)
        return x + (held[:, -tokens.size(1) - 1 : -1] == tokens)[:, :, None]


@register("ngrams")
class RepeatedConfig(NGramsConfig):
    """Marks a token that stands twice."""

    kind: Literal["repeated"] = "repeated"

    def build(self, *, width: int) -> NGrams:
        return Repeated()
'''


def walk_through() -> str:
    """docs/extending.md's part, without the imports, which are in the file that it is written into."""
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    code = next(block.text for block in blocks(page) if block.language == "python")
    return "\n\n" + code[code.index("class GEGLU") :]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    home = tmp_path_factory.mktemp("home")
    model = home / "octavo" / "model"
    shutil.copytree(PACKAGE, home / "octavo", ignore=shutil.ignore_patterns("__pycache__"))
    for file, added in {
        "feedforward": walk_through(),
        "positions": POSITIONS,
        "inputs": NGRAMS,
    }.items():
        with (model / f"{file}.py").open("a", encoding="utf-8") as source:
            source.write(added)
    return {**os.environ, "PYTHONPATH": str(home), "OMP_NUM_THREADS": "1"}


def test_new_parts_train_and_write(octavo: Octavo, environment: Mapping[str, str], tmp_path: Path) -> None:
    """The first died while writing, the last of a division by zero."""
    out = tmp_path / "run"
    settings = [
        "recipe.yaml",
        "--text",
        "text.txt",
        "--out",
        str(out),
        "training.steps=4",
        "sampling.every=2",
    ]
    settings += ["model.feed_forward=geglu", "model.positions=countdown", "model.ngrams=repeated"]
    done = subprocess.run(
        [sys.executable, "-m", "octavo", "train", *settings],
        cwd=octavo.folder,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    samples = sorted((out / "samples").glob("*.txt"))
    assert [sample.name for sample in samples] == ["step-000002.txt", "step-000004.txt"]
    assert all(sample.read_text(encoding="utf-8") for sample in samples)
