"""A sixth task in one file, as CONTRIBUTING.md shows it: trained, resumed, judged, planned, studied, reported."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from e2e.forked import Octavo
from e2e.test_resume import results
from guards.common import ROOT
from guards.snippets import blocks

SETTINGS = ("batches=labelled-lines", "corpus.documents=lines", "split=documents", "validation=0.3")
STUDY = """\
baseline: recipe.yaml
set: {batches: labelled-lines, corpus.documents: lines, split: documents, validation: 0.3}
seeds: 2
noise: 0
budget: {steps: 10}
changes:
- {name: wide, hypothesis: It helps., set: {model.width: 24}}
"""


@pytest.fixture(scope="module")
def labels(octavo: Octavo) -> Path:
    """The file, beside the lines that it is about."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (code,) = [block.text for block in blocks(page) if block.language == "python"]
    (octavo.folder / "labels.py").write_text(code, encoding="utf-8")
    words = [f"{who} {what}{number}\t{label}" for number in range(12) for who, what, label in LINES]
    (octavo.folder / "lines.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    return octavo.folder / "labels.py"


LINES = (("cat", "ran", "beast"), ("oak", "grew", "plant"), ("fox", "saw", "beast"), ("fir", "bent", "plant"))


@pytest.fixture(scope="module")
def trained(octavo: Octavo, labels: Path) -> Path:
    out = octavo.folder / "labelled"
    train = ("train", "recipe.yaml", "--text", "lines.txt", "--out", out, *SETTINGS)
    done = octavo("--parts", labels, *train)
    assert done.code == 0, done.err
    assert "held-out labels." in done.err
    return out


def test_it_is_judged_and_reported(octavo: Octavo, trained: Path, labels: Path) -> None:
    stored = json.loads((trained / "evaluation.json").read_text(encoding="utf-8"))
    assert 0 <= stored["labels"]["right"] <= 1 and stored["labels"]["lines"] > 5
    assert "bits_per_byte" in stored and "ngram" in stored["baselines"]
    page = (trained / "report" / "index.html").read_text(encoding="utf-8")
    assert "labels guessed" in page and "held-out labels" in page
    again = octavo("eval", trained, "--parts", labels, "--json")
    assert again.code == 0, again.err
    assert json.loads(again.out)["labels"] == stored["labels"]
    made = json.loads((trained / "manifest.json").read_text(encoding="utf-8"))["parts"]
    assert made[0]["parts"] == ["batches.labelled-lines", "task.labels"]


def test_a_run_that_was_cut_off_resumes_to_the_same_bits(
    octavo: Octavo, trained: Path, labels: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    shutil.copytree(trained, out, symlinks=True)
    for folder in sorted((out / "checkpoints").glob("step-*"))[1:]:
        shutil.rmtree(folder)
    (out / "evaluation.json").unlink()
    done = octavo("--parts", labels, "train", "--resume", "--out", out)
    assert done.code == 0, done.err
    assert "resuming after step" in done.err
    assert results(out) == results(trained)


def test_it_is_planned(octavo: Octavo, labels: Path) -> None:
    done = octavo("--parts", labels, "plan", "recipe.yaml", "--text", "lines.txt", "--json", *SETTINGS)
    assert done.code == 0, done.err
    assert json.loads(done.out)["counted"] == "tokens"


def test_it_is_studied(octavo: Octavo, labels: Path) -> None:
    (octavo.folder / "labels.yaml").write_text(STUDY, encoding="utf-8")
    out = octavo.folder / "labels-study"
    study = ("study", "run", "labels.yaml", "--text", "lines.txt", "--out", out, "--jobs", "1")
    done = octavo("--parts", labels, *study)
    assert done.code == 0, done.err
    outcomes = [json.loads(path.read_text(encoding="utf-8"))["status"] for path in out.rglob("outcome.json")]
    assert outcomes == ["done"] * 4
