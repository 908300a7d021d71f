"""A kind of model in a file of the user's own, from training to the page and what it writes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from e2e.forked import Octavo
from guards.common import ROOT
from guards.snippets import blocks
from octavo.training.checkpoint_folder import list_checkpoints

SMALL = (
    "model={kind: averages, width: 24, context: 16}",
    "training.keep=100",
    "training.optimizer.learning_rate=0.02",
)


@pytest.fixture(scope="module")
def kind(octavo: Octavo) -> Path:
    """docs/extending.md's model, as it stands there."""
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    code = next(block.text for block in blocks(page) if "class Averages" in block.text)
    path = octavo.folder / "averages.py"
    path.write_text(code, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def trained(octavo: Octavo, kind: Path) -> Path:
    out = octavo.folder / "averages"
    done = octavo("--parts", kind, "train", "recipe.yaml", "--text", "text.txt", "--out", out, *SMALL)
    assert done.code == 0, done.err
    return out


def losses(run: Path) -> list[tuple[int, float]]:
    rows = (json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return [(row["step"], row["loss"]) for row in rows if row["event"] == "train"]


def test_it_learns(trained: Path) -> None:
    found = losses(trained)
    assert len(found) == 40 and found[-1][1] < 0.8 * found[0][1]


def test_it_is_judged_and_reported(octavo: Octavo, kind: Path, trained: Path) -> None:
    done = octavo("eval", trained, "--json", "--parts", kind)
    assert done.code == 0, done.err
    judged = json.loads(done.out)
    assert judged["bits_per_byte"] < judged["baselines"]["uniform"]["bits_per_byte"]
    assert "averages, width 24, context 16" in octavo("info", trained, "--parts", kind).out
    page = (trained / "report" / "index.html").read_text(encoding="utf-8")
    assert "averages" in page


def test_it_writes_also_beyond_its_context(octavo: Octavo, kind: Path, trained: Path) -> None:
    words = ("generate", trained, "--parts", kind, "--tokens", "40", "--seed", "3")
    one, again = octavo(*words), octavo(*words)
    assert one.code == 0 and len(one.out) >= 40, one.err
    assert one.out == again.out


def test_it_is_planned(octavo: Octavo, kind: Path) -> None:
    done = octavo("--parts", kind, "plan", "recipe.yaml", "--text", "text.txt", "--json", *SMALL)
    assert done.code == 0, done.err
    plan = json.loads(done.out)
    vocabulary = plan["vocabulary"]
    assert plan["parameters"] == 2 * 24 * vocabulary + 24 * 24 + 24
    assert plan["training_flops_per_token"] == 6 * (24 * vocabulary + 24 * 24)


def test_it_goes_on_to_the_same_bits(octavo: Octavo, kind: Path, trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(trained, out, symlinks=True)
    for checkpoint in list_checkpoints(out / "checkpoints"):
        if checkpoint.step > 20:
            shutil.rmtree(checkpoint.folder)
    words = ("--parts", kind, "train", "recipe.yaml", "--text", "text.txt", "--out", out, *SMALL)
    done = octavo(*words, "--resume")
    assert done.code == 0 and "resuming after step 20" in done.err, done.err
    assert losses(out) == losses(trained)
    weights = [run / "checkpoints" / "step-000040" / "model.safetensors" for run in (out, trained)]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_what_it_cannot_do_is_said(octavo: Octavo, kind: Path) -> None:
    dry = (
        "--parts",
        kind,
        "train",
        "recipe.yaml",
        "--text",
        "text.txt",
        "--dry-run",
        "model={kind: averages}",
    )
    done = octavo(*dry, "batches={kind: documents, attention: document}", "split=documents")
    assert done.code == 2 and "cannot keep a row's documents apart" in done.err, done.err
    wrong = octavo(*dry, "model.layers=3")
    assert wrong.code == 2 and "model.layers is not an option of model=averages" in wrong.err, wrong.err
